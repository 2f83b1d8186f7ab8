//! mov in all its forms, and conversions between address spaces.

use ptx::ast::{Instruction, Operand, Type};

use super::super::code::{NONE, Op, Reg, Window};
use super::super::layout;
use super::super::names::Meaning;
use super::operand::{kind_of, parse_type};
use super::{Decoded, Decoder, first, full_name, operand_at, unsupported};
use crate::alu::Kind;

impl Decoder<'_> {
    pub fn mov(&mut self, inst: &Instruction) -> Decoded {
        let ty = inst.modifiers.iter().find_map(|word| parse_type(word));
        let Some(ty) = ty else {
            return unsupported(inst, "no known type");
        };
        let (to, from) = (first(inst), operand_at(inst, 1));
        if inst.operands.len() != 2 {
            return self.error(format!("{} takes two operands", full_name(inst)));
        }
        if let Some(elements) = self.vector(from) {
            return self.pack(to, &elements, ty);
        }
        if let Some(elements) = self.vector(to) {
            return self.unpack(&elements, from, ty);
        }
        if ty == Type::B128 {
            let (to, from) = (self.wide(to)?, self.wide(from)?);
            for half in 0..2 {
                self.emit(Op::Move {
                    dst: to + half,
                    src: from + half,
                });
            }
            return Ok(());
        }
        let bits = layout::type_bits(ty);
        // Addresses of 32-bit windows may be moved by either width.
        let src = self.source(from, kind_of(ty))?;
        let dst = self.destination(to, bits)?;
        if dst != NONE {
            self.emit(Op::Move { dst, src });
        }
        Ok(())
    }

    /// `{a, b}` or a vector register, as its elements.
    fn vector(&mut self, operand: &Operand) -> Option<Vec<Operand>> {
        match operand {
            Operand::Vector(elements) => Some(elements.clone()),
            Operand::Name(name) => match self.names.find(name) {
                Some(Meaning::Vector(elements)) => Some(
                    ["x", "y", "z", "w"]
                        .iter()
                        .take(elements.len())
                        .map(|member| Operand::Name(format!("{name}.{member}")))
                        .collect(),
                ),
                _ => None,
            },
            _ => None,
        }
    }

    /// The registers of `{…}`, a vector register or one register, as `ld` and `st` name them.
    pub fn elements(&mut self, operand: &Operand) -> Vec<Operand> {
        match self.vector(operand) {
            Some(elements) => elements,
            None => vec![operand.clone()],
        }
    }

    /// The low slot of a 128-bit register.
    pub fn wide(&mut self, operand: &Operand) -> Decoded<Reg> {
        match operand {
            Operand::Name(name) => {
                let register = self.register_named(name)?;
                if register.ty == Type::B128 {
                    return Ok(register.reg);
                }
                self.error(format!("{name} is not a 128-bit register"))
            }
            _ => self.error("a 128-bit register is expected"),
        }
    }

    fn pack(&mut self, to: &Operand, elements: &[Operand], ty: Type) -> Decoded {
        if let Some(targets) = self.vector(to) {
            // mov.v2.b32 {a, b}, {c, d}: element by element, through temporaries for swaps.
            if targets.len() != elements.len() {
                return self.error("vectors of different length");
            }
            let mut moved = Vec::new();
            for element in elements {
                let src = self.source(element, kind_of(ty))?;
                let dst = self.names.temporary();
                self.emit(Op::Move { dst, src });
                moved.push(dst);
            }
            for (target, src) in targets.iter().zip(moved) {
                let dst = self.destination(target, layout::type_bits(ty))?;
                if dst != NONE {
                    self.emit(Op::Move { dst, src });
                }
            }
            return Ok(());
        }
        let whole = layout::type_bits(ty);
        let bits = self.part_bits(whole, elements.len())?;
        let mut parts = Vec::new();
        for element in elements {
            let kind = Kind::Int {
                bits: bits as u8,
                signed: false,
            };
            parts.push(self.source(element, kind)?);
        }
        if ty == Type::B128 {
            let dst = self.wide(to)?;
            let half = parts.len() / 2;
            for (index, chunk) in parts.chunks(half.max(1)).enumerate() {
                let parts = self.list(chunk);
                self.emit(Op::Pack {
                    dst: dst + index as u32,
                    bits: bits as u8,
                    parts,
                });
            }
            return Ok(());
        }
        let dst = self.destination(to, whole)?;
        let parts = self.list(&parts);
        if dst != NONE {
            self.emit(Op::Pack {
                dst,
                bits: bits as u8,
                parts,
            });
        }
        Ok(())
    }

    fn unpack(&mut self, elements: &[Operand], from: &Operand, ty: Type) -> Decoded {
        let whole = layout::type_bits(ty);
        let bits = self.part_bits(whole, elements.len())?;
        let mut parts = Vec::new();
        for element in elements {
            parts.push(self.destination(element, bits)?);
        }
        if ty == Type::B128 {
            let src = self.wide(from)?;
            let half = parts.len() / 2;
            for (index, chunk) in parts.chunks(half.max(1)).enumerate() {
                let parts = self.list(chunk);
                self.emit(Op::Unpack {
                    src: src + index as u32,
                    bits: bits as u8,
                    parts,
                });
            }
            return Ok(());
        }
        let src = self.source(from, kind_of(ty))?;
        let parts = self.list(&parts);
        self.emit(Op::Unpack {
            src,
            bits: bits as u8,
            parts,
        });
        Ok(())
    }

    fn part_bits(&self, whole: u32, count: usize) -> Decoded<u32> {
        match (whole, count) {
            (16 | 32 | 64 | 128, 2 | 4) if whole / count as u32 >= 8 => Ok(whole / count as u32),
            _ => self.error(format!("{whole} bits do not split in {count} parts")),
        }
    }

    pub fn cvta(&mut self, inst: &Instruction) -> Decoded {
        let mut to_space = false;
        let mut window = None;
        let mut bits = 64;
        for word in &inst.modifiers {
            match word.as_str() {
                "to" => to_space = true,
                "u32" => bits = 32,
                "u64" => bits = 64,
                other => match parse_window(other) {
                    Some(found) => window = Some(found),
                    None => return unsupported(inst, other),
                },
            }
        }
        let Some(mut window) = window else {
            return unsupported(inst, "no state space");
        };
        // Parameters of device functions live in local memory.
        if window == Window::Param && !self.is_entry {
            window = Window::Local;
        }
        if bits == 32 {
            return unsupported(inst, "32-bit generic addresses");
        }
        let kind = Kind::Int {
            bits: 64,
            signed: false,
        };
        let src = self.source(operand_at(inst, 1), kind)?;
        let dst = self.destination(first(inst), bits)?;
        let start = window.start();
        let value = if to_space {
            start.wrapping_neg()
        } else {
            start
        };
        if value == 0 {
            self.simple(Op::Move { dst, src })
        } else {
            self.simple(Op::Shift { dst, src, value })
        }
    }

    pub fn isspacep(&mut self, inst: &Instruction) -> Decoded {
        let Some(window) = inst.modifiers.first().and_then(|word| parse_window(word)) else {
            return unsupported(inst, "state space");
        };
        let kind = Kind::Int {
            bits: 64,
            signed: false,
        };
        let src = self.source(operand_at(inst, 1), kind)?;
        let dst = self.destination(first(inst), 1)?;
        self.simple(Op::IsSpace { dst, src, window })
    }

    pub fn mapa(&mut self, inst: &Instruction) -> Decoded {
        let (generic, bits) = shared_form(inst)?;
        let kind = |bits| Kind::Int {
            bits,
            signed: false,
        };
        let src = self.source(operand_at(inst, 1), kind(bits as u8))?;
        let rank = self.source(operand_at(inst, 2), kind(32))?;
        let dst = self.destination(first(inst), bits)?;
        self.simple(Op::MapShared {
            dst,
            src,
            rank,
            generic,
        })
    }

    pub fn getctarank(&mut self, inst: &Instruction) -> Decoded {
        let (generic, bits) = shared_form(inst)?;
        let kind = Kind::Int {
            bits: bits as u8,
            signed: false,
        };
        let src = self.source(operand_at(inst, 1), kind)?;
        let dst = self.destination(first(inst), 32)?;
        self.simple(Op::ClusterRank { dst, src, generic })
    }
}

/// `.shared::cluster` or generic, and the address width.
fn shared_form(inst: &Instruction) -> Decoded<(bool, u32)> {
    let mut generic = true;
    let mut bits = 64;
    for word in &inst.modifiers {
        match word.as_str() {
            "shared::cluster" => generic = false,
            "u32" => bits = 32,
            "u64" => bits = 64,
            other => return unsupported(inst, other),
        }
    }
    Ok((generic, bits))
}

fn parse_window(word: &str) -> Option<Window> {
    Some(match word {
        "global" => Window::Global,
        "const" => Window::Const,
        "shared" | "shared::cta" | "shared::cluster" => Window::Shared,
        "local" => Window::Local,
        "param" | "param::entry" => Window::Param,
        _ => return None,
    })
}
