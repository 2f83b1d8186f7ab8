//! atom and red.

use ptx::ast::{Instruction, Type};

use super::super::code::{Atomic, AtomicOp, AtomicType, NONE, Op, Space};
use super::super::layout;
use super::memory::is_hint;
use super::operand::{kind_of, parse_type};
use super::{Decoded, Decoder, full_name, operand_at, unsupported};

impl Decoder<'_> {
    pub fn atomic(&mut self, inst: &Instruction) -> Decoded {
        let is_red = inst.opcode == "red";
        let mut space: Option<Space> = None;
        let mut op = None;
        let mut ty = None;
        let mut vector = 1;
        for word in &inst.modifiers {
            if let Some(found) = self.space_word(word) {
                space = Some(found);
                continue;
            }
            if let Some(found) = parse_type(word) {
                ty = Some(found);
                continue;
            }
            op = Some(match word.as_str() {
                "add" => AtomicOp::Add,
                "exch" => AtomicOp::Exchange,
                "cas" => AtomicOp::CompareSwap,
                "min" => AtomicOp::Min,
                "max" => AtomicOp::Max,
                "and" => AtomicOp::And,
                "or" => AtomicOp::Or,
                "xor" => AtomicOp::Xor,
                "inc" => AtomicOp::Inc,
                "dec" => AtomicOp::Dec,
                "v2" => {
                    vector = 2;
                    continue;
                }
                "v4" => {
                    vector = 4;
                    continue;
                }
                "v8" => {
                    vector = 8;
                    continue;
                }
                "relaxed" | "acquire" | "volatile" => continue,
                _ if is_hint(word) => continue,
                other => return unsupported(inst, other),
            });
        }
        let (Some(op), Some(ty)) = (op, ty) else {
            return unsupported(inst, "no operation or type");
        };
        let form = Form {
            is_red,
            noftz: inst.modifiers.iter().any(|word| word == "noftz"),
            space,
        };
        let Some(class) = class(ty).filter(|_| exists(op, ty, vector, form)) else {
            return unsupported(inst, "this operation on this type");
        };
        let constant = inst.modifiers.iter().any(|word| word == "const");
        if constant || matches!(space, Some(Space::Local | Space::Param)) {
            return unsupported(inst, "this state space");
        }
        // With a destination, everything stands one further.
        let base = usize::from(!is_red);
        let wanted = base + 2 + usize::from(op == AtomicOp::CompareSwap);
        if inst.operands.len() < wanted {
            return self.error(format!("{} lacks operands", full_name(inst)));
        }
        let bits = layout::type_bits(ty);
        let mut dst = Vec::new();
        let mut values = Vec::new();
        let mut swap = Vec::new();
        if ty == Type::B128 {
            if !is_red && *operand_at(inst, 0) != ptx::ast::Operand::Sink {
                let low = self.wide(operand_at(inst, 0))?;
                dst.extend([low, low + 1]);
            } else {
                dst.extend([NONE, NONE]);
            }
            let low = self.wide(operand_at(inst, base + 1))?;
            values.extend([low, low + 1]);
            if op == AtomicOp::CompareSwap {
                let low = self.wide(operand_at(inst, base + 2))?;
                swap.extend([low, low + 1]);
            }
        } else {
            for element in self.elements(operand_at(inst, base + 1)) {
                values.push(self.source(&element, kind_of(ty))?);
            }
            if is_red {
                dst.resize(values.len(), NONE);
            } else {
                for element in self.elements(operand_at(inst, 0)) {
                    dst.push(self.destination(&element, bits)?);
                }
                // `_` alone discards a whole vector.
                if dst == [NONE] {
                    dst.resize(values.len(), NONE);
                }
            }
            if op == AtomicOp::CompareSwap {
                swap.push(self.source(operand_at(inst, base + 2), kind_of(ty))?);
            }
            if values.len() != vector || dst.len() != vector {
                return self.error(format!("{} takes {vector} values", full_name(inst)));
            }
        }
        let bytes = layout::type_bytes(ty).min(8) as u8;
        let mut access = self.place_only(inst, base, space, bytes)?;
        if matches!(access.space, Space::Frame | Space::Param) {
            return unsupported(inst, "this state space");
        }
        access.regs = self.list(&dst);
        // Locks are taken by cas and exch; adding nothing is a way to read.
        let zero = self.bits(0);
        access.polls = match op {
            AtomicOp::CompareSwap | AtomicOp::Exchange => true,
            AtomicOp::Add | AtomicOp::Or => values == [zero],
            _ => false,
        };
        let atomic = Atomic {
            op,
            ty: class,
            access,
            values: self.list(&values),
            swap: self.list(&swap),
        };
        self.simple(Op::Atomic(Box::new(atomic)))
    }
}

/// How the type is computed with.
fn class(ty: Type) -> Option<AtomicType> {
    Some(match ty {
        Type::B16 | Type::B32 | Type::B64 | Type::B128 | Type::U32 | Type::U64 => {
            AtomicType::Unsigned
        }
        Type::S32 | Type::S64 => AtomicType::Signed,
        Type::F16 => AtomicType::F16,
        Type::F16x2 => AtomicType::F16x2,
        Type::BF16 => AtomicType::BF16,
        Type::BF16x2 => AtomicType::BF16x2,
        Type::F32 => AtomicType::F32,
        Type::F64 => AtomicType::F64,
        _ => return None,
    })
}

/// Whether the operation exists on so many of a type: what ptxas takes for sm_90, and what the
/// conformance sets hold an answer to. Vectors are for memory outside the block only.
fn exists(op: AtomicOp, ty: Type, vector: usize, form: Form) -> bool {
    use AtomicOp as O;
    let half = matches!(ty, Type::F16 | Type::BF16 | Type::F16x2 | Type::BF16x2);
    if form.noftz != half {
        return false;
    }
    let room = vector * layout::type_bits(ty) as usize <= 128;
    let outside = form.space != Some(Space::Shared);
    match (op, vector) {
        (O::Add, 1) => {
            half || matches!(
                ty,
                Type::U32 | Type::S32 | Type::U64 | Type::F32 | Type::F64
            )
        }
        (O::Min | O::Max, 1) => matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::S64),
        (O::And | O::Or | O::Xor, 1) => matches!(ty, Type::B32 | Type::B64),
        (O::Inc | O::Dec, 1) => ty == Type::U32,
        (O::Exchange, 1) => !form.is_red && matches!(ty, Type::B32 | Type::B64 | Type::B128),
        (O::CompareSwap, 1) => {
            !form.is_red && matches!(ty, Type::B16 | Type::B32 | Type::B64 | Type::B128)
        }
        (O::Add, _) => (half || ty == Type::F32) && outside && room,
        (O::Min | O::Max, _) => half && outside && room,
        _ => false,
    }
}

/// What else decides whether an atomic exists.
#[derive(Clone, Copy)]
struct Form {
    is_red: bool,
    noftz: bool,
    space: Option<Space>,
}
