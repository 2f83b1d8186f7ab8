//! Instruction operands.

use std::fmt::{Display, Formatter, Result};

use super::join;
use crate::ast::Operand;

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Operand::Name(name) => f.write_str(name),
            Operand::Int(value) => write!(f, "{value}"),
            Operand::Float32(bits) => write!(f, "0f{bits:08X}"),
            Operand::Float64(bits) => write!(f, "0d{bits:016X}"),
            Operand::Not(name) => write!(f, "!{name}"),
            Operand::Neg(operand) => write!(f, "-{operand}"),
            Operand::Sink => f.write_str("_"),
            Operand::Vector(parts) => enclosed(f, "{", parts, "}"),
            Operand::List(parts) => enclosed(f, "(", parts, ")"),
            Operand::Pair(first, second) => write!(f, "{first}|{second}"),
            // `+-8`, as nvcc writes it: ptxas takes no `-8` here.
            Operand::Address { base, offset: 0 } => write!(f, "[{base}]"),
            Operand::Address { base, offset } => write!(f, "[{base}+{offset}]"),
            Operand::Offset { base, offset } => write!(f, "{base}+{offset}"),
            Operand::Bracket(parts) => enclosed(f, "[", parts, "]"),
        }
    }
}

fn enclosed(f: &mut Formatter<'_>, open: &str, parts: &[Operand], close: &str) -> Result {
    f.write_str(open)?;
    join(f, parts, ", ")?;
    f.write_str(close)
}
