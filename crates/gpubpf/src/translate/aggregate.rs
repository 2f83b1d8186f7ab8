//! Counting: one atomic for all lanes of a warp that count the same at the same address.
//!
//! Lanes that are here together find each other by `activemask`. Where the amount is a constant, those
//! with the same address find each other by `match.any` (unless the address is the same for all
//! threads), and the lowest of them adds for all. Where the amount is a number, as bytes of an
//! access are, it is mostly the same for the whole warp, and so is the address: `match.all` tells,
//! and if not, every lane adds for itself. A hot counter takes one atomic a warp, not 32.

use super::function::Translator;
use crate::instruction::{Alu, Operation, Source};
use crate::verify::facts::Place;

/// Where is counted.
#[derive(Clone, Copy)]
pub struct Counter {
    pub place: Place,
    pub bytes: u8,
    pub base: u8,
    pub offset: i16,
}

/// How much.
#[derive(Clone, Copy)]
pub enum Amount {
    Constant(u64),
    Register(u8),
}

impl Translator<'_> {
    /// Adds to a map's value.
    pub fn count(&mut self, counter: Counter, amount: Amount) {
        let shared = matches!(counter.place, Place::Value { shared: true, .. });
        if !self.options.aggregate || !shared {
            let value = match amount {
                Amount::Register(register) => self.atomic_operand(register, counter.bytes),
                Amount::Constant(value) => {
                    let bits = counter.bytes * 8;
                    let register = self.fresh(bits);
                    let value = value as i64;
                    self.emit.line(format!("mov.b{bits} {register}, {value}"));
                    register
                }
            };
            return self.add(None, counter, &value);
        }
        self.emit.counts.aggregated += 1;
        match amount {
            Amount::Constant(by) => self.count_constant(counter, by),
            Amount::Register(register) => self.count_alike(counter, register),
        }
    }

    fn add(&mut self, guard: Option<&str>, counter: Counter, value: &str) {
        self.emit.counts.atomics += 1;
        let bits = counter.bytes * 8;
        let guard = guard.map(|guard| format!("@{guard} ")).unwrap_or_default();
        self.emit.line(format!(
            "{guard}red.relaxed.gpu.global.add.u{bits} [%r{}+{}], {value}",
            counter.base, counter.offset
        ));
    }

    fn is_fixed(&self, counter: Counter) -> bool {
        matches!(counter.place, Place::Value { fixed: Some(_), .. })
    }

    /// Whether this lane is the lowest of some.
    fn is_lowest(&mut self, lanes: &str) -> String {
        let below = self.emit.set_half("mov.u32", "%lanemask_lt");
        let below = self.emit.set_half("and.b32", &format!("{below}, {lanes}"));
        self.emit
            .set_predicate("setp.eq.s32", &format!("{below}, 0"))
    }

    /// How many lanes, as wide as the counter.
    fn how_many(&mut self, lanes: &str, bytes: u8) -> String {
        let many = self.emit.set_half("popc.b32", lanes);
        if bytes == 8 {
            self.emit.set("cvt.u64.u32", &many)
        } else {
            many
        }
    }

    fn count_constant(&mut self, counter: Counter, by: u64) {
        let bits = counter.bytes * 8;
        let mut lanes = self.emit.half();
        self.emit.line(format!("activemask.b32 {lanes}"));
        if !self.is_fixed(counter) {
            let operands = format!("%r{}, {lanes}", counter.base);
            lanes = self.emit.set_half("match.any.sync.b64", &operands);
        }
        let lowest = self.is_lowest(&lanes);
        let mut value = self.how_many(&lanes, counter.bytes);
        let by = if bits == 64 {
            by as i64
        } else {
            (by as i32).into()
        };
        if by != 1 {
            let product = self.fresh(bits);
            self.emit
                .line(format!("mul.lo.s{bits} {product}, {value}, {by}"));
            value = product;
        }
        self.add(Some(&lowest), counter, &value);
    }

    fn count_alike(&mut self, counter: Counter, register: u8) {
        let bits = counter.bytes * 8;
        let amount = self.atomic_operand(register, counter.bytes);
        let lanes = self.emit.half();
        self.emit.line(format!("activemask.b32 {lanes}"));
        let mut alike = self.match_all(bits, &amount, &lanes);
        if !self.is_fixed(counter) {
            let same = self.match_all(64, &format!("%r{}", counter.base), &lanes);
            alike = self
                .emit
                .set_predicate("and.pred", &format!("{alike}, {same}"));
        }
        let lowest = self.is_lowest(&lanes);
        let many = self.how_many(&lanes, counter.bytes);
        let product = self.fresh(bits);
        self.emit
            .line(format!("mul.lo.s{bits} {product}, {many}, {amount}"));
        let value = self.fresh(bits);
        self.emit.line(format!(
            "selp.b{bits} {value}, {product}, {amount}, {alike}"
        ));
        let alone = self.emit.set_predicate("not.pred", &alike);
        let adds = self
            .emit
            .set_predicate("or.pred", &format!("{lowest}, {alone}"));
        self.add(Some(&adds), counter, &value);
    }

    /// Whether all lanes have the same value.
    fn match_all(&mut self, bits: u8, value: &str, lanes: &str) -> String {
        let (matching, alike) = (self.emit.half(), self.emit.predicate());
        self.emit.line(format!(
            "match.all.sync.b{bits} {matching}|{alike}, {value}, {lanes}"
        ));
        alike
    }

    /// `*value += amount` in three plain instructions, on memory that threads share: racing threads
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
            operator,
            wide,
            dst: counted,
            src,
        } = second.operation
        else {
            return false;
        };
        let amount = match (operator, src) {
            (Alu::Add, Source::Immediate(by)) => Amount::Constant(i64::from(by) as u64),
            (Alu::Sub, Source::Immediate(by)) => Amount::Constant(-i64::from(by) as u64),
            (Alu::Add, Source::Register(by)) if by != dst => Amount::Register(by),
            _ => return false,
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
        let counter = Counter {
            place: access.place,
            bytes,
            base,
            offset,
        };
        self.count(counter, amount);
        true
    }
}
