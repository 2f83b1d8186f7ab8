//! Contexts that threads, or the GPU, change between all the time.

use super::{Draft, Finding, FindingInput, Id, limits, words};

pub fn look(seen: &FindingInput<'_>, found: &mut Vec<Finding>) {
    found.extend(thrash(seen));
    found.extend(on_gpu(seen));
}

fn thrash(seen: &FindingInput<'_>) -> Option<Finding> {
    let contexts = &seen.report.contexts;
    let thread = contexts.threads.first()?;
    let cost = contexts.set_ns.min(seen.wall());
    if contexts.switches < limits::CONTEXT_SWITCHES
        || (cost as f64) < limits::LEAST_SHARE * seen.wall() as f64
    {
        return None;
    }
    Some(
        Draft::new(Id::ContextThrash, seen)
            .costs(cost)
            .shown_by(thread.op_ids.iter().copied())
            .number("switches", contexts.switches)
            .number("set_calls", contexts.set_calls)
            .number("set_ns", contexts.set_ns)
            .number("contexts", contexts.seen)
            .between(thread.from_ns, thread.to_ns)
            .say(
                seen,
                format!("The current context is switched {} times", contexts.switches),
                format!(
                    "{} calls that set, push or pop a context took {}. Thread {} switches most: {} times{}.",
                    contexts.set_calls,
                    words::time(contexts.set_ns),
                    thread.tid,
                    thread.switches,
                    thread.mean_ns.map_or(String::new(), |mean| format!(
                        ", every {} on average",
                        words::time(mean)
                    )),
                ),
                "Give each context or device its own thread, or finish the work of one before switching to the next. \
                 One primary context per device is usually enough.",
            ),
    )
}

fn on_gpu(seen: &FindingInput<'_>) -> Option<Finding> {
    let gpu = (seen.report.contexts.gpus.iter()).max_by_key(|gpu| gpu.switches)?;
    let seconds = seen.wall() as f64 / 1e9;
    if gpu.switches < limits::GPU_SWITCHES
        || gpu.switches as f64 / seconds < limits::GPU_SWITCHES as f64
    {
        return None;
    }
    let device = gpu
        .device
        .map_or("A GPU".to_owned(), |device| format!("GPU {device}"));
    Some(
        Draft::new(Id::GpuContextSwitches, seen)
            .number("switches", gpu.switches)
            .number("operations", gpu.operations)
            .number("processes", gpu.processes)
            .say(
                seen,
                format!("{device} switches between contexts {} times", gpu.switches),
                format!(
                    "Of {} operations from {}, {} came after one from another context. The GPU runs one context at a \
                     time, and each switch costs time.",
                    gpu.operations,
                    words::counted(gpu.processes, "process", "processes"),
                    gpu.switches
                ),
                "Run processes that share a GPU under MPS; within one process, use one context and several streams.",
            ),
    )
}
