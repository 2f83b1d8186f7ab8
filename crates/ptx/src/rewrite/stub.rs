//! Calls of the stub `__bpftime_cuda__kernel_trace`, turned to the kernel's entry probes: programs that
//! were written with it say themselves where they want to be probed.

use super::{
    Kernel, Probe, REGISTERS, calls, edit::Edits, inline::InlineProbes, leave::negated,
    scan::Module,
};
use crate::token::Kind;

const STUB: &str = "__bpftime_cuda__kernel_trace";
/// The same as C++ has it.
const MANGLED: &str = "_Z28__bpftime_cuda__kernel_tracev";

/// How many calls were turned.
pub fn redirect(module: &Module, kernel: &Kernel, probes: &[&Probe], edits: &mut Edits) -> usize {
    if probes.is_empty() {
        return 0;
    }
    let mut places = 0;
    for one in &kernel.code {
        let names_stub = || {
            one.operands().iter().any(|token| {
                token.kind == Kind::Word && matches!(token.text(module.source), STUB | MANGLED)
            })
        };
        if one.opcode(module.source) != "call" || !names_stub() {
            continue;
        }
        let mut text = String::from("{\n");
        if let Some(guard) = &one.guard {
            text.push_str(&format!(
                "\t@{} bra $L__cutrace_stub_{places};\n",
                negated(guard)
            ));
        }
        text.push_str(REGISTERS);
        text.push_str(&super::entry::parameters(kernel, probes));
        text.push_str(&calls(probes, &InlineProbes::default(), "%cutrace_ctx"));
        if one.guard.is_some() {
            text.push_str(&format!("$L__cutrace_stub_{places}:\n"));
        }
        text.push_str("}\n");
        edits.replace(one.start, one.end, text);
        places += 1;
    }
    places
}
