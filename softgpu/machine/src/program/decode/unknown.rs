//! Instructions that PTX has and softgpu does not: a refusal names what they are for.

use ptx::ast::Instruction;

use super::full_name;

/// What each is for, by opcode.
const NOT_IMPLEMENTED: &[(&str, &[&str])] = &[
    (
        "textures and surfaces",
        &[
            "tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep",
        ],
    ),
    (
        "tensor cores",
        &[
            "wmma",
            "mma",
            "wgmma",
            "tcgen05",
            "ldmatrix",
            "stmatrix",
            "movmatrix",
        ],
    ),
    ("copies of tensors", &["tensormap", "cp"]),
    ("multicast memory", &["multimem"]),
    ("launches from a kernel", &["clusterlaunchcontrol"]),
    (
        "packed video instructions",
        &["vavrg2", "vavrg4", "vset2", "vset4"],
    ),
];

/// Why an instruction that nothing here resolves is refused.
pub fn refusal(inst: &Instruction) -> String {
    let subject = NOT_IMPLEMENTED
        .iter()
        .find(|(_, opcodes)| opcodes.contains(&inst.opcode.as_str()))
        .map(|(subject, _)| subject);
    match subject {
        Some(subject) => format!("softgpu does not implement {} ({subject})", full_name(inst)),
        None => format!("PTX has no instruction {}", full_name(inst)),
    }
}
