//! Calls that failed: a kernel that crashed, memory that ran out, errors nobody looked at.

use super::expected::why;
use super::signs::Failure;
use super::{Confidence, Draft, Finding, FindingInput, Id, Severity, words};

/// Kinds of failure named.
const MOST_NAMED: usize = 5;
pub const OUT_OF_MEMORY: i64 = 2;

pub fn look(seen: &FindingInput<'_>, found: &mut Vec<Finding>) {
    let failures = || (seen.signs.failures.iter()).filter(|failure| why(failure).is_none());
    let crash = failures()
        .filter(|failure| sticky(failure.code).is_some())
        .min_by_key(|failure| failure.from);
    found.extend(crash.map(|first| crashed(seen, first)));
    let full = failures()
        .filter(|failure| failure.code == OUT_OF_MEMORY)
        .min_by_key(|failure| failure.from);
    found.extend(full.map(|first| out_of_memory(seen, first)));
    found.extend(ignored(seen));
}

/// Errors after which every call of the process fails: what the kernel did.
fn sticky(code: i64) -> Option<&'static str> {
    Some(match code {
        214 => "hit an uncorrectable memory error (ECC)",
        700 => "accessed memory outside its allocations",
        702 => "ran longer than the display's watchdog allows",
        710 => "failed an assertion",
        714 => "overflowed its stack",
        715 => "executed an illegal instruction",
        716 => "accessed memory at a misaligned address",
        717 => "accessed memory in the wrong address space",
        718 => "jumped to an invalid address",
        719 => "failed",
        _ => return None,
    })
}

fn error_name(failure: &Failure) -> String {
    match &failure.error {
        Some(error) => error.to_string(),
        None => format!("error {}", failure.code),
    }
}

fn crashed(seen: &FindingInput<'_>, first: &Failure) -> Finding {
    let what = sticky(first.code).unwrap_or("failed");
    let title = match first.launched.first() {
        Some(kernel) => format!(
            "A kernel {what}; the last one launched was {}",
            words::kernel(kernel)
        ),
        None => format!("A kernel {what}"),
    };
    let before: Vec<_> = (first.launched.iter().skip(1))
        .map(|kernel| words::kernel(kernel))
        .collect();
    let before = match before.is_empty() {
        true => String::new(),
        false => format!(" Launched before it: {}.", before.join(", ")),
    };
    Draft::new(Id::GpuCrash, seen)
        .shown_by(first.ops.first().copied())
        .number("code", first.code.unsigned_abs())
        .between(first.from, first.to)
        .at_least(Severity::High)
        .sure(Confidence::Likely)
        .say(
            seen,
            title,
            format!(
                "{} returned {}, and every later CUDA call of the process fails too.{before} Launches return before \
                 their kernels run, so an earlier kernel may be the cause.",
                first.function,
                error_name(first),
            ),
            "Run it with CUDA_LAUNCH_BLOCKING=1, so that the failing launch itself returns the error. \
             compute-sanitizer shows the thread and the address.",
        )
}

fn out_of_memory(seen: &FindingInput<'_>, first: &Failure) -> Finding {
    let held = (seen.report.memory.device()).map_or(0, |space| space.peak_bytes);
    let asked = match first.asked_bytes {
        Some(size) => format!(
            "{} of another {} failed",
            first.function,
            words::bytes(size)
        ),
        None => format!("{} failed", first.function),
    };
    let largest = seen
        .report
        .memory
        .holders
        .first()
        .map_or(String::new(), |holder| {
            format!(
                " The largest holder is {}, with {} in {}.",
                holder.place.function,
                words::bytes(holder.bytes),
                words::counted(holder.count, "allocation", "allocations"),
            )
        });
    let ended = match seen.report.overview.exit {
        Some(0) => {
            " The program continued and exited with 0: caching allocators free cached memory and retry."
        }
        _ => "",
    };
    Draft::new(Id::OutOfMemory, seen)
        .costs_bytes(held)
        .shown_by(first.ops.iter().copied())
        .number("failed_calls", first.count)
        .number("held_bytes", held)
        .number("asked_bytes", first.asked_bytes.unwrap_or(0))
        .between(first.from, first.to)
        .at_least(match seen.report.overview.exit {
            Some(0) => Severity::Medium,
            _ => Severity::High,
        })
        .say(
            seen,
            format!(
                "Out of GPU memory with {} held: {asked}",
                words::bytes(held)
            ),
            format!(
                "{} with {}.{largest}{ended} Other processes on the GPU may hold memory too.",
                words::counted(first.count, "allocation failed", "allocations failed"),
                error_name(first),
            ),
            "Use smaller batches, free what you no longer need, or recompute instead of storing. `cutrace report \
             memory` lists what holds the memory.",
        )
}

/// Errors of other kinds after which the program went on.
fn ignored(seen: &FindingInput<'_>) -> Option<Finding> {
    // A failure after which the thread called nothing more was not passed over. Frees have a finding
    // of their own, and so have crashes and full memory.
    let ignored: Vec<_> = (seen.signs.failures.iter())
        .filter(|failure| failure.calls_after > 0 && why(failure).is_none())
        .filter(|failure| !crate::frees::frees_memory(&failure.function))
        .filter(|failure| sticky(failure.code).is_none() && failure.code != OUT_OF_MEMORY)
        .collect();
    let first = ignored.iter().min_by_key(|failure| failure.from)?;
    let count: u64 = ignored.iter().map(|failure| failure.count).sum();
    let mut named: Vec<_> = (ignored.iter().take(MOST_NAMED))
        .map(|failure| {
            format!(
                "{} {} ({}×)",
                failure.function,
                error_name(failure),
                failure.count
            )
        })
        .collect();
    if ignored.len() > MOST_NAMED {
        named.push(format!("and {} more kinds", ignored.len() - MOST_NAMED));
    }
    let last = ignored.iter().map(|failure| failure.to).max();
    Some(
        Draft::new(Id::FailedCalls, seen)
            .shown_by(ignored.iter().flat_map(|failure| failure.ops.first().copied()))
            .number("failed_calls", count)
            .number("kinds", ignored.len() as u64)
            .number("calls_after", first.calls_after)
            .between(first.from, last.unwrap_or(first.to))
            .at_least(Severity::Medium)
            .say(
                seen,
                format!(
                    "{} failed and the program continued; the first was {} with {}",
                    words::counted(count, "call", "calls"),
                    first.function,
                    error_name(first),
                ),
                format!(
                    "{}. After the last failure of the first kind, the thread made {} more.",
                    named.join(", "),
                    words::counted(first.calls_after, "call", "calls"),
                ),
                "Check the return value of every call. cudaGetLastError() returns a launch's own error; errors inside \
                 its kernel come from a later call.",
            ),
    )
}
