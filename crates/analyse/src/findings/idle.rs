//! The GPU without work, and what the host did meanwhile.

use super::{Draft, Finding, Seen, Severity, limits, words};
use crate::idle::{Basis, Gap, GapPlace};

/// Gaps that get a finding of their own.
const MOST_GAPS: usize = 3;

pub fn look(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let idle = &seen.report.idle;
    let between: Vec<_> = (idle.gaps.iter())
        .filter(|gap| gap.place == GapPlace::Between)
        .collect();
    let stands_out = |gap: &&&Gap| {
        gap.length_ns >= limits::GAP_NS
            && gap.length_ns as f64 >= limits::GAP_SHARE * seen.wall() as f64
            && gap.length_ns >= 4 * typical(&between)
    };
    let long: Vec<_> = between.iter().filter(stands_out).take(MOST_GAPS).collect();
    let mut named = 0u64;
    for gap in long {
        named = named.saturating_add(gap.length_ns);
        found.push(one_gap(seen, gap));
    }
    let rest = idle.all.between_ns.saturating_sub(named);
    let working = seen.working().map_or(0, |(from, to)| to - from);
    if rest as f64 >= limits::IDLE_SHARE * working.max(1) as f64
        && rest as f64 >= limits::MEDIUM_SHARE * seen.wall() as f64
    {
        found.push(many_gaps(seen, &between, rest, working));
    }
}

/// The length of the middle one of the gaps that are listed, the longest there are.
fn typical(gaps: &[&Gap]) -> u64 {
    let mut lengths: Vec<_> = gaps.iter().map(|gap| gap.length_ns).collect();
    lengths.sort_unstable();
    // Of one or two gaps none is typical.
    if lengths.len() < 3 {
        0
    } else {
        lengths[lengths.len() / 2]
    }
}

fn one_gap(seen: &Seen<'_>, gap: &Gap) -> Finding {
    let parts = gap.host.parts();
    let around = [("after", &gap.before), ("before", &gap.after)]
        .into_iter()
        .filter_map(|(word, work)| {
            Some(format!(
                "{word} {}",
                names::short_name(&work.as_ref()?.name)
            ))
        })
        .collect::<Vec<_>>()
        .join(" and ");
    let mut ops: Vec<_> = gap.before.iter().map(|work| work.op_id).collect();
    ops.extend(gap.after.iter().map(|work| work.op_id));
    Draft::new("idle-gap", seen)
        .costs(gap.length_ns)
        .shown_by(ops)
        .number("gap_ns", gap.length_ns)
        .number("untraced_ns", gap.host.untraced_ns)
        .between(gap.start_ns, gap.end_ns)
        .say(
            seen,
            format!(
                "The GPU had nothing to do for {}",
                words::time(gap.length_ns)
            ),
            format!(
                "One gap, {around}. {}{}",
                host_words(&parts, gap.length_ns),
                basis(seen)
            ),
            advice(&parts),
        )
}

fn many_gaps(seen: &Seen<'_>, gaps: &[&Gap], rest: u64, working: u64) -> Finding {
    let idle = &seen.report.idle;
    let parts = idle.all.host.parts();
    let all = (parts.iter().map(|(_, ns)| *ns)).fold(0u64, u64::saturating_add);
    let ops = gaps
        .iter()
        .filter_map(|gap| Some(gap.before.as_ref()?.op_id));
    Draft::new("idle-gpu", seen)
        .costs(rest)
        .shown_by(ops)
        .number("idle_ns", rest)
        .number("gaps", idle.all.gap_count)
        .number("working_ns", working)
        .number("opportunity_ns", idle.opportunity_ns)
        .at_least(Severity::Low)
        .say(
            seen,
            format!(
                "The GPU is idle {} of the working time",
                words::percent(rest as f64 / working.max(1) as f64)
            ),
            format!(
                "{} in {} between works. {}{} Another workload could have had {} of all idle time.",
                words::time(rest),
                words::count(idle.all.gap_count, "gap", "gaps"),
                host_words(&parts, all),
                basis(seen),
                words::time(idle.opportunity_ns),
            ),
            advice(&parts),
        )
}

/// What the host did, the largest parts of it.
fn host_words(parts: &[(&'static str, u64)], whole: u64) -> String {
    let largest: Vec<_> = (parts.iter().take(2))
        .filter(|(_, ns)| *ns as f64 >= 0.1 * whole as f64)
        .map(|(what, ns)| {
            let what = if *what == "nothing traced" {
                "in its own code or waiting for something else"
            } else {
                what
            };
            format!(
                "{what} ({})",
                words::percent(*ns as f64 / whole.max(1) as f64)
            )
        })
        .collect();
    if largest.is_empty() {
        return String::new();
    }
    format!("The host meanwhile: {}.", largest.join(", "))
}

fn basis(seen: &Seen<'_>) -> &'static str {
    match seen.report.idle.basis {
        Basis::GpuTimes => "",
        Basis::Launches => " Without GPU times in the trace this is the least it can be.",
    }
}

fn advice(parts: &[(&'static str, u64)]) -> &'static str {
    match parts.first().map(|(what, _)| *what) {
        Some("copying") => {
            "The GPU waits for copies: make them async, from pinned memory, in another stream, one \
             round ahead of the kernels."
        }
        Some("allocating") => "Allocate before the loop, or from a pool in stream order.",
        Some("synchronising") => {
            "The host waits although the GPU is done, or for another GPU: wait later, and queue the \
             next work before waiting."
        }
        Some("launching") => "Launching is the limit: use CUDA graphs or fewer, larger kernels.",
        Some("Python") => {
            "The interpreter is the limit: compile the model, use CUDA graphs, or queue work further \
             ahead."
        }
        _ => {
            "Look at what the program does there: prepare the next input in another thread, queue work \
             ahead, or let another job use the GPU in the meantime."
        }
    }
}
