//! Approximate functions: rcp, sqrt, rsqrt, div (`.approx`, `.full`), sin, cos, ex2, lg2, tanh.
//!
//! PTX bounds their error but leaves the bits open. Here each is the true value, computed in f64
//! and rounded to nearest, with the special cases PTX gives: subnormals are read and written as
//! zeros where `.ftz` is written (and by the f64 forms always), infinities, zeros and NaN as in
//! the tables of the PTX manual. sin and cos first turn radians into turns as hardware does, in f32
//! with 1/2pi cut off: for large angles that, not the sine, decides the result.

use super::floating::{canonical32, each, flush32, layout, nan64};
use super::form::{Form, Rounding, Type, Unsupported};
use super::lanes::{binary, plain, single, unary};
use super::precise::{self, Format, Value};
use super::{Alu, Kind};

type Function = fn(f64) -> f64;

/// 2^126.
const LARGEST_DIVISOR: f32 = f32::from_bits(253 << 23);

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    let approximate = form.take("approx");
    let full = form.take("full");
    let flush = form.take("ftz");
    let ty = form.one_type()?;
    if form.opcode == "div" {
        if ty != Type::F32 || approximate == full {
            return Err(form.unsupported("no such division"));
        }
        let eval = binary(move |a: f32, b: f32| divide(a, b, flush, full));
        return Ok(plain(Kind::F32, &[Kind::F32; 2], eval));
    }
    if full || !approximate {
        return Err(form.unsupported("needs .approx"));
    }
    let function: Function = match form.opcode {
        "rcp" => |x| 1.0 / x,
        "sqrt" => f64::sqrt,
        "rsqrt" => |x| {
            if x == 0.0 {
                f64::INFINITY.copysign(x)
            } else {
                1.0 / x.sqrt()
            }
        },
        "sin" => |x| sine(turns(x)),
        "cos" => |x| cosine(turns(x)),
        "ex2" => f64::exp2,
        "lg2" => f64::log2,
        "tanh" => f64::tanh,
        _ => return Err(form.unsupported("no such function")),
    };
    if ty == Type::F64 {
        if !(flush && matches!(form.opcode, "rcp" | "rsqrt") || !flush && form.opcode == "rsqrt") {
            return Err(form.unsupported("needs .ftz"));
        }
        let eval = if flush {
            single(move |s| double(s[0], function))
        } else {
            unary(|a: f64| match 1.0 / a.sqrt() {
                r if r.is_nan() => nan64(&[a]),
                r => r.to_bits(),
            })
        };
        return Ok(plain(Kind::F64, &[Kind::F64], eval));
    }
    let (format, halves) = layout(form, ty)?;
    let half = format != precise::F32;
    // Of the halves' exponentials, bf16's always flushes and f16's never does.
    let flushes = match (form.opcode, half) {
        ("tanh", _) => !flush,
        ("ex2", true) => flush == (format == precise::BF16),
        (_, half) => !half,
    };
    if !flushes || halves == 2 && !half {
        return Err(form.unsupported("no such type here"));
    }
    let kind = ty.kind();
    let eval = if half {
        single(move |s| each(format, halves, |s| small(s[0], format, function, flush), s))
    } else {
        unary(move |a: f32| {
            let a = if flush { flush32(a) } else { a };
            let result = function(f64::from(a)) as f32;
            canonical32(if flush { flush32(result) } else { result })
        })
    };
    Ok(plain(kind, &[kind], eval))
}

/// An f32 angle as the part of a turn beyond whole ones: 1/2pi is an f32, and so, rounded towards
/// zero, is the product.
fn turns(x: f64) -> f64 {
    const A_TURN: f32 = std::f32::consts::FRAC_1_PI / 2.0;
    let product = x * f64::from(A_TURN);
    let nearest = product as f32;
    let cut = if f64::from(nearest).abs() > product.abs() {
        f32::from_bits(nearest.to_bits() - 1)
    } else {
        nearest
    };
    f64::from(cut) % 1.0
}

/// The sine of a part of a turn, exact at the quarters.
fn sine(turns: f64) -> f64 {
    let quarter = if turns.abs() > 0.75 {
        turns - 1f64.copysign(turns)
    } else if turns.abs() > 0.25 {
        0.5f64.copysign(turns) - turns
    } else {
        turns
    };
    (std::f64::consts::TAU * quarter).sin()
}

fn cosine(turns: f64) -> f64 {
    let half = if turns.abs() > 0.5 {
        1.0 - turns.abs()
    } else {
        turns.abs()
    };
    (std::f64::consts::TAU * (0.25 - half)).sin()
}

fn widen(bits: u64, format: Format) -> f64 {
    match format.decode(bits) {
        Value::Nan => f64::NAN,
        value => f64::from_bits(precise::F64.encode(value, Rounding::NearestEven)),
    }
}

fn narrow(x: f64, format: Format) -> u64 {
    format.encode(precise::F64.decode(x.to_bits()), Rounding::NearestEven)
}

fn small(bits: u64, format: Format, function: Function, flush: bool) -> u64 {
    let bits = if flush { format.flush(bits) } else { bits };
    let result = narrow(function(widen(bits, format)), format);
    if flush { format.flush(result) } else { result }
}

/// The `.ftz` f64 forms look at the upper 32 bits only and write a result whose lower 32 bits are zero.
fn double(bits: u64, function: Function) -> u64 {
    let bits = precise::F64.flush(bits & 0xffff_ffff_0000_0000);
    let result = function(f64::from_bits(bits));
    if result.is_nan() {
        return 0x7fff_ffff_0000_0000;
    }
    let rounded = precise::Format {
        exponent: 11,
        mantissa: 20,
        padding: 32,
        finite_only: false,
    };
    let value = precise::F64.decode(result.to_bits());
    precise::F64.flush(rounded.encode(value, Rounding::NearestEven))
}

/// div.approx takes the reciprocal of b first, which is 0 for |b| above 2^126.
fn divide(a: f32, b: f32, flush: bool, full: bool) -> u32 {
    let (a, b) = if flush {
        (flush32(a), flush32(b))
    } else {
        (a, b)
    };
    let quotient = if !full && b.is_finite() && b.abs() > LARGEST_DIVISOR {
        a * 0f32.copysign(b)
    } else {
        a / b
    };
    canonical32(if flush { flush32(quotient) } else { quotient })
}
