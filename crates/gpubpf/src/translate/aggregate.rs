//! Counting: one atomic for all lanes of a warp that count the same at the same address.
//!
//! Lanes that are here together find each other by `activemask`. Where the amount is a constant, those
//! with the same address find each other by `match.any` (unless the address is the same for all
//! threads), and the lowest of them adds for all. Where the amount is a number, as bytes of an
//! access are, it is mostly the same for the whole warp, and so is the address: `match.all` tells,
//! and if not, every lane adds for itself. A hot counter takes one atomic a warp, not 32.

use super::addition::{Addition, Amount};
use super::function::Translator;
use super::kept;
use crate::verify::facts::AccessedMemory;

impl Translator<'_> {
    /// Adds to a map's value.
    pub fn count(&mut self, counter: Addition) {
        if self.inline {
            return self.keep(counter);
        }
        let shared = matches!(counter.place, AccessedMemory::Value { shared: true, .. });
        if !self.options.aggregate || !shared {
            let value = self.amount(counter);
            return self.add(None, counter, &value);
        }
        self.emit.counts.aggregated += 1;
        match counter.amount {
            Amount::Constant(by) => self.count_constant(counter, by),
            Amount::Register(_) | Amount::Minus(_) => self.count_alike(counter),
        }
    }

    /// How much is added, in a register as wide as the counter.
    fn amount(&mut self, counter: Addition) -> String {
        let bits = counter.bytes * 8;
        match counter.amount {
            Amount::Register(register) => self.atomic_operand(register, counter.bytes),
            Amount::Minus(register) => {
                let value = self.atomic_operand(register, counter.bytes);
                let minus = self.fresh(bits);
                self.emit.line(format!("neg.s{bits} {minus}, {value}"));
                minus
            }
            Amount::Constant(value) => {
                let register = self.fresh(bits);
                let value = if bits == 64 {
                    value as i64
                } else {
                    (value as i32).into()
                };
                self.emit.line(format!("mov.b{bits} {register}, {value}"));
                register
            }
        }
    }

    /// Adds to a sum that the thread keeps.
    fn keep(&mut self, counter: Addition) {
        let object = self.verified.object;
        let sums = (self.options.counters.as_ref())
            .and_then(|counters| kept::candidates(object, counters, &counter))
            .unwrap_or_default();
        let mut value = self.amount(counter);
        if counter.bytes == 4 {
            value = self.emit.set("cvt.u64.u32", &value);
        }
        let alone = sums.len() == 1;
        for slot in &sums {
            let sum = kept::register(self.options, slot);
            if alone {
                self.emit.line(format!("add.s64 {sum}, {sum}, {value}"));
                continue;
            }
            let place = kept::stand_in(slot.map) + slot.offset;
            let from = i128::from(place) - i128::from(counter.offset);
            let is_it = self
                .emit
                .set_predicate("setp.eq.s64", &format!("%r{}, {from}", counter.base));
            self.emit
                .line(format!("@{is_it} add.s64 {sum}, {sum}, {value}"));
        }
    }

    fn add(&mut self, guard: Option<&str>, counter: Addition, value: &str) {
        self.emit.counts.atomics += 1;
        let bits = counter.bytes * 8;
        let guard = guard.map(|guard| format!("@{guard} ")).unwrap_or_default();
        self.emit.line(format!(
            "{guard}red.relaxed.gpu.global.add.u{bits} [%r{}+{}], {value}",
            counter.base, counter.offset
        ));
    }

    fn is_fixed(&self, counter: Addition) -> bool {
        matches!(counter.place, AccessedMemory::Value { fixed: Some(_), .. })
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

    fn count_constant(&mut self, counter: Addition, by: u64) {
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

    fn count_alike(&mut self, counter: Addition) {
        let bits = counter.bytes * 8;
        let amount = self.amount(counter);
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
}
