//! Branches: which ways are possible, and what each tells.

use super::explore::{Checked, Next, Walk};
use super::refused::Reason;
use super::scalar::{Scalar, assume};
use super::state::State;
use super::value::{Pointer, Value};
use crate::instruction::{Condition, Operation, Source};

impl Walk<'_> {
    pub(super) fn branch(
        &mut self,
        state: &mut State,
        at: usize,
        operation: Operation,
    ) -> Checked<Next> {
        let Operation::Branch {
            condition,
            wide,
            dst,
            src,
            target,
        } = operation
        else {
            return Ok(Next::At(at + 1));
        };
        let left = self.read(state, dst)?;
        let right = self.source(state, src, wide)?;
        match (left, right) {
            (Value::Number(left), Value::Number(right)) => {
                let outcome = |holds| assume(condition, holds, wide, &left, &right);
                let set = |state: &mut State, (left, right): (Scalar, Scalar)| {
                    state.set(dst, Value::Number(left));
                    if let Source::Register(src) = src {
                        state.set(src, Value::Number(right));
                    }
                };
                Ok(match (outcome(true), outcome(false)) {
                    (Some(taken), Some(passed)) => {
                        let mut other = state.clone();
                        set(&mut other, taken);
                        set(state, passed);
                        Next::Fork(at + 1, Box::new(other), target)
                    }
                    (Some(taken), None) => {
                        set(state, taken);
                        Next::At(target)
                    }
                    (None, passed) => {
                        if let Some(passed) = passed {
                            set(state, passed);
                        }
                        Next::At(at + 1)
                    }
                })
            }
            (Value::Pointer(pointer), Value::Number(number))
            | (Value::Number(number), Value::Pointer(pointer))
                if wide && number.constant() == Some(0) =>
            {
                null_check(state, condition, &pointer, at, target)
            }
            // Which of two places in one thing comes first; what is learnt of it is not kept.
            (Value::Pointer(left), Value::Pointer(right))
                if wide
                    && left.region == right.region
                    && left.lookup.is_none()
                    && right.lookup.is_none() =>
            {
                Ok(Next::Fork(at + 1, Box::new(state.clone()), target))
            }
            _ => Err(compared()),
        }
    }
}

fn null_check(
    state: &mut State,
    condition: Condition,
    pointer: &Pointer,
    at: usize,
    target: usize,
) -> Checked<Next> {
    let taken_if_null = match condition {
        Condition::Equal => true,
        Condition::NotEqual => false,
        _ => return Err(compared()),
    };
    let Some(lookup) = pointer.lookup else {
        // It is never NULL.
        return Ok(Next::At(if taken_if_null { at + 1 } else { target }));
    };
    let mut other = state.clone();
    other.settle(lookup, taken_if_null);
    state.settle(lookup, !taken_if_null);
    Ok(Next::Fork(at + 1, Box::new(other), target))
}

fn compared() -> (Reason, String) {
    let text = "an address is compared with something that is neither NULL nor in the same object";
    (Reason::PointerArithmetic, text.to_owned())
}
