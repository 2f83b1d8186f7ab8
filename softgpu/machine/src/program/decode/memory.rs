//! ld, st, cp.async and what else names memory without computing.

use ptx::ast::{Instruction, Type};

use super::super::code::{Access, AsyncCopy, NONE, Op, Reg, Space};
use super::super::layout;
use super::operand::{is_signed, kind_of, parse_type};
use super::{Decoded, Decoder, first, full_name, operand_at, unsupported};
use crate::alu::Kind;

/// The modifiers of an access.
pub struct Form {
    pub space: Option<Space>,
    pub ty: Option<Type>,
    pub vector: usize,
    pub polls: bool,
}

impl Decoder<'_> {
    /// The state space a modifier names.
    pub fn space_word(&self, word: &str) -> Option<Space> {
        Some(match word {
            "global" | "const" => Space::Global,
            "shared" | "shared::cta" | "shared::cluster" => Space::Shared,
            "local" => Space::Local,
            "param::entry" => Space::Param,
            // A register that holds a parameter's address: in a kernel its own parameters, in a
            // function bytes of its frame.
            "param" if self.is_entry => Space::Param,
            "param" | "param::func" => Space::Local,
            _ => return None,
        })
    }

    fn form(&self, inst: &Instruction) -> Decoded<Form> {
        let mut form = Form {
            space: None,
            ty: None,
            vector: 1,
            polls: false,
        };
        for word in &inst.modifiers {
            if let Some(space) = self.space_word(word) {
                form.space = Some(space);
                continue;
            }
            if let Some(ty) = parse_type(word) {
                form.ty = Some(ty);
                continue;
            }
            match word.as_str() {
                "v2" => form.vector = 2,
                "v4" => form.vector = 4,
                "v8" => form.vector = 8,
                "volatile" | "acquire" | "relaxed" | "mmio" | "cv" => form.polls = true,
                _ if is_hint(word) => {}
                other => return unsupported(inst, other),
            }
        }
        Ok(form)
    }

    fn element_type(&self, inst: &Instruction, form: &Form) -> Decoded<Type> {
        let Some(ty) = form.ty else {
            return unsupported(inst, "no known type");
        };
        // Small floats move as the bits they are.
        if !matches!(kind_of(ty), Kind::Int { .. } | Kind::F32 | Kind::F64) || ty == Type::F32x2 {
            return unsupported(inst, "this type");
        }
        let bits = form.vector * layout::type_bits(ty) as usize;
        match (form.vector, bits) {
            (1 | 2 | 4, ..=128) => Ok(ty),
            (4 | 8, 256) => unsupported(inst, "needs sm_100, and softgpu is an sm_90 device"),
            _ => unsupported(inst, "more than 128 bits, or eight parts"),
        }
    }

    pub fn load(&mut self, inst: &Instruction) -> Decoded {
        let form = self.form(inst)?;
        let global = inst.modifiers.iter().any(|word| word == "global");
        if inst.opcode == "ldu" && !(global || form.space.is_none()) {
            return unsupported(inst, "this state space");
        }
        let ty = self.element_type(inst, &form)?;
        let elements = self.elements(first(inst));
        if elements.len() != form.vector {
            return self.error(format!("{} loads {} values", full_name(inst), form.vector));
        }
        let bits = layout::type_bits(ty);
        let mut regs: Vec<Reg> = Vec::new();
        let mut extend = 0;
        for element in &elements {
            if ty == Type::B128 {
                let low = self.wide(element)?;
                regs.extend([low, low + 1]);
                continue;
            }
            let register = self.destination_register(element, bits)?;
            let width = layout::type_bits(register.ty).min(64);
            if is_signed(ty) && width > bits {
                extend = width as u8;
            }
            regs.push(register.reg);
        }
        let access = self.access(inst, 1, &form, ty, extend, &regs)?;
        self.simple(Op::Load(access))
    }

    pub fn store(&mut self, inst: &Instruction) -> Decoded {
        if inst.modifiers.iter().any(|word| word == "async") {
            return unsupported(inst, "async");
        }
        if inst.modifiers.iter().any(|word| word == "const") {
            return unsupported(inst, "constants are not written");
        }
        let form = self.form(inst)?;
        let ty = self.element_type(inst, &form)?;
        let elements = self.elements(operand_at(inst, 1));
        if elements.len() != form.vector {
            return self.error(format!("{} stores {} values", full_name(inst), form.vector));
        }
        let mut regs = Vec::new();
        for element in &elements {
            if ty == Type::B128 {
                let low = self.wide(element)?;
                regs.extend([low, low + 1]);
            } else {
                regs.push(self.source(element, kind_of(ty))?);
            }
        }
        let access = self.access(inst, 0, &form, ty, 0, &regs)?;
        if access.space == Space::Param {
            return self.error("a kernel cannot store to its parameters");
        }
        self.simple(Op::Store(access))
    }

    fn access(
        &mut self,
        inst: &Instruction,
        at: usize,
        form: &Form,
        ty: Type,
        extend: u8,
        regs: &[Reg],
    ) -> Decoded<Access> {
        let address = self.address(operand_at(inst, at), form.space)?;
        Ok(Access {
            space: address.space,
            bytes: layout::type_bytes(ty).min(8) as u8,
            extend,
            narrow: address.narrow,
            polls: form.polls,
            base: address.base,
            offset: address.offset,
            regs: self.list(regs),
        })
    }

    /// An address alone, for `bytes` at a time.
    pub fn place_only(
        &mut self,
        inst: &Instruction,
        at: usize,
        space: Option<Space>,
        bytes: u8,
    ) -> Decoded<Access> {
        let address = self.address(operand_at(inst, at), space)?;
        Ok(Access {
            space: address.space,
            bytes,
            extend: 0,
            narrow: address.narrow,
            polls: false,
            base: address.base,
            offset: address.offset,
            regs: self.list(&[]),
        })
    }

    /// cp.async: the copy is done at once, so that waiting for it is never needed.
    pub fn copy(&mut self, inst: &Instruction) -> Decoded {
        let words: Vec<&str> = inst.modifiers.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["async", "commit_group" | "wait_group" | "wait_all"] => return Ok(()),
            ["async", "mbarrier", "arrive", rest @ ..] => return self.copy_arrive(inst, rest),
            ["async", "bulk", rest @ ..] => return self.bulk_copy(inst, rest),
            ["async", rest @ ..]
                if rest.iter().all(|word| {
                    matches!(*word, "ca" | "cg" | "shared" | "shared::cta" | "global")
                        || is_hint(word)
                }) => {}
            _ => return unsupported(inst, "this copy"),
        }
        let size = match inst.operands.get(2) {
            Some(ptx::ast::Operand::Int(size @ (4 | 8 | 16))) => *size as u32,
            _ => return self.error(format!("{} copies 4, 8 or 16 bytes", full_name(inst))),
        };
        let is_hinted = words.contains(&"L2::cache_hint");
        let extra = inst.operands.len() - 3 - usize::from(is_hinted && inst.operands.len() > 3);
        let source_size = match extra {
            0 => NONE,
            _ => match &inst.operands[3] {
                // `ignore-src` as a predicate: true reads nothing.
                ptx::ast::Operand::Name(name)
                    if self.register_named(name).is_ok_and(|r| r.ty == Type::Pred) =>
                {
                    return unsupported(inst, "ignore-src");
                }
                operand => self.source(
                    operand,
                    Kind::Int {
                        bits: 32,
                        signed: false,
                    },
                )?,
            },
        };
        let to = self.place_only(inst, 0, Some(Space::Shared), size.min(8) as u8)?;
        let from = self.place_only(inst, 1, Some(Space::Global), size.min(8) as u8)?;
        self.simple(Op::AsyncCopy(Box::new(AsyncCopy {
            to,
            from,
            size,
            source_size,
        })))
    }

    /// A cache policy is a hint: any value will do.
    pub fn createpolicy(&mut self, inst: &Instruction) -> Decoded {
        let dst = self.destination(first(inst), 64)?;
        let src = self.bits(0);
        self.simple(Op::Move { dst, src })
    }
}

/// Words that say how to cache or order an access, not what it does.
pub fn is_hint(word: &str) -> bool {
    matches!(
        word,
        "weak"
            | "release"
            | "acq_rel"
            | "cta"
            | "cluster"
            | "gpu"
            | "sys"
            | "ca"
            | "cg"
            | "cs"
            | "lu"
            | "cv"
            | "wb"
            | "wt"
            | "nc"
            | "unified"
            | "noftz"
    ) || word.starts_with("L1::")
        || word.starts_with("L2::")
}
