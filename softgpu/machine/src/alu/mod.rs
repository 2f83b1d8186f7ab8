//! The arithmetic of PTX: every instruction that computes registers from registers, as pure
//! functions over whole warps. No control flow, no memory, no special registers here.
//!
//! One file a family; each says the PTX semantics it follows. [`resolve`] turns an opcode and its
//! modifiers into an [`Alu`] once, at load; the interpreter then only calls [`Alu::eval`].

mod approx;
mod bits;
mod carry;
mod compare;
mod convert;
#[cfg(test)]
mod coverage_tests;
mod directed;
mod dot;
#[cfg(test)]
mod every_form;
mod floating;
mod form;
mod half;
mod integer;
mod lanes;
mod logic;
mod minmax;
mod packed;
mod precise;
#[cfg(test)]
mod precise_tests;
#[cfg(test)]
mod resolve_tests;
mod select;
mod video;
mod video_packed;

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

pub use form::Unsupported;

/// Lanes of a warp.
pub const WARP: usize = 32;

/// One register of a warp. Values narrower than 64 bits are zero-extended bits (f32 as its bits,
/// s16 as u16 bits …); predicates are 0 or 1.
pub type Lanes = [u64; WARP];

/// Width class of a register operand: how immediates are read and what the upper bits are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Pred,
    Int {
        bits: u8,
        signed: bool,
    },
    /// Includes packed halves (F16x2: 32 bits) as raw bits.
    F16,
    BF16,
    F16x2,
    BF16x2,
    F32,
    F64,
}

impl Kind {
    /// How wide a register of it is.
    pub fn bits(self) -> u32 {
        match self {
            Kind::Pred => 1,
            Kind::Int { bits, .. } => u32::from(bits),
            Kind::F16 | Kind::BF16 => 16,
            Kind::F16x2 | Kind::BF16x2 | Kind::F32 => 32,
            Kind::F64 => 64,
        }
    }
}

/// Computes all 32 lanes; the caller keeps only active ones. Must not panic for any bits.
/// `out[0]` is the destination, `out[1]` a second one (setp's `p|q`, the carry of `add.cc`).
///
/// A reference to a closure rather than a plain function, so that the rarer instructions carry
/// their rounding, saturation and formats as data instead of one compiled copy each.
pub type Eval = &'static (dyn Fn(&mut [Lanes; 2], [&Lanes; 4]) + Send + Sync);

/// A resolved arithmetic instruction.
#[derive(Clone, Copy)]
pub struct Alu {
    /// What the destination holds. Where PTX lets the destination register be wider (cvt), its
    /// upper bits are copies of the sign for signed integers, zeros otherwise.
    pub dst: Kind,
    /// Second destination, if the instruction can write one (setp's `p|q`: may be left out).
    pub dst2: Option<Kind>,
    /// Register sources in the order of PTX operands; unused slots beyond `src.len()` get zeros.
    /// The last one of setp, set (with a boolean operator) is the predicate `c`.
    pub src: &'static [Kind],
    /// Reads the carry flag (addc, subc, madc): passed as the source after the last of `src`.
    pub carry_in: bool,
    /// Writes the carry flag (add.cc …): comes out in `out[1]`.
    pub carry_out: bool,
    pub eval: Eval,
}

impl std::fmt::Debug for Alu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alu")
            .field("dst", &self.dst)
            .field("dst2", &self.dst2)
            .field("src", &self.src)
            .field("carry_in", &self.carry_in)
            .field("carry_out", &self.carry_out)
            .finish_non_exhaustive()
    }
}

/// Resolves an instruction by its opcode and modifiers, as the parser gives them: `fma`, ["rn",
/// "ftz", "f32"]. Anything not fully understood, down to the last modifier, is `Unsupported`.
///
/// Results are kept: the closures of the finitely many valid forms are made once a process.
pub fn resolve(opcode: &str, modifiers: &[String]) -> Result<Alu, Unsupported> {
    static KNOWN: OnceLock<Mutex<HashMap<String, Alu>>> = OnceLock::new();
    let name = std::iter::once(opcode)
        .chain(modifiers.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(".");
    let known = KNOWN.get_or_init(Mutex::default);
    if let Some(alu) = known
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&name)
    {
        return Ok(*alu);
    }
    let alu = resolve_new(opcode, modifiers)?;
    known
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(name, alu);
    Ok(alu)
}

fn resolve_new(opcode: &str, modifiers: &[String]) -> Result<Alu, Unsupported> {
    resolve_form(&mut form::Form::new(opcode, modifiers))
}

/// Resolves opcodes of one family.
type Resolver = fn(&mut form::Form) -> Result<Alu, Unsupported>;

/// Every opcode, by who resolves it.
const FAMILIES: &[(&[&str], Resolver)] = &[
    (
        &[
            "add", "sub", "mul", "mad", "fma", "div", "rcp", "sqrt", "rsqrt", "abs", "neg", "min",
            "max", "addc", "subc", "madc", "rem", "mul24", "mad24", "sad",
        ],
        arithmetic,
    ),
    (&["sin", "cos", "ex2", "lg2", "tanh"], approx::resolve),
    (
        &[
            "popc", "clz", "bfind", "fns", "brev", "bfe", "bfi", "szext", "bmsk",
        ],
        bits::resolve,
    ),
    (
        &[
            "and", "or", "xor", "not", "cnot", "lop3", "shf", "shl", "shr", "prmt", "mov",
        ],
        logic::resolve,
    ),
    (&["dp4a", "dp2a"], dot::resolve),
    (&["setp", "set"], compare::resolve),
    (&["selp", "slct", "testp", "copysign"], select::resolve),
    (&["cvt"], convert::resolve),
    (
        &[
            "vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset",
        ],
        video::resolve,
    ),
    (
        &[
            "vadd2",
            "vadd4",
            "vsub2",
            "vsub4",
            "vavrg2",
            "vavrg4",
            "vabsdiff2",
            "vabsdiff4",
            "vmin2",
            "vmin4",
            "vmax2",
            "vmax4",
            "vset2",
            "vset4",
        ],
        video_packed::resolve,
    ),
];

/// Whether an opcode is one of those resolved here, in whatever form.
pub fn exists(opcode: &str) -> bool {
    FAMILIES
        .iter()
        .any(|(opcodes, _)| opcodes.contains(&opcode))
}

fn resolve_form(form: &mut form::Form) -> Result<Alu, Unsupported> {
    let Some((_, family)) = FAMILIES
        .iter()
        .find(|(opcodes, _)| opcodes.contains(&form.opcode))
    else {
        return Err(form.unsupported("no such instruction"));
    };
    let alu = family(form)?;
    form.finish()?;
    Ok(alu)
}

/// The opcodes that integers, floats and packed types share.
fn arithmetic(form: &mut form::Form) -> Result<Alu, Unsupported> {
    use form::Type;
    let ty = form.first_type()?;
    if form.has("cc") || matches!(form.opcode, "addc" | "subc" | "madc") {
        return carry::resolve(form);
    }
    match ty {
        Type::F16 | Type::BF16 | Type::F16x2 | Type::BF16x2 | Type::F32 | Type::F64 => {
            match form.opcode {
                "min" | "max" => minmax::resolve(form),
                _ => floating::resolve(form),
            }
        }
        Type::F32x2 => Err(form.needs("sm_100")),
        Type::U16x2 | Type::S16x2 => packed::resolve(form),
        _ => integer::resolve(form),
    }
}
