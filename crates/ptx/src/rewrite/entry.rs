//! Probes at a kernel's entry: a block right behind the brace that opens its body.

use super::{Kernel, Probe, REGISTERS, calls, edit::Edits, inline::InlineProbes};

/// How many places got the probes: one, or none.
pub fn insert(kernel: &Kernel, probes: &[&Probe], kept: &InlineProbes, edits: &mut Edits) -> usize {
    if probes.is_empty() {
        return 0;
    }
    let mut block = format!("\n{{\n{REGISTERS}");
    block.push_str(&parameters(kernel, probes));
    block.push_str(&calls(probes, kept, "%cutrace_ctx"));
    block.push_str("}\n");
    edits.insert(kernel.open, block);
    1
}

/// Takes the address of the kernel's parameters, if a probe wants it.
pub fn parameters(kernel: &Kernel, probes: &[&Probe]) -> String {
    match &kernel.first_parameter {
        Some(name) if kernel.reads_parameters(probes) => format!(
            "\tmov.b64 %cutrace_ctx, {name};\n\tcvta.param.u64 %cutrace_ctx, %cutrace_ctx;\n"
        ),
        _ => String::new(),
    }
}
