//! When the GPU had nothing to do, and what the host did then.

use super::section::{Section, device_name, host_words, since_start};
use crate::{
    Style, Table,
    units::{count, share, time},
};
use analyse::{Report, idle::Basis};

/// Gaps shown.
const ROWS: usize = 10;

pub fn idle(report: &Report, style: &Style) -> String {
    let mut section = Section::new(style);
    let idle = &report.idle;
    let (all, wall) = (&idle.all, idle.wall_ns);
    section.heading("GPU idle time");
    if let Some(why) = report.idle_unknown() {
        section.line(&format!("GPU idle time is {why}."));
        return section.finish();
    }
    if !report.gpu_watched() {
        section.line(
            "GPU idle time is unknown, because neither CUDA calls nor GPU times were traced. Record with \
             --method=auto, or add preload to the list.",
        );
        return section.finish();
    }
    section.line(basis_words(idle.basis));
    let mut table = Table::new().left("").right("").right("");
    for (what, ns) in [
        ("Wall", wall),
        ("Busy", all.busy_ns),
        ("Idle", all.idle_ns),
        ("  before the first work", all.leading_ns),
        ("  between work", all.between_ns),
        ("  after the last work", all.trailing_ns),
    ] {
        table.row([what.to_owned(), section.time(ns), share(ns, wall)]);
    }
    section.table(&table);
    section.line(&format!(
        "Another workload could have used {}, in gaps of {} or longer.",
        section.time(idle.opportunity_ns),
        section.time(idle.opportunity_min_gap_ns),
    ));

    if all.idle_ns > 0 {
        section.heading("What the host did while the GPU was idle");
        let mut table = Table::new().left("").right("").right("");
        for (what, ns) in all.host.parts() {
            let what = capitalised(what);
            table.row([what, section.time(ns), share(ns, all.idle_ns)]);
        }
        section.table(&table);
    }
    if idle.devices.len() > 1 {
        section.heading("By GPU");
        let mut table = Table::new()
            .right("GPU")
            .right("Busy")
            .right("Of wall")
            .right("Idle")
            .right("Gaps")
            .right("Longest");
        for row in &idle.devices {
            let time = &row.time;
            table.row([
                device_name(row.device),
                section.time(time.busy_ns),
                share(time.busy_ns, wall),
                section.time(time.idle_ns),
                count(time.gap_count),
                section.time(time.longest_gap_ns),
            ]);
        }
        section.table(&table);
    }
    gaps(&mut section, report);
    lengths(&mut section, report);
    section.finish()
}

fn gaps(section: &mut Section<'_>, report: &Report) {
    let idle = &report.idle;
    if idle.gaps.is_empty() {
        return;
    }
    section.heading("Longest gaps");
    let mut table = Table::new()
        .right("At")
        .right("Length")
        .right("Event")
        .names("Next work")
        .left("The host");
    for gap in idle.gaps.iter().take(ROWS) {
        let (event, next) = match &gap.after {
            Some(work) => (work.op_id.to_string(), work.name.to_string()),
            None => (String::new(), "none".into()),
        };
        table.row([
            since_start(report, gap.start_ns, section.style),
            section.time(gap.length_ns),
            event,
            next,
            host_words(&gap.host, 2, section.style),
        ]);
    }
    section.table(&table);
    let edges = u64::from(idle.all.leading_ns > 0) + u64::from(idle.all.trailing_ns > 0);
    section.more(ROWS.min(idle.gaps.len()), idle.all.gap_count + edges);
}

fn lengths(section: &mut Section<'_>, report: &Report) {
    let rows = &report.idle.histogram;
    if rows.iter().all(|row| row.count == 0) {
        return;
    }
    section.heading("Gaps by length");
    let mut table = Table::new().left("Length").right("Gaps").right("Total");
    let mut above = 0;
    for row in rows {
        let length = match row.below_ns {
            Some(below) => format!("below {}", round(below, section.style)),
            None => format!("{} and more", round(above, section.style)),
        };
        above = row.below_ns.unwrap_or(above);
        if row.count > 0 {
            table.row([length, count(row.count), section.time(row.total_ns)]);
        }
    }
    section.table(&table);
}

/// Powers of ten without their zeros: `10 µs`.
fn round(ns: u64, style: &Style) -> String {
    time(ns, style).replace(".00", "").replace(".0", "")
}

pub(super) fn basis_words(basis: Basis) -> &'static str {
    match basis {
        Basis::GpuTimes => "Measured on the GPU.",
        Basis::Launches => {
            "Estimated from launches, because the trace has no GPU times: the GPU may work from a launch until the \
             wait for it, so idle time is at least this."
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
