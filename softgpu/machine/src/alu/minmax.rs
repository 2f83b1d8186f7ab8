//! min and max of floats.
//!
//! The number wins over a NaN unless `.NaN` is written; -0 is below +0. `.xorsign.abs` compares
//! magnitudes and gives the result the exclusive or of the signs. NaN results are canonical.

use super::floating::{canonical32, each, flush32, layout};
use super::form::{Form, Type, Unsupported};
use super::lanes::{binary, plain, single};
use super::precise::{self, Format};
use super::{Alu, Eval};

#[derive(Debug, Clone, Copy)]
struct Rule {
    format: Format,
    least: bool,
    flush: bool,
    /// NaN wins.
    nan: bool,
    /// `.xorsign.abs`.
    magnitude: bool,
}

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    let ty = form.one_type()?;
    let (format, halves) = layout(form, ty)?;
    let double = format == precise::F64;
    let rule = Rule {
        format,
        least: form.opcode == "min",
        flush: !double && format != precise::BF16 && form.take("ftz"),
        nan: !double && form.take("NaN"),
        magnitude: !double && form.take("xorsign"),
    };
    if rule.magnitude != (!double && form.take("abs")) {
        return Err(form.unsupported("needs .xorsign.abs"));
    }
    let eval: Eval = match (ty, rule.magnitude) {
        (Type::F32, false) => binary(move |a: f32, b: f32| choose32(rule, a, b)),
        _ => single(move |s| each(format, halves, |s| choose(rule, s[0], s[1]), s)),
    };
    let kind = ty.kind();
    Ok(plain(kind, &[kind; 2], eval))
}

/// The common case as a plain loop.
#[inline(always)]
fn choose32(rule: Rule, a: f32, b: f32) -> u32 {
    let (a, b) = if rule.flush {
        (flush32(a), flush32(b))
    } else {
        (a, b)
    };
    // Bits that order as the floats do, -0 below +0.
    let order = |x: f32| {
        let bits = x.to_bits() as i32;
        bits ^ ((bits >> 31) as u32 >> 1) as i32
    };
    let first = (order(a) <= order(b)) == rule.least;
    let chosen = if first { a } else { b };
    let chosen = if b.is_nan() { a } else { chosen };
    let chosen = if a.is_nan() { b } else { chosen };
    canonical32(if rule.nan && (a.is_nan() || b.is_nan()) {
        f32::NAN
    } else {
        chosen
    })
}

fn choose(rule: Rule, a: u64, b: u64) -> u64 {
    let format = rule.format;
    let (a, b) = if rule.flush {
        (format.flush(a), format.flush(b))
    } else {
        (a, b)
    };
    let sign = 1u64 << (format.exponent + format.mantissa);
    match (format.is_nan(a), format.is_nan(b)) {
        (true, true) if format == precise::F64 => {
            return super::floating::nan64(&[f64::from_bits(a), f64::from_bits(b)]);
        }
        (true, true) => return format.canonical_nan(),
        (true, false) | (false, true) if rule.nan => return format.canonical_nan(),
        _ => {}
    }
    let xor = (a ^ b) & sign;
    let (x, y) = if rule.magnitude {
        (a & !sign, b & !sign)
    } else {
        (a, b)
    };
    // Sign-magnitude bits as a number that orders like the float.
    let order = |v: u64| {
        if v & sign != 0 {
            -((v & !sign) as i128) - 1
        } else {
            v as i128
        }
    };
    let chosen = match (format.is_nan(a), format.is_nan(b)) {
        (true, _) => y,
        (_, true) => x,
        _ if (order(x) <= order(y)) == rule.least => x,
        _ => y,
    };
    if rule.magnitude {
        chosen & !sign | xor
    } else {
        chosen
    }
}
