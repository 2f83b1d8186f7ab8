//! Which registers may still be read, before each instruction.

use super::backwards;
use crate::helper;
use crate::instruction::{Atomic, Callee, Instruction, Operation, Source};

/// A bit for each register.
pub type Live = u16;

const ARGUMENTS: Live = 0b11_1110;

/// By position, over all functions of a program.
pub fn registers(code: &[Instruction]) -> Vec<Live> {
    backwards::solve(code, |at, after| {
        let operation = &code[at].operation;
        after & !written(operation) | read(operation)
    })
}

fn bit(source: Source) -> Live {
    match source {
        Source::Register(register) => 1 << register,
        Source::Immediate(_) => 0,
    }
}

pub fn read(operation: &Operation) -> Live {
    use crate::instruction::Alu;
    match *operation {
        Operation::Alu {
            operator: Alu::Move,
            src,
            ..
        } => bit(src),
        Operation::Alu { dst, src, .. } | Operation::Branch { dst, src, .. } => 1 << dst | bit(src),
        Operation::MoveSigned { src, .. } => 1 << src,
        Operation::Negate { dst, .. } | Operation::Swap { dst, .. } => 1 << dst,
        Operation::Constant { .. } | Operation::Jump { .. } => 0,
        Operation::Load { base, .. } => 1 << base,
        Operation::Store { base, value, .. } => 1 << base | bit(value),
        Operation::Atomic {
            operator,
            base,
            src,
            ..
        } => 1 << base | 1 << src | Live::from(operator == Atomic::CompareExchange),
        Operation::Call(Callee::Helper(number)) => {
            let count = helper::find(number).map_or(5, |helper| helper.arguments.len());
            ARGUMENTS & ((2 << count) - 1)
        }
        Operation::Call(Callee::Function(_)) => ARGUMENTS,
        Operation::Exit => 1,
    }
}

fn written(operation: &Operation) -> Live {
    match operation {
        Operation::Call(_) => 1 | ARGUMENTS,
        other => other.destination().map_or(0, |register| 1 << register),
    }
}
