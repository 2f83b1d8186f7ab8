//! Floating-point values in atomic operations.

use crate::program::code::{AtomicOp, AtomicType};

fn flush32(value: f32) -> f32 {
    if value.is_subnormal() {
        0f32.copysign(value)
    } else {
        value
    }
}

/// The new value of an atomic on floats. In global memory f32 additions flush subnormals, in
/// shared memory they do not.
pub fn combine(op: AtomicOp, ty: AtomicType, old: u64, value: u64, is_global: bool) -> u64 {
    match ty {
        AtomicType::F32 => {
            let (a, b) = (f32::from_bits(old as u32), f32::from_bits(value as u32));
            let sum = if is_global {
                flush32(flush32(a) + flush32(b))
            } else {
                a + b
            };
            u64::from(canonical32(sum))
        }
        AtomicType::F64 => {
            // As an H200 does: global memory passes a NaN on as it is and prefers the new one,
            // shared memory makes it quiet and prefers the old one.
            let is_nan = |bits: u64| f64::from_bits(bits).is_nan();
            let (first, second, quiet) = if is_global {
                (value, old, 0)
            } else {
                (old, value, 1 << 51)
            };
            if is_nan(first) {
                first | quiet
            } else if is_nan(second) {
                second | quiet
            } else {
                (f64::from_bits(old) + f64::from_bits(value)).to_bits()
            }
        }
        AtomicType::F16 => u64::from(half(op, HALF, old as u16, value as u16)),
        AtomicType::BF16 => u64::from(half(op, BFLOAT, old as u16, value as u16)),
        AtomicType::F16x2 => pair(op, HALF, old, value),
        AtomicType::BF16x2 => pair(op, BFLOAT, old, value),
        AtomicType::Unsigned | AtomicType::Signed => value,
    }
}

fn canonical32(value: f32) -> u32 {
    if value.is_nan() {
        0x7FFF_FFFF
    } else {
        value.to_bits()
    }
}

/// A 16-bit float format: exponent and fraction bits.
#[derive(Clone, Copy)]
struct Format {
    fraction: u32,
    bias: i32,
}

const HALF: Format = Format {
    fraction: 10,
    bias: 15,
};
const BFLOAT: Format = Format {
    fraction: 7,
    bias: 127,
};

fn pair(op: AtomicOp, format: Format, old: u64, value: u64) -> u64 {
    let low = half(op, format, old as u16, value as u16);
    let high = half(op, format, (old >> 16) as u16, (value >> 16) as u16);
    u64::from(low) | u64::from(high) << 16
}

fn half(op: AtomicOp, format: Format, old: u16, value: u16) -> u16 {
    let (a, b) = (widen(format, old), widen(format, value));
    match op {
        // Exact in double precision, so one rounding in all.
        AtomicOp::Add => narrow(format, a + b),
        AtomicOp::Min | AtomicOp::Max => {
            if a.is_nan() {
                return if b.is_nan() { 0x7FFF } else { value };
            }
            if b.is_nan() {
                return old;
            }
            let old_is_greater = a > b || (a == b && old >> 15 < value >> 15);
            if old_is_greater == (op == AtomicOp::Max) {
                old
            } else {
                value
            }
        }
        _ => value,
    }
}

fn widen(format: Format, bits: u16) -> f64 {
    let fraction_mask = (1u16 << format.fraction) - 1;
    let fraction = f64::from(bits & fraction_mask) / f64::from(1u32 << format.fraction);
    let most = (1i32 << (15 - format.fraction)) - 1;
    let exponent = i32::from(bits >> format.fraction) & most;
    let magnitude = if exponent == most {
        if bits & fraction_mask == 0 {
            f64::INFINITY
        } else {
            f64::NAN
        }
    } else if exponent == 0 {
        fraction * 2f64.powi(1 - format.bias)
    } else {
        (1.0 + fraction) * 2f64.powi(exponent - format.bias)
    };
    if bits >> 15 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

/// Rounds to nearest even.
fn narrow(format: Format, value: f64) -> u16 {
    if value.is_nan() {
        return 0x7FFF;
    }
    let sign = u16::from(value.is_sign_negative()) << 15;
    let magnitude = value.abs();
    let infinity = (((1u32 << (15 - format.fraction)) - 1) << format.fraction) as u16;
    if magnitude.is_infinite() {
        return sign | infinity;
    }
    if magnitude == 0.0 {
        return sign;
    }
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(1 - format.bias);
    // In units of the last place; whole multiples stay whole, and carry moves up by itself.
    let units = magnitude / 2f64.powi(exponent - format.fraction as i32);
    let rounded = units.round_ties_even() as u32;
    let bits =
        rounded as i64 + ((i64::from(exponent) + i64::from(format.bias) - 1) << format.fraction);
    if bits >= i64::from(infinity) {
        sign | infinity
    } else {
        sign | bits as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_widening_and_narrowing() {
        for format in [HALF, BFLOAT] {
            for bits in 0..=u16::MAX {
                let wide = widen(format, bits);
                if !wide.is_nan() {
                    assert_eq!(narrow(format, wide), bits);
                }
            }
        }
    }

    #[test]
    fn halves_round_to_nearest_even_and_overflow_to_infinity() {
        assert_eq!(narrow(HALF, 2049.0), 0x6800);
        assert_eq!(narrow(HALF, 2051.0), 0x6802);
        assert_eq!(narrow(HALF, 65519.9), 0x7BFF);
        assert_eq!(narrow(HALF, 65520.0), 0x7C00);
        assert_eq!(narrow(HALF, 2f64.powi(-25)), 0);
        assert_eq!(narrow(HALF, 2f64.powi(-25) * 1.01), 1);
        assert_eq!(narrow(HALF, -1.0), 0xBC00);
    }

    #[test]
    fn f32_additions_flush_in_global_memory() {
        let tiny = u64::from(1u32);
        let add = |is_global| combine(AtomicOp::Add, AtomicType::F32, tiny, tiny, is_global);
        assert_eq!(add(true), 0);
        assert_eq!(add(false), 2);
    }
}
