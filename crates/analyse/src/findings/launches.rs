//! How kernels are launched: waited for one by one, too small to be worth it, or held in line by the
//! default stream.

use super::{Confidence, Draft, Finding, FindingInput, Id, Severity, limits, words};
use crate::{Role, Working};
use event::Category;

pub fn look(seen: &FindingInput<'_>, found: &mut Vec<Finding>) {
    let shed = (seen.report.summary.as_ref()).and_then(|summary| summary.shed.as_ref());
    if shed.is_some_and(|shed| shed.launches() > 0) {
        return;
    }
    found.extend(sync_each_launch(seen));
    found.extend(small_launches(seen));
    found.extend(default_stream(seen));
}

fn sync_each_launch(seen: &FindingInput<'_>) -> Option<Finding> {
    let (launches, waits) = (seen.signs.launches, &seen.signs.waits);
    let share = waits.after_one as f64 / launches.max(1) as f64;
    // What is lost is time in which the GPU had nothing to do, no more.
    let working = seen.working()?;
    let cost = waits.gap_ns.min(working.idle_ns);
    if launches < limits::MANY_LAUNCHES
        || share < limits::SYNC_EACH
        || !seen.matters(cost, limits::MEDIUM_SHARE)
    {
        return None;
    }
    Some(
        Draft::new(Id::SyncAfterEveryLaunch, seen)
            .in_steps()
            .costs(cost)
            .shown_by(waits.ops.iter().copied())
            .number("launches", launches)
            .number("waits_after_one_launch", waits.after_one)
            .number("idle_ns", cost)
            .number("wait_ns", waits.wait_ns)
            .between(waits.from, waits.to)
            .say(
                seen,
                format!("{} of {launches} launches are followed by an immediate wait", waits.after_one),
                format!(
                    "After {} launches the program waited before it did anything else: {} in the waiting calls, then \
                     {} until the next launch, during which the GPU was idle.",
                    waits.after_one,
                    words::time(waits.wait_ns),
                    words::time(cost)
                ),
                "Launch kernels one after another into one stream, which keeps their order, and wait once, when the \
                 host needs the result. Wait to check for errors in debug builds only. Use events to order work \
                 between streams without the host.",
            ),
    )
}

fn small_launches(seen: &FindingInput<'_>) -> Option<Finding> {
    let rows = &seen.report.functions.kernels;
    let timed: u64 = rows.iter().map(|row| row.executions).sum();
    if timed > 0 {
        short_kernels(seen)
    } else {
        busy_launching(seen)
    }
}

/// The GPU's times say that kernels are shorter than their launches.
fn short_kernels(seen: &FindingInput<'_>) -> Option<Finding> {
    let short: Vec<_> = (seen.report.functions.kernels.iter())
        .filter(|row| row.category == Category::Kernel && row.executions > 0)
        .filter(|row| row.p50_ns < limits::SHORT_KERNEL_NS)
        .collect();
    let count: u64 = short.iter().map(|row| row.executions).sum();
    let time = (short.iter().map(|row| row.total_ns)).fold(0u64, u64::saturating_add);
    let all: u64 = seen
        .report
        .functions
        .kernels
        .iter()
        .map(|row| row.executions)
        .sum();
    let working = seen.working()?;
    let per_launch = seen.signs.launch_ns / seen.signs.launches.max(1);
    // While the GPU has nothing to do the host launches: that much a graph could save.
    let cost = working.host.launching_ns.min(working.idle_ns);
    if count < limits::MANY_SHORT_KERNELS
        || count * 2 < all
        || mostly_graphs(seen, working)
        || !seen.matters(cost, limits::GRAPH_SHARE)
        // Where the host does other things meanwhile, those are what to look at.
        || cost < working.idle_ns / 5
    {
        return None;
    }
    let most = short.iter().max_by_key(|row| row.executions)?;
    Some(
        Draft::new(Id::SmallLaunches, seen)
            .in_steps()
            .costs(cost)
            .at_most(match seen.matters_in_run(cost) {
                true => Severity::High,
                false => Severity::Medium,
            })
            .shown_by([most.max_op_id])
            .number("short_kernels", count)
            .number("short_kernel_ns", time)
            .number("launch_ns", seen.signs.launch_ns)
            .number("gpu_busy_ns", working.busy_ns)
            .between(working.from_ns, working.to_ns)
            .say(
                seen,
                format!(
                    "Kernels are too short for their launches: {count} ran for {} on average",
                    words::time(time / count.max(1))
                ),
                format!(
                    "One launch takes the host {}, so the GPU waits: it was busy {} of {}. Most frequent: {} ({} \
                     times, half of them in {} or less).",
                    words::time(per_launch),
                    words::time(working.busy_ns),
                    words::time(working.length_ns),
                    most.short_name,
                    most.executions,
                    words::time(most.p50_ns),
                ),
                ADVICE,
            ),
    )
}

/// Most launches of the working time are graphs already.
fn mostly_graphs(seen: &FindingInput<'_>, working: &Working) -> bool {
    let sum = |graphs: bool| {
        let launches = working.calls.iter().filter(|row| {
            let graph = row.name.contains("GraphLaunch");
            graph == graphs && (graph || Role::of(row.layer, &row.name) == Role::Launch)
        });
        launches.map(|row| row.calls).sum::<u64>()
    };
    let (graphs, others) = (sum(true), sum(false));
    if graphs + others > 0 {
        graphs >= others
    } else {
        seen.signs.graph_launches * 2 > seen.signs.launches
    }
}

/// Without the GPU's times: the host spends its time launching.
fn busy_launching(seen: &FindingInput<'_>) -> Option<Finding> {
    let signs = seen.signs;
    let working = seen.working()?;
    let (from, to, length) = (working.from_ns, working.to_ns, working.length_ns);
    let inside: u64 = (working.calls.iter())
        .filter(|row| row.category == Category::Kernel)
        .map(|row| row.self_ns)
        .fold(0, u64::saturating_add);
    let time = signs.launch_ns.min(inside).min(length);
    let share = working.share(time);
    if signs.launches < limits::MANY_SHORT_KERNELS
        || share < limits::LAUNCHING
        || mostly_graphs(seen, working)
        // softgpu's launches cost what its queue costs, which says nothing of a GPU's.
        || seen.report.overview.simulated
    {
        return None;
    }
    let row = (seen.report.functions.functions.iter())
        .filter(|row| row.category == Category::Kernel)
        .max_by_key(|row| row.calls)?;
    Some(
        Draft::new(Id::SmallLaunches, seen)
            .in_steps()
            .costs(time)
            .sure(Confidence::Hint)
            .shown_by([row.max_op_id])
            .number("launches", signs.launches)
            .number("launch_ns", time)
            .number("working_ns", length)
            .number("launches_below_1024_threads", signs.tiny_launches)
            .between(from, to)
            .say(
                seen,
                format!(
                    "The host spends {} of the working time launching",
                    words::percent(share)
                ),
                format!(
                    "Launch calls took {} of {}, {} each; {} of {} have fewer than 1,024 threads.",
                    words::time(time),
                    words::time(length),
                    words::time(signs.launch_ns / signs.launches.max(1)),
                    signs.tiny_launches,
                    words::counted(signs.launches, "launch", "launches"),
                ),
                ADVICE,
            ),
    )
}

const ADVICE: &str = "Record the sequence once as a CUDA graph (stream capture) and launch that: one call instead of \
    many. Or fuse small kernels, or give each one more work.";

fn default_stream(seen: &FindingInput<'_>) -> Option<Finding> {
    let mixed = seen.signs.streams.first()?;
    let all = mixed.default + mixed.others;
    if mixed.changes < limits::STREAM_CHANGES || mixed.default.min(mixed.others) * 10 < all {
        return None;
    }
    let gpu = &seen.report.gpu;
    let mut draft = Draft::new(Id::DefaultStream, seen)
        .shown_by(mixed.ops.iter().copied())
        .number("default_stream_launches", mixed.default)
        .number("other_launches", mixed.others)
        .number("changes", mixed.changes)
        .between(mixed.from, mixed.to);
    let mut detail = format!(
        "Process {} launched {} kernels into the default stream and {} into other streams, switching between them {} \
         times. Work in the default stream waits for the other streams, and they wait for it.",
        mixed.pid, mixed.default, mixed.others, mixed.changes
    );
    if gpu.all.operations > 0 {
        // Where streams overlap all the same (they were made non-blocking), nothing is lost.
        let overlap = gpu.all.sum_ns.saturating_sub(gpu.all.busy_ns);
        if overlap as f64 > limits::NO_OVERLAP * gpu.all.sum_ns as f64 {
            return None;
        }
        let default = (gpu.streams.iter())
            .filter(|row| row.pid == mixed.pid && row.stream.is_some_and(|stream| stream <= 1))
            .map(|row| row.work.busy_ns)
            .fold(0u64, u64::saturating_add);
        let others = gpu.all.busy_ns.saturating_sub(default);
        let cost = default.min(others);
        draft = draft.costs(cost).number("default_stream_busy_ns", default);
        detail.push_str(&format!(
            " None of it overlapped on the GPU: {} in the default stream, {} in others.",
            words::time(default),
            words::time(others)
        ));
    }
    Some(draft.at_least(Severity::Low).say(
        seen,
        format!("The default stream blocks the others {} times", mixed.changes),
        detail,
        "Give every independent sequence its own stream, created with cudaStreamNonBlocking, or build with \
         --default-stream per-thread, and use events to order dependent work.",
    ))
}
