//! Instructions as text, much as llvm-objdump writes them.

use std::fmt;

use crate::helper;
use crate::instruction::{
    Alu, Atomic, Callee, Condition, Instruction, Operation, Order, Source, Wide,
};

/// An instruction of a program as text, its targets as instruction numbers.
pub fn disassemble(code: &[Instruction], at: usize) -> String {
    let slot = |target: usize| code.get(target).map_or(0, |to| to.slot as usize);
    let Some(instruction) = code.get(at) else {
        return String::new();
    };
    let mut operation = instruction.operation;
    match &mut operation {
        Operation::Jump { target }
        | Operation::Branch { target, .. }
        | Operation::Call(Callee::Function(target)) => *target = slot(*target),
        _ => {}
    }
    operation.to_string()
}

/// `r1` or `w1`.
fn register(register: u8, wide: bool) -> String {
    format!("{}{register}", if wide { 'r' } else { 'w' })
}

fn source(source: Source, wide: bool) -> String {
    match source {
        Source::Register(number) => register(number, wide),
        Source::Immediate(value) => value.to_string(),
    }
}

fn place(base: u8, offset: i16, bytes: u8, signed: bool) -> String {
    let sign = if signed { 's' } else { 'u' };
    let bits = u32::from(bytes) * 8;
    let (direction, distance) = if offset < 0 {
        ('-', -i32::from(offset))
    } else {
        ('+', i32::from(offset))
    };
    format!("*({sign}{bits} *)(r{base} {direction} {distance})")
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Operation::Alu {
                operator,
                wide,
                dst,
                src,
            } => {
                let sign = match operator {
                    Alu::Add => "+=",
                    Alu::Sub => "-=",
                    Alu::Mul => "*=",
                    Alu::Div => "/=",
                    Alu::SignedDiv => "s/=",
                    Alu::Mod => "%=",
                    Alu::SignedMod => "s%=",
                    Alu::Or => "|=",
                    Alu::And => "&=",
                    Alu::Xor => "^=",
                    Alu::ShiftLeft => "<<=",
                    Alu::ShiftRight => ">>=",
                    Alu::ShiftRightSigned => "s>>=",
                    Alu::Move => "=",
                };
                write!(f, "{} {sign} {}", register(dst, wide), source(src, wide))
            }
            Operation::MoveSigned {
                wide,
                bits,
                dst,
                src,
            } => {
                let to = register(dst, wide);
                write!(f, "{to} = (s{bits}){}", register(src, wide))
            }
            Operation::Negate { wide, dst } => {
                let name = register(dst, wide);
                write!(f, "{name} = -{name}")
            }
            Operation::Swap { order, bits, dst } => {
                let name = match order {
                    Order::ToLittle => "le",
                    Order::ToBig => "be",
                    Order::Always => "bswap",
                };
                write!(f, "r{dst} = {name}{bits} r{dst}")
            }
            Operation::Constant { dst, value } => match value {
                Wide::Number(value) => write!(f, "r{dst} = {value:#x} ll"),
                Wide::Map(map) => write!(f, "r{dst} = map {map} ll"),
                Wide::MapValue { map, offset } => {
                    write!(f, "r{dst} = value of map {map} + {offset} ll")
                }
            },
            Operation::Load {
                dst,
                base,
                offset,
                bytes,
                signed,
            } => write!(f, "r{dst} = {}", place(base, offset, bytes, signed)),
            Operation::Store {
                base,
                offset,
                bytes,
                value,
            } => {
                let to = place(base, offset, bytes, false);
                write!(f, "{to} = {}", source(value, true))
            }
            Operation::Atomic {
                operator,
                fetch,
                bytes,
                base,
                offset,
                src,
            } => {
                let to = place(base, offset, bytes, false);
                let name = match operator {
                    Atomic::Add => "+=",
                    Atomic::Or => "|=",
                    Atomic::And => "&=",
                    Atomic::Xor => "^=",
                    Atomic::Exchange => {
                        return write!(f, "r{src} = xchg({to}, r{src})");
                    }
                    Atomic::CompareExchange => {
                        return write!(f, "r0 = cmpxchg({to}, r0, r{src})");
                    }
                };
                if fetch {
                    write!(f, "r{src} = fetch({to} {name} r{src})")
                } else {
                    write!(f, "lock {to} {name} r{src}")
                }
            }
            Operation::Jump { target } => write!(f, "goto {target}"),
            Operation::Branch {
                condition,
                wide,
                dst,
                src,
                target,
            } => {
                let sign = match condition {
                    Condition::Equal => "==",
                    Condition::NotEqual => "!=",
                    Condition::Greater => ">",
                    Condition::GreaterEqual => ">=",
                    Condition::Less => "<",
                    Condition::LessEqual => "<=",
                    Condition::SignedGreater => "s>",
                    Condition::SignedGreaterEqual => "s>=",
                    Condition::SignedLess => "s<",
                    Condition::SignedLessEqual => "s<=",
                    Condition::Set => "&",
                };
                let left = register(dst, wide);
                write!(f, "if {left} {sign} {} goto {target}", source(src, wide))
            }
            Operation::Call(Callee::Helper(number)) => match helper::find(number) {
                Some(helper) => write!(f, "call {number} ({})", helper.name),
                None => write!(f, "call {number}"),
            },
            Operation::Call(Callee::Function(target)) => write!(f, "call {target} (a function)"),
            Operation::Exit => write!(f, "exit"),
        }
    }
}
