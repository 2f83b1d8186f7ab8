//! The state of a thread at an instruction: registers and stack of each function in the chain of calls.

use super::relevance::Relevance;
use super::stack::Stack;
use super::value::{Pointer, Region, Value};
use crate::instruction::{FRAME, Register};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    registers: [Value; 10],
    pub stack: Stack,
    /// Where the caller goes on.
    pub return_to: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The program's own frame first.
    pub frames: Vec<Frame>,
}

impl State {
    pub fn start() -> State {
        let mut registers = [Value::Nothing; 10];
        registers[1] = Value::Pointer(Pointer::new(Region::Context, 0));
        State {
            frames: vec![Frame {
                registers,
                stack: Stack::default(),
                return_to: usize::MAX,
            }],
        }
    }

    pub fn depth(&self) -> usize {
        self.frames.len() - 1
    }

    fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a thread has a frame")
    }

    pub fn get(&self, register: Register) -> Value {
        if register == FRAME {
            let frame = self.depth();
            return Value::Pointer(Pointer::new(Region::Stack { frame }, 0));
        }
        self.frames[self.depth()].registers[register as usize]
    }

    pub fn set(&mut self, register: Register, value: Value) {
        if register != FRAME {
            self.top().registers[register as usize] = value;
        }
    }

    pub fn stack(&self, frame: usize) -> &Stack {
        &self.frames[frame].stack
    }

    pub fn stack_mut(&mut self, frame: usize) -> &mut Stack {
        &mut self.frames[frame].stack
    }

    /// Helpers and functions leave nothing in r1 to r5.
    pub fn clobber(&mut self) {
        for register in 1..=5 {
            self.set(register, Value::Nothing);
        }
    }

    pub fn enter(&mut self, return_to: usize) {
        let mut registers = [Value::Nothing; 10];
        for (register, place) in registers.iter_mut().enumerate().skip(1).take(5) {
            *place = self.get(register as u8);
        }
        self.clobber();
        self.set(0, Value::Nothing);
        self.frames.push(Frame {
            registers,
            stack: Stack::default(),
            return_to,
        });
    }

    /// Back to the caller; gives where it goes on.
    pub fn leave(&mut self) -> usize {
        let result = self.get(0);
        let return_to = self.top().return_to;
        self.frames.pop();
        // Addresses of the frame that is gone are nothing any more.
        let gone = self.frames.len();
        for frame in &mut self.frames {
            let values = frame.registers.iter_mut().chain(frame.stack.values_mut());
            for value in values {
                if let Value::Pointer(pointer) = value
                    && pointer.region == (Region::Stack { frame: gone })
                {
                    *value = Value::Nothing;
                }
            }
        }
        self.clobber();
        self.set(0, result);
        return_to
    }

    /// Every copy of a lookup's result is NULL, or is not.
    pub fn settle(&mut self, lookup: u32, null: bool) {
        let settle = |value: &mut Value| {
            if let Value::Pointer(pointer) = value
                && pointer.lookup == Some(lookup)
            {
                if null {
                    *value = Value::Number(super::scalar::Scalar::known(0));
                } else {
                    pointer.lookup = None;
                }
            }
        };
        for frame in &mut self.frames {
            frame.registers.iter_mut().for_each(settle);
            frame.stack.values_mut().for_each(settle);
        }
    }

    /// Forgets registers nobody reads any more, so that more states are alike. `live` tells which
    /// are read from a place on.
    pub fn forget(&mut self, at: usize, live: impl Fn(usize) -> u16) {
        self.registers_at(at, |place, register, value| {
            if live(place) & 1 << register == 0 {
                *value = Value::Nothing;
            }
        });
    }

    /// Drops what is known of numbers that do not matter for safety.
    pub fn widen(&mut self, at: usize, relevance: &Relevance) {
        self.registers_at(at, |place, register, value| {
            let matters = relevance.registers(place) & 1 << register != 0;
            if matches!(value, Value::Number(_)) && !matters {
                *value = Value::UNKNOWN;
            }
        });
        for frame in &mut self.frames {
            frame.stack.widen(|start, end| relevance.stack(start, end));
        }
    }

    /// Drops what is known of numbers that are others than in a state that was here before.
    pub fn widen_changed(&mut self, before: &State) {
        for (frame, old) in self.frames.iter_mut().zip(&before.frames) {
            for (value, old) in frame.registers.iter_mut().zip(&old.registers) {
                if matches!((&*value, old), (Value::Number(new), Value::Number(old)) if new != old)
                {
                    *value = Value::UNKNOWN;
                }
            }
            frame.stack.widen_changed(&old.stack);
        }
    }

    /// Drops what is known of all numbers.
    pub fn widen_all(&mut self) {
        for frame in &mut self.frames {
            for value in &mut frame.registers {
                if matches!(value, Value::Number(_)) {
                    *value = Value::UNKNOWN;
                }
            }
            frame.stack.widen(|_, _| false);
        }
    }

    /// Registers of every frame, with the place their function goes on from.
    fn registers_at(&mut self, at: usize, mut each: impl FnMut(usize, usize, &mut Value)) {
        let mut place = at;
        for (above, frame) in self.frames.iter_mut().rev().enumerate() {
            for (register, value) in frame.registers.iter_mut().enumerate() {
                // Functions that called have nothing in r0 to r5.
                if above == 0 || register > 5 {
                    each(place, register, value);
                }
            }
            place = frame.return_to;
        }
    }

    /// Whether whatever was proven from here holds from `other`, too.
    pub fn covers(&self, other: &State) -> bool {
        let mut lookups = Vec::new();
        self.frames.len() == other.frames.len()
            && self.frames.iter().zip(&other.frames).all(|(old, new)| {
                old.return_to == new.return_to
                    && old
                        .registers
                        .iter()
                        .zip(&new.registers)
                        .all(|(old, new)| old.covers(new, &mut lookups))
                    && old.stack.covers(&new.stack, &mut lookups)
            })
    }
}
