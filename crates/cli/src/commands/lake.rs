//! `cutrace lake`: many traces as Parquet folders.

use super::{
    input::{self, Progress},
    report,
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

fn add(folder: &Path, traces: Vec<PathBuf>) -> Result<ExitCode> {
    let lake = Lake::at(folder);
    let traces = input::or_newest(traces)?;
    let mut failed = 0;
    for trace in &traces {
        let mut progress = Progress::new(false);
        let mut found = |trace: &Path| report::found_in(trace);
        let added = lake::add_with(&lake, trace, &mut found, &mut |rows| {
            progress.add(rows as usize, || None);
        });
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

fn list(folder: &Path) -> Result<ExitCode> {
    let plain = render::Style::default();
    let mut text = String::new();
    for entry in Lake::open(folder)?.entries()? {
        let took = u64::try_from(entry.end_ns - entry.start_ns).unwrap_or(0);
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

fn check(folder: &Path, rows: bool) -> Result<ExitCode> {
    let checked = lake::check(&Lake::open(folder)?, rows)?;
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
        let _ = writeln!(
            text,
            "not listed: {} (adding its trace again replaces it)",
            file.display()
        );
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

fn compact(folder: &Path, now: bool) -> Result<ExitCode> {
    let done = lake::compact(&Lake::open(folder)?, now)?;
    say!(
        "cutrace: {} files became {} ({} rows); {} old files removed",
        done.files_before,
        done.files_after,
        done.rows,
        done.removed
    );
    Ok(ExitCode::SUCCESS)
}

fn expire(folder: &Path, days: Option<u32>, runs: Option<String>) -> Result<ExitCode> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let now = i64::try_from(now.as_nanos())?;
    let which = Expired {
        before_ns: days.map(|days| now.saturating_sub(DAY * i64::from(days))),
        runs,
    };
    let removed = lake::expire(&Lake::open(folder)?, &which)?;
    let bytes = removed.iter().map(|entry| entry.bytes).sum();
    say!(
        "cutrace: removed {} traces, {}",
        removed.len(),
        units::bytes(bytes)
    );
    Ok(ExitCode::SUCCESS)
}
