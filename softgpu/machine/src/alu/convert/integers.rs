//! Conversions with an integer on at least one side.

use super::super::Eval;
use super::super::floating::flush32;
use super::super::form::{Rounding, Type};
use super::super::lanes::{single, unary};
use super::super::precise::{self, Format};
use super::{Shape, finish};

/// The low bits as a number.
pub fn number(x: u64, bits: u8, signed: bool) -> i128 {
    let unused = 64 - bits;
    if signed {
        i128::from((x << unused) as i64 >> unused)
    } else {
        i128::from(x << unused >> unused)
    }
}

/// A number's nearest one in range, as bits.
pub fn clamp(x: i128, bits: u8, signed: bool) -> u64 {
    let (low, high) = if signed {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    cut(x.clamp(low, high) as u64, bits)
}

fn cut(x: u64, bits: u8) -> u64 {
    x & (u64::MAX >> (64 - bits))
}

pub fn between(
    to_bits: u8,
    to_signed: bool,
    from_bits: u8,
    from_signed: bool,
    saturate: bool,
) -> Eval {
    if saturate {
        return single(move |s| clamp(number(s[0], from_bits, from_signed), to_bits, to_signed));
    }
    macro_rules! from {
        ($F:ty) => {
            match to_bits {
                8 => unary(|a: $F| a as u8),
                16 => unary(|a: $F| a as u16),
                32 => unary(|a: $F| a as u32),
                _ => unary(|a: $F| a as u64),
            }
        };
    }
    match (from_bits, from_signed) {
        (8, false) => from!(u8),
        (8, true) => from!(i8),
        (16, false) => from!(u16),
        (16, true) => from!(i16),
        (32, false) => from!(u32),
        (32, true) => from!(i32),
        (_, false) => from!(u64),
        (_, true) => from!(i64),
    }
}

/// Loops of native rounding. Rust's casts clamp and take NaN to 0: PTX's rules, but for the cases
/// where NaN gives the top bit alone.
pub fn from_floats(source: Format, whole: Rounding, flush: bool, bits: u8, signed: bool) -> Eval {
    macro_rules! by_rounding {
        ($F:ty, $read:expr, $I:ty, $nan:expr) => {
            match whole {
                Rounding::NearestEven | Rounding::NearestAway => unary(move |a: $F| {
                    if a.is_nan() {
                        $nan
                    } else {
                        $read(a).round_ties_even() as $I
                    }
                }),
                Rounding::Zero => unary(move |a: $F| {
                    if a.is_nan() {
                        $nan
                    } else {
                        $read(a).trunc() as $I
                    }
                }),
                Rounding::Down => unary(move |a: $F| {
                    if a.is_nan() {
                        $nan
                    } else {
                        $read(a).floor() as $I
                    }
                }),
                Rounding::Up => unary(move |a: $F| {
                    if a.is_nan() {
                        $nan
                    } else {
                        $read(a).ceil() as $I
                    }
                }),
            }
        };
    }
    let read32 = move |a: f32| if flush { flush32(a) } else { a };
    let read64 = |a: f64| a;
    match (source, bits, signed) {
        (precise::F32, 32, true) => by_rounding!(f32, read32, i32, 0),
        (precise::F32, 32, false) => by_rounding!(f32, read32, u32, 0),
        (precise::F32, 64, true) => by_rounding!(f32, read32, i64, i64::MIN),
        (precise::F32, 64, false) => by_rounding!(f32, read32, u64, 1 << 63),
        (precise::F64, 32, true) => by_rounding!(f64, read64, i32, i32::MIN),
        (precise::F64, 32, false) => by_rounding!(f64, read64, u32, 1 << 31),
        (precise::F64, 64, true) => by_rounding!(f64, read64, i64, i64::MIN),
        (precise::F64, 64, false) => by_rounding!(f64, read64, u64, 1 << 63),
        _ => single(move |s| to_integer(s[0], source, whole, flush, bits, signed)),
    }
}

fn to_integer(x: u64, source: Format, whole: Rounding, flush: bool, bits: u8, signed: bool) -> u64 {
    let x = if flush { source.flush(x) } else { x };
    match precise::integer(source.decode(x), whole) {
        Some(n) => clamp(n, bits, signed),
        None if source == precise::F64 || bits == 64 => 1 << (bits - 1),
        None => 0,
    }
}

pub fn to_floats(
    to: Type,
    target: Format,
    bits: u8,
    signed: bool,
    rounding: Rounding,
    shape: Shape,
) -> Eval {
    if rounding == Rounding::NearestEven && !shape.saturate {
        match (to, bits, signed) {
            (Type::F32, 32, true) => return unary(|a: i32| a as f32),
            (Type::F32, 32, false) => return unary(|a: u32| a as f32),
            (Type::F64, 32, true) => return unary(|a: i32| f64::from(a)),
            (Type::F64, 32, false) => return unary(|a: u32| f64::from(a)),
            (Type::F64, 64, true) => return unary(|a: i64| a as f64),
            (Type::F64, 64, false) => return unary(|a: u64| a as f64),
            (Type::F32, 64, true) => return unary(|a: i64| a as f32),
            (Type::F32, 64, false) => return unary(|a: u64| a as f32),
            _ => {}
        }
    }
    single(move |s| {
        let value = precise::from_integer(number(s[0], bits, signed));
        finish(value, target, rounding, shape)
    })
}
