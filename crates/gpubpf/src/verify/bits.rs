//! Which bits of a number are known.

/// Bits of `mask` are unknown; the others are as in `value`, which has none of `mask`'s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    pub value: u64,
    pub mask: u64,
}

impl Bits {
    pub const UNKNOWN: Bits = Bits {
        value: 0,
        mask: u64::MAX,
    };

    pub fn known(value: u64) -> Bits {
        Bits { value, mask: 0 }
    }

    /// The common leading bits of all numbers from `low` to `high`.
    pub fn range(low: u64, high: u64) -> Bits {
        let differing = 64 - (low ^ high).leading_zeros();
        if differing == 64 {
            return Bits::UNKNOWN;
        }
        let mask = (1u64 << differing) - 1;
        Bits {
            value: low & !mask,
            mask,
        }
    }

    fn of(value: u64, mask: u64) -> Bits {
        Bits {
            value: value & !mask,
            mask,
        }
    }

    pub fn add(self, other: Bits) -> Bits {
        let masks = self.mask.wrapping_add(other.mask);
        let values = self.value.wrapping_add(other.value);
        let carries = masks.wrapping_add(values) ^ values;
        Bits::of(values, carries | self.mask | other.mask)
    }

    pub fn sub(self, other: Bits) -> Bits {
        let difference = self.value.wrapping_sub(other.value);
        let highest = difference.wrapping_add(self.mask);
        let lowest = difference.wrapping_sub(other.mask);
        Bits::of(difference, highest ^ lowest | self.mask | other.mask)
    }

    pub fn mul(self, other: Bits) -> Bits {
        if self.mask == 0 && other.mask == 0 {
            return Bits::known(self.value.wrapping_mul(other.value));
        }
        // Trailing zeros add up; more is rarely needed.
        let zeros = |bits: Bits| (bits.value | bits.mask).trailing_zeros();
        let low = (zeros(self) + zeros(other)).min(63);
        Bits {
            value: 0,
            mask: u64::MAX << low,
        }
    }

    pub fn and(self, other: Bits) -> Bits {
        let either = (self.value | self.mask) & (other.value | other.mask);
        let value = self.value & other.value;
        Bits {
            value,
            mask: either & !value,
        }
    }

    pub fn or(self, other: Bits) -> Bits {
        let value = self.value | other.value;
        Bits::of(value, self.mask | other.mask).with_ones(value)
    }

    fn with_ones(self, ones: u64) -> Bits {
        Bits {
            value: self.value | ones,
            mask: self.mask & !ones,
        }
    }

    pub fn xor(self, other: Bits) -> Bits {
        Bits::of(self.value ^ other.value, self.mask | other.mask)
    }

    pub fn shift_left(self, by: u32) -> Bits {
        Bits {
            value: self.value << by,
            mask: self.mask << by,
        }
    }

    pub fn shift_right(self, by: u32) -> Bits {
        Bits {
            value: self.value >> by,
            mask: self.mask >> by,
        }
    }

    pub fn low32(self) -> Bits {
        Bits {
            value: self.value & 0xffff_ffff,
            mask: self.mask & 0xffff_ffff,
        }
    }

    /// What both say; None if they contradict each other.
    pub fn meet(self, other: Bits) -> Option<Bits> {
        let known = !self.mask & !other.mask;
        if (self.value ^ other.value) & known != 0 {
            return None;
        }
        Some(Bits::of(self.value | other.value, self.mask & other.mask))
    }

    /// Whether every number of `other` is one of these.
    pub fn contains(self, other: Bits) -> bool {
        other.mask & !self.mask == 0 && (self.value ^ other.value) & !self.mask == 0
    }
}
