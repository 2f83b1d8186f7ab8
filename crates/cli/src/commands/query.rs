//! `cutrace query`: SQL over traces and lakes, by DuckDB or on a Spark cluster.

use super::{
    input::{self, Progress},
    stores,
};
use crate::{
    arguments::{Engine, Query},
    say::say,
};
use anyhow::{Result, bail};
use lake::{Dialect, DuckDb, Entry, Lake, Spark};
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

pub fn run(options: Query) -> Result<ExitCode> {
    if options.list {
        let mut text = String::new();
        for query in lake::named_queries() {
            let _ = writeln!(text, "{:<15} {}", format!("@{}", query.name), query.about());
        }
        return super::print(text.as_bytes());
    }
    let dialect = match options.engine {
        Engine::DuckDb { .. } => Dialect::DuckDb,
        Engine::Spark { .. } => Dialect::Spark,
    };
    let queries = match &options.sql {
        Some(sql) => lake::named(sql, dialect)?,
        None => Vec::new(),
    };
    if options.views {
        if dialect == Dialect::Spark {
            stores::refuse_for_spark(&options.over)?;
        }
        let (lake, entries) = asked(options.over, None)?;
        return super::print(lake::views(&lake, &entries, dialect).as_bytes());
    }
    let status = match options.engine {
        Engine::DuckDb { options: words } => {
            // Before traces are converted, which may take long.
            let engine = DuckDb::find()?;
            let (lake, entries) = asked(options.over, None)?;
            let views = lake::views(&lake, &entries, dialect);
            let sql = (!queries.is_empty()).then(|| queries.join(";\n"));
            engine.run(&views, sql.as_deref(), &words)?
        }
        Engine::Spark {
            master,
            format,
            settings,
        } => {
            stores::refuse_for_spark(&options.over)?;
            let engine = Spark::find(&master)?;
            let (lake, entries) = asked(options.over, None)?;
            lake::files_are_there(&lake, &entries)?;
            let views = lake::views(&lake, &entries, dialect);
            engine.run(&views, &queries, format, &settings)?
        }
    };
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(2),
    })
}

/// The lake, or the traces as a lake: `cache`, or one beside the first trace.
pub fn asked(over: Vec<PathBuf>, cache: Option<&Path>) -> Result<(Lake, Vec<Entry>)> {
    let over = over.into_iter().map(stores::brought);
    let over = over.collect::<Result<Vec<_>>>()?;
    if let [folder] = over.as_slice()
        && folder.is_dir()
        && let Some(part) = Lake::part(folder)
    {
        let (lake, entries) = part?;
        if entries.is_empty() {
            bail!("{}: the lake has no traces", folder.display());
        }
        return Ok((lake, entries));
    }
    converted(&input::or_newest(over)?, cache)
}

/// Traces as tables, in the small lake beside the first of them: converted once.
fn converted(traces: &[PathBuf], cache: Option<&Path>) -> Result<(Lake, Vec<Entry>)> {
    let folder = traces.first().and_then(|trace| trace.parent());
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    let beside = || folder.unwrap_or(Path::new(".")).join(lake::CACHE);
    let lake = Lake::at(cache.map_or_else(beside, Path::to_owned));
    let mut entries = Vec::new();
    for trace in traces {
        let mut progress = Progress::new(false);
        let added = lake::add(&lake, trace, &mut |rows| {
            progress.add(rows as usize, || None)
        })?;
        drop(progress);
        if added.entry().is_unfinished() {
            say!(
                "cutrace: {}: it is still being recorded, or was cut off: asking what there is of it",
                trace.display()
            );
        }
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
