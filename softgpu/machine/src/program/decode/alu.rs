//! Register-to-register instructions, as [`crate::alu`] resolves them.

use ptx::ast::{Instruction, Operand, Type};

use super::super::code::{NONE, Op};
use super::super::layout;
use super::unknown::refusal;
use super::{Decoded, Decoder, full_name};
use crate::alu::{self, Kind};

impl Decoder<'_> {
    pub fn arithmetic(&mut self, inst: &Instruction) -> Decoded {
        let resolved = match alu::resolve(&inst.opcode, &inst.modifiers) {
            Ok(resolved) => resolved,
            Err(why) => {
                return self.error(match alu::exists(&inst.opcode) {
                    true => format!("softgpu does not implement {}: {why}", full_name(inst)),
                    false => refusal(inst),
                });
            }
        };
        let Some((destination, sources)) = inst.operands.split_first() else {
            return self.error(format!("{} has no operands", full_name(inst)));
        };
        if sources.len() != resolved.src.len() {
            return self.error(format!(
                "{} takes {} sources, not {}",
                full_name(inst),
                resolved.src.len(),
                sources.len()
            ));
        }
        // Unused sources read zero.
        let mut src = [self.bits(0); 4];
        for ((slot, operand), &kind) in src.iter_mut().zip(sources).zip(resolved.src) {
            *slot = self.source(operand, kind)?;
        }
        if resolved.carry_in {
            let carry = self.carry_flag();
            match src.get_mut(sources.len()) {
                Some(slot) => *slot = carry,
                None => return self.error(format!("{} has too many sources", full_name(inst))),
            }
        }
        let (destination, second) = match destination {
            Operand::Pair(first, second) => (first.as_ref(), Some(second.as_ref())),
            single => (single, None),
        };
        let register = self.destination_register(destination, resolved.dst.bits())?;
        let dst2 = match (second, resolved.dst2) {
            (Some(second), Some(kind)) => self.destination(second, kind.bits())?,
            (Some(_), None) => {
                return self.error(format!("{} has one destination", full_name(inst)));
            }
            (None, _) if resolved.carry_out => self.carry_flag(),
            (None, _) => NONE,
        };
        self.emit(Op::Alu {
            eval: resolved.eval,
            dst: register.reg,
            dst2,
            src,
        });
        self.widen(resolved.dst, register.reg, register.ty);
        Ok(())
    }

    /// A signed result in a wider register is sign-extended.
    fn widen(&mut self, kind: Kind, dst: u32, ty: Type) {
        if let Kind::Int { bits, signed: true } = kind {
            let width = layout::type_bits(ty);
            if u32::from(bits) < width && dst != NONE {
                self.emit(Op::SignExtend {
                    dst,
                    from: bits,
                    to: width.min(64) as u8,
                });
            }
        }
    }

    /// CC.CF is one more register of the frame.
    fn carry_flag(&mut self) -> u32 {
        if self.carry == NONE {
            self.carry = self.names.temporary();
        }
        self.carry
    }
}
