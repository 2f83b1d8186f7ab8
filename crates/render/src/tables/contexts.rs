//! Contexts: their lives, and how threads and GPUs change between them.

use super::driver_objects;
use super::section::{Section, device_name, since_start};
use crate::{
    Style, Table,
    units::{count, counted},
};
use analyse::Report;

/// Rows shown of each table.
const ROWS: usize = 10;

pub fn contexts(report: &Report, style: &Style) -> String {
    let contexts = &report.contexts;
    let mut section = Section::new(style);
    section.heading("Contexts");
    if contexts.seen == 0 && contexts.gpus.is_empty() {
        section.line("The trace contains no contexts.");
        driver_objects::channels(&mut section, report);
        return section.finish();
    }
    section.line(&format!(
        "{} seen, {} created in {}, {} destroyed in {}.",
        count(contexts.seen),
        count(contexts.created),
        section.time(contexts.creation_ns),
        count(contexts.destroyed),
        section.time(contexts.destruction_ns),
    ));
    section.line(&format!(
        "Threads switched their current context {}; {} that set it took {}.",
        counted(contexts.switches, "time", "times"),
        counted(contexts.set_calls, "call", "calls"),
        section.time(contexts.set_ns),
    ));
    lives(&mut section, report);
    threads(&mut section, report);
    gpus(&mut section, report);
    driver_objects::channels(&mut section, report);
    section.finish()
}

fn lives(section: &mut Section<'_>, report: &Report) {
    let rows = &report.contexts.contexts;
    if rows.is_empty() {
        return;
    }
    section.heading("Lifetimes");
    let mut table = Table::new()
        .right("Process")
        .left("Context")
        .right("GPU")
        .right("Created")
        .right("Destroyed")
        .right("Last used")
        .right("Calls")
        .right("Threads");
    let when = |at: Option<u64>| at.map_or("-".into(), |at| since_start(report, at, section.style));
    for row in rows.iter().take(ROWS) {
        table.row([
            row.pid.to_string(),
            format!("{:#x}", row.context),
            device_name(row.device),
            when(row.created_at_ns),
            when(row.destroyed_at_ns),
            when(Some(row.last_used_ns)),
            count(row.calls),
            count(row.threads),
        ]);
    }
    section.table(&table);
    section.more(ROWS.min(rows.len()), report.contexts.seen);
}

fn threads(section: &mut Section<'_>, report: &Report) {
    let rows = &report.contexts.threads;
    if rows.is_empty() {
        return;
    }
    section.heading("Switches by thread");
    let mut table = Table::new()
        .right("Process")
        .right("Thread")
        .right("Switches")
        .right("Calls")
        .right("Time")
        .right("Every")
        .right("At least");
    let time = |ns: Option<u64>| ns.map_or("-".into(), |ns| section.time(ns));
    for row in rows.iter().take(ROWS) {
        table.row([
            row.pid.to_string(),
            row.tid.to_string(),
            count(row.switches),
            count(row.set_calls),
            section.time(row.set_ns),
            time(row.mean_ns),
            time(row.shortest_ns),
        ]);
    }
    section.table(&table);
    section.more(ROWS.min(rows.len()), rows.len() as u64);
}

fn gpus(section: &mut Section<'_>, report: &Report) {
    let rows = &report.contexts.gpus;
    section.heading("Switches on the GPU");
    if rows.is_empty() {
        section.line("Unknown: the trace has no GPU times.");
        return;
    }
    let mut table = Table::new()
        .right("GPU")
        .right("Operations")
        .right("Switches")
        .right("Processes");
    for row in rows.iter().take(ROWS) {
        table.row([
            device_name(row.device),
            count(row.operations),
            count(row.switches),
            count(row.processes),
        ]);
    }
    section.table(&table);
    section.more(ROWS.min(rows.len()), rows.len() as u64);
}
