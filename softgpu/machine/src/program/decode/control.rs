//! Branches, calls and the stack.

use ptx::ast::{Instruction, Operand, Type};

use super::super::code::{CallInstruction, Callee, Op, ValueLocation};
use super::super::layout;
use super::super::names::{Meaning, Symbol};
use super::{Decoded, Decoder, first, full_name, operand_at, unsupported};
use crate::alu::Kind;

impl Decoder<'_> {
    pub fn bra(&mut self, inst: &Instruction) -> Decoded {
        let Operand::Name(name) = first(inst) else {
            return self.error("bra takes a label");
        };
        match self.names.find(name) {
            Some(Meaning::Label(target)) => self.simple(Op::Branch { target }),
            _ => self.error(format!("label {name} is not declared")),
        }
    }

    pub fn brx(&mut self, inst: &Instruction) -> Decoded {
        let (index, Operand::Name(list)) = (first(inst), operand_at(inst, 1)) else {
            return self.error("brx.idx takes an index and a list of targets");
        };
        let Some(Meaning::Targets(targets)) = self.names.find(list) else {
            return self.error(format!("{list} is not a list of branch targets"));
        };
        let kind = Kind::Int {
            bits: 32,
            signed: false,
        };
        let index = self.source(index, kind)?;
        self.tables.push(targets);
        let table = self.tables.len() as u32 - 1;
        self.simple(Op::BranchTable { index, table })
    }

    pub fn call(&mut self, inst: &Instruction) -> Decoded {
        let mut operands = inst.operands.as_slice();
        let mut results = Vec::new();
        if let [Operand::List(list), rest @ ..] = operands {
            for operand in list {
                results.push(self.argument(operand, true)?);
            }
            operands = rest;
        }
        let Some((Operand::Name(target), rest)) = operands.split_first() else {
            return self.error(format!("{} names no function", full_name(inst)));
        };
        let mut args = Vec::new();
        if let Some(Operand::List(list)) = rest.first() {
            for operand in list {
                args.push(self.argument(operand, false)?);
            }
        }
        let callee = match self.names.find(target) {
            Some(Meaning::Register(register)) => Callee::Register(register.reg),
            Some(_) => return self.error(format!("{target} cannot be called")),
            None => match self.around.symbols.get(target) {
                Some(&Symbol::Function(index)) => Callee::Function(index),
                Some(&Symbol::Builtin(builtin)) => Callee::Builtin(builtin),
                Some(_) => return self.error(format!("{target} is not a function")),
                None => return self.error(format!("function {target} is not defined")),
            },
        };
        self.simple(Op::Call(Box::new(CallInstruction {
            callee,
            args,
            results,
        })))
    }

    /// An actual argument or result: a .param variable, a register or an immediate.
    fn argument(&mut self, operand: &Operand, is_result: bool) -> Decoded<ValueLocation> {
        if let Operand::Name(name) = operand {
            match self.names.find(name) {
                Some(Meaning::Frame { offset, size }) => {
                    return Ok(ValueLocation::Local { offset, size });
                }
                Some(Meaning::Register(register)) => {
                    if register.ty == Type::B128 {
                        return self.error(format!("{name} cannot be passed"));
                    }
                    return Ok(ValueLocation::Register {
                        reg: register.reg,
                        size: layout::type_bytes(register.ty) as u32,
                    });
                }
                _ => {}
            }
        }
        if is_result {
            return self.error("a result must be a variable or a register");
        }
        let kind = Kind::Int {
            bits: 64,
            signed: false,
        };
        Ok(ValueLocation::Register {
            reg: self.source(operand, kind)?,
            size: 8,
        })
    }

    pub fn alloca(&mut self, inst: &Instruction) -> Decoded {
        let kind = Kind::Int {
            bits: 64,
            signed: false,
        };
        let size = self.source(operand_at(inst, 1), kind)?;
        let align = match inst.operands.get(2) {
            None => 8,
            Some(&Operand::Int(align)) if (1..=4096).contains(&align) => align as u32,
            Some(_) => return unsupported(inst, "this alignment"),
        };
        let dst = self.destination(first(inst), 32)?;
        self.simple(Op::Alloca { dst, size, align })
    }

    pub fn stacksave(&mut self, inst: &Instruction) -> Decoded {
        let dst = self.destination(first(inst), 32)?;
        self.simple(Op::StackSave { dst })
    }

    pub fn stackrestore(&mut self, inst: &Instruction) -> Decoded {
        let kind = Kind::Int {
            bits: 64,
            signed: false,
        };
        let src = self.source(first(inst), kind)?;
        self.simple(Op::StackRestore { src })
    }
}
