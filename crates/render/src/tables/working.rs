//! How the GPU is used: step by step where work repeats, otherwise from its first work to its last.
//! Start-up and teardown are said apart.

use super::section::Section;
use crate::{
    Table,
    units::{count, share},
};
use analyse::{Report, Working, idle::Basis, working::StepTimes};
use std::collections::HashSet;

/// Parts of the host's time named in a line.
const PARTS: usize = 3;
/// Kinds of work named in a line.
const KINDS: usize = 6;

/// The lines that come first.
pub(super) fn lines(section: &mut Section<'_>, report: &Report, working: &Working) {
    let bound = bounds(report);
    match &working.step {
        Some(step) => section.line(&step_line(section, report, working, step)),
        None => section.line(&format!(
            "First to last GPU work: {}, GPU busy {bound}{}{}",
            section.time(working.length_ns),
            share(working.busy_ns, working.length_ns),
            waiting(report, working),
        )),
    }
    if let Some(step) = &working.step {
        let each = |ns: u64| section.time((ns as f64 / working.steps()).round() as u64);
        let mut words = format!("Each step{}: {}", together(report), launches(step));
        if report.idle.basis == Basis::GpuTimes {
            words.push_str(&format!(
                ", kernels {}, copies {}",
                each(working.kernels_ns),
                each(working.copies_ns)
            ));
        }
        section.line(&words);
    }
    if working.share(working.idle_ns) >= 0.01 {
        let whole = working.host.total_ns();
        let parts: Vec<String> = (working.host.parts().into_iter().take(PARTS))
            .filter(|(_, ns)| *ns as f64 >= 0.01 * whole as f64)
            .map(|(what, ns)| format!("{} {}", host_word(what), share(ns, whole)))
            .collect();
        if !parts.is_empty() {
            section.line(&format!(
                "While the GPU waits, the host: {}",
                parts.join(", ")
            ));
        }
    }
    if working.pauses > 0 {
        section.line(&format!(
            "Pauses between steps (in the p99 only): {}, {} in total, longest {}",
            count(working.pauses),
            section.time(working.pauses_ns),
            section.time(working.longest_pause_ns),
        ));
    }
    if working.worth_having_ns > 0 && working.share(working.worth_having_ns) >= 0.01 {
        section.line(&format!(
            "Another workload could have used {} of these {}, in gaps of up to {}",
            section.time(working.worth_having_ns),
            section.time(working.length_ns),
            section.time(working.longest_gap_ns),
        ));
    }
    kinds(section, report);
    run_line(section, report, working);
}

/// What kinds of kernels the GPU's time goes to, where names tell.
fn kinds(section: &mut Section<'_>, report: &Report) {
    let classes = report.kernel_classes.iter().take(KINDS);
    let words: Vec<String> = (classes.filter(|class| class.share >= 0.01))
        .map(|class| format!("{} {:.0} %", class.class, 100.0 * class.share))
        .collect();
    if !words.is_empty() {
        section.line(&format!(
            "GPU time of the run by kind of work: {}",
            words.join(", ")
        ));
    }
}

/// `261 launches`, `1 graph launch`, or both.
fn launches(step: &StepTimes) -> String {
    let counted = |number: f64, kind: &str| {
        let number = match number {
            many if many >= 10.0 => many.round(),
            few => (few * 10.0).round() / 10.0,
        };
        let ending = if number == 1.0 { "" } else { "es" };
        (number > 0.0).then(|| format!("{number} {kind}launch{ending}"))
    };
    let parts = [
        counted(step.launches, ""),
        counted(step.graph_launches, "graph "),
    ];
    match parts.into_iter().flatten().collect::<Vec<_>>() {
        none if none.is_empty() => "0 launches".to_owned(),
        some => some.join(", "),
    }
}

/// Steps are those of one process; what is done in them is done by all.
fn together(report: &Report) -> String {
    let contexts = report.contexts.contexts.iter();
    let processes: HashSet<u32> = contexts.map(|context| context.pid).collect();
    match processes.len() {
        0 | 1 => String::new(),
        many => format!(", {many} processes together"),
    }
}

fn step_line(
    section: &Section<'_>,
    report: &Report,
    working: &Working,
    step: &StepTimes,
) -> String {
    format!(
        "Step: {} (p99 {}), {} steps; GPU busy {}{}{}",
        section.time(step.p50_ns),
        section.time(step.p99_ns),
        count(step.seen),
        bounds(report),
        share(working.busy_ns, working.length_ns),
        waiting(report, working),
    )
}

fn bounds(report: &Report) -> &'static str {
    match report.idle.basis {
        Basis::GpuTimes => "",
        Basis::Launches => "at most ",
    }
}

/// What the GPU waits for in the rest of the time.
fn waiting(report: &Report, working: &Working) -> String {
    if report.idle.basis == Basis::Launches || working.share(working.idle_ns) < 0.005 {
        return String::new();
    }
    format!(
        ", waiting for launches {}",
        share(working.waiting_for_launches_ns, working.length_ns)
    )
}

/// Where the rest of the run went.
fn run_line(section: &mut Section<'_>, report: &Report, working: &Working) {
    let wall = report.overview.wall_ns;
    let rest = working.before_ns.saturating_add(working.after_ns);
    let work = wall.saturating_sub(rest);
    section.line(&format!(
        "Run: {} = {} before {} + {} + {} after it; GPU busy {}{} of the run",
        section.time(wall),
        section.time(working.before_ns),
        match working.step {
            Some(_) => "the loop",
            None => "the first work",
        },
        section.time(work),
        section.time(working.after_ns),
        bounds(report),
        share(report.idle.all.busy_ns, wall),
    ));
    let unknown = report.overview.not_watched_ns;
    if unknown >= wall / 100 && unknown > 0 {
        section.line(&format!(
            "Not watched: {} {}",
            section.time(unknown),
            match report.summary.as_ref().and_then(|summary| summary.windows) {
                None => "before hooks were attached and after they were removed",
                Some(_) => "outside of the window (--window)",
            }
        ));
    }
}

pub(super) fn host_word(what: &str) -> &str {
    match what {
        "nothing traced" => "own code",
        what => what,
    }
}

/// The kernels and calls that take most, `most` of each.
pub(super) fn tables(section: &mut Section<'_>, report: &Report, working: &Working, most: usize) {
    let of = match working.step {
        Some(_) => format!(", per step{}", together(report)),
        None => String::new(),
    };
    let (kernels, calls) = (
        format!("Top kernels and copies{of}:"),
        format!("Top calls{of}:"),
    );
    for (heading, rows, own) in [
        (kernels, &working.kernels, false),
        (calls, &working.calls, true),
    ] {
        if rows.is_empty() {
            continue;
        }
        section.heading(&heading);
        let mut table = Table::new()
            .names("Name")
            .right("Count")
            .right(if own { "Self time" } else { "Time" })
            .right("Each");
        for row in rows.iter().take(most) {
            let time = if own { row.self_ns } else { row.total_ns };
            table.row([
                row.name.clone(),
                a_step(row.calls, working),
                section.time((time as f64 / working.steps()).round() as u64),
                section.time(time / row.calls.max(1)),
            ]);
        }
        section.table(&table);
        section.more(most.min(rows.len()), rows.len() as u64);
    }
}

/// `24`, or `0.3` where not every step has one.
fn a_step(calls: u64, working: &Working) -> String {
    let each = calls as f64 / working.steps();
    if each < 0.005 {
        "<0.01".to_owned()
    } else if each < 0.05 {
        format!("{each:.2}")
    } else if each >= 10.0 || (each - each.round()).abs() < 0.05 {
        count(each.round() as u64)
    } else {
        format!("{each:.1}")
    }
}
