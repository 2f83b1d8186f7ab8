//! Loads, stores and atomics: each must lie inside what its address points to.

use super::explore::{Checked, Walk};
use super::facts::{Access, AccessedMemory, Fixed};
use super::refused::Reason;
use super::scalar::Scalar;
use super::stack::FRAME_BYTES;
use super::state::State;
use super::value::{Pointer, Region, Value};
use crate::instruction::{Alu, Atomic, Operation, Register};

/// The most bytes of parameters a kernel has.
const MOST_PARAMETERS: u32 = 32764;

/// What memory is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Write,
}

/// Memory of the stack: constant or not.
pub(super) struct Span {
    pub frame: usize,
    pub start: i16,
    pub end: i16,
    pub constant: bool,
}

impl Walk<'_> {
    /// The address in a register.
    pub(super) fn address(&self, state: &State, register: Register) -> Checked<Pointer> {
        match self.read(state, register)? {
            Value::Pointer(pointer) => {
                if pointer.lookup.is_some() {
                    let text =
                        format!("r{register} may be NULL: compare it with 0 before it is used");
                    return Err((Reason::MayBeNull, text));
                }
                Ok(pointer)
            }
            _ => {
                let text = format!(
                    "r{register} is a number, not an address of the stack, the context or a map's value"
                );
                Err((Reason::NoAddress, text))
            }
        }
    }

    /// Checks that `bytes` from the pointer lie inside its region, and tells where they are.
    pub(super) fn check_region(
        &mut self,
        state: &State,
        at: usize,
        pointer: &Pointer,
        bytes: u64,
        usage: Use,
    ) -> Checked<(Access, Option<Span>)> {
        let offset = &pointer.offset;
        let alignment_of = |base: u32| {
            let bits = offset.bits.value | offset.bits.mask | u64::from(base.clamp(1, 8));
            1u8 << bits.trailing_zeros().min(3)
        };
        match pointer.region {
            Region::Map(map) => {
                let name = &self.object.maps[map].name;
                let text = format!("map {name} itself is not memory: look up a key in it");
                Err((Reason::NoAddress, text))
            }
            Region::Context => {
                if usage == Use::Write {
                    let text = "the context is read-only".to_owned();
                    return Err((Reason::ReadOnly, text));
                }
                let attach = self.program.attach.context_bytes();
                let limit = attach.unwrap_or(MOST_PARAMETERS);
                let end = self.inside(offset, bytes, limit.into(), || {
                    format!("the context, which has {limit} bytes")
                })?;
                self.context_bytes = self.context_bytes.max(end as u32);
                Ok((
                    Access {
                        place: AccessedMemory::Context {
                            offset: offset.constant().map(|offset| offset as u32),
                        },
                        alignment: alignment_of(8),
                    },
                    None,
                ))
            }
            Region::Value { map } => {
                let number = map;
                let map = &self.object.maps[map];
                if usage == Use::Write && map.read_only {
                    let text = format!("{} is read-only", map.name);
                    return Err((Reason::ReadOnly, text));
                }
                let size = map.value_size;
                self.inside(offset, bytes, size.into(), || {
                    format!("the value of {}, which has {size} bytes", map.name)
                })?;
                let place = AccessedMemory::Value {
                    shared: map.kind.is_shared(),
                    fixed: pointer
                        .key
                        .zip(offset.constant())
                        .map(|(key, offset)| Fixed {
                            map: number,
                            key,
                            offset,
                        }),
                    map: Some(number),
                };
                let alignment = alignment_of(map.value_alignment());
                Ok((Access { place, alignment }, None))
            }
            Region::Stack { frame } => {
                let (low, high) = (offset.signed_low, offset.signed_high);
                let end = high.saturating_add(bytes as i64);
                if low < -FRAME_BYTES || end > 0 {
                    let text = format!(
                        "{bytes} bytes at stack offset {} are outside the stack (-{FRAME_BYTES} to 0)",
                        describe_offset(offset)
                    );
                    return Err((Reason::OutOfBounds, text));
                }
                self.note_frame_bytes(state, at, frame, low);
                let constant = offset.constant().is_some();
                let place = if frame == state.depth() {
                    AccessedMemory::Stack {
                        offset: constant.then_some(low as i16),
                    }
                } else {
                    AccessedMemory::CallersStack
                };
                if !constant || frame != state.depth() {
                    self.mark_addressed(state, at, frame);
                }
                let span = Span {
                    frame,
                    start: low as i16,
                    end: end as i16,
                    constant,
                };
                let alignment = alignment_of(8);
                Ok((Access { place, alignment }, Some(span)))
            }
        }
    }

    /// The end of the furthest access.
    fn inside(
        &self,
        offset: &Scalar,
        bytes: u64,
        limit: u64,
        what: impl Fn() -> String,
    ) -> Checked<u64> {
        let end = offset.high.saturating_add(bytes);
        if offset.signed_low < 0 || end > limit {
            let text = format!(
                "{bytes} bytes at {} reach outside {}",
                describe_offset(offset),
                what()
            );
            return Err((Reason::OutOfBounds, text));
        }
        Ok(end)
    }

    pub(super) fn access(&mut self, state: &mut State, at: usize, operation: Operation) -> Checked {
        match operation {
            Operation::Load {
                dst,
                base,
                offset,
                bytes,
                signed,
            } => {
                let pointer = self.offset_address(state, base, offset)?;
                let (access, span) =
                    self.check_region(state, at, &pointer, bytes.into(), Use::Read)?;
                self.facts.note_access(at, access);
                let value = match span {
                    Some(span) => self.load_stack(state, &span, bytes)?,
                    None => Value::Number(Scalar::of_bytes(bytes, false)),
                };
                state.set(dst, extended(value, bytes, signed));
            }
            Operation::Store {
                base,
                offset,
                bytes,
                value,
            } => {
                let pointer = self.offset_address(state, base, offset)?;
                let value = self.source(state, value, true)?;
                let (access, span) =
                    self.check_region(state, at, &pointer, bytes.into(), Use::Write)?;
                self.facts.note_access(at, access);
                self.store(state, span, bytes, value)?;
            }
            Operation::Atomic {
                operator,
                fetch,
                bytes,
                base,
                offset,
                src,
            } => {
                let pointer = self.offset_address(state, base, offset)?;
                let value = self.read(state, src)?;
                let mut operands = vec![value];
                if operator == Atomic::CompareExchange {
                    operands.push(self.read(state, 0)?);
                }
                if operands
                    .iter()
                    .any(|value| !matches!(value, Value::Number(_)))
                {
                    let text = "an atomic on an address".to_owned();
                    return Err((Reason::PointerEscapes, text));
                }
                let (access, span) =
                    self.check_region(state, at, &pointer, bytes.into(), Use::Write)?;
                if access.alignment < bytes {
                    let text = format!(
                        "an atomic of {bytes} bytes at an address that is not a multiple of {bytes}"
                    );
                    return Err((Reason::Misaligned, text));
                }
                self.facts.note_access(at, access);
                self.facts.note_operand(at, value.constant());
                if let Some(span) = span {
                    self.load_stack(state, &span, bytes)?;
                    self.store(state, Some(span), bytes, Value::UNKNOWN)?;
                }
                let old = Value::Number(Scalar::of_bytes(bytes, false));
                if operator == Atomic::CompareExchange {
                    state.set(0, old);
                } else if fetch {
                    state.set(src, old);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn offset_address(&self, state: &State, base: Register, offset: i16) -> Checked<Pointer> {
        let mut pointer = self.address(state, base)?;
        let by = Scalar::known(i64::from(offset) as u64);
        pointer.offset = pointer.offset.arithmetic(Alu::Add, &by, true);
        Ok(pointer)
    }

    pub(super) fn check_written(&self, state: &State, span: &Span) -> Checked {
        let stack = state.stack(span.frame);
        if let Some(byte) = stack.unwritten(span.start, span.end) {
            let text = format!(
                "the stack is read from {} to {}, but byte {byte} was never written",
                span.start, span.end
            );
            return Err((Reason::UninitialisedStack, text));
        }
        Ok(())
    }

    fn load_stack(&self, state: &State, span: &Span, bytes: u8) -> Checked<Value> {
        self.check_written(state, span)?;
        let stack = state.stack(span.frame);
        let value = if span.constant {
            stack.read(span.start, bytes)
        } else if stack.has_pointer(span.start, span.end) {
            None
        } else {
            Some(Value::Number(Scalar::of_bytes(bytes, false)))
        };
        value.ok_or_else(|| {
            let text = "a part of an address is read from the stack".to_owned();
            (Reason::PointerArithmetic, text)
        })
    }

    fn store(&mut self, state: &mut State, span: Option<Span>, bytes: u8, value: Value) -> Checked {
        let is_address = matches!(value, Value::Pointer(_));
        let Some(span) = span else {
            if is_address {
                let text = "an address is stored where others see it".to_owned();
                return Err((Reason::PointerEscapes, text));
            }
            return Ok(());
        };
        let stack = state.stack_mut(span.frame);
        if span.constant {
            if is_address && bytes != 8 {
                let text = "a part of an address is stored".to_owned();
                return Err((Reason::PointerArithmetic, text));
            }
            stack.write(span.start, bytes, value);
            return Ok(());
        }
        if is_address || !stack.scatter(span.start, span.end) {
            let text = "a store at a variable stack offset may overwrite an address".to_owned();
            return Err((Reason::PointerArithmetic, text));
        }
        Ok(())
    }
}

fn extended(value: Value, bytes: u8, signed: bool) -> Value {
    match value {
        Value::Number(scalar) if signed => Value::Number(scalar.sign_extended(bytes * 8)),
        other => other,
    }
}

fn describe_offset(offset: &Scalar) -> String {
    match offset.constant() {
        Some(value) => format!("offset {}", value as i64),
        None if offset.signed_low == i64::MIN || offset.signed_high == i64::MAX => {
            "an offset without bounds".into()
        }
        None => format!("offset {} to {}", offset.signed_low, offset.signed_high),
    }
}
