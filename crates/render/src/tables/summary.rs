//! A trace in short: the counts that end a run, the GPU, where the time went, phases.

use super::{
    section::{Section, since_start},
    working,
};
use crate::{
    Cell, Paint, Style, Table, summary as counts,
    units::{count, share},
};
use analyse::{Report, idle::Basis};

/// Functions shown.
const ROWS: usize = 5;

pub fn summary(report: &Report, style: &Style) -> String {
    let mut text = String::from("=== TRACE SUMMARY ===\n\n");
    let mut first = Section::new(style);
    gpu(&mut first, report);
    if let Some(working) = &report.working {
        working::tables(&mut first, report, working, ROWS);
    }
    text.push_str(&first.finish());
    text.push('\n');
    counts::userspace(&mut text, report);
    counts::kernel_space(&mut text, report);
    counts::counted_in_kernel(&mut text, report);
    let mut section = Section::new(style);
    layers(&mut section, report);
    categories(&mut section, report);
    functions(&mut section, report);
    phases(&mut section, report);
    tail(&mut section, report);
    text + &section.finish()
}

/// Where there is more than API calls: how much of the time is the driver's.
fn layers(section: &mut Section<'_>, report: &Report) {
    if report.overview.counts.has_kernel() && !report.correlation.layers.is_empty() {
        super::ioctls::layers(section, report);
    }
}

/// The same for the end of a run.
pub fn layers_in_short(report: &Report, style: &Style) -> String {
    let mut section = Section::new(style);
    layers(&mut section, report);
    section.finish()
}

/// Kernels and calls named at the end of a run.
const FEW: usize = 3;

/// How the GPU was used, for the end of a run.
pub fn gpu_in_short(report: &Report, style: &Style) -> String {
    let mut section = Section::new(style);
    gpu(&mut section, report);
    // Where nothing repeats there is no typical step to show.
    if let Some(working) = (report.working.as_ref()).filter(|working| working.step.is_some()) {
        working::tables(&mut section, report, working, FEW);
    }
    section.finish()
}

/// Calls that returned an error, without those that only ask; None where there are none.
pub fn failed_calls(report: &Report) -> Option<String> {
    let unexpected = || (report.failures.iter()).filter(|row| row.expected.is_none());
    let calls: u64 = unexpected().map(|row| row.calls).sum();
    let named: Vec<String> = unexpected()
        .take(FEW)
        .map(|row| match &row.error {
            Some(error) => format!("{} {error}", row.function),
            None => format!("{} error {}", row.function, row.code),
        })
        .collect();
    (calls > 0).then(|| format!("{} ({})", count(calls), named.join(", ")))
}

fn gpu(section: &mut Section<'_>, report: &Report) {
    let counts = &report.overview.counts;
    if counts.launches + counts.transfers + counts.gpu_operations == 0 {
        section.heading("GPU:");
        section.line(if report.gpu_watched() {
            "no work seen"
        } else {
            "not traced"
        });
        return;
    }
    let idle = &report.idle;
    let simulated = if report.overview.simulated {
        ", softgpu"
    } else {
        ""
    };
    section.heading(&match idle.basis {
        Basis::GpuTimes => format!("GPU (measured{simulated}):"),
        Basis::Launches => format!("GPU (no GPU times; from launches and waits{simulated}):"),
    });
    match &report.working {
        Some(working) => working::lines(section, report, working),
        None => match report.idle_unknown() {
            Some(why) => section.line(&why),
            None => section.line("no work seen"),
        },
    }
}

fn categories(section: &mut Section<'_>, report: &Report) {
    let rows = &report.categories.categories;
    if rows.is_empty() {
        return;
    }
    section.heading("Time by category:");
    let mut table = Table::new()
        .left("Category")
        .right("Calls")
        .right("Total")
        .right("Self")
        .right("Average")
        .right("Of wall")
        .left("");
    for row in rows.iter().take(ROWS) {
        let mark = if row.bottleneck { "BOTTLENECK" } else { "" };
        table.row([
            row.category.as_str().into(),
            count(row.time.calls).into(),
            section.time(row.time.total_ns).into(),
            section.time(row.time.self_ns).into(),
            section.time(row.average_ns).into(),
            share(row.busy_ns, report.overview.wall_ns).into(),
            Cell::painted(mark, Paint::Alarm),
        ]);
    }
    section.table(&table);
}

fn functions(section: &mut Section<'_>, report: &Report) {
    let rows = &report.functions.functions;
    if rows.is_empty() {
        return;
    }
    section.heading("Most time in:");
    let mut table = Table::new()
        .left("Function")
        .right("Calls")
        .right("Total")
        .right("Self")
        .right("p50")
        .right("p99");
    for row in rows.iter().take(ROWS) {
        table.row([
            row.name.to_string(),
            count(row.calls),
            section.time(row.total_ns),
            section.time(row.self_ns),
            super::top::of_ended(section, row, row.p50_ns),
            super::top::of_ended(section, row, row.p99_ns),
        ]);
    }
    section.table(&table);
}

fn phases(section: &mut Section<'_>, report: &Report) {
    let found = &report.phases;
    if found.phases.is_empty() || !report.gpu_watched() || report.idle_unknown().is_some() {
        return;
    }
    section.heading("Phases:");
    let mut table = Table::new().left("").right("").right("").right("");
    for phase in &found.phases {
        table.row([
            phase.kind.as_str().to_owned(),
            since_start(report, phase.start_ns, section.style),
            section.time(phase.length_ns),
            share(phase.length_ns, report.overview.wall_ns),
        ]);
    }
    section.table(&table);
    if let Some(steady) = found.loops.first() {
        let tenths = |launches: f64| (launches * 10.0).round() / 10.0;
        let launches = tenths(steady.launches_per_iteration);
        // Other threads launch as well: a backward pass has one of its own.
        let of_all = (report.working.as_ref()).and_then(|working| working.step.as_ref());
        let is_all = of_all.is_none_or(|step| tenths(step.launches) == launches);
        section.line(&format!(
            "Loop: {} iterations of {launches} launch{}{}, p50 {}, p99 {} each, starting with {}",
            count(steady.iterations),
            if launches == 1.0 { "" } else { "es" },
            if is_all || steady.on_gpu {
                ""
            } else {
                " on its thread"
            },
            section.time(steady.p50_ns),
            section.time(steady.p99_ns),
            section.style.kernel(&steady.mark),
        ));
    }
}

fn tail(section: &mut Section<'_>, report: &Report) {
    let overview = &report.overview;
    section.heading("Coverage:");
    let hooks = report.meta.hooks;
    if hooks.total > 0 {
        section.line(&format!(
            "Hooked {} of {} functions",
            count(hooks.attached),
            count(hooks.total)
        ));
    }
    if overview.counts.library_calls > 0 {
        section.line(&format!(
            "Calls to other libraries: {}",
            count(overview.counts.library_calls)
        ));
    }
    if let Some(failed) = failed_calls(report) {
        section.line(&format!("Calls that failed: {failed}"));
    }
    if overview.open_spans > 0 {
        section.line(&format!(
            "Calls that never returned: {}",
            count(overview.open_spans)
        ));
    }
    section.line(&format!("Events: {}", count(overview.events)));
    section.line(&format!("Events lost: {}", count(overview.lost)));
}
