//! f32 addition and multiplication in directed roundings, through f64: products are exact there,
//! sums rounded to odd, so that the step to f32 is the only rounding that counts. CUDA's own expf
//! and sinf use these, so `precise` would be too slow.

use super::Eval;
use super::floating::{canonical32, flush32, saturate32};
use super::form::Rounding;
use super::half::add_to_odd;
use super::lanes::{binary, ternary};

/// How a result is brought into f32.
#[derive(Debug, Clone, Copy)]
pub struct Finish {
    pub rounding: Rounding,
    pub flush: bool,
    pub saturate: bool,
}

pub fn add(finish: Finish) -> Eval {
    binary(move |a: f32, b: f32| {
        sum(
            finish,
            f64::from(read(finish, a)),
            f64::from(read(finish, b)),
        )
    })
}

pub fn subtract(finish: Finish) -> Eval {
    binary(move |a: f32, b: f32| {
        sum(
            finish,
            f64::from(read(finish, a)),
            -f64::from(read(finish, b)),
        )
    })
}

pub fn multiply(finish: Finish) -> Eval {
    binary(move |a: f32, b: f32| {
        let product = f64::from(read(finish, a)) * f64::from(read(finish, b));
        finished(finish, product)
    })
}

pub fn multiply_add(finish: Finish) -> Eval {
    ternary(move |a: f32, b: f32, c: f32| {
        let product = f64::from(read(finish, a)) * f64::from(read(finish, b));
        sum(finish, product, f64::from(read(finish, c)))
    })
}

#[inline(always)]
fn read(finish: Finish, x: f32) -> f32 {
    if finish.flush { flush32(x) } else { x }
}

#[inline(always)]
fn sum(finish: Finish, a: f64, b: f64) -> u32 {
    let value = add_to_odd(a, b);
    // Opposite values sum to -0 when rounding down.
    let cancelled = value == 0.0 && a.is_sign_negative() != b.is_sign_negative();
    let value = if cancelled && finish.rounding == Rounding::Down {
        -0.0
    } else {
        value
    };
    finished(finish, value)
}

#[inline(always)]
fn finished(finish: Finish, value: f64) -> u32 {
    let up = f64::from_bits((1023 + 64) << 52);
    let tiny = round(value * up, finish.rounding).abs() < f32::from_bits((1 + 64) << 23);
    let result = round(value, finish.rounding);
    let result = if finish.flush && tiny {
        0f32.copysign(result)
    } else {
        result
    };
    if finish.saturate {
        saturate32(result).to_bits()
    } else {
        canonical32(result)
    }
}

/// To f32, in one direction.
#[inline(always)]
fn round(value: f64, rounding: Rounding) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    match rounding {
        Rounding::Down if back > value => nearest.next_down(),
        Rounding::Up if back < value => nearest.next_up(),
        Rounding::Zero if back.abs() > value.abs() => {
            f32::from_bits(nearest.to_bits().wrapping_sub(1))
        }
        _ => nearest,
    }
}

#[cfg(test)]
mod tests {
    use super::super::precise::{self, F32};
    use super::*;

    #[test]
    fn agrees_with_exact_arithmetic() {
        let mut state = 3u64;
        let mut next = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let bits = (state >> 32) as u32;
            match state >> 29 & 7 {
                0..=2 => bits & !(0xff << 23) | (125 + (bits >> 26 & 3)) << 23,
                3 => bits & !(0xff << 23) | (bits >> 26 & 1) << 23,
                4 => bits & 1 << 31 | (0x7f80_0000 - (bits & 1)),
                5 => bits & 1 << 31,
                _ => bits,
            }
        };
        for i in 0..300_000 {
            let [a, b, c] = [next(), next(), next()];
            let c = if i % 5 == 0 { a ^ 1 << 31 } else { c };
            let [x, y, z] = [a, b, c].map(|v| F32.decode(u64::from(v)));
            let [p, q, r] = [a, b, c].map(|v| f64::from(f32::from_bits(v)));
            for rounding in [Rounding::Zero, Rounding::Down, Rounding::Up] {
                let finish = Finish {
                    rounding,
                    flush: false,
                    saturate: false,
                };
                let exact = |value| F32.encode(value, rounding) as u32;
                assert_eq!(sum(finish, p, r), exact(precise::add(x, z, rounding)));
                assert_eq!(finished(finish, p * q), exact(precise::multiply(x, y)));
                let fused = precise::add(precise::multiply(x, y), z, rounding);
                assert_eq!(
                    sum(finish, p * q, r),
                    exact(fused),
                    "{a:x} {b:x} {c:x} {rounding:?}"
                );
                let flushed = F32.encode_flushed(fused, rounding) as u32;
                let finish = Finish {
                    flush: true,
                    ..finish
                };
                assert_eq!(
                    sum(finish, p * q, r),
                    flushed,
                    "{a:x} {b:x} {c:x} {rounding:?}"
                );
            }
        }
    }
}
