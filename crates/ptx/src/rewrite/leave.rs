//! Probes before every way out of a kernel: `ret`, `exit`, and the end of its text.

use super::{
    Kernel, Probe, REGISTERS, edit::Edits, entry::parameters, inline::InlineProbes, plain_calls,
    scan::Module,
};

/// How many places got the probes. What is kept goes to memory there.
pub fn insert(
    module: &Module,
    kernel: &Kernel,
    probes: &[&Probe],
    kept: &InlineProbes,
    edits: &mut Edits,
) -> usize {
    if probes.is_empty() && kept.begin().is_empty() {
        return 0;
    }
    let block = || {
        let mut block = String::from(REGISTERS);
        block.push_str(&parameters(kernel, probes));
        // What leaves meets no instruction that wants the warp together.
        block.push_str(&plain_calls(probes, kept, "%cutrace_ctx"));
        block.push_str(&kept.flush());
        block
    };
    let mut places = 0;
    for one in &kernel.code {
        if !matches!(one.opcode(module.source), "ret" | "exit") {
            continue;
        }
        let block = block();
        let text = match &one.guard {
            None => format!("{{\n{block}}}\n\t"),
            // Those that stay jump over it; `ret.uni` promises what then no longer holds for all.
            Some(guard) => format!(
                "{{\n\t@{} bra $L__cutrace_stay_{places};\n{block}\t{};\n$L__cutrace_stay_{places}:\n}}\n\t",
                negated(guard),
                one.opcode(module.source)
            ),
        };
        match one.guard {
            None => edits.insert(one.start, text),
            Some(_) => edits.replace(one.start, one.end, text),
        }
        places += 1;
    }
    if falls_off(module, kernel) {
        edits.insert(kernel.close, format!("{{\n{}}}\n", block()));
        places += 1;
    }
    if probes.is_empty() { 0 } else { places }
}

/// Whether the last instruction lets control reach the closing brace.
fn falls_off(module: &Module, kernel: &Kernel) -> bool {
    let Some(last) = kernel.code.last() else {
        return true;
    };
    let ends = matches!(
        last.opcode(module.source),
        "ret" | "exit" | "bra" | "trap" | "brx"
    );
    // A label may stand behind it.
    let rest = module.source.get(last.end as usize..kernel.close as usize);
    let labelled = rest.is_some_and(|rest| rest.contains(':'));
    !ends || last.guard.is_some() || labelled
}

pub fn negated(guard: &str) -> String {
    match guard.strip_prefix('!') {
        Some(register) => register.to_owned(),
        None => format!("!{guard}"),
    }
}
