//! Memory: allocations where work repeats, what is never freed, frees that are wrong, blocks that
//! stay because of little.

use super::errors::OUT_OF_MEMORY;
use super::{Confidence, Draft, Finding, FindingInput, Id, Severity, limits, words};
use crate::CallSite;
use crate::frees::BadFree;
use crate::leaks::{Judged, Leak};
use crate::memory::Holder;
use crate::working::Working;

/// Leaking places that get a finding of their own.
const MOST_LEAKS: usize = 4;

pub fn look(seen: &FindingInput<'_>, found: &mut Vec<Finding>) {
    found.extend(allocation_in_loop(seen));
    leaks(seen, found);
    found.extend(bad_frees(seen));
    found.extend(fragmentation(seen));
}

fn allocation_in_loop(seen: &FindingInput<'_>) -> Option<Finding> {
    let working = seen.working()?;
    let (from, to) = (working.from_ns, working.to_ns);
    let (mut allocations, mut frees, mut time) = (0u64, 0u64, 0u64);
    let mut most: Option<(u64, &crate::memory::FunctionUse)> = None;
    for function in &seen.report.memory.functions {
        // From a pool in stream order: made for loops. A graph's memory comes when it is launched.
        if ["Async", "Graph"]
            .iter()
            .any(|word| function.function.contains(word))
        {
            continue;
        }
        let (calls, ns) = function.rate.within(from, to);
        // What only reaches into the stretch, as the frees after a loop do, is not in it.
        if calls == 0 {
            continue;
        }
        time = time.saturating_add(ns);
        if function.frees {
            frees += calls;
        } else {
            allocations += calls;
            if calls > most.map_or(0, |(most, _)| most) {
                most = Some((calls, function));
            }
        }
    }
    let (calls, function) = most?;
    let per_iteration = (working.step.as_ref()).map(|_| allocations as f64 / working.steps());
    let time = time.min(working.length_ns);
    // One a round is a habit whatever it costs here: on a busy GPU each may wait.
    let habit = match per_iteration {
        Some(each) => each >= limits::ALLOCATIONS_PER_ITERATION,
        None => seen.matters(time, limits::LEAST_SHARE),
    };
    if allocations < limits::LOOP_ALLOCATIONS || !habit {
        return None;
    }
    let each = per_iteration.map_or(String::new(), |each| format!(", {each:.1} a step"));
    // What was allocated once before the loop does not show it.
    let inside = (from..=to).contains(&function.last_at_ns);
    Some(
        Draft::new(Id::AllocationInLoop, seen)
            .in_steps()
            .costs(time)
            .shown_by(inside.then_some(function.last_op_id))
            .number("allocations", allocations)
            .number("frees", frees)
            .number("call_ns", time)
            .between(from, to)
            .say(
                seen,
                match per_iteration {
                    Some(each) => format!("Each step allocates memory {each:.1} times"),
                    None => format!("{allocations} allocations while the GPU is in use"),
                },
                format!(
                    "{allocations} allocations and {}{each}, in {}; {calls} of them by {}. Allocating may wait for the GPU, and so may freeing.",
                    words::counted(frees, "free", "frees"),
                    words::time(time),
                    function.function,
                ),
                "Allocate once before the loop and reuse it, or use a stream-ordered pool (cudaMallocAsync, \
                 cuMemAllocAsync), which does not wait.",
            ),
    )
}

fn leaks(seen: &FindingInput<'_>, found: &mut Vec<Finding>) {
    let leaks = &seen.report.memory.leaks;
    if leaks.judged == Judged::CallsLeftOut {
        return;
    }
    let steps = seen.working().filter(|working| working.step.is_some());
    let growth = steps.and_then(|working| Some((working, working.growth_bytes_per_step?)));
    if let Some((working, growth)) = growth {
        found.push(growing(seen, working, growth));
    }
    // Where steps are known they decide: a pool that fills up in the first of them is no leak. Without
    // steps nobody knows what a caching allocator's growth means.
    let judge = steps.is_none() && seen.framework().is_none();
    let (growing, kept): (Vec<_>, Vec<_>) =
        (leaks.groups.iter()).partition(|leak| leak.grows && judge);
    for leak in growing.iter().take(MOST_LEAKS) {
        found.push(growing_leak(seen, leak));
    }
    if growth.is_some() {
        return;
    }
    if let Some(framework) = seen.framework() {
        found.extend(pool(seen, framework));
        return;
    }
    // What is kept for the program's life goes with the process: worth a line, not an alarm.
    let Some(largest) = kept.first() else { return };
    let count: u64 = kept.iter().map(|leak| leak.holder.count).sum();
    let bytes = kept
        .iter()
        .fold(0u64, |sum, leak| sum.saturating_add(leak.holder.bytes));
    let how = match (largest.with_context, leaks.judged) {
        (true, _) => "when its context was destroyed",
        (false, Judged::ProgramEnded) => "when the program ended",
        (false, _) => "at the end",
    };
    found.push(
        Draft::new(Id::NeverFreed, seen)
            .costs_bytes(bytes)
            .shown_by(largest.holder.op_ids.iter().copied())
            .number("allocations", count)
            .number("bytes", bytes)
            .number("places", kept.len() as u64)
            .between(largest.holder.first_at_ns, largest.holder.last_at_ns)
            .say(
                seen,
                format!("{} never freed", words::bytes(bytes)),
                format!(
                    "{} from {} still held memory {how}. The largest: {} by {}{}.",
                    words::counted(count, "allocation", "allocations"),
                    words::counted(kept.len() as u64, "place", "places"),
                    words::bytes(largest.holder.bytes),
                    largest.holder.place.function,
                    place_words(&largest.holder.place),
                ),
                "It did not grow, and the driver releases it when the process exits. In a library or a server, free \
                 it.",
            ),
    );
}

/// Memory that grows with every step.
fn growing(seen: &FindingInput<'_>, working: &Working, growth: u64) -> Finding {
    let (from, to) = working.held_bytes;
    let inside = |holder: &&Holder| holder.last_at_ns > working.from_ns;
    let holder = (seen.report.memory.holders.iter())
        .filter(inside)
        .max_by_key(|holder| holder.bytes);
    let place = holder.map_or(String::new(), |holder| {
        format!(
            " {}{} allocates most of it: {} in {}.",
            holder.place.function,
            place_words(&holder.place),
            words::bytes(holder.bytes),
            words::counted(holder.count, "allocation", "allocations"),
        )
    });
    let pool = seen.framework().map_or(String::new(), |framework| {
        format!(
            " {framework}'s caching allocator requests more only when no cached block fits, so something is keeping \
             tensors alive."
        )
    });
    Draft::new(Id::Leak, seen)
        .costs_bytes(to.saturating_sub(from))
        .shown_by(holder.into_iter().flat_map(|holder| holder.op_ids.iter().copied()))
        .number("bytes_per_step", growth)
        .number("from_bytes", from)
        .number("to_bytes", to)
        .between(working.from_ns, working.to_ns)
        .at_least(Severity::High)
        .sure(Confidence::Likely)
        .say(
            seen,
            format!("GPU memory grows by {} with each step", words::bytes(growth)),
            format!(
                "From {} to {} over {:.0} steps, growing throughout.{place}{pool}",
                words::bytes(from),
                words::bytes(to),
                working.steps(),
            ),
            "Find what keeps references to each step's results: a list that grows, a loss summed with its graph \
             attached, hooks, unbounded caches. --stack shows the callers.",
        )
}

/// What a framework's allocator holds for its next use.
fn pool(seen: &FindingInput<'_>, framework: &str) -> Option<Finding> {
    let device = seen.report.memory.device()?;
    let most = device.peak_bytes;
    // Where memory ran out, that finding says who holds it, and nobody knows whether it should.
    let full = (seen.signs.failures.iter()).any(|failure| failure.code == OUT_OF_MEMORY);
    // It is known not to leak only if it does not grow with the steps.
    let steady = match seen.steps() {
        Some(_) => ", and it does not grow from step to step: no leak",
        None => "",
    };
    let tensors = &seen.report.tensors;
    let (used, advice) = match tensors.is_empty() {
        true => (
            "Only the framework knows how much of it is in use".to_owned(),
            match framework {
                "XLA" => {
                    "In JAX, jax.profiler.save_device_memory_profile() writes what is in use to a file."
                }
                "CuPy" => "cupy.get_default_memory_pool().used_bytes() says how much is in use.",
                "PyTorch" => "torch.cuda.memory_summary() shows what is in use.",
                _ => "The framework's own memory statistics show what is in use.",
            },
        ),
        false => (
            format!("Tensors had at most {}", words::bytes(tensors.peak_bytes)),
            "cutrace report memory shows which operators and modules had it.",
        ),
    };
    (most >= limits::POOL_BYTES && !full).then(|| {
        Draft::new(Id::Pool, seen)
            .costs_bytes(most)
            .number("peak_bytes", most)
            .number("live_bytes", device.live_bytes)
            .between(device.peak_at_ns, device.peak_at_ns)
            .at_least(Severity::Note)
            .say(
                seen,
                format!(
                    "{framework}'s caching allocator holds {} of GPU memory",
                    words::bytes(most)
                ),
                format!("It keeps freed memory for reuse{steady}. {used}."),
                advice,
            )
    })
}

fn growing_leak(seen: &FindingInput<'_>, leak: &Leak) -> Finding {
    let holder = &leak.holder;
    let span = holder.last_at_ns - holder.first_at_ns;
    let per_second = (u128::from(holder.bytes) * 1_000_000_000).checked_div(u128::from(span));
    let rate = per_second.map_or(0, crate::memory::clamp);
    Draft::new(Id::Leak, seen)
        .costs_bytes(holder.bytes)
        .shown_by(holder.op_ids.iter().copied())
        .number("allocations", holder.count)
        .number("bytes", holder.bytes)
        .number("bytes_per_second", rate)
        .number("launches_between", holder.launches_between)
        .between(holder.first_at_ns, holder.last_at_ns)
        .at_least(Severity::Medium)
        .say(
            seen,
            format!("{} leaked by {}", words::bytes(holder.bytes), holder.place.function),
            format!(
                "{} of the {} allocations made there{} were never freed, with {} kernel launches between the first and \
                 the last: it grows by {} per second.",
                holder.count,
                holder.allocations,
                place_words(&holder.place),
                holder.launches_between,
                words::bytes(rate),
            ),
            "Free it at the end of each iteration, or allocate it once and reuse it.",
        )
}

/// Where it was, as far as the trace tells.
fn place_words(place: &CallSite) -> String {
    match (place.stack.as_slice(), place.size_bytes) {
        // The innermost frames may be the library's own: the first few say where in the program.
        ([first, rest @ ..], _) => {
            let callers: Vec<_> = rest
                .iter()
                .take(2)
                .map(|frame| format!(" < {frame}"))
                .collect();
            format!(" (called from {first}{})", callers.join(""))
        }
        ([], Some(size)) => format!(" ({} each)", words::bytes(size)),
        ([], None) => String::new(),
    }
}

fn bad_frees(seen: &FindingInput<'_>) -> Option<Finding> {
    let frees = &seen.report.memory.bad_frees;
    let first = frees.bad.first()?;
    // With events lost, an allocation between two frees may be among them.
    let (certain, lost) = (seen.report.overview.lost == 0, seen.report.overview.lost);
    let count = |what| frees.bad.iter().filter(|bad| bad.what == what).count();
    let kinds: Vec<_> = [
        (BadFree::Twice, "freed twice"),
        (BadFree::OfAnotherProcess, "of another process"),
        (BadFree::WrongFunction, "by the wrong function"),
        (BadFree::Refused, "refused"),
    ]
    .into_iter()
    .filter(|(what, _)| count(*what) > 0)
    .map(|(what, words)| format!("{} {words}", count(what)))
    .collect();
    let error = first
        .error
        .as_ref()
        .map_or(String::new(), |error| format!(" with {error}"));
    let pointer = first
        .ptr
        .map_or(String::new(), |ptr| format!(" of {ptr:#x}"));
    let doubt = if certain {
        String::new()
    } else {
        format!(" {lost} events were lost, possibly including an allocation.")
    };
    let last = frees.bad.last().map_or(first.at_ns, |bad| bad.at_ns);
    Some(
        Draft::new(Id::BadFree, seen)
            .shown_by(frees.bad.iter().map(|bad| bad.op_id))
            .number("bad_frees", frees.bad_count)
            .between(first.at_ns, last)
            .at_least(if certain { Severity::Medium } else { Severity::Low })
            .say(
                seen,
                format!("{} went wrong", words::counted(frees.bad_count, "free", "frees")),
                format!(
                    "{}. First: {}{pointer}{error}, in process {}.{doubt}",
                    kinds.join(", "),
                    first.function,
                    first.pid
                ),
                "Find who frees the pointer first: one buffer may have two owners, or the free function may not match \
                 the allocation function.",
            ),
    )
}

fn fragmentation(seen: &FindingInput<'_>) -> Option<Finding> {
    let hint = seen.report.memory.fragmentation?;
    let wasted = hint.block_held_bytes.saturating_sub(hint.live_bytes);
    let live = hint.live_bytes as f64 / hint.block_held_bytes.max(1) as f64;
    // softgpu has no such blocks.
    if wasted < limits::WASTED_BYTES
        || live > limits::LIVE_OF_BLOCKS
        || seen.report.overview.simulated
    {
        return None;
    }
    Some(
        Draft::new(Id::Fragmentation, seen)
            .costs_bytes(wasted)
            .number("live_bytes", hint.live_bytes)
            .number("block_held_bytes", hint.block_held_bytes)
            .between(hint.at_ns, hint.at_ns)
            .say(
                seen,
                format!("About {} lost to fragmentation", words::bytes(wasted)),
                format!(
                    "{} of live device memory were spread over blocks of {} in total. This assumes that the driver \
                     allocates in blocks of {}; it is an estimate, not a measurement.",
                    words::bytes(hint.live_bytes),
                    words::bytes(hint.block_held_bytes),
                    words::bytes(hint.block_bytes),
                ),
                "Allocate long-lived buffers first and together, and take short-lived ones from a pool.",
            ),
    )
}
