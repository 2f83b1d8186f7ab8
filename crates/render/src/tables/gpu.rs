//! What the GPU did.

use super::{
    ranges::ranges,
    section::{Section, device_name, stream_name},
    top,
};
use crate::{
    Style, Table, processes,
    units::{count, share},
};
use analyse::{Report, gpu::Work};
use event::Category;

/// Streams shown.
const ROWS: usize = 10;

pub fn gpu(report: &Report, style: &Style) -> String {
    let mut section = Section::new(style);
    let gpu = &report.gpu;
    section.heading("GPU");
    for found in &report.meta.gpus {
        let memory = found.memory.map_or_else(String::new, |bytes| {
            format!(", {}", crate::units::bytes(bytes))
        });
        let kind = if found.simulated {
            ", a software device: its times are not those of a GPU"
        } else {
            ""
        };
        let host = processes::gpu_host(&report.meta, found.index);
        let host = host.map_or_else(String::new, |host| format!(", {host}"));
        section.line(&format!(
            "{}: {}{host}{memory}{kind}",
            found.index, found.name
        ));
    }
    if gpu.all.operations == 0 {
        if report.overview.counts.launches + report.overview.counts.captured_launches > 0 {
            section.line("The trace has no GPU times. What was launched, by name:");
            top::kernels(&mut section, report);
        } else {
            section.line("The trace has neither GPU times nor launches.");
        }
        blocks(&mut section, report);
        ranges(&mut section, report);
        return section.finish();
    }
    let wall = report.overview.wall_ns;
    section.line(&format!(
        "{} operations, busy {} of {} ({}); their times add up to {}, counting overlaps twice.",
        count(gpu.all.operations),
        section.time(gpu.all.busy_ns),
        section.time(wall),
        share(gpu.all.busy_ns, wall),
        section.time(gpu.all.sum_ns),
    ));
    let by_events = &gpu.by_events;
    if by_events.operations > 0 {
        section.line(&format!(
            "{} of them were timed with CUDA events instead of CUPTI: their times may be off by {} on average.",
            count(by_events.operations),
            section.time(by_events.error_ns / by_events.operations),
        ));
    }
    works(
        &mut section,
        "By GPU",
        "GPU",
        wall,
        gpu.devices
            .iter()
            .map(|row| (device_name(row.device), &row.work)),
    );
    works(
        &mut section,
        "By kind of work",
        "Kind",
        wall,
        gpu.categories
            .iter()
            .map(|row| (row.category.to_string(), &row.work)),
    );
    works(
        &mut section,
        "By stream",
        "Stream",
        wall,
        (gpu.streams.iter().take(ROWS)).map(|row| {
            let stream = stream_name(row.stream);
            let name = format!("{stream} of GPU {}", device_name(row.device));
            (name, &row.work)
        }),
    );
    section.more(ROWS, gpu.stream_count);
    top::kernels(&mut section, report);
    blocks(&mut section, report);
    ranges(&mut section, report);

    if gpu.copies_beside_kernels_ns > 0 {
        let copies = (gpu.categories.iter())
            .find(|row| row.category == Category::Transfer)
            .map_or(0, |row| row.work.busy_ns);
        section.heading("Copies that overlap kernels");
        section.line(&format!(
            "Kernels ran during {} of the {} spent copying ({}).",
            section.time(gpu.copies_beside_kernels_ns),
            section.time(copies),
            share(gpu.copies_beside_kernels_ns, copies),
        ));
    }
    pace(&mut section, report);
    waits(&mut section, report);

    let queue = &report.correlation.queue;
    section.heading("From call to GPU");
    if queue.linked > 0 {
        section.line(&format!(
            "Work began p50 {}, p99 {}, max {} (event {}) after its call began.",
            section.time(queue.p50_ns),
            section.time(queue.p99_ns),
            section.time(queue.max_ns),
            queue.max_op_id.unwrap_or(0),
        ));
    }
    section.line(&format!(
        "Work linked to its call: {}; not linked: {}.",
        count(queue.linked),
        count(queue.unlinked)
    ));
    section.finish()
}

/// What probes inside kernels saw (`cutrace gpu trace`).
fn blocks(section: &mut Section<'_>, report: &Report) {
    for row in &report.blocks {
        let what = format!("{}s", crate::printable(&row.name));
        let gpu = device_name(row.device);
        section.heading(&match &*row.name {
            "block" => format!("Blocks inside kernels, GPU {gpu}"),
            "thread" => format!("Threads inside kernels, GPU {gpu}"),
            _ => format!("Inside kernels, GPU {gpu}"),
        });
        section.line(&format!(
            "{} {what} on {} multiprocessors, at most {} at once, {:.1} on average; durations: p50 {}, p99 {}, max {} (event {}).",
            count(row.count),
            row.multiprocessors.len(),
            count(row.most_at_once),
            row.sum_ns as f64 / row.busy_ns.max(1) as f64,
            section.time(row.p50_ns),
            section.time(row.p99_ns),
            section.time(row.longest_ns),
            row.longest_op_id.unwrap_or(0),
        ));
        let mut table = Table::new()
            .left("SM")
            .right(&what)
            .right("Busy")
            .right("Sum")
            .right("On average");
        for one in row.multiprocessors.iter().take(ROWS) {
            table.row([
                one.sm.to_string(),
                count(one.count),
                section.time(one.busy_ns),
                section.time(one.sum_ns),
                section.time(one.sum_ns / one.count.max(1)),
            ]);
        }
        section.table(&table);
        section.more(ROWS, row.multiprocessors.len() as u64);
    }
}

/// What the host waited for (needs CUPTI).
fn waits(section: &mut Section<'_>, report: &Report) {
    let waits = &report.gpu.waits;
    if waits.is_empty() {
        return;
    }
    section.heading("Waits for the GPU");
    let mut table = Table::new()
        .left("What")
        .right("Count")
        .right("Sum")
        .right("Any thread waiting")
        .right("Longest")
        .right("Event");
    for row in waits {
        table.row([
            crate::printable(&row.name),
            count(row.count),
            section.time(row.sum_ns),
            section.time(row.waited_ns),
            section.time(row.longest_ns),
            row.longest_op_id
                .map_or_else(String::new, |id| id.to_string()),
        ]);
    }
    section.table(&table);
}

/// Who waited for whom.
fn pace(section: &mut Section<'_>, report: &Report) {
    let pace = &report.gpu.pace;
    let known = pace.launch_bound + pace.gpu_bound;
    if known == 0 {
        return;
    }
    section.heading("Launch-bound or GPU-bound");
    section.line(&format!(
        "Launched when the GPU was already idle: {} ({}); it waited {} for them. Already queued when the GPU got to \
         them: {} ({}).",
        count(pace.launch_bound),
        share(pace.launch_bound, known),
        section.time(pace.waited_ns),
        count(pace.gpu_bound),
        share(pace.gpu_bound, known),
    ));
    let mut table = Table::new()
        .left("Phase")
        .right("From")
        .right("Length")
        .right("Operations")
        .right("GPU waited");
    let start = report.overview.start_ns;
    for phase in pace.phases.iter().take(ROWS) {
        let kind = if phase.launch_bound {
            "launch-bound"
        } else {
            "GPU-bound"
        };
        table.row([
            kind.to_owned(),
            format!("+{}", section.time(phase.start_ns.saturating_sub(start))),
            section.time(phase.end_ns.saturating_sub(phase.start_ns)),
            count(phase.operations),
            section.time(phase.waited_ns),
        ]);
    }
    section.table(&table);
    section.more(ROWS, pace.phases.len() as u64);
}

fn works<'a>(
    section: &mut Section<'_>,
    heading: &str,
    what: &str,
    wall: u64,
    rows: impl Iterator<Item = (String, &'a Work)>,
) {
    section.heading(heading);
    let mut table = Table::new()
        .left(what)
        .right("Operations")
        .right("Busy")
        .right("Of wall")
        .right("Sum");
    for (name, work) in rows {
        table.row([
            name,
            count(work.operations),
            section.time(work.busy_ns),
            share(work.busy_ns, wall),
            section.time(work.sum_ns),
        ]);
    }
    section.table(&table);
}
