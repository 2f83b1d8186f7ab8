//! What registers hold while code is read in the order in which it stands: addresses that the code names itself.

use super::image::Image;
use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};
use std::collections::HashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    Unknown,
    /// An address of the file.
    Address(u64),
    /// What is in a variable at an address.
    Variable(u64),
}

/// A call leaves only these as they were, besides the stack's.
const KEPT: [Register; 6] = [
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

pub struct Registers {
    values: Values,
    info: InstructionInfoFactory,
    /// What is behind is reached by jumps only.
    ended: bool,
    /// What registers hold where jumps lead to that is still to be read.
    arrivals: HashMap<u64, Values>,
}

type Values = [Value; 16];

/// Jumps whose registers are kept in mind.
const MOST_ARRIVALS: usize = 16 << 10;

impl Registers {
    pub fn new() -> Self {
        Registers {
            values: [Value::Unknown; 16],
            info: InstructionInfoFactory::new(),
            ended: false,
            arrivals: HashMap::new(),
        }
    }

    pub fn get(&self, register: Register) -> Value {
        index(register).map_or(Value::Unknown, |at| self.values[at])
    }

    pub fn address(&self, register: Register) -> Option<u64> {
        match self.get(register) {
            Value::Address(address) => Some(address),
            _ => None,
        }
    }

    fn set(&mut self, register: Register, value: Value) {
        if let Some(at) = index(register) {
            self.values[at] = value;
        }
    }

    /// Before an instruction: those that jump to it say what registers hold, too.
    pub fn arrive(&mut self, address: u64) {
        let Some(values) = self.arrivals.remove(&address) else {
            return;
        };
        match std::mem::take(&mut self.ended) {
            true => self.values = values,
            false => meet(&mut self.values, &values),
        }
    }

    /// Keeps in mind what registers hold where a jump leads to.
    fn jump(&mut self, instruction: &Instruction) {
        let target = instruction.near_branch_target();
        if target <= instruction.ip() || self.arrivals.len() >= MOST_ARRIVALS {
            return;
        }
        let values = self.values;
        let known = self.arrivals.entry(target);
        known
            .and_modify(|known| meet(known, &values))
            .or_insert(values);
    }

    fn forget(&mut self) {
        self.values = [Value::Unknown; 16];
    }

    pub fn step(&mut self, instruction: &Instruction, image: &Image) {
        match instruction.flow_control() {
            FlowControl::Next => self.write(instruction, image),
            FlowControl::Call | FlowControl::IndirectCall => {
                let kept = KEPT.map(|register| (register, self.get(register)));
                self.forget();
                for (register, value) in kept {
                    self.set(register, value);
                }
            }
            FlowControl::ConditionalBranch => self.jump(instruction),
            flow => {
                if flow == FlowControl::UnconditionalBranch {
                    self.jump(instruction);
                }
                self.forget();
                self.ended = true;
            }
        }
    }

    fn write(&mut self, instruction: &Instruction, image: &Image) {
        if let Some(value) = self.named(instruction, image) {
            return self.set(instruction.op0_register(), value);
        }
        match (instruction.mnemonic(), instruction.op0_kind()) {
            // Most of what there is; the others take longer.
            (Mnemonic::Push | Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop, _) => {}
            (Mnemonic::Mov, OpKind::Memory) => {}
            (Mnemonic::Mov | Mnemonic::Lea | Mnemonic::Xor | Mnemonic::Add, OpKind::Register) => {
                self.set(instruction.op0_register(), Value::Unknown);
            }
            _ => {
                for used in self.info.info(instruction).used_registers() {
                    let only_read = matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
                    if !only_read && let Some(at) = index(used.register()) {
                        self.values[at] = Value::Unknown;
                    }
                }
            }
        }
    }

    /// What an instruction puts into its first register, where that can be told.
    fn named(&self, instruction: &Instruction, image: &Image) -> Option<Value> {
        if instruction.op0_kind() != OpKind::Register {
            return None;
        }
        let register = instruction.op0_register();
        let relative = instruction.is_ip_rel_memory_operand();
        match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Lea, _) if relative && register.is_gpr64() => {
                Some(Value::Address(instruction.ip_rel_memory_address()))
            }
            (Mnemonic::Mov, OpKind::Memory) if relative && register.is_gpr64() => {
                let from = instruction.ip_rel_memory_address();
                let pointer = image.pointer(from).map(Value::Address);
                Some(pointer.unwrap_or(Value::Variable(from)))
            }
            (Mnemonic::Mov, OpKind::Register) if register.is_gpr64() => {
                Some(self.get(instruction.op1_register()))
            }
            // Programs that are not moved when they are loaded.
            (Mnemonic::Mov, OpKind::Immediate32) if register.is_gpr32() => {
                Some(Value::Address(instruction.immediate32().into()))
            }
            (Mnemonic::Mov, OpKind::Immediate32to64) if register.is_gpr64() => {
                Some(Value::Address(instruction.immediate(1)))
            }
            _ => None,
        }
    }
}

/// What is known on all ways.
fn meet(values: &mut Values, others: &Values) {
    for (value, other) in values.iter_mut().zip(others) {
        if value != other {
            *value = Value::Unknown;
        }
    }
}

fn index(register: Register) -> Option<usize> {
    let whole = register.full_register();
    whole.is_gpr64().then(|| whole.number())
}
