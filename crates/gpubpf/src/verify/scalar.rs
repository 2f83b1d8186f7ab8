//! What is known about a number in a register: bits and ranges, for all 64 bits and for the low 32.

use super::bits::Bits;
use crate::instruction::{Alu, Condition};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scalar {
    pub bits: Bits,
    pub low: u64,
    pub high: u64,
    pub signed_low: i64,
    pub signed_high: i64,
    low32: u32,
    high32: u32,
    signed_low32: i32,
    signed_high32: i32,
}

impl Scalar {
    pub const UNKNOWN: Scalar = Scalar {
        bits: Bits::UNKNOWN,
        low: 0,
        high: u64::MAX,
        signed_low: i64::MIN,
        signed_high: i64::MAX,
        low32: 0,
        high32: u32::MAX,
        signed_low32: i32::MIN,
        signed_high32: i32::MAX,
    };

    pub fn known(value: u64) -> Scalar {
        Scalar {
            bits: Bits::known(value),
            low: value,
            high: value,
            signed_low: value as i64,
            signed_high: value as i64,
            low32: value as u32,
            high32: value as u32,
            signed_low32: value as i32,
            signed_high32: value as i32,
        }
    }

    pub fn range(low: u64, high: u64) -> Scalar {
        let mut scalar = Scalar::UNKNOWN;
        (scalar.low, scalar.high) = (low, high);
        scalar.tightened()
    }

    pub fn signed_range(low: i64, high: i64) -> Scalar {
        let mut scalar = Scalar::UNKNOWN;
        (scalar.signed_low, scalar.signed_high) = (low, high);
        scalar.tightened()
    }

    fn from_bits(bits: Bits) -> Scalar {
        let mut scalar = Scalar::UNKNOWN;
        scalar.bits = bits;
        scalar.tightened()
    }

    /// What a load of so many bytes gives.
    pub fn of_bytes(bytes: u8, signed: bool) -> Scalar {
        let bits = u32::from(bytes) * 8;
        if bits >= 64 {
            Scalar::UNKNOWN
        } else if signed {
            Scalar::signed_range(-1 << (bits - 1), (1 << (bits - 1)) - 1)
        } else {
            Scalar::range(0, (1 << bits) - 1)
        }
    }

    pub fn constant(&self) -> Option<u64> {
        (self.bits.mask == 0).then_some(self.bits.value)
    }

    /// Lets each view of the number narrow the others. An impossible number stays as it was.
    fn tightened(self) -> Scalar {
        self.narrowed().unwrap_or(self)
    }

    /// None where no number fits.
    fn narrowed(mut self) -> Option<Scalar> {
        for _ in 0..2 {
            let bits = self.bits;
            self.low = self.low.max(bits.value);
            self.high = self.high.min(bits.value | bits.mask);
            self.low32 = self.low32.max(bits.value as u32);
            self.high32 = self.high32.min((bits.value | bits.mask) as u32);
            let sign = 1u64 << 63;
            let sign_unknown = bits.mask & sign;
            self.signed_low = self.signed_low.max((bits.value | sign_unknown) as i64);
            self.signed_high = self
                .signed_high
                .min((bits.value | bits.mask & !sign) as i64);
            // The same sign at both ends: one order for both views.
            if (self.low as i64) <= self.high as i64 {
                self.signed_low = self.signed_low.max(self.low as i64);
                self.signed_high = self.signed_high.min(self.high as i64);
            }
            if self.signed_low as u64 <= self.signed_high as u64 {
                self.low = self.low.max(self.signed_low as u64);
                self.high = self.high.min(self.signed_high as u64);
            }
            if (self.low32 as i32) <= self.high32 as i32 {
                self.signed_low32 = self.signed_low32.max(self.low32 as i32);
                self.signed_high32 = self.signed_high32.min(self.high32 as i32);
            }
            if self.signed_low32 as u32 <= self.signed_high32 as u32 {
                self.low32 = self.low32.max(self.signed_low32 as u32);
                self.high32 = self.high32.min(self.signed_high32 as u32);
            }
            // The same upper half at both ends: the low half has the same order.
            if self.low >> 32 == self.high >> 32 {
                self.low32 = self.low32.max(self.low as u32);
                self.high32 = self.high32.min(self.high as u32);
                let upper = self.low & !0xffff_ffff;
                self.low = self.low.max(upper | u64::from(self.low32));
                self.high = self.high.min(upper | u64::from(self.high32));
            }
            if self.signed_low >= i64::from(i32::MIN) && self.signed_high <= i64::from(i32::MAX) {
                self.signed_low32 = self.signed_low32.max(self.signed_low as i32);
                self.signed_high32 = self.signed_high32.min(self.signed_high as i32);
                self.signed_low = self.signed_low.max(i64::from(self.signed_low32));
                self.signed_high = self.signed_high.min(i64::from(self.signed_high32));
            }
            if self.low > self.high
                || self.signed_low > self.signed_high
                || self.low32 > self.high32
                || self.signed_low32 > self.signed_high32
            {
                return None;
            }
            let low_half = Bits::range(self.low32.into(), self.high32.into());
            let low_half = Bits {
                value: low_half.value & 0xffff_ffff,
                mask: low_half.mask | !0xffff_ffff,
            };
            self.bits = bits
                .meet(Bits::range(self.low, self.high))?
                .meet(low_half)?;
        }
        Some(self)
    }

    /// Whether every number `other` may be is one of these.
    pub fn contains(&self, other: &Scalar) -> bool {
        self.bits.contains(other.bits)
            && self.low <= other.low
            && self.high >= other.high
            && self.signed_low <= other.signed_low
            && self.signed_high >= other.signed_high
            && self.low32 <= other.low32
            && self.high32 >= other.high32
            && self.signed_low32 <= other.signed_low32
            && self.signed_high32 >= other.signed_high32
    }

    /// The low half, the upper cleared.
    pub fn low_half(&self) -> Scalar {
        let mut half = Scalar::UNKNOWN;
        half.bits = self.bits.low32();
        (half.low, half.high) = (self.low32.into(), self.high32.into());
        (half.low32, half.high32) = (self.low32, self.high32);
        (half.signed_low32, half.signed_high32) = (self.signed_low32, self.signed_high32);
        half.tightened()
    }

    /// The low bytes, zero-extended.
    pub fn low_bytes(&self, bytes: u8) -> Scalar {
        match bytes {
            8 => *self,
            4 => self.low_half(),
            _ => self.arithmetic(Alu::And, &Scalar::known((1 << (bytes * 8)) - 1), true),
        }
    }

    /// The low `bits`, sign-extended to 64.
    pub fn sign_extended(&self, bits: u8) -> Scalar {
        if let Some(value) = self.constant() {
            let unused = 64 - u32::from(bits);
            return Scalar::known(((value << unused) as i64 >> unused) as u64);
        }
        if bits == 32 {
            return Scalar::signed_range(self.signed_low32.into(), self.signed_high32.into());
        }
        let limit = 1i64 << (bits - 1);
        if self.signed_low >= -limit && self.signed_high < limit {
            return *self;
        }
        Scalar::signed_range(-limit, limit - 1)
    }

    /// What `self operator other` may be.
    pub fn arithmetic(&self, operator: Alu, other: &Scalar, wide: bool) -> Scalar {
        if wide {
            return self.wide(operator, other);
        }
        // In 32 bits: as 64-bit numbers of the right extension, cut off afterwards.
        let (left, right) = match operator {
            Alu::ShiftRightSigned | Alu::SignedDiv | Alu::SignedMod => {
                let right = match operator {
                    Alu::ShiftRightSigned => other.low_half(),
                    _ => other.sign_extended(32),
                };
                (self.sign_extended(32), right)
            }
            Alu::Add | Alu::Sub
                if self.signed_low32 <= self.signed_high32
                    && (self.high32 as i32) < 0
                    && self.signed_low32 > i32::MIN =>
            {
                (self.sign_extended(32), other.sign_extended(32))
            }
            _ => (self.low_half(), other.low_half()),
        };
        let count = match operator {
            Alu::ShiftLeft | Alu::ShiftRight | Alu::ShiftRightSigned => match right.constant() {
                Some(by) => Scalar::known(by & 31),
                None => Scalar::range(0, 31),
            },
            _ => right,
        };
        left.wide(operator, &count).low_half()
    }

    fn wide(&self, operator: Alu, other: &Scalar) -> Scalar {
        match operator {
            Alu::Move => *other,
            Alu::Add => self.add(other),
            Alu::Sub => self.sub(other),
            Alu::Mul => self.mul(other),
            Alu::And => {
                let mut result = Scalar::from_bits(self.bits.and(other.bits));
                result.high = result.high.min(self.high).min(other.high);
                result.tightened()
            }
            Alu::Or => {
                let mut result = Scalar::from_bits(self.bits.or(other.bits));
                result.low = result.low.max(self.low).max(other.low);
                result.tightened()
            }
            Alu::Xor => Scalar::from_bits(self.bits.xor(other.bits)),
            Alu::ShiftLeft => match other.constant() {
                Some(by) => {
                    let by = (by & 63) as u32;
                    let mut result = Scalar::from_bits(self.bits.shift_left(by));
                    if self.high.leading_zeros() >= by {
                        (result.low, result.high) = (self.low << by, self.high << by);
                    }
                    result.tightened()
                }
                None => Scalar::UNKNOWN,
            },
            Alu::ShiftRight => match other.constant() {
                Some(by) => {
                    let by = (by & 63) as u32;
                    let mut result = Scalar::from_bits(self.bits.shift_right(by));
                    (result.low, result.high) = (self.low >> by, self.high >> by);
                    result.tightened()
                }
                None => Scalar::range(0, self.high),
            },
            Alu::ShiftRightSigned => match other.constant() {
                Some(by) => {
                    let by = (by & 63) as u32;
                    Scalar::signed_range(self.signed_low >> by, self.signed_high >> by)
                }
                None => Scalar::signed_range(self.signed_low.min(0), self.signed_high.max(-1)),
            },
            Alu::Div => match other.constant() {
                Some(0) => Scalar::known(0),
                Some(by) => Scalar::range(self.low / by, self.high / by),
                None => Scalar::range(0, self.high),
            },
            Alu::Mod => match other.constant() {
                Some(0) => *self,
                Some(by) if self.high < by => *self,
                Some(by) => Scalar::range(0, by - 1),
                None => Scalar::range(0, self.high),
            },
            Alu::SignedDiv => match (self.constant(), other.constant()) {
                (Some(left), Some(right)) => Scalar::known(match right as i64 {
                    0 => 0,
                    right => (left as i64).wrapping_div(right) as u64,
                }),
                (_, Some(by)) if by as i64 > 0 => {
                    let by = by as i64;
                    Scalar::signed_range(self.signed_low / by, self.signed_high / by)
                }
                _ => Scalar::UNKNOWN,
            },
            Alu::SignedMod => match (self.constant(), other.constant()) {
                (Some(left), Some(right)) => Scalar::known(match right as i64 {
                    0 => left,
                    right => (left as i64).wrapping_rem(right) as u64,
                }),
                (_, Some(by)) if by as i64 > 0 => {
                    let most = by as i64 - 1;
                    let low = if self.signed_low >= 0 { 0 } else { -most };
                    let high = if self.signed_high <= 0 { 0 } else { most };
                    Scalar::signed_range(low, high)
                }
                _ => Scalar::UNKNOWN,
            },
        }
    }

    fn add(&self, other: &Scalar) -> Scalar {
        let mut result = Scalar::UNKNOWN;
        result.bits = self.bits.add(other.bits);
        if let (Some(_), Some(high)) = (
            self.low.checked_add(other.low),
            self.high.checked_add(other.high),
        ) {
            (result.low, result.high) = (self.low + other.low, high);
        }
        if let (Some(low), Some(high)) = (
            self.signed_low.checked_add(other.signed_low),
            self.signed_high.checked_add(other.signed_high),
        ) {
            (result.signed_low, result.signed_high) = (low, high);
        }
        result.tightened()
    }

    fn sub(&self, other: &Scalar) -> Scalar {
        let mut result = Scalar::UNKNOWN;
        result.bits = self.bits.sub(other.bits);
        if self.low >= other.high {
            (result.low, result.high) = (self.low - other.high, self.high - other.low);
        }
        if let (Some(low), Some(high)) = (
            self.signed_low.checked_sub(other.signed_high),
            self.signed_high.checked_sub(other.signed_low),
        ) {
            (result.signed_low, result.signed_high) = (low, high);
        }
        result.tightened()
    }

    fn mul(&self, other: &Scalar) -> Scalar {
        let mut result = Scalar::UNKNOWN;
        result.bits = self.bits.mul(other.bits);
        if let Some(high) = self.high.checked_mul(other.high) {
            (result.low, result.high) = (self.low * other.low, high);
        }
        result.tightened()
    }

    pub fn negated(&self, wide: bool) -> Scalar {
        Scalar::known(0).arithmetic(Alu::Sub, self, wide)
    }
}

impl Condition {
    pub fn opposite(self) -> Option<Condition> {
        Some(match self {
            Condition::Equal => Condition::NotEqual,
            Condition::NotEqual => Condition::Equal,
            Condition::Greater => Condition::LessEqual,
            Condition::GreaterEqual => Condition::Less,
            Condition::Less => Condition::GreaterEqual,
            Condition::LessEqual => Condition::Greater,
            Condition::SignedGreater => Condition::SignedLessEqual,
            Condition::SignedGreaterEqual => Condition::SignedLess,
            Condition::SignedLess => Condition::SignedGreaterEqual,
            Condition::SignedLessEqual => Condition::SignedGreater,
            Condition::Set => return None,
        })
    }
}

/// Both numbers where the condition holds (or, negated, does not hold); None where it cannot be so.
pub fn assume(
    condition: Condition,
    holds: bool,
    wide: bool,
    left: &Scalar,
    right: &Scalar,
) -> Option<(Scalar, Scalar)> {
    let (mut left, mut right) = (*left, *right);
    let condition = if holds {
        condition
    } else {
        match condition.opposite() {
            Some(opposite) => opposite,
            None => return assume_clear(wide, left, right),
        }
    };
    let swapped = |condition: Condition| match condition {
        Condition::Greater => Condition::Less,
        Condition::GreaterEqual => Condition::LessEqual,
        Condition::SignedGreater => Condition::SignedLess,
        Condition::SignedGreaterEqual => Condition::SignedLessEqual,
        same => same,
    };
    match condition {
        Condition::Greater
        | Condition::GreaterEqual
        | Condition::SignedGreater
        | Condition::SignedGreaterEqual => {
            let (right, left) = assume(swapped(condition), true, wide, &right, &left)?;
            return Some((left, right));
        }
        Condition::Set => {
            let mask = if wide { u64::MAX } else { 0xffff_ffff };
            let common = left.bits.and(right.bits);
            if (common.value | common.mask) & mask == 0 {
                return None;
            }
        }
        Condition::Equal => {
            if wide {
                let mut both = left;
                both.bits = left.bits.meet(right.bits)?;
                both.low = left.low.max(right.low);
                both.high = left.high.min(right.high);
                both.signed_low = left.signed_low.max(right.signed_low);
                both.signed_high = left.signed_high.min(right.signed_high);
                both.meet_low(&right);
                let both = both.narrowed()?;
                return Some((both, both));
            }
            let low = |bits: Bits| Bits {
                value: bits.value & 0xffff_ffff,
                mask: bits.mask | !0xffff_ffff,
            };
            let (left_bits, right_bits) = (left.bits, right.bits);
            left.bits = left_bits.meet(low(right_bits))?;
            right.bits = right_bits.meet(low(left_bits))?;
            let before = left;
            left.meet_low(&right);
            right.meet_low(&before);
        }
        Condition::NotEqual => {
            if wide {
                exclude(&mut left, &right)?;
                exclude(&mut right, &left)?;
            } else {
                exclude_low(&mut left, &right)?;
                exclude_low(&mut right, &left)?;
            }
        }
        Condition::Less | Condition::LessEqual => {
            let strict = u64::from(condition == Condition::Less);
            if wide {
                left.high = left.high.min(right.high.checked_sub(strict)?);
                right.low = right.low.max(left.low.checked_add(strict)?);
            } else {
                let strict = strict as u32;
                left.high32 = left.high32.min(right.high32.checked_sub(strict)?);
                right.low32 = right.low32.max(left.low32.checked_add(strict)?);
            }
        }
        Condition::SignedLess | Condition::SignedLessEqual => {
            let strict = i64::from(condition == Condition::SignedLess);
            if wide {
                left.signed_high = left.signed_high.min(right.signed_high.checked_sub(strict)?);
                right.signed_low = right.signed_low.max(left.signed_low.checked_add(strict)?);
            } else {
                let strict = strict as i32;
                left.signed_high32 =
                    (left.signed_high32).min(right.signed_high32.checked_sub(strict)?);
                right.signed_low32 =
                    (right.signed_low32).max(left.signed_low32.checked_add(strict)?);
            }
        }
    }
    Some((left.narrowed()?, right.narrowed()?))
}

impl Scalar {
    fn meet_low(&mut self, other: &Scalar) {
        self.low32 = self.low32.max(other.low32);
        self.high32 = self.high32.min(other.high32);
        self.signed_low32 = self.signed_low32.max(other.signed_low32);
        self.signed_high32 = self.signed_high32.min(other.signed_high32);
    }
}

/// No common bit: where one number is known, the other's bits there are clear.
fn assume_clear(wide: bool, mut left: Scalar, mut right: Scalar) -> Option<(Scalar, Scalar)> {
    let mask = if wide { u64::MAX } else { 0xffff_ffff };
    let clear = |bits: Bits, ones: u64| {
        bits.meet(Bits {
            value: 0,
            mask: !(ones & mask),
        })
    };
    let (left_ones, right_ones) = (left.bits.value, right.bits.value);
    left.bits = clear(left.bits, right_ones)?;
    right.bits = clear(right.bits, left_ones)?;
    Some((left.narrowed()?, right.narrowed()?))
}

/// Takes a known number off the ends of a range.
fn exclude(scalar: &mut Scalar, other: &Scalar) -> Option<()> {
    let Some(value) = other.constant() else {
        return Some(());
    };
    if scalar.constant() == Some(value) {
        return None;
    }
    if scalar.low == value {
        scalar.low = scalar.low.checked_add(1)?;
    }
    if scalar.high == value {
        scalar.high = scalar.high.checked_sub(1)?;
    }
    if scalar.signed_low == value as i64 {
        scalar.signed_low = scalar.signed_low.checked_add(1)?;
    }
    if scalar.signed_high == value as i64 {
        scalar.signed_high = scalar.signed_high.checked_sub(1)?;
    }
    Some(())
}

fn exclude_low(scalar: &mut Scalar, other: &Scalar) -> Option<()> {
    if other.low32 != other.high32 {
        return Some(());
    }
    let value = other.low32;
    if scalar.low32 == value {
        scalar.low32 = scalar.low32.checked_add(1)?;
    }
    if scalar.high32 == value {
        scalar.high32 = scalar.high32.checked_sub(1)?;
    }
    if scalar.signed_low32 == value as i32 {
        scalar.signed_low32 = scalar.signed_low32.checked_add(1)?;
    }
    if scalar.signed_high32 == value as i32 {
        scalar.signed_high32 = scalar.signed_high32.checked_sub(1)?;
    }
    Some(())
}
