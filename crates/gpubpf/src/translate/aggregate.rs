//! Counting: one atomic for all lanes of a warp that count at the same address.
//!
//! Lanes that are here together find each other by `activemask`, and those with the same address by
//! `match.any` where the address may differ; the lowest of them adds for all. A hot counter then takes
//! one atomic a warp, not 32.

use super::function::Translator;
use crate::instruction::{Alu, Operation, Source};
use crate::verify::facts::Place;

impl Translator<'_> {
    /// Adds `src` to a map's value; `constant` if it is known to be that.
    pub fn count(
        &mut self,
        place: Place,
        bytes: u8,
        base: u8,
        offset: i16,
        src: u8,
        constant: Option<u64>,
    ) {
        let shared = matches!(place, Place::Value { shared: true, .. });
        match constant {
            Some(by) if self.options.aggregate && shared => {
                self.aggregated(place, bytes, base, offset, by);
            }
            _ => {
                let value = self.atomic_operand(src, bytes);
                self.add(None, bytes, &format!("%r{base}"), offset, &value);
            }
        }
    }

    fn add(&mut self, guard: Option<&str>, bytes: u8, base: &str, offset: i16, value: &str) {
        self.emit.counts.atomics += 1;
        let bits = bytes * 8;
        let guard = guard.map(|guard| format!("@{guard} ")).unwrap_or_default();
        self.emit.line(format!(
            "{guard}red.relaxed.gpu.global.add.u{bits} [{base}+{offset}], {value}"
        ));
    }

    fn aggregated(&mut self, place: Place, bytes: u8, base: u8, offset: i16, by: u64) {
        self.emit.counts.aggregated += 1;
        let fixed = matches!(place, Place::Value { fixed: Some(_), .. });
        let mut lanes = self.emit.half();
        self.emit.line(format!("activemask.b32 {lanes}"));
        if !fixed {
            lanes = self
                .emit
                .set_half("match.any.sync.b64", &format!("%r{base}, {lanes}"));
        }
        let below = self.emit.set_half("mov.u32", "%lanemask_lt");
        let below = self.emit.set_half("and.b32", &format!("{below}, {lanes}"));
        let lowest = self
            .emit
            .set_predicate("setp.eq.s32", &format!("{below}, 0"));
        let mut value = self.emit.set_half("popc.b32", &lanes);
        if bytes == 8 {
            value = self.emit.set("cvt.u64.u32", &value);
            if by != 1 {
                value = self
                    .emit
                    .set("mul.lo.s64", &format!("{value}, {}", by as i64));
            }
        } else if by as u32 != 1 {
            value = self
                .emit
                .set_half("mul.lo.s32", &format!("{value}, {}", by as i32));
        }
        self.add(Some(&lowest), bytes, &format!("%r{base}"), offset, &value);
    }

    /// `*value += constant` in three plain instructions, on memory that threads share: racing threads
    /// would lose counts, so it becomes an atomic. True if it was one.
    pub fn plain_count(&mut self, at: usize) -> bool {
        let code = self.code();
        let (Some(first), Some(second), Some(third)) =
            (code.get(at), code.get(at + 1), code.get(at + 2))
        else {
            return false;
        };
        let Operation::Load {
            dst,
            base,
            offset,
            bytes: bytes @ (4 | 8),
            signed: false,
        } = first.operation
        else {
            return false;
        };
        let Operation::Alu {
            operator: operator @ (Alu::Add | Alu::Sub),
            wide,
            dst: counted,
            src: Source::Immediate(by),
        } = second.operation
        else {
            return false;
        };
        let stored = Operation::Store {
            base,
            offset,
            bytes,
            value: Source::Register(dst),
        };
        let whole = wide || bytes == 4;
        if third.operation != stored || counted != dst || base == dst || !whole {
            return false;
        }
        let Some(access) = self.facts.accesses.get(&at).copied() else {
            return false;
        };
        // The sum must not be wanted afterwards; the verifier's live registers tell.
        let live_after = self.live.get(at + 3).copied().unwrap_or(u16::MAX);
        let shared = matches!(access.place, Place::Value { shared: true, .. });
        if !shared || access.alignment < bytes || live_after & 1 << dst != 0 {
            return false;
        }
        let by = match operator {
            Alu::Add => i64::from(by),
            _ => -i64::from(by),
        };
        self.aggregated(access.place, bytes, base, offset, by as u64);
        true
    }
}
