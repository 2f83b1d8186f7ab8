//! Additions to maps' values, as programs write them: an atomic add whose old value nobody wants, or
//! `*value += amount` in three plain instructions.

use crate::instruction::{Alu, Atomic, Operation, Source};
use crate::verify::Verified;
use crate::verify::facts::AccessedMemory;
use crate::verify::liveness::Live;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addition {
    pub place: AccessedMemory,
    pub bytes: u8,
    pub base: u8,
    pub offset: i16,
    pub amount: Amount,
    /// Instructions it takes.
    pub length: usize,
}

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    Constant(u64),
    Register(u8),
    /// What is taken away.
    Minus(u8),
}

/// Instructions that are jumped to, by position.
pub fn targets(verified: &Verified<'_>) -> Vec<bool> {
    let code = &verified.program.instructions;
    let mut targets = vec![false; code.len()];
    for (at, instruction) in code.iter().enumerate() {
        if verified.facts.reached.get(at) == Some(&true)
            && let Some(target) = instruction.operation.target()
            && let Some(place) = targets.get_mut(target)
        {
            *place = true;
        }
    }
    targets
}

/// The addition that begins at an instruction, if one does.
pub fn addition(
    verified: &Verified<'_>,
    live: &[Live],
    targets: &[bool],
    at: usize,
) -> Option<Addition> {
    match verified.program.instructions.get(at)?.operation {
        Operation::Atomic {
            operator: Atomic::Add,
            fetch: false,
            bytes,
            base,
            offset,
            src,
        } => {
            let place = verified.facts.accesses.get(&at)?.place;
            let amount = match verified.facts.operands.get(&at).copied().flatten() {
                Some(value) => Amount::Constant(value),
                None => Amount::Register(src),
            };
            matches!(place, AccessedMemory::Value { .. }).then_some(Addition {
                place,
                bytes,
                base,
                offset,
                amount,
                length: 1,
            })
        }
        _ => plain(verified, live, targets, at),
    }
}

/// A load, a sum and a store to the same place.
fn plain(verified: &Verified<'_>, live: &[Live], targets: &[bool], at: usize) -> Option<Addition> {
    let code = &verified.program.instructions;
    let Operation::Load {
        dst,
        base,
        offset,
        bytes: bytes @ (4 | 8),
        signed: false,
    } = code.get(at)?.operation
    else {
        return None;
    };
    let Operation::Alu {
        operator,
        wide,
        dst: counted,
        src,
    } = code.get(at + 1)?.operation
    else {
        return None;
    };
    let amount = match (operator, src) {
        (Alu::Add, Source::Immediate(by)) => Amount::Constant(i64::from(by) as u64),
        (Alu::Sub, Source::Immediate(by)) => Amount::Constant(-i64::from(by) as u64),
        (Alu::Add, Source::Register(by)) if by != dst => Amount::Register(by),
        (Alu::Sub, Source::Register(by)) if by != dst => Amount::Minus(by),
        _ => return None,
    };
    let stored = Operation::Store {
        base,
        offset,
        bytes,
        value: Source::Register(dst),
    };
    let whole = wide || bytes == 4;
    if code.get(at + 2)?.operation != stored || counted != dst || base == dst || !whole {
        return None;
    }
    if targets.get(at + 1) != Some(&false) || targets.get(at + 2) != Some(&false) {
        return None;
    }
    let access = verified.facts.accesses.get(&at)?;
    // The sum must not be wanted afterwards; the verifier's live registers tell.
    let live_after = live.get(at + 3).copied().unwrap_or(Live::MAX);
    let is_value = matches!(access.place, AccessedMemory::Value { .. });
    (is_value && access.alignment >= bytes && live_after & 1 << dst == 0).then_some(Addition {
        place: access.place,
        bytes,
        base,
        offset,
        amount,
        length: 3,
    })
}
