//! `cutrace query`: SQL over traces and lakes, by DuckDB.

use super::input::{self, Progress};
use crate::{arguments::Query, say::say};
use anyhow::{Result, bail};
use lake::{Dialect, DuckDb, Entry, Lake};
use std::{fmt::Write as _, path::Path, process::ExitCode};

pub fn run(options: Query) -> Result<ExitCode> {
    if options.list {
        let mut text = String::new();
        for query in lake::named_queries() {
            let _ = writeln!(text, "{:<15} {}", format!("@{}", query.name), query.about());
        }
        return super::print(text.as_bytes());
    }
    let sql = options
        .sql
        .as_deref()
        .map(|sql| lake::named(sql, Dialect::DuckDb));
    let sql = sql.transpose()?;
    // Before traces are converted, which may take long.
    let engine = if options.views {
        None
    } else {
        Some(DuckDb::find()?)
    };
    let views = match options.over.as_slice() {
        [folder] if Lake::is_one(folder) => {
            let lake = Lake::open(folder)?;
            let entries = lake.entries()?;
            if entries.is_empty() {
                bail!("{}: the lake has no traces", folder.display());
            }
            lake::views(&lake, &entries, Dialect::DuckDb)
        }
        _ => {
            let traces = input::or_newest(options.over)?;
            let (lake, entries) = converted(&traces)?;
            lake::views(&lake, &entries, Dialect::DuckDb)
        }
    };
    let Some(engine) = engine else {
        return super::print(views.as_bytes());
    };
    let status = engine.run(&views, sql.as_deref(), &options.options)?;
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(2),
    })
}

/// Traces as tables, in the small lake beside the first of them: converted once.
fn converted(traces: &[std::path::PathBuf]) -> Result<(Lake, Vec<Entry>)> {
    let folder = traces.first().and_then(|trace| trace.parent());
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    let lake = Lake::at(folder.unwrap_or(Path::new(".")).join(lake::CACHE));
    let mut entries = Vec::new();
    for trace in traces {
        let mut progress = Progress::new(false);
        let added = lake::add(&lake, trace, &mut |rows| {
            progress.add(rows as usize, || None)
        })?;
        drop(progress);
        if added.entry().lost > 0 {
            say!(
                "cutrace: {}: {} events were lost when it was recorded",
                trace.display(),
                added.entry().lost
            );
        }
        entries.push(added.entry().clone());
    }
    Ok((lake, entries))
}
