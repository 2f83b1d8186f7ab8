//! Arithmetic on numbers and addresses.

use super::explore::{Checked, Walk};
use super::refused::Reason;
use super::scalar::Scalar;
use super::state::State;
use super::value::{Pointer, Region, Value};
use crate::instruction::{Alu, Operation, Order, Register, Source};

impl Walk<'_> {
    /// A register's value, which must have been written.
    pub(super) fn read(&self, state: &State, register: Register) -> Checked<Value> {
        match state.get(register) {
            Value::Nothing => {
                let text = format!("r{register} is read but was never written");
                Err((Reason::UninitialisedRegister, text))
            }
            value => Ok(value),
        }
    }

    pub(super) fn source(&self, state: &State, source: Source, wide: bool) -> Checked<Value> {
        match source {
            Source::Register(register) => self.read(state, register),
            Source::Immediate(value) => {
                let value = if wide {
                    i64::from(value) as u64
                } else {
                    u64::from(value as u32)
                };
                Ok(Value::Number(Scalar::known(value)))
            }
        }
    }

    fn number(&self, state: &State, register: Register) -> Checked<Scalar> {
        match self.read(state, register)? {
            Value::Number(scalar) => Ok(scalar),
            other => {
                let what = other.describe();
                let text = format!("r{register} is {what}: only + and - work on addresses");
                Err((Reason::PointerArithmetic, text))
            }
        }
    }

    pub(super) fn arithmetic(&self, state: &mut State, operation: Operation) -> Checked {
        match operation {
            Operation::Alu {
                operator,
                wide,
                dst,
                src,
            } => {
                let value = self.alu(state, operator, wide, dst, src)?;
                state.set(dst, value);
            }
            Operation::MoveSigned {
                wide,
                bits,
                dst,
                src,
            } => {
                let mut number = self.number(state, src)?.sign_extended(bits);
                if !wide {
                    number = number.low_half();
                }
                state.set(dst, Value::Number(number));
            }
            Operation::Negate { wide, dst } => {
                let number = self.number(state, dst)?.negated(wide);
                state.set(dst, Value::Number(number));
            }
            Operation::Swap { order, bits, dst } => {
                let number = self.number(state, dst)?;
                let swapped = match (number.constant(), order) {
                    (_, Order::ToLittle) => number.low_bytes(bits / 8),
                    (Some(value), _) => Scalar::known(swap(value, bits)),
                    (None, _) => Scalar::of_bytes(bits / 8, false),
                };
                state.set(dst, Value::Number(swapped));
            }
            _ => {}
        }
        Ok(())
    }

    fn alu(
        &self,
        state: &State,
        operator: Alu,
        wide: bool,
        dst: Register,
        src: Source,
    ) -> Checked<Value> {
        let right = self.source(state, src, wide)?;
        if operator == Alu::Move {
            return match right {
                Value::Number(scalar) if !wide => Ok(Value::Number(scalar.low_half())),
                Value::Pointer(_) if !wide => Err((
                    Reason::PointerArithmetic,
                    "half of an address is moved".into(),
                )),
                value => Ok(value),
            };
        }
        let left = self.read(state, dst)?;
        match (left, right) {
            (Value::Number(left), Value::Number(right)) => {
                // x - x and x ^ x are how a register is cleared.
                let same = src == Source::Register(dst);
                if same && matches!(operator, Alu::Sub | Alu::Xor) {
                    return Ok(Value::Number(Scalar::known(0)));
                }
                Ok(Value::Number(left.arithmetic(operator, &right, wide)))
            }
            _ if !wide => Err((
                Reason::PointerArithmetic,
                "32-bit arithmetic on an address".into(),
            )),
            (Value::Pointer(pointer), Value::Number(number)) => match operator {
                Alu::Add | Alu::Sub => self.moved(pointer, operator, number),
                _ => Err(only_add()),
            },
            (Value::Number(number), Value::Pointer(pointer)) => match operator {
                Alu::Add => self.moved(pointer, operator, number),
                _ => Err(only_add()),
            },
            (Value::Pointer(left), Value::Pointer(right)) => {
                let same = left.region == right.region
                    && left.lookup.is_none()
                    && right.lookup.is_none()
                    && !matches!(left.region, Region::Map(_));
                if operator == Alu::Sub && same {
                    return Ok(Value::UNKNOWN);
                }
                Err((
                    Reason::PointerArithmetic,
                    "arithmetic on two addresses of different objects".into(),
                ))
            }
            _ => Err(only_add()),
        }
    }

    fn moved(&self, pointer: Pointer, operator: Alu, by: Scalar) -> Checked<Value> {
        if pointer.lookup.is_some() {
            let text = "arithmetic on an address that may be NULL: check it first".to_owned();
            return Err((Reason::MayBeNull, text));
        }
        if let Region::Map(_) = pointer.region {
            let text = "arithmetic on a map".to_owned();
            return Err((Reason::PointerArithmetic, text));
        }
        let mut moved = pointer;
        moved.offset = pointer.offset.arithmetic(operator, &by, true);
        Ok(Value::Pointer(moved))
    }
}

fn only_add() -> (Reason, String) {
    (
        Reason::PointerArithmetic,
        "only + and - with a number work on addresses".into(),
    )
}

fn swap(value: u64, bits: u8) -> u64 {
    value.swap_bytes() >> (64 - u32::from(bits))
}
