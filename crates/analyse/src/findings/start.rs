//! What only the beginning costs: code that is loaded and compiled, first calls that wait for it.

use super::{Draft, Finding, Seen, limits, words};
use crate::functions::FunctionRow;
use event::{Category, Layer};

pub fn look(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    found.extend(loading_code(seen));
    found.extend(slow_first_call(seen));
}

fn is_api(row: &&FunctionRow) -> bool {
    matches!(row.layer, Layer::Runtime | Layer::Driver)
}

fn loads_code(row: &FunctionRow) -> bool {
    row.category == Category::Module && (row.name.contains("Load") || row.name.contains("Link"))
}

/// Modules that take long to load: usually PTX that is compiled.
fn loading_code(seen: &Seen<'_>) -> Option<Finding> {
    let rows: Vec<_> = (seen.report.functions.functions.iter())
        .filter(is_api)
        .filter(|row| loads_code(row))
        .collect();
    // Self time: a runtime call around the driver's must not count it twice.
    let time = (rows.iter().map(|row| row.self_ns)).fold(0u64, u64::saturating_add);
    if time < limits::LOADING_NS || (time as f64) < limits::MEDIUM_SHARE * seen.wall() as f64 {
        return None;
    }
    let largest = rows.iter().max_by_key(|row| row.self_ns)?;
    let calls: u64 = rows.iter().map(|row| row.calls).sum();
    let ranges = || rows.iter().filter_map(|row| row.range_ns);
    let from = ranges().map(|(from, _)| from).min()?;
    let to = ranges().map(|(_, to)| to).max()?;
    Some(
        Draft::new("slow-module-load", seen)
            .costs(time)
            .shown_by([largest.max_op_id])
            .between(from, to)
            .number("calls", calls)
            .number("load_ns", time)
            .number("longest_ns", largest.max_ns)
            .say(
                seen,
                format!("Loading code takes {}", words::time(time)),
                format!(
                    "{} took {}, {} of the run; the longest, {}, {}.",
                    words::count(calls, "call that loads modules", "calls that load modules"),
                    words::time(time),
                    words::percent(time as f64 / seen.wall().max(1) as f64),
                    largest.name,
                    words::time(largest.max_ns),
                ),
                "PTX is compiled when it is loaded: build code for the GPU at hand (-arch=sm_NN) so \
                 that nothing is left to compile, keep the compile cache (CUDA_CACHE_MAXSIZE), and load \
                 lazily (CUDA_MODULE_LOADING=LAZY).",
            ),
    )
}

/// How long such a call takes does not depend on how much it is given.
fn always_the_same(row: &FunctionRow) -> bool {
    match row.category {
        Category::Init
        | Category::Context
        | Category::Module
        | Category::Kernel
        | Category::Stream
        | Category::Event
        | Category::Query => !loads_code(row),
        // The first allocation makes the context; a free waits for work, as others do.
        Category::Memory => !crate::frees::frees_memory(&row.name),
        Category::Transfer | Category::Sync | Category::Graph | Category::Other => false,
    }
}

/// The first call of a function that is called often takes far longer than the others.
fn slow_first_call(seen: &Seen<'_>) -> Option<Finding> {
    let slow = |row: &&&FunctionRow| {
        row.calls >= 4
            && row.first_ns >= row.p50_ns.saturating_mul(limits::FIRST_CALL_RATIO)
            && row.first_ns as f64 >= limits::MEDIUM_SHARE * seen.wall() as f64
            && row.first_ns >= limits::LOADING_NS
            && always_the_same(row)
    };
    let rows: Vec<_> = seen
        .report
        .functions
        .functions
        .iter()
        .filter(is_api)
        .collect();
    // Of a call and the calls inside it, which are slow together, the outer one has more time.
    let row = rows.iter().filter(slow).max_by_key(|row| row.first_ns)?;
    let usual = row.p50_ns;
    Some(
        Draft::new("slow-first-call", seen)
            .costs(row.first_ns - usual)
            .shown_by([row.first_op_id])
            .between(
                row.first_start_ns,
                row.first_start_ns.saturating_add(row.first_ns),
            )
            .number("first_ns", row.first_ns)
            .number("usual_ns", usual)
            .number("calls", row.calls)
            .say(
                seen,
                format!("The first {} takes {}", row.name, words::time(row.first_ns)),
                format!(
                    "Half of the {} calls take {} or less. The first also did what happens once: it made \
                     the context, loaded code lazily, or compiled it.",
                    row.calls,
                    words::time(usual)
                ),
                "Leave the first round out of measurements. To have it out of the way, call cudaFree(0) \
                 and launch each kernel once while the program starts.",
            ),
    )
}
