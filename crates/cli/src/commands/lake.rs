//! `cutrace lake`: many traces as Parquet folders.

use super::{
    input::{self, Progress},
    report,
    stores::Place,
};
use crate::{arguments::Lake as Options, say::say};
use anyhow::{Result, bail};
use lake::{Added, Expired, Lake};
use render::units;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::SystemTime,
};

const DAY: i64 = 24 * 60 * 60 * 1_000_000_000;

pub fn run(options: Options) -> Result<ExitCode> {
    match options {
        Options::Add { lake, traces } => add(&lake, traces),
        Options::List { lake } => list(&lake),
        Options::Check { lake, rows } => check(&lake, rows),
        Options::Compact { lake, now } => compact(&lake, now),
        Options::Expire { lake, days, runs } => expire(&lake, days, runs),
        Options::Report(options) => super::fleet::run(*options),
    }
}

fn add(place: &Path, traces: Vec<PathBuf>) -> Result<ExitCode> {
    let lake = Place::of(place)?;
    let traces = input::or_newest(traces)?;
    let mut failed = 0;
    for trace in &traces {
        let mut progress = Progress::new(false);
        let mut found = |trace: &Path| report::found_in(trace);
        let mut tick = |rows| progress.add(rows as usize, || None);
        let added = match &lake {
            Place::Folder(folder) => {
                lake::add_with(&Lake::at(folder), trace, &mut found, &mut tick)
            }
            Place::Store(remote) => remote.add_with(trace, &mut found, &mut tick),
        };
        drop(progress);
        match added {
            Ok(Added::New(entry)) => say!(
                "cutrace: added {} as run {}, host {}, rank {}: {} rows, {}",
                trace.display(),
                entry.run,
                entry.host,
                entry.rank,
                entry.rows,
                units::bytes(entry.bytes)
            ),
            Ok(Added::Known(entry)) => {
                say!(
                    "cutrace: {} is in the lake already, as {}",
                    trace.display(),
                    entry.name
                );
            }
            // The others are no worse for it.
            Err(why) => {
                say!("cutrace: {why}");
                failed += 1;
            }
        }
    }
    if failed > 0 {
        bail!("{failed} of {} traces could not be added", traces.len());
    }
    Ok(ExitCode::SUCCESS)
}

fn list(place: &Path) -> Result<ExitCode> {
    let lake = match Place::of(place)? {
        Place::Folder(folder) => Lake::open(folder)?,
        Place::Store(remote) => remote.listing()?,
    };
    let plain = render::Style::default();
    let mut text = String::new();
    for entry in lake.entries()? {
        let took = u64::try_from(entry.end_ns.saturating_sub(entry.start_ns)).unwrap_or(0);
        let _ = writeln!(
            text,
            "{}  run {}  host {}  rank {}  {}  {} events, {} lost  {}",
            entry.name,
            entry.run,
            entry.host,
            entry.rank,
            units::time(took, &plain),
            entry.events,
            entry.lost,
            entry.command
        );
    }
    super::print(text.as_bytes())
}

fn check(place: &Path, rows: bool) -> Result<ExitCode> {
    let (checked, removal) = match Place::of(place)? {
        Place::Folder(folder) => (
            lake::check(&Lake::open(folder)?, rows)?,
            "adding its trace again replaces it",
        ),
        Place::Store(remote) => (
            remote.check(rows)?,
            "lake compact removes it when it is a day old",
        ),
    };
    let mut text = format!(
        "{} traces in {} files, {} rows, {}\n",
        checked.traces,
        checked.files,
        checked.rows,
        units::bytes(checked.bytes)
    );
    for broken in &checked.broken {
        let _ = writeln!(text, "broken: {broken}");
    }
    for file in &checked.unlisted {
        let _ = writeln!(text, "not listed: {} ({removal})", file.display());
    }
    for file in &checked.foreign {
        let _ = writeln!(
            text,
            "not the lake's: {} (engines that read whole folders read it, too)",
            file.display()
        );
    }
    if checked.replaced > 0 {
        let _ = writeln!(
            text,
            "{} files were replaced by lake compact, which removes them later",
            checked.replaced
        );
    }
    super::print(text.as_bytes())?;
    match checked.is_whole() {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

fn compact(place: &Path, now: bool) -> Result<ExitCode> {
    let done = match Place::of(place)? {
        Place::Folder(folder) => lake::compact(&Lake::open(folder)?, now)?,
        Place::Store(remote) => remote.compact(now)?,
    };
    say!(
        "cutrace: {} files became {} ({} rows); {} old files removed",
        done.files_before,
        done.files_after,
        done.rows,
        done.removed
    );
    Ok(ExitCode::SUCCESS)
}

fn expire(place: &Path, days: Option<u32>, runs: Option<String>) -> Result<ExitCode> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let now = i64::try_from(now.as_nanos())?;
    let which = Expired {
        before_ns: days.map(|days| now.saturating_sub(DAY * i64::from(days))),
        runs,
    };
    let removed = match Place::of(place)? {
        Place::Folder(folder) => lake::expire(&Lake::open(folder)?, &which)?,
        Place::Store(remote) => remote.expire(&which)?,
    };
    let bytes = removed.iter().map(|entry| entry.bytes);
    let bytes = bytes.fold(0, u64::saturating_add);
    say!(
        "cutrace: removed {} traces, {}",
        removed.len(),
        units::bytes(bytes)
    );
    Ok(ExitCode::SUCCESS)
}
