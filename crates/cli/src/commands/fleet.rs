//! `cutrace lake report`: regressions, bad hosts and idle GPUs of a lake's runs.

use super::{
    stores::{self, Place},
    style::style,
};
use crate::{arguments::FleetReport, say::say};
use analyse::{
    diff::{Conditions, Outcome},
    fleet::{Fleet, GpuRow, HostTimes, RunHead, RunTimes, TimesRow, fleet},
};
use anyhow::{Context, Result, bail};
use lake::{Bounds, Dialect, DuckDb, Entry, Lake};
use serde::{Serialize, de::DeserializeOwned};
use std::{collections::BTreeSet, fs, path::Path, process::ExitCode, time::Duration};

/// A condition of `--fail-on` holds.
const HOLDS: u8 = 1;
/// More than any fleet has; what is longer is a mistake.
const BOUNDS: Bounds = Bounds {
    rows: 50_000_000,
    bytes: 4 << 30,
    time: Duration::from_secs(24 * 60 * 60),
};

#[derive(Serialize)]
struct Reported<'a> {
    #[serde(flatten)]
    fleet: &'a Fleet,
    conditions: &'a [Outcome],
}

pub fn run(options: FleetReport) -> Result<ExitCode> {
    let conditions = (options.fail_on.iter())
        .map(|text| text.parse::<Conditions>())
        .collect::<Result<Vec<_>, _>>()?;
    let found = found(
        &options.lake,
        options.base.as_deref(),
        options.new.as_deref(),
    )?;
    let mut outcomes = Vec::new();
    for condition in &conditions {
        let checked = (found.fleet).check(condition, &found.new, found.base.as_ref(), &found.gpus);
        outcomes.extend(checked.context("--fail-on")?);
    }
    if let Some(path) = &options.html {
        fs::write(path, render::tables::fleet_page(&found.fleet))
            .with_context(|| format!("cannot write {}", path.display()))?;
        say!("cutrace: wrote {}", path.display());
    }
    let text = if options.json {
        let reported = Reported {
            fleet: &found.fleet,
            conditions: &outcomes,
        };
        serde_json::to_string_pretty(&reported)? + "\n"
    } else {
        let style = style(&options.look);
        render::tables::fleet(&found.fleet, &style) + &render::tables::outcomes(&outcomes, &style)
    };
    super::print(text.as_bytes())?;
    let holds = outcomes.iter().any(|outcome| outcome.holds);
    Ok(ExitCode::from(if holds { HOLDS } else { 0 }))
}

/// A fleet's report, and what it was made of.
pub struct ComparedRuns {
    pub fleet: Fleet,
    new: RunTimes,
    base: Option<RunTimes>,
    gpus: Vec<GpuRow>,
}

/// Asks DuckDB about two runs of a lake: those named, or the newest and the one before it.
pub fn found(folder: &Path, base: Option<&str>, new: Option<&str>) -> Result<ComparedRuns> {
    let engine = DuckDb::find()?;
    let lake = match Place::of(folder)? {
        Place::Folder(folder) => Lake::open(folder)?,
        Place::Store(remote) => remote.listing()?,
    };
    let (base, new) = chosen(&lake.entries()?, base, new)?;
    // Neither fetched nor opened: what nobody asks for.
    for run in base.iter().chain([&new]) {
        stores::brought(folder.join(format!("run={run}")))?;
    }
    let mut entries = lake.entries()?;
    entries.retain(|entry| entry.run == new || Some(&entry.run) == base.as_ref());
    let views = lake::views(&lake, &entries, Dialect::DuckDb);
    let ask = |sql: &str| {
        let sql = lake::fill(sql, Dialect::DuckDb);
        engine.ask(&views, lake.root(), &sql, &BOUNDS)
    };
    let times: Vec<TimesRow> = rows(&ask(lake::fleet::TIMES)?)?;
    let hosts: Vec<HostTimes> = rows(&ask(lake::fleet::HOSTS)?)?;
    let gpus: Vec<GpuRow> = rows(&ask(lake::fleet::GPUS)?)?;
    let of = |run: &str| {
        let mut run = RunTimes::new(head(&entries, run));
        times.iter().for_each(|row| run.add(row));
        run
    };
    let (base, new) = (base.as_deref().map(of), of(&new));
    Ok(ComparedRuns {
        fleet: fleet(&new, base.as_ref(), &hosts, &gpus),
        new,
        base,
        gpus,
    })
}

/// DuckDB prints nothing for no rows.
fn rows<T: DeserializeOwned>(text: &str) -> Result<Vec<T>> {
    match text.trim() {
        "" => Ok(Vec::new()),
        text => serde_json::from_str(text).context("DuckDB's answer"),
    }
}

/// The run to look at, the newest unless one is named, and the one before it.
fn chosen(
    entries: &[Entry],
    base: Option<&str>,
    new: Option<&str>,
) -> Result<(Option<String>, String)> {
    let mut runs: Vec<(i64, &str)> = Vec::new();
    for entry in entries {
        match runs.iter_mut().find(|(_, run)| *run == entry.run) {
            Some((start, _)) => *start = (*start).min(entry.start_ns),
            None => runs.push((entry.start_ns, &entry.run)),
        }
    }
    runs.sort();
    let place = |name: &str| {
        let place = runs.iter().position(|(_, run)| *run == name);
        place.with_context(|| {
            let known: Vec<&str> = runs.iter().rev().take(8).map(|(_, run)| *run).collect();
            format!(
                "the lake has no run '{name}'; its newest are {}",
                known.join(", ")
            )
        })
    };
    let new = match new {
        Some(name) => place(name)?,
        None if runs.is_empty() => bail!("the lake has no traces"),
        None => runs.len() - 1,
    };
    let base = match base {
        Some(name) => Some(place(name)?),
        None => new.checked_sub(1),
    };
    if base == Some(new) {
        bail!("--base and --new are the same run");
    }
    let name = |at: usize| runs[at].1.to_owned();
    Ok((base.map(name), name(new)))
}

/// What a lake's list says of a run.
fn head(entries: &[Entry], run: &str) -> RunHead {
    let own: Vec<&Entry> = entries.iter().filter(|entry| entry.run == run).collect();
    let hosts: BTreeSet<&str> = own.iter().map(|entry| entry.host.as_str()).collect();
    let start = own.iter().map(|entry| entry.start_ns).min().unwrap_or(0);
    let end = own.iter().map(|entry| entry.end_ns).max().unwrap_or(0);
    RunHead {
        run: run.to_owned(),
        recordings: own.len() as u64,
        hosts: hosts.len() as u64,
        start_ns: start,
        wall_ns: u64::try_from(end - start).unwrap_or(0),
        events: own.iter().map(|entry| entry.events).sum(),
        lost: own.iter().map(|entry| entry.lost).sum(),
        simulated: own.iter().any(|entry| entry.simulated),
        command: own
            .first()
            .map_or_else(String::new, |entry| entry.command.clone()),
    }
}
