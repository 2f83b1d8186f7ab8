//! Fast arithmetic on f16 and bf16, rounding to nearest even: through f64, with one rounding.
//!
//! Sums and products of halves are exact in f64, or rounded to odd there, so that the rounding to
//! the half is the only one that counts. `precise` computes the same, slowly.

use super::Eval;
use super::lanes::{binary, ternary};

/// What may be asked of a result.
#[derive(Debug, Clone, Copy)]
pub struct Finish {
    pub flush: bool,
    pub saturate: bool,
    pub relu: bool,
}

/// One of the two half formats, known at compile time.
pub trait Half {
    const MANTISSA: u32;
    const BIAS: u64;
}

pub struct F16;
pub struct BF16;

impl Half for F16 {
    const MANTISSA: u32 = 10;
    const BIAS: u64 = 15;
}

impl Half for BF16 {
    const MANTISSA: u32 = 7;
    const BIAS: u64 = 127;
}

const NAN: u16 = 0x7fff;

const fn infinity<H: Half>() -> u16 {
    0x7fff >> H::MANTISSA << H::MANTISSA
}

fn flushed<H: Half>(bits: u16) -> u16 {
    if bits & infinity::<H>() == 0 {
        bits & 0x8000
    } else {
        bits
    }
}

/// The same value; any NaN for NaN.
#[inline(always)]
pub fn widen<H: Half>(bits: u16) -> f64 {
    let magnitude = u64::from(bits & 0x7fff) << (52 - H::MANTISSA);
    // Scaling by a power of two also brings subnormals to where they belong.
    let scale = f64::from_bits((2 * 1023 - H::BIAS) << 52);
    let value = f64::from_bits(magnitude) * scale;
    let value = if bits & 0x7fff > infinity::<H>() {
        f64::NAN
    } else if bits & 0x7fff == infinity::<H>() {
        f64::INFINITY
    } else {
        value
    };
    if bits & 0x8000 != 0 { -value } else { value }
}

/// Rounds to the nearest half, ties to even.
#[inline(always)]
pub fn narrow<H: Half>(value: f64) -> u16 {
    let drop = 52 - H::MANTISSA;
    let sign = (value.to_bits() >> 48) as u16 & 0x8000;
    let magnitude = value.abs();
    // Adding this leaves a sum whose last place is that of the half's subnormals.
    let anchor = f64::from_bits((1023 + 1 - H::BIAS + u64::from(drop)) << 52);
    let subnormal = (magnitude + anchor).to_bits() - anchor.to_bits();
    let bits = magnitude.to_bits();
    let odd = bits >> drop & 1;
    let rounded = (bits + ((1 << (drop - 1)) - 1) + odd) >> drop;
    let normal = rounded.wrapping_sub((1023 - H::BIAS) << H::MANTISSA);
    let smallest = f64::from_bits((1023 + 1 - H::BIAS) << 52);
    let result = if magnitude < smallest {
        subnormal
    } else {
        normal
    };
    let result = result.min(u64::from(infinity::<H>())) as u16;
    if value.is_nan() { NAN } else { sign | result }
}

/// A sum whose last bit is odd whenever something was lost: rounding it again is harmless.
#[inline(always)]
pub fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let back = sum - a;
    let lost = (a - (sum - back)) + (b - back);
    let bits = sum.to_bits();
    if lost == 0.0 || !sum.is_finite() || bits & 1 != 0 {
        return sum;
    }
    let away = (lost < 0.0) == (sum < 0.0);
    f64::from_bits(if away { bits + 1 } else { bits - 1 })
}

#[inline(always)]
fn finished<H: Half>(value: f64, finish: Finish) -> u16 {
    let bits = narrow::<H>(value);
    // Below this, even a format without subnormals would not reach the smallest normal.
    let smallest = f64::from_bits((1023 + 1 - H::BIAS) << 52);
    let tiny = smallest - smallest * f64::from_bits((1023 - 2 - u64::from(H::MANTISSA)) << 52);
    let bits = if finish.flush && value.abs() < tiny {
        bits & 0x8000
    } else {
        bits
    };
    if finish.saturate {
        let one = (H::BIAS << H::MANTISSA) as u16;
        let bits = if bits & 0x8000 != 0 || value.is_nan() {
            0
        } else {
            bits
        };
        return bits.min(one);
    }
    if finish.relu && bits & 0x8000 != 0 {
        0
    } else {
        bits
    }
}

#[inline(always)]
fn read<H: Half>(bits: u16, finish: Finish) -> f64 {
    widen::<H>(if finish.flush {
        flushed::<H>(bits)
    } else {
        bits
    })
}

/// Applies `f` to one half or to both of a pair.
macro_rules! halves {
    ($build:ident, $packed:expr, |$($x:ident),+| $one:expr) => {{
        let one = move |$($x: u16),+| -> u16 { $one };
        if $packed {
            $build(move |$($x: u32),+| {
                let low = one($($x as u16),+);
                let high = one($(($x >> 16) as u16),+);
                u32::from(high) << 16 | u32::from(low)
            })
        } else {
            $build(one)
        }
    }};
}

pub fn add<H: Half + 'static>(packed: bool, finish: Finish) -> Eval {
    halves!(binary, packed, |a, b| finished::<H>(
        add_to_odd(read::<H>(a, finish), read::<H>(b, finish)),
        finish
    ))
}

pub fn subtract<H: Half + 'static>(packed: bool, finish: Finish) -> Eval {
    halves!(binary, packed, |a, b| finished::<H>(
        add_to_odd(read::<H>(a, finish), -read::<H>(b, finish)),
        finish
    ))
}

pub fn multiply<H: Half + 'static>(packed: bool, finish: Finish) -> Eval {
    halves!(binary, packed, |a, b| finished::<H>(
        read::<H>(a, finish) * read::<H>(b, finish),
        finish
    ))
}

pub fn multiply_add<H: Half + 'static>(packed: bool, finish: Finish) -> Eval {
    halves!(ternary, packed, |a, b, c| finished::<H>(
        add_to_odd(
            read::<H>(a, finish) * read::<H>(b, finish),
            read::<H>(c, finish)
        ),
        finish
    ))
}

#[cfg(test)]
mod tests {
    use super::super::{form::Rounding, precise};
    use super::*;

    fn agrees<H: Half>(format: precise::Format) {
        for bits in 0..=u16::MAX {
            let wide = widen::<H>(bits);
            match format.decode(u64::from(bits)) {
                precise::Value::Nan => assert!(wide.is_nan()),
                value => {
                    let exact = precise::F64.encode(value, Rounding::NearestEven);
                    assert_eq!(wide.to_bits(), exact, "{bits:x}");
                    assert_eq!(narrow::<H>(wide), bits);
                }
            }
        }
        // Values between halves: each half's neighbourhood in f64, and sums of far ones.
        let mut state = 1u64;
        for _ in 0..300_000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let half = (state >> 40) as u16;
            let beside = widen::<H>(half)
                .to_bits()
                .wrapping_add(state >> 20 & 3)
                .wrapping_sub(1);
            let middle = widen::<H>(half)
                .to_bits()
                .wrapping_add(1 << (51 - H::MANTISSA));
            for bits in [
                beside,
                middle,
                middle.wrapping_add(1),
                middle.wrapping_sub(1),
            ] {
                let exact = format.encode(precise::F64.decode(bits), Rounding::NearestEven);
                assert_eq!(
                    u64::from(narrow::<H>(f64::from_bits(bits))),
                    exact,
                    "{bits:x}"
                );
            }
            let (a, b, c) = (half, (state >> 24) as u16, (state >> 8) as u16);
            let [x, y, z] = [a, b, c].map(|v| format.decode(u64::from(v)));
            let exact = precise::add(precise::multiply(x, y), z, Rounding::NearestEven);
            let sum = add_to_odd(widen::<H>(a) * widen::<H>(b), widen::<H>(c));
            let exact = format.encode(exact, Rounding::NearestEven);
            assert_eq!(u64::from(narrow::<H>(sum)), exact, "{a:x} {b:x} {c:x}");
        }
    }

    #[test]
    fn halves_through_doubles_are_exact() {
        agrees::<F16>(precise::F16);
        agrees::<BF16>(precise::BF16);
    }
}
