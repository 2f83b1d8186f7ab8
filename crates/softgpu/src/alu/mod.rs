//! The arithmetic of PTX: every instruction that computes registers from registers, as pure
//! functions over whole warps. No control flow, no memory, no special registers here.

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
    /// Two 32-bit floats in 64 bits.
    F32x2,
}

/// Computes all 32 lanes; the caller keeps only active ones. Must not panic for any bits.
/// `out[0]` is the destination, `out[1]` a second one (setp's `p|q`, the carry of `add.cc`).
pub type Eval = fn(out: &mut [Lanes; 2], src: [&Lanes; 4]);

/// A resolved arithmetic instruction.
#[derive(Clone, Copy)]
pub struct Alu {
    pub dst: Kind,
    /// Second destination, if the instruction writes one.
    pub dst2: Option<Kind>,
    /// Register sources in the order of PTX operands; unused slots beyond `src.len()` get zeros.
    pub src: &'static [Kind],
    /// Reads the carry flag (addc, subc, madc): passed as the source after the last of `src`.
    pub carry_in: bool,
    /// Writes the carry flag (add.cc …): comes out in `out[1]`.
    pub carry_out: bool,
    pub eval: Eval,
}
