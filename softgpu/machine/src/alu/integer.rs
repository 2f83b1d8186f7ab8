//! Integer arithmetic: add, sub, mul, mad, mul24, mad24, sad, div, rem, abs, neg, min, max.
//!
//! All wrap around; `.sat` (s32 only) clamps. `mul.hi` is the upper half of the full product,
//! `.wide` all of it. `mul24` multiplies the low 24 bits: `.lo` the product's bits 31..0, `.hi`
//! its bits 47..16. `div` truncates towards zero; MIN / -1 is MIN. Division by zero is unspecified
//! in PTX: here, as on hardware, quotient and remainder are all ones.

use super::form::{Form, Type, Unsupported};
use super::lanes::{binary, plain, ternary, unary};
use super::{Alu, Eval, Kind};

/// Runs `$body` with `$T` as the Rust type of an integer of 16 bits or more.
macro_rules! with_type {
    ($form:expr, $bits:expr, $signed:expr, $T:ident => $body:expr) => {
        match ($bits, $signed) {
            (16, false) => {
                type $T = u16;
                $body
            }
            (16, true) => {
                type $T = i16;
                $body
            }
            (32, false) => {
                type $T = u32;
                $body
            }
            (32, true) => {
                type $T = i32;
                $body
            }
            (64, false) => {
                type $T = u64;
                $body
            }
            (64, true) => {
                type $T = i64;
                $body
            }
            _ => return Err($form.unsupported("no such integer type here")),
        }
    };
}

/// The type of twice the width.
trait Wide: Copy {
    type Double: Copy;
    fn product(self, other: Self) -> Self::Double;
    fn high(double: Self::Double) -> Self;
}

macro_rules! wide {
    ($($ty:ty, $double:ty);*) => {$(
        impl Wide for $ty {
            type Double = $double;
            #[inline(always)]
            fn product(self, other: Self) -> $double {
                (self as $double).wrapping_mul(other as $double)
            }
            #[inline(always)]
            fn high(double: $double) -> $ty {
                (double >> <$ty>::BITS) as $ty
            }
        }
    )*};
}
wide!(u16, u32; i16, i32; u32, u64; i32, i64; u64, u128; i64, i128);

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    let ty = form.one_type()?;
    let Type::Int {
        bits,
        signed,
        raw: false,
    } = ty
    else {
        return Err(form.unsupported("needs an integer type"));
    };
    let kind = Kind::Int { bits, signed };
    let (dst, count, eval): (Kind, usize, Eval) = match form.opcode {
        "add" | "sub" => {
            let add = form.opcode == "add";
            let eval = if form.take("sat") {
                match (add, bits, signed) {
                    (true, 32, true) => binary(i32::saturating_add),
                    (false, 32, true) => binary(i32::saturating_sub),
                    _ => return Err(form.unsupported(".sat needs s32")),
                }
            } else {
                with_type!(form, bits, signed, T => if add {
                    binary(|a: T, b: T| a.wrapping_add(b))
                } else {
                    binary(|a: T, b: T| a.wrapping_sub(b))
                })
            };
            (kind, 2, eval)
        }
        "mul" => {
            let (dst, eval) = multiply(form, bits, signed)?;
            (dst, 2, eval)
        }
        "mad" => return multiply_add(form, bits, signed),
        "mul24" | "mad24" => return multiply24(form, bits, signed),
        "sad" => {
            let eval = with_type!(form, bits, signed, T => ternary(|a: T, b: T, c: T| {
                c.wrapping_add(a.abs_diff(b) as T)
            }));
            (kind, 3, eval)
        }
        "div" => {
            let eval = with_type!(form, bits, signed, T => binary(|a: T, b: T| {
                if b == 0 { !0 } else { a.wrapping_div(b) }
            }));
            (kind, 2, eval)
        }
        "rem" => {
            let eval = with_type!(form, bits, signed, T => binary(|a: T, b: T| {
                if b == 0 { !0 } else { a.wrapping_rem(b) }
            }));
            (kind, 2, eval)
        }
        "abs" | "neg" => {
            let absolute = form.opcode == "abs";
            let eval = match (bits, absolute) {
                _ if !signed => return Err(form.unsupported("needs a signed type")),
                (16, true) => unary(i16::wrapping_abs),
                (32, true) => unary(i32::wrapping_abs),
                (64, true) => unary(i64::wrapping_abs),
                (16, false) => unary(i16::wrapping_neg),
                (32, false) => unary(i32::wrapping_neg),
                (64, false) => unary(i64::wrapping_neg),
                _ => return Err(form.unsupported("no such integer type here")),
            };
            (kind, 1, eval)
        }
        "min" | "max" => {
            let min = form.opcode == "min";
            let eval = if form.take("relu") {
                match (bits, signed, min) {
                    (32, true, true) => binary(|a: i32, b: i32| a.min(b).max(0)),
                    (32, true, false) => binary(|a: i32, b: i32| a.max(b).max(0)),
                    _ => return Err(form.unsupported(".relu needs s32")),
                }
            } else {
                with_type!(form, bits, signed, T => if min {
                    binary(|a: T, b: T| a.min(b))
                } else {
                    binary(|a: T, b: T| a.max(b))
                })
            };
            (kind, 2, eval)
        }
        _ => return Err(form.unsupported("no such integer instruction")),
    };
    Ok(plain(dst, &vec![kind; count], eval))
}

fn multiply(form: &mut Form, bits: u8, signed: bool) -> Result<(Kind, Eval), Unsupported> {
    let kind = Kind::Int { bits, signed };
    if form.take("lo") {
        let eval = with_type!(form, bits, signed, T => binary(|a: T, b: T| a.wrapping_mul(b)));
        return Ok((kind, eval));
    }
    if form.take("hi") {
        let eval = with_type!(form, bits, signed, T => binary(|a: T, b: T| T::high(a.product(b))));
        return Ok((kind, eval));
    }
    if !form.take("wide") {
        return Err(form.unsupported("needs .lo, .hi or .wide"));
    }
    let eval = match (bits, signed) {
        (16, false) => binary(|a: u16, b: u16| a.product(b)),
        (16, true) => binary(|a: i16, b: i16| a.product(b)),
        (32, false) => binary(|a: u32, b: u32| a.product(b)),
        (32, true) => binary(|a: i32, b: i32| a.product(b)),
        _ => return Err(form.unsupported(".wide needs 16 or 32 bits")),
    };
    Ok((
        Kind::Int {
            bits: bits * 2,
            signed,
        },
        eval,
    ))
}

fn multiply_add(form: &mut Form, bits: u8, signed: bool) -> Result<Alu, Unsupported> {
    let kind = Kind::Int { bits, signed };
    if form.take("lo") {
        let eval = with_type!(form, bits, signed, T => {
            ternary(|a: T, b: T, c: T| a.wrapping_mul(b).wrapping_add(c))
        });
        return Ok(plain(kind, &[kind; 3], eval));
    }
    if form.take("hi") {
        let eval = if form.take("sat") {
            if (bits, signed) != (32, true) {
                return Err(form.unsupported(".sat needs s32"));
            }
            ternary(|a: i32, b: i32, c: i32| i32::high(a.product(b)).saturating_add(c))
        } else {
            with_type!(form, bits, signed, T => {
                ternary(|a: T, b: T, c: T| T::high(a.product(b)).wrapping_add(c))
            })
        };
        return Ok(plain(kind, &[kind; 3], eval));
    }
    if !form.take("wide") {
        return Err(form.unsupported("needs .lo, .hi or .wide"));
    }
    let eval = match (bits, signed) {
        (16, false) => ternary(|a: u16, b: u16, c: u32| a.product(b).wrapping_add(c)),
        (16, true) => ternary(|a: i16, b: i16, c: i32| a.product(b).wrapping_add(c)),
        (32, false) => ternary(|a: u32, b: u32, c: u64| a.product(b).wrapping_add(c)),
        (32, true) => ternary(|a: i32, b: i32, c: i64| a.product(b).wrapping_add(c)),
        _ => return Err(form.unsupported(".wide needs 16 or 32 bits")),
    };
    let double = Kind::Int {
        bits: bits * 2,
        signed,
    };
    Ok(plain(double, &[kind, kind, double], eval))
}

/// The product of the operands' low 24 bits.
fn product24(a: u32, b: u32, signed: bool) -> u64 {
    let low = |x: u32| {
        if signed {
            i64::from((x << 8) as i32 >> 8)
        } else {
            i64::from(x & 0xff_ffff)
        }
    };
    (low(a) * low(b)) as u64
}

fn multiply24(form: &mut Form, bits: u8, signed: bool) -> Result<Alu, Unsupported> {
    if bits != 32 {
        return Err(form.unsupported("needs u32 or s32"));
    }
    let kind = Kind::Int { bits, signed };
    let shift = if form.take("hi") {
        16
    } else if form.take("lo") {
        0
    } else {
        return Err(form.unsupported("needs .lo or .hi"));
    };
    if form.opcode == "mul24" {
        let eval = binary(move |a: u32, b: u32| (product24(a, b, signed) >> shift) as u32);
        return Ok(plain(kind, &[kind; 2], eval));
    }
    let eval = if form.take("sat") {
        if !(signed && shift == 16) {
            return Err(form.unsupported(".sat needs .hi.s32"));
        }
        ternary(move |a: u32, b: u32, c: i32| {
            ((product24(a, b, true) >> shift) as i32).saturating_add(c)
        })
    } else {
        ternary(move |a: u32, b: u32, c: u32| {
            ((product24(a, b, signed) >> shift) as u32).wrapping_add(c)
        })
    };
    Ok(plain(kind, &[kind; 3], eval))
}
