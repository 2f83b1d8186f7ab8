//! Calls of helpers: each argument must be what the helper takes.

use super::Output;
use super::explore::{Checked, Walk};
use super::facts::{HelperCall, Memory};
use super::memory::Use;
use super::refused::Reason;
use super::scalar::Scalar;
use super::state::State;
use super::value::{Pointer, Region, Value};
use crate::helper::{self, Argument, Gives, Helper, MapSort};
use crate::map::{Map, MapKind};

/// The most bytes that are copied for a helper because they are not well aligned.
const MOST_COPIED: u64 = 512;

impl Walk<'_> {
    pub(super) fn helper(&mut self, state: &mut State, at: usize, number: u32) -> Checked {
        let Some(helper) = helper::find(number) else {
            let text = format!("helper {number} does not exist on a GPU");
            return Err((Reason::UnknownHelper, text));
        };
        let mut call = HelperCall::default();
        let mut map = None;
        let mut letters = Vec::new();
        for (index, &argument) in helper.arguments.iter().enumerate() {
            let register = index as u8 + 1;
            if argument == Argument::Formatted {
                let Some(&letter) = letters.get(index - 2) else {
                    break;
                };
                self.formatted(state, at, register, letter, &mut call)?;
            } else if argument == Argument::Format {
                letters = self.format(state, at, helper, index, &mut call)?;
            } else {
                self.argument(state, at, helper, index, &mut call, &mut map)?;
            }
            call.arguments = index + 1;
        }
        let key = call.key;
        self.facts
            .note_call(at, call)
            .map_err(|why| (Reason::BadFormat, why.to_string()))?;
        let result = self.result(helper, map, key);
        state.clobber();
        state.set(0, result);
        Ok(())
    }

    fn result(&mut self, helper: &Helper, map: Option<usize>, key: Option<u64>) -> Value {
        match (helper.gives, map) {
            (Gives::ValueOrNull, Some(map)) => {
                self.lookups += 1;
                let kind = self.object.maps[map].kind;
                let one_copy = matches!(kind, MapKind::Array { .. } | MapKind::KernelShared);
                Value::Pointer(Pointer {
                    lookup: Some(self.lookups),
                    key: key.filter(|_| one_copy),
                    ..Pointer::new(Region::Value { map }, 0)
                })
            }
            (Gives::Below(most), _) => Value::Number(Scalar::range(0, most)),
            _ => Value::UNKNOWN,
        }
    }

    fn argument(
        &mut self,
        state: &mut State,
        at: usize,
        helper: &'static Helper,
        index: usize,
        call: &mut HelperCall,
        map: &mut Option<usize>,
    ) -> Checked {
        let register = index as u8 + 1;
        let value = self.read(state, register)?;
        match helper.arguments[index] {
            Argument::Context => match value {
                Value::Pointer(Pointer {
                    region: Region::Context,
                    ..
                }) => {}
                // Nobody looks at it: bpftime's programs hand over NULL.
                value if value.constant() == Some(0) => {}
                other => return Err(wrong(helper, index, "the context", &other)),
            },
            Argument::Map(sort) => {
                let Value::Pointer(Pointer {
                    region: Region::Map(number),
                    ..
                }) = value
                else {
                    return Err(wrong(helper, index, "a map", &value));
                };
                self.check_map(helper, number, sort)?;
                *map = Some(number);
                call.map = Some(number);
            }
            Argument::Key | Argument::Value => {
                let (key, value) = self.sizes(*map);
                let is_key = helper.arguments[index] == Argument::Key;
                let bytes = if is_key { key } else { value };
                let memory =
                    self.memory(state, at, register, bytes.into(), bytes.into(), Use::Read)?;
                if is_key {
                    call.key = self.known_number(state, register, bytes);
                }
                call.memory[index] = Some(memory);
            }
            Argument::Memory => {
                let size = self.size(state, helper, index + 1)?;
                let (least, most) = (size.low, size.high);
                call.memory[index] =
                    Some(self.memory(state, at, register, least, most, Use::Read)?);
                if matches!(
                    helper.number,
                    helper::PERF_EVENT_OUTPUT | helper::RINGBUF_OUTPUT
                ) {
                    self.note_output(at, *map, least, most)?;
                }
            }
            // Looked at with the memory before it.
            Argument::Size | Argument::SizeOrZero => {}
            Argument::Out => {
                call.memory[index] = Some(self.memory(state, at, register, 8, 8, Use::Write)?);
            }
            Argument::Number => {
                if !matches!(value, Value::Number(_)) {
                    return Err(wrong(helper, index, "a number", &value));
                }
            }
            Argument::Text => {
                call.texts[index] = Some(self.text(state, at, register, None)?);
            }
            Argument::Format | Argument::Formatted => {}
        }
        Ok(())
    }

    fn check_map(&self, helper: &Helper, number: usize, sort: MapSort) -> Checked {
        let map = &self.object.maps[number];
        let fits = match sort {
            MapSort::Keyed => map.kind.is_keyed(),
            MapSort::Counters => {
                matches!(map.kind, MapKind::Array { .. } | MapKind::KernelShared)
                    && map.value_size == 8
                    && map.initial.is_none()
            }
            MapSort::Ring => map.kind == MapKind::Ring,
        };
        if fits {
            return Ok(());
        }
        let wanted = match sort {
            MapSort::Keyed => "an array or a hash map",
            MapSort::Counters => "an array of 8-byte values that all threads share",
            MapSort::Ring => "a ring (type 1527)",
        };
        let Map { name, kind, .. } = map;
        let text = format!(
            "{} takes {wanted}, but map {name} has type {} ({})",
            helper.name,
            kind.number(),
            kind.name()
        );
        Err((Reason::BadMap, text))
    }

    fn sizes(&self, map: Option<usize>) -> (u32, u32) {
        map.map_or((0, 0), |map| {
            let map = &self.object.maps[map];
            (map.key_size, map.value_size)
        })
    }

    /// Checks memory a helper is given.
    fn memory(
        &mut self,
        state: &mut State,
        at: usize,
        register: u8,
        least: u64,
        most: u64,
        usage: Use,
    ) -> Checked<Memory> {
        let pointer = self.address(state, register)?;
        let (access, span) = self.check_region(state, at, &pointer, most, usage)?;
        if let Some(span) = &span {
            match usage {
                Use::Read => {
                    self.check_written(state, span)?;
                    if state.stack(span.frame).has_pointer(span.start, span.end) {
                        let text = format!("r{register} would leak a stack address");
                        return Err((Reason::PointerEscapes, text));
                    }
                }
                Use::Write => {
                    let (start, end) = (span.start, span.end);
                    let stack = state.stack_mut(span.frame);
                    if span.constant {
                        stack.fill(start, end);
                    } else if !stack.scatter(start, end) {
                        let text = "an address on the stack would be overwritten".to_owned();
                        return Err((Reason::PointerArithmetic, text));
                    }
                }
            }
            // A size that varies cannot be copied out of registers.
            if least != most {
                self.mark_addressed(state, at, span.frame);
            }
        }
        // Helpers are given multiples of 8: anything else is copied for them, or written in words.
        let copied = usage == Use::Read && least == most && most <= MOST_COPIED;
        if access.alignment < 8 && !copied {
            let text = format!(
                "r{register} may not be a multiple of 8, as sizes of {least} to {most} bytes must be"
            );
            return Err((Reason::Misaligned, text));
        }
        Ok(Memory {
            place: access.place,
            alignment: access.alignment,
            bytes: (least == most).then_some(most as u32),
            written: usage == Use::Write,
        })
    }

    /// The size argument at `index`.
    pub(super) fn size(&self, state: &State, helper: &Helper, index: usize) -> Checked<Scalar> {
        let value = self.read(state, index as u8 + 1)?;
        let Value::Number(size) = value else {
            return Err(wrong(helper, index, "a size", &value));
        };
        let least = u64::from(helper.arguments[index] == Argument::Size);
        if size.low < least || size.high > 1 << 20 {
            let text = format!(
                "r{} is a size from {} to {}: it must be {least} to {}",
                index + 1,
                size.low,
                size.high,
                1 << 20
            );
            return Err((Reason::BadArgument, text));
        }
        Ok(size)
    }

    fn note_output(&mut self, at: usize, map: Option<usize>, least: u64, most: u64) -> Checked {
        let Some(map) = map else {
            return Ok(());
        };
        let largest = u64::from(self.object.maps[map].value_size);
        if most > largest {
            let name = &self.object.maps[map].name;
            let text = format!(
                "a record of up to {most} bytes, but ring {name} takes {largest} (its value_size)"
            );
            return Err((Reason::OutOfBounds, text));
        }
        let instruction = self.program.instructions[at].slot;
        let (least, most) = (least as u32, most as u32);
        let known = self
            .outputs
            .iter_mut()
            .find(|output| output.instruction == instruction && output.map == map);
        match known {
            Some(output) => {
                output.least_bytes = output.least_bytes.min(least);
                output.most_bytes = output.most_bytes.max(most);
            }
            None => self.outputs.push(Output {
                instruction,
                map,
                least_bytes: least,
                most_bytes: most,
            }),
        }
        Ok(())
    }

    /// The number at an address, if it is known: an array's key.
    fn known_number(&self, state: &State, register: u8, bytes: u32) -> Option<u64> {
        let known = self
            .known_bytes(state, register, bytes.into())
            .filter(|known| known.len() == bytes as usize)?;
        let mut word = [0; 8];
        word.get_mut(..known.len())?.copy_from_slice(&known);
        Some(u64::from_le_bytes(word))
    }

    /// Bytes at an address in constant data or on the stack, if all are known; fewer at the end.
    pub(super) fn known_bytes(&self, state: &State, register: u8, most: u64) -> Option<Vec<u8>> {
        let Value::Pointer(pointer) = state.get(register) else {
            return None;
        };
        let offset = pointer.offset.constant()? as i64;
        match pointer.region {
            Region::Value { map } => {
                let map = &self.object.maps[map];
                let data = map.initial.as_ref().filter(|_| map.read_only)?;
                let data = data.get(usize::try_from(offset).ok()?..)?;
                Some(data[..data.len().min(most as usize)].to_vec())
            }
            Region::Stack { frame } => {
                let end = offset.saturating_add(most as i64).min(0);
                if offset < -512 || offset >= end {
                    return None;
                }
                let stack = state.stack(frame);
                // Up to the first byte that is not known, or past the text's end.
                let mut bytes = Vec::new();
                for at in offset..end {
                    match stack.known_bytes(at as i16, at as i16 + 1) {
                        Some(byte) => bytes.extend(byte),
                        None => break,
                    }
                }
                Some(bytes)
            }
            _ => None,
        }
    }
}

fn wrong(helper: &Helper, index: usize, wanted: &str, got: &Value) -> (Reason, String) {
    let text = format!(
        "r{} of {} must be {wanted}, but is {}",
        index + 1,
        helper.name,
        got.describe()
    );
    (Reason::BadArgument, text)
}
