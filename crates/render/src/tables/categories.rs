//! Time by what calls are about, and by layer, process, thread and stream.

use super::section::{Section, device_name, stream_name};
use crate::{
    Cell, Paint, Style, Table,
    units::{count, share},
};
use analyse::{Report, categories::CategoryTime};

/// Processes, threads and streams shown.
const ROWS: usize = 10;

pub fn categories(report: &Report, style: &Style) -> String {
    let mut section = Section::new(style);
    let wall = report.overview.wall_ns;
    let found = &report.categories;
    section.heading(&format!("Time by category, of {}", section.time(wall)));
    if found.categories.is_empty() {
        section.line("no calls were traced");
        return section.finish();
    }
    let mut table = Table::new()
        .left("Category")
        .right("Calls")
        .right("Total")
        .right("Self")
        .right("Average")
        .right("Of wall")
        .left("");
    for row in &found.categories {
        let mark = if row.bottleneck { "BOTTLENECK" } else { "" };
        table.row([
            row.category.as_str().into(),
            count(row.time.calls).into(),
            section.time(row.time.total_ns).into(),
            section.time(row.time.self_ns).into(),
            section.time(row.average_ns).into(),
            share(row.busy_ns, wall).into(),
            Cell::painted(mark, Paint::Alarm),
        ]);
    }
    section.table(&table);
    section.line(
        "Total and average count nested calls of the same category once. Self excludes nested calls. Of wall: time in \
         which at least one thread was in such a call.",
    );

    section.heading("By layer");
    let mut table = Table::new()
        .left("Layer")
        .right("Calls")
        .right("Total")
        .right("Self")
        .right("Of wall")
        .left("Mostly");
    for row in &found.layers {
        table.row([
            row.layer.to_string(),
            count(row.time.calls),
            section.time(row.time.total_ns),
            section.time(row.time.self_ns),
            share(row.busy_ns, wall),
            mostly(&row.categories),
        ]);
    }
    section.table(&table);
    if found.processes.len() > 1 {
        processes(&mut section, report);
    }
    threads(&mut section, report);
    streams(&mut section, report);
    section.finish()
}

fn processes(section: &mut Section<'_>, report: &Report) {
    let found = &report.categories.processes;
    section.heading("By process");
    let mut table = Table::new()
        .right("Process")
        .right("Threads")
        .right("Calls")
        .right("Busy")
        .left("Mostly");
    for row in found.iter().take(ROWS) {
        table.row([
            row.pid.to_string(),
            count(row.threads),
            count(row.calls),
            section.time(row.busy_ns),
            mostly(&row.categories),
        ]);
    }
    section.table(&table);
    section.more(ROWS, report.overview.processes);
}

fn threads(section: &mut Section<'_>, report: &Report) {
    let found = &report.categories;
    section.heading("By thread");
    let mut table = Table::new()
        .right("Process")
        .right("Thread")
        .right("Calls")
        .right("Busy")
        .right("Of wall")
        .left("Mostly");
    for row in found.threads.iter().take(ROWS) {
        table.row([
            row.pid.to_string(),
            row.tid.to_string(),
            count(row.calls),
            section.time(row.busy_ns),
            share(row.busy_ns, report.overview.wall_ns),
            mostly(&row.categories),
        ]);
    }
    section.table(&table);
    section.more(ROWS, found.thread_count);
}

fn streams(section: &mut Section<'_>, report: &Report) {
    let found = &report.categories;
    if found.streams.is_empty() {
        return;
    }
    section.heading("Calls by stream");
    let mut table = Table::new()
        .left("Stream")
        .right("Process")
        .right("Device")
        .right("Calls")
        .right("Total")
        .left("Mostly");
    for row in found.streams.iter().take(ROWS) {
        table.row([
            stream_name(Some(row.stream)),
            row.pid.to_string(),
            device_name(row.device),
            count(row.calls),
            section.time(row.total_ns),
            mostly(&row.categories),
        ]);
    }
    section.table(&table);
    section.more(ROWS, found.stream_count);
}

/// The categories with the most self time, as far as they matter.
fn mostly(categories: &[CategoryTime]) -> String {
    let all = (categories.iter().map(|part| part.time.self_ns)).fold(0u64, u64::saturating_add);
    let names = categories
        .iter()
        .take(3)
        .filter(|part| all > 0 && part.time.self_ns >= all / 10);
    let names: Vec<String> = names
        .map(|part| format!("{} {}", part.category, share(part.time.self_ns, all)))
        .collect();
    names.join(", ")
}
