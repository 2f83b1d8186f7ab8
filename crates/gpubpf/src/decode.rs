//! Raw 8-byte slots → [`Instruction`]s.

use crate::instruction::{
    Alu, Atomic, BadInstruction, Callee, Condition, Instruction, Operation, Order, PSEUDO_MAP,
    PSEUDO_MAP_VALUE, Raw, Source, Undecodable, Wide,
};

/// Decodes a whole program. Calls of functions and constants of maps are resolved already: the former
/// by their relative distance, the latter by the map's index.
pub fn decode(raw: &[Raw]) -> Result<Vec<Instruction>, BadInstruction> {
    // Slot → position; the second half of a constant is no place to jump to.
    let mut position_of = vec![None; raw.len()];
    let mut count = 0;
    let mut slot = 0;
    while slot < raw.len() {
        position_of[slot] = Some(count);
        count += 1;
        slot += if raw[slot].is_wide() { 2 } else { 1 };
    }
    let decoder = Decoder { raw, position_of };
    let mut code = Vec::with_capacity(count);
    let mut slot = 0;
    while slot < raw.len() {
        let operation = decoder.operation(slot).map_err(|reason| BadInstruction {
            slot: slot as u32,
            reason,
        })?;
        code.push(Instruction {
            slot: slot as u32,
            operation,
        });
        slot += if raw[slot].is_wide() { 2 } else { 1 };
    }
    Ok(code)
}

struct Decoder<'a> {
    raw: &'a [Raw],
    position_of: Vec<Option<usize>>,
}

type Decoded<T = Operation> = Result<T, Undecodable>;

impl Decoder<'_> {
    fn operation(&self, slot: usize) -> Decoded {
        let raw = self.raw[slot];
        if raw.dst > 10 || raw.src > 10 {
            return Err(Undecodable::Register(raw.dst.max(raw.src)));
        }
        match raw.code & 7 {
            0 => self.constant(slot, raw),
            1 => load(raw),
            2 => store(raw, Source::Immediate(raw.immediate)),
            3 => match raw.code >> 5 {
                3 => store(raw, Source::Register(raw.src)),
                6 => atomic(raw),
                mode => Err(Undecodable::StoreMode(mode)),
            },
            4 => alu(raw, false),
            7 => alu(raw, true),
            5 => self.jump(slot, raw, true),
            _ => self.jump(slot, raw, false),
        }
    }

    fn constant(&self, slot: usize, raw: Raw) -> Decoded {
        if !raw.is_wide() {
            return Err(Undecodable::PacketAccess);
        }
        let high = self.raw.get(slot + 1).ok_or(Undecodable::CutConstant)?;
        if high.code != 0 || high.dst != 0 || high.src != 0 || high.offset != 0 {
            return Err(Undecodable::FullSecondHalf);
        }
        let value = match raw.src {
            0 => Wide::Number(
                u64::from(raw.immediate as u32) | u64::from(high.immediate as u32) << 32,
            ),
            PSEUDO_MAP => Wide::Map(raw.immediate as u32 as usize),
            PSEUDO_MAP_VALUE => Wide::MapValue {
                map: raw.immediate as u32 as usize,
                offset: high.immediate as u32,
            },
            3 => return Err(Undecodable::KernelVariable),
            4 => return Err(Undecodable::FunctionAddress),
            other => return Err(Undecodable::ConstantKind(other)),
        };
        writable(raw.dst)?;
        Ok(Operation::Constant {
            dst: raw.dst,
            value,
        })
    }

    fn target(&self, slot: usize, distance: i64) -> Decoded<usize> {
        let target = slot as i64 + 1 + distance;
        usize::try_from(target)
            .ok()
            .and_then(|target| self.position_of.get(target).copied().flatten())
            .ok_or(Undecodable::JumpTarget(target))
    }

    fn jump(&self, slot: usize, raw: Raw, wide: bool) -> Decoded {
        let operator = raw.code >> 4;
        let from_register = raw.code & 8 != 0;
        match (operator, wide) {
            (0, _) => {
                let distance = if wide {
                    i64::from(raw.offset)
                } else {
                    i64::from(raw.immediate)
                };
                let target = self.target(slot, distance)?;
                return Ok(Operation::Jump { target });
            }
            (8, true) => {
                return match raw.src {
                    _ if from_register => Err(Undecodable::RegisterCall),
                    0 => Ok(Operation::Call(Callee::Helper(raw.immediate as u32))),
                    1 => {
                        let target = self.target(slot, i64::from(raw.immediate))?;
                        Ok(Operation::Call(Callee::Function(target)))
                    }
                    2 => Err(Undecodable::KernelFunction),
                    other => Err(Undecodable::CallKind(other)),
                };
            }
            (9, true) => return Ok(Operation::Exit),
            (14, _) => return Err(Undecodable::MayGoto),
            _ => {}
        }
        let condition = match operator {
            1 => Condition::Equal,
            2 => Condition::Greater,
            3 => Condition::GreaterEqual,
            4 => Condition::Set,
            5 => Condition::NotEqual,
            6 => Condition::SignedGreater,
            7 => Condition::SignedGreaterEqual,
            10 => Condition::Less,
            11 => Condition::LessEqual,
            12 => Condition::SignedLess,
            13 => Condition::SignedLessEqual,
            _ => return Err(Undecodable::Jump(raw.code)),
        };
        Ok(Operation::Branch {
            condition,
            wide,
            dst: raw.dst,
            src: source(raw),
            target: self.target(slot, i64::from(raw.offset))?,
        })
    }
}

fn source(raw: Raw) -> Source {
    if raw.code & 8 != 0 {
        Source::Register(raw.src)
    } else {
        Source::Immediate(raw.immediate)
    }
}

fn writable(dst: u8) -> Decoded<()> {
    if dst == 10 {
        Err(Undecodable::FramePointer)
    } else {
        Ok(())
    }
}

fn size(code: u8) -> u8 {
    match code >> 3 & 3 {
        0 => 4,
        1 => 2,
        2 => 1,
        _ => 8,
    }
}

fn load(raw: Raw) -> Decoded {
    let bytes = size(raw.code);
    let signed = match raw.code >> 5 {
        3 => false,
        4 if bytes < 8 => true,
        mode => return Err(Undecodable::LoadMode(mode)),
    };
    writable(raw.dst)?;
    Ok(Operation::Load {
        dst: raw.dst,
        base: raw.src,
        offset: raw.offset,
        bytes,
        signed,
    })
}

fn store(raw: Raw, value: Source) -> Decoded {
    if raw.code >> 5 != 3 {
        return Err(Undecodable::StoreMode(raw.code >> 5));
    }
    Ok(Operation::Store {
        base: raw.dst,
        offset: raw.offset,
        bytes: size(raw.code),
        value,
    })
}

fn atomic(raw: Raw) -> Decoded {
    let bytes = size(raw.code);
    if bytes < 4 {
        return Err(Undecodable::AtomicSize(bytes));
    }
    let (operator, fetch) = match raw.immediate {
        0x00 => (Atomic::Add, false),
        0x40 => (Atomic::Or, false),
        0x50 => (Atomic::And, false),
        0xa0 => (Atomic::Xor, false),
        0x01 => (Atomic::Add, true),
        0x41 => (Atomic::Or, true),
        0x51 => (Atomic::And, true),
        0xa1 => (Atomic::Xor, true),
        0xe1 => (Atomic::Exchange, true),
        0xf1 => (Atomic::CompareExchange, true),
        other => return Err(Undecodable::Atomic(other)),
    };
    if fetch && operator != Atomic::CompareExchange {
        writable(raw.src)?;
    }
    Ok(Operation::Atomic {
        operator,
        fetch,
        bytes,
        base: raw.dst,
        offset: raw.offset,
        src: raw.src,
    })
}

fn alu(raw: Raw, wide: bool) -> Decoded {
    writable(raw.dst)?;
    let dst = raw.dst;
    let src = source(raw);
    let width = if wide { 64 } else { 32 };
    let operator = match (raw.code >> 4, raw.offset) {
        (8, 0) => return Ok(Operation::Negate { wide, dst }),
        (13, 0) => return swap(raw, wide),
        (0, 0) => Alu::Add,
        (1, 0) => Alu::Sub,
        (2, 0) => Alu::Mul,
        (3, 0) => Alu::Div,
        (3, 1) => Alu::SignedDiv,
        (4, 0) => Alu::Or,
        (5, 0) => Alu::And,
        (6, 0) => Alu::ShiftLeft,
        (7, 0) => Alu::ShiftRight,
        (9, 0) => Alu::Mod,
        (9, 1) => Alu::SignedMod,
        (10, 0) => Alu::Xor,
        (11, 0) => Alu::Move,
        (11, bits @ (8 | 16 | 32)) if bits < width => {
            let Source::Register(src) = src else {
                return Err(Undecodable::SignedConstant);
            };
            let bits = bits as u8;
            return Ok(Operation::MoveSigned {
                wide,
                bits,
                dst,
                src,
            });
        }
        (11, 1) => return Err(Undecodable::AddressSpace),
        (12, 0) => Alu::ShiftRightSigned,
        (operator, offset) => {
            return Err(Undecodable::Arithmetic { operator, offset });
        }
    };
    if let Source::Immediate(value) = src {
        match operator {
            Alu::Div | Alu::SignedDiv | Alu::Mod | Alu::SignedMod if value == 0 => {
                return Err(Undecodable::DivisionByZero);
            }
            Alu::ShiftLeft | Alu::ShiftRight | Alu::ShiftRightSigned
                if !(0..i32::from(width)).contains(&value) =>
            {
                return Err(Undecodable::Shift { width, by: value });
            }
            _ => {}
        }
    }
    Ok(Operation::Alu {
        operator,
        wide,
        dst,
        src,
    })
}

fn swap(raw: Raw, wide: bool) -> Decoded {
    let order = match (wide, raw.code & 8 != 0) {
        (true, false) => Order::Always,
        (true, true) => return Err(Undecodable::Swap),
        (false, false) => Order::ToLittle,
        (false, true) => Order::ToBig,
    };
    let bits = match raw.immediate {
        16 => 16,
        32 => 32,
        64 => 64,
        other => return Err(Undecodable::SwapWidth(other)),
    };
    Ok(Operation::Swap {
        order,
        bits,
        dst: raw.dst,
    })
}
