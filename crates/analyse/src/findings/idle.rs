//! The GPU without work while the program uses it, and what the host did meanwhile.

use super::{Confidence, Draft, Finding, FindingInput, Id, Severity, limits, words};
use crate::HostTime;
use crate::idle::{Basis, Gap, GapPlace};
use crate::working::Working;
use std::collections::BTreeSet;

/// Idle time with work submitted that is worth a sentence, as a part of the step.
const QUEUED_SHARE: f64 = 0.05;
/// Of so much of the work it must be known when it was submitted, to say that some was in time.
const NEARLY_ALL: f64 = 0.95;
/// Gaps that get a finding of their own.
const MOST_GAPS: usize = 3;

pub fn look(seen: &FindingInput<'_>, found: &mut Vec<Finding>) {
    let Some(working) = seen.working() else {
        return;
    };
    let in_steps = seen.steps().is_some();
    if working.step.is_some() {
        found.extend(pauses(seen, working));
    } else {
        long_gaps(seen, found);
    }
    let idle = match in_steps {
        true => working.idle_ns,
        false => {
            let named = found.iter().filter(|finding| finding.is(&[Id::IdleGap]));
            let named = named.fold(0u64, |sum, finding| {
                sum.saturating_add(finding.cost_ns.unwrap_or(0))
            });
            (working.idle_ns.saturating_sub(named)).saturating_sub(working.host.loading_ns)
        }
    };
    if working.share(idle) < limits::IDLE_SHARE || !seen.matters(idle, limits::MEDIUM_SHARE) {
        return;
    }
    // Small kernels have a finding of their own, which says the same and why.
    let said = found.iter().any(|finding| {
        finding.is(&[
            Id::SmallLaunches,
            Id::SyncAfterEveryLaunch,
            Id::AllocationInLoop,
            Id::TransferBound,
        ]) && finding.cost_ns.unwrap_or(0).saturating_mul(2) >= idle
    });
    if !said {
        found.push(waiting(seen, working, idle));
    }
}

/// The loop stands still now and then.
fn pauses(seen: &FindingInput<'_>, working: &Working) -> Option<Finding> {
    if (working.pauses_ns as f64) < limits::MEDIUM_SHARE * seen.wall() as f64 {
        return None;
    }
    let longest = (seen.report.idle.gaps.iter())
        .filter(|gap| gap.start_ns >= working.from_ns && gap.end_ns <= working.to_ns)
        .max_by_key(|gap| gap.length_ns)?;
    Some(
        Draft::new(Id::Pauses, seen)
            .costs(working.pauses_ns)
            .shown_by(around(longest))
            .number("pauses", working.pauses)
            .number("pauses_ns", working.pauses_ns)
            .number("longest_ns", working.longest_pause_ns)
            .between(longest.start_ns, longest.end_ns)
            .at_most(Severity::Medium)
            .say(
                seen,
                match working.pauses {
                    1 => format!("The loop stops once for {}", words::time(working.pauses_ns)),
                    2 => "The loop stops twice".to_owned(),
                    pauses => format!("The loop stops {pauses} times"),
                },
                format!(
                    "{} in which the GPU is idle for longer than four steps. {}{}",
                    words::counted(working.pause_gaps, "gap", "gaps"),
                    in_gap(longest),
                    basis(seen),
                ),
                "Compiling for a new shape, evaluating, saving a checkpoint and garbage collection do this. See what \
                 the program does there (`cutrace view`, or --stack).",
            ),
    )
}

/// Without steps: single gaps that stand out.
fn long_gaps(seen: &FindingInput<'_>, found: &mut Vec<Finding>) {
    let between: Vec<_> = (seen.report.idle.gaps.iter())
        .filter(|gap| gap.place == GapPlace::Between)
        .collect();
    let stands_out = |gap: &&&Gap| {
        gap.length_ns >= limits::GAP_NS
            && gap.length_ns as f64 >= limits::MEDIUM_SHARE * seen.wall() as f64
            && gap.length_ns >= 4 * typical(&between)
            // Loading happens once and has a finding of its own.
            && gap.host.loading_ns.saturating_mul(2) < gap.length_ns
    };
    let long: Vec<_> = between.iter().filter(stands_out).take(MOST_GAPS).collect();
    for gap in long {
        found.push(one_gap(seen, gap));
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

fn around(gap: &Gap) -> impl Iterator<Item = u64> + use<> {
    let ids = [&gap.before, &gap.after].map(|work| work.as_ref().map(|work| work.op_id));
    ids.into_iter().flatten()
}

fn in_gap(gap: &Gap) -> String {
    let around: Vec<_> = [("after", &gap.before), ("before", &gap.after)]
        .into_iter()
        .filter_map(|(word, work)| Some(format!("{word} {}", words::kernel(&work.as_ref()?.name))))
        .collect();
    format!(
        "The longest, {}, is {}. {}",
        words::time(gap.length_ns),
        around.join(" and "),
        host_words(&gap.host, gap.length_ns)
    )
}

fn one_gap(seen: &FindingInput<'_>, gap: &Gap) -> Finding {
    Draft::new(Id::IdleGap, seen)
        .costs(gap.length_ns)
        .shown_by(around(gap))
        .number("gap_ns", gap.length_ns)
        .number("untraced_ns", gap.host.untraced_ns)
        .between(gap.start_ns, gap.end_ns)
        // Nothing repeats, so nobody knows whether the program waits here again.
        .at_most(Severity::Low)
        .sure(Confidence::Hint)
        .say(
            seen,
            format!(
                "The GPU was idle for {}",
                words::time(gap.length_ns)
            ),
            format!("One gap. {}{}", in_gap(gap), basis(seen)),
            "Nothing repeats in this run, so this may be one-time set-up. If the program waits here every time, \
             prepare the next work while the GPU is busy.",
        )
}

/// The GPU waits for the host again and again.
fn waiting(seen: &FindingInput<'_>, working: &Working, idle: u64) -> Finding {
    let in_time = working.step.is_some()
        && known_calls(seen) >= 0.5
        && (working.waiting_for_launches_ns as f64) < limits::LATE_LAUNCHES * idle as f64;
    // Of the idle time only what launching earlier could save, where that is clearly less.
    let late = working.waiting_for_launches_ns.min(idle);
    let is_less = working.share(idle - late) >= QUEUED_SHARE && known_calls(seen) >= NEARLY_ALL;
    let waiting = match working.step.is_some() && !in_time && is_less {
        true => late,
        false => idle,
    };
    let share = words::percent(working.share(waiting));
    let once_a_step = working.step.is_some()
        && working.long_gaps_ns.saturating_mul(2) >= idle
        && working.long_gaps as f64 <= 3.0 * working.steps();
    let (id, title) = match (&working.step, once_a_step) {
        (Some(_), _) if in_time => (
            Id::HostBound,
            format!("The GPU is idle {share} of each step, although its work is queued in time"),
        ),
        (Some(_), true) => (
            Id::Starved,
            format!("The GPU waits {share} of each step for the host to submit the next work"),
        ),
        (Some(_), false) => (
            Id::HostBound,
            format!("The host is too slow for the GPU, which waits {share} of each step"),
        ),
        (None, _) => (
            Id::IdleGpu,
            format!("The GPU is idle {share} of the time between its first and last work"),
        ),
    };
    let ops = (seen.report.idle.gaps.iter())
        .filter(|gap| gap.start_ns >= working.from_ns && gap.end_ns <= working.to_ns)
        .filter_map(|gap| Some(gap.after.as_ref()?.op_id));
    let mut detail = match &working.step {
        Some(step) => format!(
            "On average a step takes {}, of which the GPU works {}. ",
            words::time(step.mean_ns),
            words::time((working.busy_ns as f64 / working.steps()) as u64),
        ),
        None => format!(
            "{} in {}. ",
            words::time(idle),
            words::counted(working.gaps, "gap", "gaps")
        ),
    };
    if once_a_step {
        let each = working.long_gaps_ns / working.long_gaps.max(1);
        let before = (working.waited_for.as_ref()).map_or(String::new(), |name| {
            format!(", before {}", words::kernel(name))
        });
        detail.push_str(&format!(
            "Most of the rest is {} of about {}{before}. ",
            if working.long_gaps as f64 <= 1.5 * working.steps() {
                "one gap".to_owned()
            } else {
                "a few gaps".to_owned()
            },
            words::time(each),
        ));
    }
    let queued = idle - waiting;
    if queued > 0 {
        let processes: BTreeSet<u32> = (seen.report.contexts.contexts.iter())
            .map(|context| context.pid)
            .collect();
        let why = match processes.len() {
            0 | 1 => String::new(),
            many => format!(": {many} processes share the GPU"),
        };
        let queued = words::percent(working.share(queued));
        detail.push_str(&format!(
            "For another {queued} it is idle with work already submitted{why}. "
        ));
    }
    detail.push_str(&host_words(&working.host, working.host.total_ns()));
    detail.push_str(basis(seen));
    Draft::new(id, seen)
        .in_steps()
        .costs(waiting)
        .shown_by(ops)
        .number("idle_ns", idle)
        .number("gaps", working.gaps)
        .number("working_ns", working.length_ns)
        .number("opportunity_ns", working.worth_having_ns)
        .between(working.from_ns, working.to_ns)
        .sure(match seen.report.idle.basis {
            Basis::GpuTimes => Confidence::Certain,
            Basis::Launches => Confidence::Likely,
        })
        .at_most(match working.step {
            // Of a run that is over soon the start matters more.
            Some(_) if in_time || !seen.matters_in_run(idle) => Severity::Medium,
            Some(_) => Severity::High,
            None => Severity::Low,
        })
        .say(seen, title, detail, advice(&working.host, once_a_step))
}

/// Of what part of the work on the GPU it is known when it was asked for.
fn known_calls(seen: &FindingInput<'_>) -> f64 {
    let pace = &seen.report.gpu.pace;
    let known = pace.launch_bound.saturating_add(pace.gpu_bound);
    let all = seen.report.overview.counts.gpu_operations.max(1);
    match seen.report.idle.basis {
        Basis::GpuTimes => known as f64 / all as f64,
        Basis::Launches => 0.0,
    }
}

/// What the host did, the largest parts of it.
fn host_words(host: &HostTime, whole: u64) -> String {
    let parts = host.parts();
    let largest: Vec<_> = (parts.iter().take(3))
        .filter(|(_, ns)| *ns as f64 >= 0.1 * whole as f64)
        .map(|(what, ns)| {
            let what = match *what {
                "nothing traced" => "in its own code, or waiting for something else",
                what => what,
            };
            let share = (*ns as f64 / whole.max(1) as f64).min(1.0);
            format!("{what} ({})", words::percent(share))
        })
        .collect();
    if largest.is_empty() {
        return String::new();
    }
    format!("The host meanwhile: {}.", largest.join(", "))
}

fn basis(seen: &FindingInput<'_>) -> &'static str {
    match seen.report.idle.basis {
        Basis::GpuTimes => "",
        Basis::Launches => " The trace has no GPU times, so this is a lower bound.",
    }
}

fn advice(host: &HostTime, once_a_step: bool) -> &'static str {
    match host.parts().first().map(|(what, _)| *what) {
        Some("copying") => {
            "The GPU waits for copies: use async copies from pinned memory in another stream, one step ahead of the \
             kernels."
        }
        Some("allocating") => {
            "Allocate before the loop, or use a stream-ordered pool (cudaMallocAsync)."
        }
        Some("synchronising") => {
            "The host waits for the GPU before it launches more. Launch the next work before waiting, \
             and read results back later or less often."
        }
        Some("launching") => {
            "Launching is the bottleneck: use CUDA graphs or fewer, larger kernels."
        }
        Some("loading code") => {
            "Code is loaded or compiled while the loop runs: launch every kernel once before it starts."
        }
        _ if once_a_step => {
            "Look at what the program does there. If it prepares the next batch, do that ahead of time in other \
             threads or processes (in PyTorch: DataLoader with num_workers and pin_memory)."
        }
        _ => {
            "The program's own code between launches is the bottleneck (usually Python). Do more work per launch: \
             larger batches, torch.compile or CUDA graphs."
        }
    }
}
