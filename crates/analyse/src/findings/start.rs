//! What only the beginning costs: CUDA that starts, contexts that are made, code that is loaded and
//! compiled. It happens once, so it is never called idle time.

use super::{Draft, Finding, FindingInput, Id, Severity, limits, words};
use crate::functions::FunctionRow;
use event::{Category, Layer};

pub fn look(seen: &FindingInput<'_>, found: &mut Vec<Finding>) {
    found.extend(start_up(seen));
}

fn is_api(row: &&FunctionRow) -> bool {
    matches!(row.layer, Layer::Runtime | Layer::Driver)
}

/// What is done once, by its category; taking it down again is no start.
fn starts(row: &FunctionRow, category: Category) -> bool {
    row.category == category
        && !["Unload", "Unregister", "Destroy", "Release", "Reset"]
            .iter()
            .any(|word| row.name.contains(word))
}

fn start_up(seen: &FindingInput<'_>) -> Option<Finding> {
    let rows: Vec<_> = (seen.report.functions.functions.iter())
        .filter(is_api)
        .collect();
    // Self time: a runtime call around the driver's must not count it twice.
    let sum = |category| {
        let rows = rows.iter().filter(|row| starts(row, category));
        rows.fold((0u64, 0u64), |sum, row| {
            (sum.0.saturating_add(row.self_ns), sum.1 + row.calls)
        })
    };
    let (code_ns, code_calls) = sum(Category::Module);
    let (context_ns, _) = sum(Category::Context);
    let (init_ns, _) = sum(Category::Init);
    let known = code_ns.saturating_add(context_ns).saturating_add(init_ns);
    // A static runtime does the same inside its first call, where nothing shows it.
    let first = rows
        .iter()
        .filter(|row| slow_first(row))
        .max_by_key(|row| row.first_ns);
    let first_ns = first.map_or(0, |row| row.first_ns.saturating_sub(row.p50_ns));
    let time = known.max(first_ns).min(seen.wall());
    if time < limits::LOADING_NS || (time as f64) < limits::MEDIUM_SHARE * seen.wall() as f64 {
        return None;
    }
    let mut parts: Vec<(u64, String)> = vec![
        (init_ns, format!("starting CUDA {}", words::time(init_ns))),
        (
            context_ns,
            format!("creating contexts {}", words::time(context_ns)),
        ),
        (
            code_ns,
            format!(
                "loading code {} in {}",
                words::time(code_ns),
                words::counted(code_calls, "call", "calls")
            ),
        ),
    ];
    parts.retain(|(ns, _)| *ns >= time / 20);
    parts.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let mut said: Vec<String> = parts.into_iter().map(|(_, words)| words).collect();
    let mut ops: Vec<u64> = Vec::new();
    if let Some(row) = first {
        ops.push(row.first_op_id);
        said.push(format!(
            "the first {} {} (later ones {})",
            row.name,
            words::time(row.first_ns),
            words::time(row.p50_ns)
        ));
    }
    let longest = (rows.iter())
        .filter(|row| starts(row, Category::Module))
        .max_by_key(|row| row.max_ns);
    ops.extend(longest.map(|row| row.max_op_id));
    let before = seen.working().map_or(0, |working| working.before_ns);
    Some(
        Draft::new(Id::StartUp, seen)
            .costs(time)
            .shown_by(ops)
            .number("code_ns", code_ns)
            .number("code_calls", code_calls)
            .number("context_ns", context_ns)
            .number("init_ns", init_ns)
            .number("first_call_ns", first_ns)
            .at_most(Severity::Low)
            .say(
                seen,
                format!("CUDA's start-up takes {}", words::time(time)),
                format!(
                    "Once in each process: {}.{}",
                    said.join(", "),
                    match before {
                        0 => String::new(),
                        before => format!(
                            " The working time begins {} after the start; the rest of that time is the program's own.",
                            words::time(before)
                        ),
                    }
                ),
                "Leave it out of measurements. To shorten it, build for your GPU (-arch=sm_NN), so that no PTX is \
                 compiled at load; keep the compile cache (CUDA_CACHE_MAXSIZE); load lazily \
                 (CUDA_MODULE_LOADING=LAZY).",
            ),
    )
}

/// The first call of a function that is called often takes far longer than the others.
fn slow_first(row: &FunctionRow) -> bool {
    row.calls >= 4
        && row.first_ns >= row.p50_ns.saturating_mul(limits::FIRST_CALL_RATIO)
        && row.first_ns >= limits::LOADING_NS
        && match row.category {
            Category::Kernel | Category::Stream | Category::Event | Category::Query => true,
            // The first allocation makes the context; a free waits for work, as others do.
            Category::Memory => !crate::frees::frees_memory(&row.name),
            _ => false,
        }
}
