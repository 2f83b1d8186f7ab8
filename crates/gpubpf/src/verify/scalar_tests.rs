//! Whatever is known of a number must be true of it: random numbers and what may be known of them, through
//! every operation and every comparison.

use super::scalar::{Scalar, assume};
use crate::instruction::{Alu, Condition};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn number(&mut self) -> u64 {
        match self.next() % 5 {
            0 => self.next(),
            1 => self.next() % 4,
            2 => 0u64.wrapping_sub(self.next() % 4),
            3 => (1 << (self.next() % 64)) - (self.next() % 2),
            _ => (self.next() as i64 >> (self.next() % 64)) as u64,
        }
    }

    /// Something that is known of `value`.
    fn knowledge(&mut self, value: u64) -> Scalar {
        let mut scalar = match self.next() % 4 {
            0 => Scalar::known(value),
            1 => {
                let (a, b) = (self.number(), self.number());
                Scalar::range(a.min(b).min(value), a.max(b).max(value))
            }
            2 => {
                let signed = value as i64;
                let (a, b) = (self.number() as i64, self.number() as i64);
                Scalar::signed_range(a.min(b).min(signed), a.max(b).max(signed))
            }
            _ => Scalar::UNKNOWN,
        };
        // As branches tell more.
        for _ in 0..self.next() % 3 {
            let condition = CONDITIONS[self.next() as usize % CONDITIONS.len()];
            let other = self.number();
            let wide = self.next().is_multiple_of(2);
            let holds = compare(condition, wide, value, other);
            let (narrowed, _) = assume(condition, holds, wide, &scalar, &Scalar::known(other))
                .unwrap_or_else(|| panic!("{condition:?} {holds} of {value:#x} and {other:#x}"));
            scalar = narrowed;
        }
        scalar
    }
}

const CONDITIONS: [Condition; 11] = [
    Condition::Equal,
    Condition::NotEqual,
    Condition::Greater,
    Condition::GreaterEqual,
    Condition::Less,
    Condition::LessEqual,
    Condition::SignedGreater,
    Condition::SignedGreaterEqual,
    Condition::SignedLess,
    Condition::SignedLessEqual,
    Condition::Set,
];

const OPERATORS: [Alu; 14] = [
    Alu::Add,
    Alu::Sub,
    Alu::Mul,
    Alu::Div,
    Alu::SignedDiv,
    Alu::Mod,
    Alu::SignedMod,
    Alu::Or,
    Alu::And,
    Alu::Xor,
    Alu::ShiftLeft,
    Alu::ShiftRight,
    Alu::ShiftRightSigned,
    Alu::Move,
];

fn compare(condition: Condition, wide: bool, left: u64, right: u64) -> bool {
    let (left, right) = if wide {
        (left as i64, right as i64)
    } else {
        (i64::from(left as i32), i64::from(right as i32))
    };
    // Extended alike, numbers without sign keep their order.
    let (a, b) = (left as u64, right as u64);
    match condition {
        Condition::Equal => a == b,
        Condition::NotEqual => a != b,
        Condition::Greater => a > b,
        Condition::GreaterEqual => a >= b,
        Condition::Less => a < b,
        Condition::LessEqual => a <= b,
        Condition::SignedGreater => left > right,
        Condition::SignedGreaterEqual => left >= right,
        Condition::SignedLess => left < right,
        Condition::SignedLessEqual => left <= right,
        Condition::Set => a & b != 0 && (wide || a as u32 & b as u32 != 0),
    }
}

fn compute(operator: Alu, wide: bool, left: u64, right: u64) -> u64 {
    if !wide {
        let (a, b) = (left as u32, right as u32);
        let (sa, sb) = (a as i32, b as i32);
        return u64::from(match operator {
            Alu::Div => a.checked_div(b).unwrap_or(0),
            Alu::Mod => a.checked_rem(b).unwrap_or(a),
            Alu::SignedDiv if b == 0 => 0,
            Alu::SignedDiv => sa.wrapping_div(sb) as u32,
            Alu::SignedMod if b == 0 => a,
            Alu::SignedMod => sa.wrapping_rem(sb) as u32,
            Alu::ShiftLeft => a << (b & 31),
            Alu::ShiftRight => a >> (b & 31),
            Alu::ShiftRightSigned => (sa >> (b & 31)) as u32,
            other => compute(other, true, left, right) as u32,
        });
    }
    let (signed_left, signed_right) = (left as i64, right as i64);
    match operator {
        Alu::Add => left.wrapping_add(right),
        Alu::Sub => left.wrapping_sub(right),
        Alu::Mul => left.wrapping_mul(right),
        Alu::Div => left.checked_div(right).unwrap_or(0),
        Alu::Mod => left.checked_rem(right).unwrap_or(left),
        Alu::SignedDiv if right == 0 => 0,
        Alu::SignedDiv => signed_left.wrapping_div(signed_right) as u64,
        Alu::SignedMod if right == 0 => left,
        Alu::SignedMod => signed_left.wrapping_rem(signed_right) as u64,
        Alu::Or => left | right,
        Alu::And => left & right,
        Alu::Xor => left ^ right,
        Alu::ShiftLeft => left << (right & 63),
        Alu::ShiftRight => left >> (right & 63),
        Alu::ShiftRightSigned => (signed_left >> (right & 63)) as u64,
        Alu::Move => right,
    }
}

fn holds(scalar: &Scalar, value: u64) -> bool {
    scalar.contains(&Scalar::known(value))
}

const ROUNDS: usize = 300_000;

#[test]
fn arithmetic_is_covered() {
    let mut random = Random(1);
    for round in 0..ROUNDS {
        let (left, right) = (random.number(), random.number());
        let (a, b) = (random.knowledge(left), random.knowledge(right));
        assert!(holds(&a, left) && holds(&b, right));
        let operator = OPERATORS[round % OPERATORS.len()];
        let wide = random.next().is_multiple_of(2);
        let result = a.arithmetic(operator, &b, wide);
        let exact = compute(operator, wide, left, right);
        // A 32-bit move is made by the caller.
        if operator == Alu::Move && !wide {
            continue;
        }
        assert!(
            holds(&result, exact),
            "{operator:?} wide {wide}: {left:#x} in {a:x?}, {right:#x} in {b:x?}: {exact:#x} not in {result:x?}"
        );
    }
}

#[test]
fn comparisons_are_covered() {
    let mut random = Random(2);
    for round in 0..ROUNDS {
        let (left, right) = (random.number(), random.number());
        let (a, b) = (random.knowledge(left), random.knowledge(right));
        let condition = CONDITIONS[round % CONDITIONS.len()];
        let wide = random.next().is_multiple_of(2);
        let truth = compare(condition, wide, left, right);
        let known = assume(condition, truth, wide, &a, &b);
        let fits = known.is_some_and(|(a, b)| holds(&a, left) && holds(&b, right));
        assert!(
            fits,
            "{condition:?} wide {wide} is {truth}: {left:#x} in {a:x?}, {right:#x} in {b:x?}: {known:x?}"
        );
    }
}

#[test]
fn cuts_and_extensions_are_covered() {
    let mut random = Random(3);
    for _ in 0..ROUNDS {
        let value = random.number();
        let known = random.knowledge(value);
        assert!(holds(&known.low_half(), value & 0xffff_ffff));
        for bytes in [1, 2, 4, 8] {
            let cut = value & (u64::MAX >> (64 - u32::from(bytes) * 8));
            assert!(holds(&known.low_bytes(bytes), cut));
        }
        for bits in [8, 16, 32] {
            let unused = 64 - u32::from(bits);
            let extended = ((value << unused) as i64 >> unused) as u64;
            assert!(holds(&known.sign_extended(bits), extended), "{known:x?}");
        }
        assert!(holds(&known.negated(true), value.wrapping_neg()));
        let half = u64::from((value as u32).wrapping_neg());
        assert!(holds(&known.negated(false), half));
    }
}
