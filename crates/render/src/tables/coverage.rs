//! What was watched and what was not: hooks, losses, clocks, the tracer's own cost.

use super::section::Section;
use crate::{
    Style, Table,
    units::{count, share, time},
};
use analyse::{Report, idle::Basis};
use event::{Hooks, Layer};

/// Missing hooks shown of each back end.
const ROWS: usize = 20;

pub fn coverage(report: &Report, style: &Style) -> String {
    let mut section = Section::new(style);
    hooks(&mut section, report);
    events(&mut section, report);
    section.heading("What is missing");
    for line in missing(report, style) {
        section.line(&line);
    }
    clocks(&mut section, report);
    if let Some(overhead) = (report.summary.as_ref()).and_then(|summary| summary.overhead.as_ref())
    {
        section.heading("Tracing overhead");
        let wall = report.overview.wall_ns;
        section.line(&format!(
            "{} in the traced program's threads ({} of the wall time), {:.0} ns per event",
            section.time(overhead.total_ns),
            share(overhead.total_ns, wall),
            overhead.per_event_ns
        ));
    }
    section.finish()
}

fn hooks(section: &mut Section<'_>, report: &Report) {
    let meta = &report.meta;
    section.heading("Hooked");
    let words = |hooks: Hooks| format!("{} of {}", count(hooks.attached), count(hooks.total));
    let mut table = Table::new().left("Back end").right("Functions").right("");
    for backend in &meta.backends {
        table.row([
            backend.name.clone(),
            words(backend.hooks),
            share(backend.hooks.attached, backend.hooks.total),
        ]);
    }
    if table.is_empty() && meta.hooks.total > 0 {
        table.row([
            "all".into(),
            words(meta.hooks),
            share(meta.hooks.attached, meta.hooks.total),
        ]);
    }
    if table.is_empty() {
        section.line("The trace does not list what was hooked.");
    }
    section.table(&table);
    for backend in meta
        .backends
        .iter()
        .filter(|backend| !backend.missing.is_empty())
    {
        section.heading(&format!("Not attached by {}", backend.name));
        for line in backend.missing.iter().take(ROWS) {
            section.line(line);
        }
        section.more(ROWS, backend.missing.len() as u64);
    }
}

fn events(section: &mut Section<'_>, report: &Report) {
    let overview = &report.overview;
    section.heading("Events by layer");
    let mut table = Table::new().left("Layer").right("Events").right("Failed");
    for &layer in Layer::ALL {
        let found = overview.layers.iter().find(|row| row.layer == layer);
        table.row([
            layer.to_string(),
            found.map_or("-".into(), |row| count(row.events)),
            found.map_or("-".into(), |row| count(row.failed)),
        ]);
    }
    section.table(&table);
}

/// What a reader of the other tables should bear in mind.
fn missing(report: &Report, style: &Style) -> Vec<String> {
    let overview = &report.overview;
    let traced = |layer: Layer| overview.layers.iter().any(|row| row.layer == layer);
    let mut lines = vec![format!("Events lost: {}", count(overview.lost))];
    if overview.open_spans > 0 {
        lines.push(format!(
            "Calls that never returned: {}; counted up to the end of the trace",
            count(overview.open_spans)
        ));
    }
    if report.summary.is_none() {
        lines
            .push("The trace has no summary at its end: it was cut off, or the tracer died".into());
    }
    let shed = (report.summary.as_ref()).and_then(|summary| summary.shed.as_ref());
    if let Some(shed) = shed.filter(|shed| shed.launches() > 0) {
        lines.push(format!(
            "Launches not recorded: {} (--budget). Steps and idle time are unknown; figures by kernel are of the other launches",
            count(shed.launches())
        ));
    }
    if !report.calls_watched() {
        lines.push("No CUDA calls were traced".into());
    }
    if !report.gpu_watched() {
        lines.push("No GPU times: GPU activity is unknown".into());
    } else if report.idle.basis == Basis::Launches {
        lines.push("No GPU times: GPU activity is estimated from launches and waits".into());
    }
    if !traced(Layer::Syscall) {
        lines.push("No system calls were traced".into());
    }
    if !traced(Layer::Kernel) {
        lines.push("No kernel-driver functions were traced".into());
    }
    if overview.simulated {
        lines.push(
            "The device was softgpu, which runs on the CPU: times are not those of a GPU".into(),
        );
    }
    let before = report.meta.start_ns.saturating_sub(overview.start_ns);
    if report.meta.start_ns > 0 && before > 0 {
        lines.push(format!(
            "Some events began up to {} before the tracer started",
            time(before, style)
        ));
    }
    lines
}

fn clocks(section: &mut Section<'_>, report: &Report) {
    let at_end = report.summary.as_ref().map(|summary| &summary.clocks);
    let clocks = at_end
        .filter(|clocks| !clocks.is_empty())
        .unwrap_or(&report.meta.clocks);
    if clocks.is_empty() {
        return;
    }
    section.heading("Clocks, mapped to the host's CLOCK_MONOTONIC");
    let mut table = Table::new()
        .left("Source")
        .right("Error at most")
        .right("Pairs");
    for clock in clocks {
        table.row([
            clock.source.to_string(),
            section.time(clock.error_ns),
            count(clock.pairs.into()),
        ]);
    }
    section.table(&table);
}
