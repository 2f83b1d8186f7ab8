//! Names inside a function: nested scopes, register ranges, labels.

use std::collections::HashMap;

use ptx::ast::{Type, Variable};

use super::code::{Builtin, Reg};
use super::layout::type_bits;

/// A module-scope name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symbol {
    Global(usize),
    Shared(usize),
    Function(usize),
    Builtin(Builtin),
}

/// A register: its slot and declared type. 128-bit registers take two slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register {
    pub reg: Reg,
    pub ty: Type,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Meaning {
    Register(Register),
    /// A vector register: its elements.
    Vector(Vec<Register>),
    /// A variable in the frame.
    Frame {
        offset: u32,
        size: u32,
    },
    /// A parameter of the entry function.
    Param {
        offset: u32,
    },
    Shared(usize),
    Label(u32),
    /// `.branchtargets`, as labels.
    Targets(Vec<u32>),
    Prototype,
}

/// `%r<10>`, registers taken only when used.
struct Range {
    count: u32,
    ty: Type,
    vector: u8,
}

#[derive(Default)]
struct Scope {
    names: HashMap<String, Meaning>,
    ranges: HashMap<String, Range>,
}

/// The scopes open at one point of a function.
pub struct Names {
    scopes: Vec<Scope>,
    pub registers: u32,
    /// How many 32-bit registers each slot stands for (predicates: none).
    pub widths: Vec<u8>,
}

impl Names {
    pub fn new() -> Names {
        Names {
            scopes: vec![Scope::default()],
            registers: 0,
            widths: Vec::new(),
        }
    }

    pub fn open(&mut self) {
        self.scopes.push(Scope::default());
    }

    pub fn close(&mut self) {
        self.scopes.pop();
    }

    pub fn depth(&self) -> usize {
        self.scopes.len()
    }

    pub fn declare(&mut self, name: &str, meaning: Meaning) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name.to_string(), meaning);
        }
    }

    /// A fresh slot that no name refers to.
    pub fn temporary(&mut self) -> Reg {
        self.registers += 1;
        self.widths.push(1);
        self.registers - 1
    }

    fn make(registers: &mut u32, widths: &mut Vec<u8>, ty: Type, vector: u8) -> Meaning {
        let (slots, width) = match type_bits(ty) {
            1 => (1, 0),
            64 => (1, 2),
            128 => (2, 2),
            _ => (1, 1),
        };
        let mut one = || {
            let reg = *registers;
            *registers += slots;
            widths.extend((0..slots).map(|_| width));
            Register { reg, ty }
        };
        if vector > 1 {
            Meaning::Vector((0..vector).map(|_| one()).collect())
        } else {
            Meaning::Register(one())
        }
    }

    pub fn declare_register(&mut self, variable: &Variable) {
        match variable.range {
            Some(count) => {
                if let Some(scope) = self.scopes.last_mut() {
                    let range = Range {
                        count,
                        ty: variable.ty,
                        vector: variable.vector,
                    };
                    scope.ranges.insert(variable.name.clone(), range);
                }
            }
            None => {
                let meaning = Names::make(
                    &mut self.registers,
                    &mut self.widths,
                    variable.ty,
                    variable.vector,
                );
                self.declare(&variable.name, meaning);
            }
        }
    }

    /// What a name means here; module scope is the caller's.
    pub fn find(&mut self, name: &str) -> Option<Meaning> {
        if let Some(meaning) = self.find_whole(name) {
            return Some(meaning);
        }
        // An element of a vector register: `v.x`.
        let (base, member) = name.rsplit_once('.')?;
        let index = match member {
            "x" | "r" => 0,
            "y" | "g" => 1,
            "z" | "b" => 2,
            "w" | "a" => 3,
            _ => return None,
        };
        match self.find_whole(base)? {
            Meaning::Vector(elements) => elements.get(index).copied().map(Meaning::Register),
            _ => None,
        }
    }

    fn find_whole(&mut self, name: &str) -> Option<Meaning> {
        let (registers, widths) = (&mut self.registers, &mut self.widths);
        for scope in self.scopes.iter_mut().rev() {
            if let Some(meaning) = scope.names.get(name) {
                return Some(meaning.clone());
            }
            let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let digits = &name[prefix.len()..];
            // The prefix itself may end in digits: `r1<4>` declares r10 … r13.
            for split in 0..digits.len() {
                let (head, number) = name.split_at(prefix.len() + split);
                let Some(range) = scope.ranges.get(head) else {
                    continue;
                };
                let canonical = number == "0" || !number.starts_with('0');
                if let Ok(number) = number.parse::<u32>()
                    && canonical
                    && number < range.count
                {
                    let meaning = Names::make(registers, widths, range.ty, range.vector);
                    scope.names.insert(name.to_string(), meaning.clone());
                    return Some(meaning);
                }
            }
        }
        None
    }
}
