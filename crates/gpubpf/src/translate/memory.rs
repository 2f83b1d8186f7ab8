//! Loads, stores and atomics.

use super::function::{Frame, Translator};
use crate::instruction::{Atomic, Operation, Source};
use crate::object::Attach;
use crate::verify::facts::{Access, AccessedMemory};

impl Translator<'_> {
    fn access_at(&self, at: usize) -> Access {
        // What the verifier never reached is not translated, so there is always a fact.
        self.facts.accesses.get(&at).copied().unwrap_or(Access {
            place: AccessedMemory::Mixed,
            alignment: 1,
        })
    }

    pub fn access(&mut self, at: usize, operation: Operation) {
        let access = self.access_at(at);
        match operation {
            Operation::Load {
                dst,
                base,
                offset,
                bytes,
                signed,
            } => {
                if let Some(cell) = self.cell(access.place) {
                    let value = self.read_cell(cell, bytes);
                    if signed {
                        let bits = bytes * 8;
                        self.emit.line(format!("cvt.s64.s{bits} %r{dst}, {value}"));
                    } else {
                        self.emit.line(format!("mov.b64 %r{dst}, {value}"));
                    }
                    return;
                }
                if let Some(value) = self.context_word(access.place, bytes, signed) {
                    self.emit.line(format!("mov.b64 %r{dst}, {value}"));
                    return;
                }
                let space = space(access.place);
                let from = (format!("%r{base}"), i64::from(offset));
                let value = self.load(space, &from, bytes, access.alignment, signed);
                self.emit.line(format!("mov.b64 %r{dst}, {value}"));
            }
            Operation::Store {
                base,
                offset,
                bytes,
                value,
            } => {
                let value = self.operand(value);
                if let Some(cell) = self.cell(access.place) {
                    // A constant of 64 bits has no low half until it is in a register.
                    let value = self.in_register(&value);
                    self.write_cell(cell, bytes, &value);
                    return;
                }
                let value = self.in_register(&value);
                let space = space(access.place);
                let to = (format!("%r{base}"), i64::from(offset));
                self.store(space, &to, bytes, access.alignment, &value);
            }
            _ => {}
        }
    }

    /// A part of a memory access's context, where that is in registers.
    fn context_word(&mut self, place: AccessedMemory, bytes: u8, signed: bool) -> Option<String> {
        let AccessedMemory::Context {
            offset: Some(offset),
        } = place
        else {
            return None;
        };
        if !self.inline || self.verified.program.attach != Attach::Memory {
            return None;
        }
        let (shift, bits) = (offset % 8 * 8, u32::from(bytes) * 8);
        let word = format!("%cutrace_word{}", offset / 8);
        let sign = if signed { 's' } else { 'u' };
        Some(self.emit.set(
            &format!("bfe.{sign}64"),
            &format!("{word}, {shift}, {bits}"),
        ))
    }

    pub fn in_register(&mut self, operand: &str) -> String {
        if operand.starts_with('%') {
            operand.to_owned()
        } else {
            self.emit.set("mov.b64", operand)
        }
    }

    /// The constant place in a frame that is in registers.
    pub fn cell(&self, place: AccessedMemory) -> Option<i16> {
        match (place, &self.frame) {
            (
                AccessedMemory::Stack {
                    offset: Some(offset),
                },
                Frame::Cells(_),
            ) => Some(offset),
            _ => None,
        }
    }

    pub fn read_cell(&mut self, offset: i16, bytes: u8) -> String {
        match &self.frame {
            Frame::Cells(cells) => cells.read(&mut self.emit, offset, bytes),
            _ => self.emit.set("mov.b64", "0"),
        }
    }

    pub fn write_cell(&mut self, offset: i16, bytes: u8, value: &str) {
        if let Frame::Cells(cells) = &self.frame {
            cells.write(&mut self.emit, offset, bytes, value);
        }
    }

    /// Loads `bytes` into a 64-bit register, in pieces where the address may not be aligned.
    pub fn load(
        &mut self,
        space: &str,
        from: &(String, i64),
        bytes: u8,
        alignment: u8,
        signed: bool,
    ) -> String {
        let (base, offset) = from;
        let step = alignment.min(bytes);
        let mut value: Option<String> = None;
        let mut at = 0;
        while at < bytes {
            let last = at + step >= bytes;
            let sign = if signed && last { 's' } else { 'u' };
            let bits = step * 8;
            let place = offset + i64::from(at);
            self.count_access(space, false);
            let mut piece = self.emit.set(
                &format!("ld{space}.{sign}{bits}"),
                &format!("[{base}+{place}]"),
            );
            if at > 0 {
                piece = self.emit.set("shl.b64", &format!("{piece}, {}", at * 8));
            }
            value = Some(match value {
                Some(value) => self.emit.set("or.b64", &format!("{value}, {piece}")),
                None => piece,
            });
            at += step;
        }
        value.unwrap_or_else(|| "0".to_owned())
    }

    pub fn store(
        &mut self,
        space: &str,
        to: &(String, i64),
        bytes: u8,
        alignment: u8,
        value: &str,
    ) {
        let (base, offset) = to;
        let step = alignment.min(bytes);
        let mut at = 0;
        while at < bytes {
            let piece = if at > 0 {
                self.emit.set("shr.u64", &format!("{value}, {}", at * 8))
            } else {
                value.to_owned()
            };
            let bits = step * 8;
            let place = offset + i64::from(at);
            self.count_access(space, true);
            self.emit
                .line(format!("st{space}.u{bits} [{base}+{place}], {piece}"));
            at += step;
        }
    }

    fn count_access(&mut self, space: &str, is_store: bool) {
        if space != ".local" {
            let counts = &mut self.emit.counts;
            if is_store {
                counts.global_stores += 1;
            } else {
                counts.global_loads += 1;
            }
        }
    }

    pub fn atomic(&mut self, at: usize, operation: Operation) {
        let Operation::Atomic {
            operator,
            fetch,
            bytes,
            base,
            offset,
            src,
        } = operation
        else {
            return;
        };
        let access = self.access_at(at);
        if !matches!(access.place, AccessedMemory::Value { .. }) {
            self.own_atomic(access, operation);
            return;
        }
        self.emit.counts.atomics += 1;
        let bits = bytes * 8;
        let address = format!("[%r{base}+{offset}]");
        let value = self.atomic_operand(src, bytes);
        let (name, ty) = match operator {
            Atomic::Add => ("add", "u"),
            Atomic::Or => ("or", "b"),
            Atomic::And => ("and", "b"),
            Atomic::Xor => ("xor", "b"),
            Atomic::Exchange => ("exch", "b"),
            Atomic::CompareExchange => ("cas", "b"),
        };
        if !fetch {
            self.emit.line(format!(
                "red.relaxed.gpu.global.{name}.{ty}{bits} {address}, {value}"
            ));
            return;
        }
        // Atomics that give the old value order everything around them.
        let old = self.fresh(bits);
        let head = format!("atom.acq_rel.gpu.global.{name}.{ty}{bits}");
        if operator == Atomic::CompareExchange {
            let expected = self.atomic_operand(0, bytes);
            self.emit
                .line(format!("{head} {old}, {address}, {expected}, {value}"));
        } else {
            self.emit.line(format!("{head} {old}, {address}, {value}"));
        }
        let to = if operator == Atomic::CompareExchange {
            0
        } else {
            src
        };
        self.widen_into(to, &old, bytes);
    }

    fn widen_into(&mut self, register: u8, value: &str, bytes: u8) {
        if bytes == 8 {
            self.emit.line(format!("mov.b64 %r{register}, {value}"));
        } else {
            self.emit.line(format!("cvt.u64.u32 %r{register}, {value}"));
        }
    }

    pub fn atomic_operand(&mut self, register: u8, bytes: u8) -> String {
        let word = format!("%r{register}");
        if bytes == 8 {
            word
        } else {
            self.emit.low(&word)
        }
    }

    /// An atomic on the thread's own stack: nobody else is there.
    fn own_atomic(&mut self, access: Access, operation: Operation) {
        let Operation::Atomic {
            operator,
            fetch,
            bytes,
            base,
            offset,
            src,
        } = operation
        else {
            return;
        };
        let cell = self.cell(access.place);
        let place = (format!("%r{base}"), i64::from(offset));
        let old = match cell {
            Some(cell) => {
                // The cell changes below; what was read must not.
                let value = self.read_cell(cell, bytes);
                self.emit.set("mov.b64", &value)
            }
            None => self.load("", &place, bytes, bytes, false),
        };
        let value = self.operand(Source::Register(src));
        let both = format!("{old}, {value}");
        let new = match operator {
            Atomic::Add => self.emit.set("add.s64", &both),
            Atomic::Or => self.emit.set("or.b64", &both),
            Atomic::And => self.emit.set("and.b64", &both),
            Atomic::Xor => self.emit.set("xor.b64", &both),
            Atomic::Exchange => value,
            Atomic::CompareExchange => {
                let expected = if bytes == 8 {
                    "%r0".to_owned()
                } else {
                    let low = self.emit.low("%r0");
                    self.emit.set("cvt.u64.u32", &low)
                };
                let same = self
                    .emit
                    .set_predicate("setp.eq.s64", &format!("{old}, {expected}"));
                self.emit
                    .set("selp.b64", &format!("{value}, {old}, {same}"))
            }
        };
        match cell {
            Some(cell) => self.write_cell(cell, bytes, &new),
            None => self.store("", &place, bytes, bytes, &new),
        }
        if operator == Atomic::CompareExchange {
            self.emit.line(format!("mov.b64 %r0, {old}"));
        } else if fetch {
            self.emit.line(format!("mov.b64 %r{src}, {old}"));
        }
    }
}

/// The state space of an access: values of maps are global, anything else is reached generically.
pub fn space(place: AccessedMemory) -> &'static str {
    match place {
        AccessedMemory::Value { .. } => ".global",
        _ => "",
    }
}
