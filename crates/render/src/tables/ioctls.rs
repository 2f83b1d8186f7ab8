//! From API calls down: system calls into the driver, its functions, and time by layer.

use super::{driver_objects, section::Section};
use crate::{
    Cell, Paint, Style, Table,
    units::{count, share},
};
use analyse::Report;
use event::Layer;

/// Functions and commands shown.
const ROWS: usize = 15;
const WHY_OUTSIDE: &str = "Before the first call: libraries being loaded. After the last call: the program's exit. \
    Threads without calls: started by libraries for themselves. Between two calls: functions without a hook, such as \
    NVML's (--lib 'libnvidia-ml.so*:nvml*' hooks them).";

pub fn ioctls(report: &Report, style: &Style) -> String {
    let mut section = Section::new(style);
    layers(&mut section, report);
    below(&mut section, report);
    commands(&mut section, report);
    outside(&mut section, report);
    driver_objects::memory(&mut section, report);
    driver_objects::channels(&mut section, report);
    driver(&mut section, report);
    section.finish()
}

pub(super) fn layers(section: &mut Section<'_>, report: &Report) {
    let found = &report.correlation;
    section.heading("Time by layer, of all threads");
    if found.layers.is_empty() {
        section.line("no calls were traced");
        return;
    }
    let mut table = Table::new()
        .left("Layer")
        .right("Calls")
        .right("Self")
        .right("Of traced");
    for row in &found.layers {
        table.row([
            row.layer.to_string(),
            count(row.calls),
            section.time(row.self_ns),
            share(row.self_ns, found.host_ns),
        ]);
    }
    section.table(&table);
}

fn below(section: &mut Section<'_>, report: &Report) {
    let rows = (report.correlation.functions.iter()).filter(|row| row.syscalls > 0);
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return;
    }
    section.heading("Average call: time in system calls and in user space");
    let mut table = Table::new()
        .left("Function")
        .right("Calls")
        .right("Average")
        .right("Syscalls")
        .right("in them")
        .right("Driver")
        .right("User space");
    for row in rows.iter().take(section.rows(ROWS)) {
        let each = |sum: u64| section.time(sum / row.calls.max(1));
        table.row([
            row.name.to_string(),
            count(row.calls),
            each(row.total_ns),
            format!("{:.1}", row.syscalls as f64 / row.calls.max(1) as f64),
            each(row.syscall_ns),
            if row.kernel_calls > 0 {
                each(row.kernel_ns)
            } else {
                "-".into()
            },
            each(row.user_ns),
        ]);
    }
    section.table(&table);
    section.more(section.rows(ROWS), rows.len() as u64);
}

fn commands(section: &mut Section<'_>, report: &Report) {
    let found = &report.ioctls;
    section.heading("ioctls by command");
    if found.calls == 0 {
        section.line("none were traced; record them with --kernel or --method syscall");
        return;
    }
    let mut table = Table::new()
        .left("Command")
        .right("Calls")
        .right("Total")
        .right("p50")
        .right("p99")
        .right("Max")
        .left("");
    for row in found.commands.iter().take(section.rows(ROWS)) {
        let name = match &row.name {
            Some(name) => name.to_string(),
            None => format!("{:#010x}", row.cmd),
        };
        let mark = match row.failed {
            0 => String::new(),
            failed => format!("{} failed", count(failed)),
        };
        table.row([
            name.into(),
            count(row.calls).into(),
            section.time(row.total_ns).into(),
            section.time(row.p50_ns).into(),
            section.time(row.p99_ns).into(),
            section.time(row.max_ns).into(),
            Cell::painted(mark, Paint::Warning),
        ]);
    }
    section.table(&table);
    section.more(section.rows(ROWS), found.commands.len() as u64);
    section.line(driver_objects::NO_LAUNCHES);
}

/// Said only where there are API calls in which they could lie.
fn outside(section: &mut Section<'_>, report: &Report) {
    let found = &report.ioctls.outside;
    if found.calls == 0 {
        return;
    }
    section.heading("ioctls outside API calls");
    let mut table = Table::new()
        .left("Where")
        .right("Calls")
        .right("Total")
        .right("After a call")
        .right("First op");
    for row in &found.reasons {
        table.row([
            row.why.text().to_owned(),
            count(row.calls),
            section.time(row.total_ns),
            row.closest_ns.map_or("-".into(), |ns| section.time(ns)),
            row.op_id.to_string(),
        ]);
    }
    section.table(&table);
    section.line(WHY_OUTSIDE);
}

fn driver(section: &mut Section<'_>, report: &Report) {
    let rows = (report.functions.functions.iter()).filter(|row| row.layer == Layer::Kernel);
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return;
    }
    section.heading("Driver functions");
    let shown = section.rows(ROWS);
    super::top::functions(section, rows.iter().take(shown).copied());
    section.more(section.rows(ROWS), rows.len() as u64);
}
