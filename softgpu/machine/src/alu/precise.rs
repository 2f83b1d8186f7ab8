//! Exact binary floating point in software: any format, any rounding. What native arithmetic
//! cannot give (directed roundings, halves, 8-bit floats) is computed here.
//!
//! A finite value is `significand × 2^exponent`; an operation gives its exact result, or, where
//! that is too long, one whose lowest bit stands for everything below it ("sticky"), far enough
//! below any format's last place that rounding cannot tell the difference.

use super::form::Rounding;

/// A binary interchange format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Width of the exponent and of the mantissa without its hidden bit.
    pub exponent: u32,
    pub mantissa: u32,
    /// Bits below the mantissa that the encoding leaves zero (TF32 in 32 bits).
    pub padding: u32,
    /// E4M3 has no infinities: all exponents are ordinary, one code is NaN.
    pub finite_only: bool,
}

const fn ieee(exponent: u32, mantissa: u32) -> Format {
    Format {
        exponent,
        mantissa,
        padding: 0,
        finite_only: false,
    }
}

pub const F16: Format = ieee(5, 10);
pub const BF16: Format = ieee(8, 7);
pub const F32: Format = ieee(8, 23);
pub const F64: Format = ieee(11, 52);
pub const TF32: Format = Format {
    padding: 13,
    ..ieee(8, 10)
};
pub const E5M2: Format = ieee(5, 2);
pub const E4M3: Format = Format {
    finite_only: true,
    ..ieee(4, 3)
};

/// A value, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    Nan,
    Infinite {
        negative: bool,
    },
    Zero {
        negative: bool,
    },
    /// The significand is not 0.
    Finite {
        negative: bool,
        exponent: i32,
        significand: u128,
    },
}

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// All bits but the sign.
    fn magnitude_mask(self) -> u64 {
        (1 << (self.exponent + self.mantissa)) - 1
    }

    fn sign(self, negative: bool) -> u64 {
        (negative as u64) << (self.exponent + self.mantissa)
    }

    pub fn infinity(self, negative: bool) -> u64 {
        self.padded(self.sign(negative) | ((1 << self.exponent) - 1) << self.mantissa)
    }

    /// The largest finite value.
    pub fn largest(self, negative: bool) -> u64 {
        let top = if self.finite_only {
            self.magnitude_mask()
        } else {
            self.infinity(false) >> self.padding
        };
        self.padded(self.sign(negative) | (top - 1))
    }

    pub fn zero(self, negative: bool) -> u64 {
        self.padded(self.sign(negative))
    }

    pub fn one(self) -> u64 {
        self.padded((self.bias() as u64) << self.mantissa)
    }

    /// What NVIDIA hardware writes for a NaN result of up to 32 bits: all ones, sign clear.
    pub fn canonical_nan(self) -> u64 {
        self.padded(self.magnitude_mask())
    }

    fn padded(self, bits: u64) -> u64 {
        bits << self.padding
    }

    pub fn is_subnormal(self, bits: u64) -> bool {
        let magnitude = bits >> self.padding & self.magnitude_mask();
        magnitude != 0 && magnitude >> self.mantissa == 0
    }

    pub fn is_nan(self, bits: u64) -> bool {
        let magnitude = bits >> self.padding & self.magnitude_mask();
        if self.finite_only {
            magnitude == self.magnitude_mask()
        } else {
            magnitude > self.infinity(false) >> self.padding
        }
    }

    pub fn is_negative(self, bits: u64) -> bool {
        bits >> (self.padding + self.exponent + self.mantissa) & 1 != 0
    }

    /// Zero of the same sign in place of a subnormal.
    pub fn flush(self, bits: u64) -> u64 {
        if self.is_subnormal(bits) {
            self.zero(self.is_negative(bits))
        } else {
            bits
        }
    }

    pub fn decode(self, bits: u64) -> Value {
        let negative = self.is_negative(bits);
        if self.is_nan(bits) {
            return Value::Nan;
        }
        let magnitude = bits >> self.padding & self.magnitude_mask();
        if !self.finite_only && magnitude == self.infinity(false) >> self.padding {
            return Value::Infinite { negative };
        }
        if magnitude == 0 {
            return Value::Zero { negative };
        }
        let field = (magnitude >> self.mantissa) as i32;
        let fraction = u128::from(magnitude & ((1 << self.mantissa) - 1));
        let hidden = if field == 0 {
            0
        } else {
            1u128 << self.mantissa
        };
        let exponent = field.max(1) - self.bias() - self.mantissa as i32;
        Value::Finite {
            negative,
            exponent,
            significand: fraction | hidden,
        }
    }

    /// Rounds to this format. NaN becomes the canonical one.
    pub fn encode(self, value: Value, rounding: Rounding) -> u64 {
        let (negative, exponent, significand) = match value {
            Value::Nan => return self.canonical_nan(),
            Value::Infinite { negative } if self.finite_only => {
                return self.padded(self.sign(negative) | self.magnitude_mask());
            }
            Value::Infinite { negative } => return self.infinity(negative),
            Value::Zero { negative } => return self.zero(negative),
            Value::Finite {
                negative,
                exponent,
                significand,
            } => (negative, exponent, significand),
        };
        let leading = exponent + 127 - significand.leading_zeros() as i32;
        let smallest = 1 - self.bias();
        let last_place = leading.max(smallest) - self.mantissa as i32;
        let kept = round_at(negative, exponent, significand, last_place, rounding);
        // A carry out of the mantissa moves into the exponent by itself.
        let magnitude = if leading < smallest {
            kept as u64
        } else {
            let field = (leading + self.bias()) as u64;
            (field << self.mantissa) + (kept as u64 - (1 << self.mantissa))
        };
        let largest = self.largest(false) >> self.padding;
        let too_large = leading > self.bias() + 1 || magnitude > largest;
        if !too_large {
            return self.padded(self.sign(negative) | magnitude);
        }
        let away = match rounding {
            Rounding::NearestEven | Rounding::NearestAway => true,
            Rounding::Zero => false,
            Rounding::Down => negative,
            Rounding::Up => !negative,
        };
        match (away, self.finite_only) {
            (false, _) => self.largest(negative),
            (true, false) => self.infinity(negative),
            (true, true) => self.padded(self.sign(negative) | self.magnitude_mask()),
        }
    }
}

impl Format {
    /// Rounds like [`Self::encode`], but gives zero for what would be below the normal range even
    /// if exponents had no end.
    pub fn encode_flushed(self, value: Value, rounding: Rounding) -> u64 {
        let Value::Finite {
            negative,
            exponent,
            significand,
        } = value
        else {
            return self.encode(value, rounding);
        };
        let leading = exponent + 127 - significand.leading_zeros() as i32;
        let smallest = 1 - self.bias();
        let last_place = leading - self.mantissa as i32;
        let kept = round_at(negative, exponent, significand, last_place, rounding);
        let carried = kept >> (self.mantissa + 1) != 0;
        if leading + i32::from(carried) < smallest {
            return self.zero(negative);
        }
        self.encode(value, rounding)
    }

    /// A NaN of another format in this one: sign and upper payload kept, made quiet.
    pub fn convert_nan(self, bits: u64, from: Format) -> u64 {
        let payload = bits & ((1 << from.mantissa) - 1);
        let payload = if self.mantissa >= from.mantissa {
            payload << (self.mantissa - from.mantissa)
        } else {
            payload >> (from.mantissa - self.mantissa)
        };
        self.infinity(from.is_negative(bits)) | payload | 1 << (self.mantissa - 1)
    }
}

/// `significand × 2^exponent` as a whole number of 2^last_place.
fn round_at(
    negative: bool,
    exponent: i32,
    significand: u128,
    last_place: i32,
    rounding: Rounding,
) -> u128 {
    let shift = last_place - exponent;
    if shift <= 0 {
        return significand.checked_shl(shift.unsigned_abs()).unwrap_or(0);
    }
    let (kept, rest, half) = if shift > 127 {
        // Less than half a place, but not nothing.
        (0, 1, 2)
    } else {
        let kept = significand >> shift;
        (kept, significand - (kept << shift), 1u128 << (shift - 1))
    };
    let up = match rounding {
        Rounding::NearestEven => rest > half || rest == half && kept & 1 != 0,
        Rounding::NearestAway => rest >= half,
        Rounding::Zero => false,
        Rounding::Down => negative && rest != 0,
        Rounding::Up => !negative && rest != 0,
    };
    kept + up as u128
}

/// Shifts so that the top bit is bit 125: room for a carry, and for sticky bits below.
fn normalized(exponent: i32, significand: u128) -> (i32, u128) {
    let shift = significand.leading_zeros() as i32 - 2;
    if shift >= 0 {
        (exponent - shift, significand << shift)
    } else {
        (exponent - shift, significand >> -shift)
    }
}

fn shift_right_sticky(significand: u128, shift: u32) -> u128 {
    if shift > 127 {
        return (significand != 0) as u128;
    }
    let kept = significand >> shift;
    kept | (kept << shift != significand) as u128
}

/// The exact zero that opposite values sum to is negative when rounding down.
fn cancelled(rounding: Rounding) -> Value {
    Value::Zero {
        negative: rounding == Rounding::Down,
    }
}

pub fn add(a: Value, b: Value, rounding: Rounding) -> Value {
    use Value::{Finite, Infinite, Nan, Zero};
    match (a, b) {
        (Nan, _) | (_, Nan) => Nan,
        (Infinite { negative: x }, Infinite { negative: y }) if x != y => Nan,
        (Infinite { .. }, _) => a,
        (_, Infinite { .. }) => b,
        (Zero { negative: x }, Zero { negative: y }) if x != y => cancelled(rounding),
        (_, Zero { .. }) => a,
        (Zero { .. }, _) => b,
        (
            Finite {
                negative: x,
                exponent: ea,
                significand: sa,
            },
            Finite {
                negative: y,
                exponent: eb,
                significand: sb,
            },
        ) => {
            let (ea, sa) = normalized(ea, sa);
            let (eb, sb) = normalized(eb, sb);
            let exponent = ea.max(eb);
            let sa = shift_right_sticky(sa, (exponent - ea) as u32);
            let sb = shift_right_sticky(sb, (exponent - eb) as u32);
            if x == y {
                return Finite {
                    negative: x,
                    exponent,
                    significand: sa + sb,
                };
            }
            match sa.cmp(&sb) {
                std::cmp::Ordering::Equal => cancelled(rounding),
                std::cmp::Ordering::Greater => Finite {
                    negative: x,
                    exponent,
                    significand: sa - sb,
                },
                std::cmp::Ordering::Less => Finite {
                    negative: y,
                    exponent,
                    significand: sb - sa,
                },
            }
        }
    }
}

pub fn negate(a: Value) -> Value {
    match a {
        Value::Nan => Value::Nan,
        Value::Infinite { negative } => Value::Infinite {
            negative: !negative,
        },
        Value::Zero { negative } => Value::Zero {
            negative: !negative,
        },
        Value::Finite {
            negative,
            exponent,
            significand,
        } => Value::Finite {
            negative: !negative,
            exponent,
            significand,
        },
    }
}

/// Significands of at most 64 bits, as decoding gives them.
pub fn multiply(a: Value, b: Value) -> Value {
    use Value::{Finite, Infinite, Nan, Zero};
    let negative = is_negative(a) != is_negative(b);
    match (a, b) {
        (Nan, _) | (_, Nan) | (Infinite { .. }, Zero { .. }) | (Zero { .. }, Infinite { .. }) => {
            Nan
        }
        (Infinite { .. }, _) | (_, Infinite { .. }) => Infinite { negative },
        (Zero { .. }, _) | (_, Zero { .. }) => Zero { negative },
        (
            Finite {
                exponent: ea,
                significand: sa,
                ..
            },
            Finite {
                exponent: eb,
                significand: sb,
                ..
            },
        ) => Finite {
            negative,
            exponent: ea + eb,
            significand: sa * sb,
        },
    }
}

/// Significands of at most 64 bits.
pub fn divide(a: Value, b: Value) -> Value {
    use Value::{Finite, Infinite, Nan, Zero};
    let negative = is_negative(a) != is_negative(b);
    match (a, b) {
        (Nan, _) | (_, Nan) | (Infinite { .. }, Infinite { .. }) | (Zero { .. }, Zero { .. }) => {
            Nan
        }
        (Infinite { .. }, _) | (_, Zero { .. }) => Infinite { negative },
        (Zero { .. }, _) | (_, Infinite { .. }) => Zero { negative },
        (
            Finite {
                exponent: ea,
                significand: sa,
                ..
            },
            Finite {
                exponent: eb,
                significand: sb,
                ..
            },
        ) => {
            let (ea, sa) = normalized(ea, sa);
            let quotient = sa / sb;
            let sticky = (quotient * sb != sa) as u128;
            // At least 126 - 64 quotient bits, plus one for what is left over.
            Finite {
                negative,
                exponent: ea - eb - 1,
                significand: quotient << 1 | sticky,
            }
        }
    }
}

pub fn square_root(a: Value) -> Value {
    match a {
        Value::Zero { .. } | Value::Infinite { negative: false } => a,
        Value::Finite {
            negative: false,
            exponent,
            significand,
        } => {
            let (mut exponent, mut significand) = normalized(exponent, significand);
            if exponent % 2 != 0 {
                exponent -= 1;
                significand <<= 1;
            }
            let root = significand.isqrt();
            let sticky = (root * root != significand) as u128;
            Value::Finite {
                negative: false,
                exponent: exponent / 2 - 1,
                significand: root << 1 | sticky,
            }
        }
        _ => Value::Nan,
    }
}

pub fn is_negative(a: Value) -> bool {
    match a {
        Value::Nan => false,
        Value::Infinite { negative }
        | Value::Zero { negative }
        | Value::Finite { negative, .. } => negative,
    }
}

/// The nearest whole number in the given direction; a zero keeps the sign.
pub fn to_integral(a: Value, rounding: Rounding) -> Value {
    match a {
        Value::Finite {
            negative,
            exponent,
            significand,
        } if exponent < 0 => match round_at(negative, exponent, significand, 0, rounding) {
            0 => Value::Zero { negative },
            whole => Value::Finite {
                negative,
                exponent: 0,
                significand: whole,
            },
        },
        _ => a,
    }
}

/// The whole number a value is, clamped to i128's outer reaches; None for NaN.
pub fn integer(a: Value, rounding: Rounding) -> Option<i128> {
    const LIMIT: i128 = 1 << 100;
    let magnitude = |negative: bool, m: i128| if negative { -m } else { m };
    match to_integral(a, rounding) {
        Value::Nan => None,
        Value::Zero { .. } => Some(0),
        Value::Infinite { negative } => Some(magnitude(negative, LIMIT)),
        Value::Finite {
            negative,
            exponent,
            significand,
        } => {
            let leading = exponent + 127 - significand.leading_zeros() as i32;
            let m = if leading >= 100 {
                LIMIT
            } else {
                (significand << exponent) as i128
            };
            Some(magnitude(negative, m))
        }
    }
}

pub fn from_integer(value: i128) -> Value {
    match value {
        0 => Value::Zero { negative: false },
        _ => Value::Finite {
            negative: value < 0,
            exponent: 0,
            significand: value.unsigned_abs(),
        },
    }
}
