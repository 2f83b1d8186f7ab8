//! `cutrace lake`: many traces as Parquet folders.

use super::input::{self, Progress};
use crate::{arguments::Lake as Options, say::say};
use anyhow::{Result, bail};
use lake::{Added, Lake};
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
        Options::Check { lake } => check(&lake),
        Options::Expire { lake, days } => expire(&lake, days),
        Options::Report(options) => super::fleet::run(*options),
    }
}

fn add(folder: &Path, traces: Vec<PathBuf>) -> Result<ExitCode> {
    let lake = Lake::at(folder);
    let traces = input::or_newest(traces)?;
    let mut failed = 0;
    for trace in &traces {
        let mut progress = Progress::new(false);
        let added = lake::add(&lake, trace, &mut |rows| {
            progress.add(rows as usize, || None)
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

fn check(folder: &Path) -> Result<ExitCode> {
    let checked = lake::check(&Lake::open(folder)?)?;
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
    super::print(text.as_bytes())?;
    match checked.broken.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

fn expire(folder: &Path, days: u32) -> Result<ExitCode> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let now = i64::try_from(now.as_nanos())?;
    let removed = lake::expire(
        &Lake::open(folder)?,
        now.saturating_sub(DAY * i64::from(days)),
    )?;
    let bytes = removed.iter().map(|entry| entry.bytes).sum();
    say!(
        "cutrace: removed {} traces, {}",
        removed.len(),
        units::bytes(bytes)
    );
    Ok(ExitCode::SUCCESS)
}
