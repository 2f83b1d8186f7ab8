//! Conversions between single floats: other formats, and whole numbers of the same one.

use super::super::floating::canonical32;
use super::super::form::{Form, Rounding, Type, Unsupported};
use super::super::lanes::{plain, single, unary};
use super::super::precise::{self, Format, Value};
use super::super::{Alu, Eval, half};
use super::{Shape, finish};

#[allow(clippy::too_many_arguments)]
pub fn between(
    form: &Form,
    to: Type,
    from: Type,
    target: Format,
    source: Format,
    whole: Option<Rounding>,
    rounding: Option<Rounding>,
    shape: Shape,
) -> Result<Alu, Unsupported> {
    let wrong = |why: &str| Err(form.unsupported(why));
    let narrows = target.mantissa < source.mantissa || target.exponent < source.exponent;
    match (whole, rounding) {
        (Some(_), Some(_)) => return wrong("two roundings"),
        (Some(_), None) if target != source => {
            return wrong("rounds to whole numbers of one type only");
        }
        (None, None) if narrows => return wrong("needs a rounding mode"),
        (None, Some(_)) if !narrows => return wrong("loses nothing to round"),
        _ => {}
    }
    let from_f32 = from == Type::F32;
    let nearest_or_zero = matches!(
        rounding,
        Some(Rounding::NearestEven | Rounding::Zero | Rounding::NearestAway)
    );
    if shape.satfinite || shape.relu {
        let small = matches!(to, Type::F16 | Type::BF16 | Type::TF32);
        if !(small && from_f32 && nearest_or_zero) || shape.saturate || shape.flush_source {
            return wrong("no .satfinite or .relu here");
        }
    }
    if to == Type::TF32 {
        let relu_away = shape.relu && rounding == Some(Rounding::NearestAway);
        if !from_f32 || !nearest_or_zero || shape.flush_source || shape.saturate || relu_away {
            return wrong("no such conversion to tf32");
        }
        if shape.satfinite && rounding != Some(Rounding::NearestAway) {
            return Err(form.needs("sm_100"));
        }
    }
    let rounding = rounding.unwrap_or(Rounding::NearestEven);
    let simple = whole.is_none() && !(shape.saturate || shape.relu || shape.satfinite);
    let nearest = rounding == Rounding::NearestEven;
    let eval: Eval = match (from, to) {
        (Type::F32, Type::F64) if simple && !shape.flush_source => unary(|a: f32| {
            if a.is_nan() {
                precise::F64.convert_nan(u64::from(a.to_bits()), precise::F32)
            } else {
                f64::from(a).to_bits()
            }
        }),
        (Type::F64, Type::F32) if simple && nearest && !shape.flush_result => unary(|a: f64| {
            if a.is_nan() {
                precise::F32.convert_nan(a.to_bits(), precise::F64)
            } else {
                u64::from((a as f32).to_bits())
            }
        }),
        (Type::F32, Type::F16) if simple && nearest => {
            unary(|a: f32| half::narrow::<half::F16>(f64::from(a)))
        }
        (Type::F32, Type::BF16) if simple && nearest && !shape.flush_source => {
            unary(|a: f32| half::narrow::<half::BF16>(f64::from(a)))
        }
        (Type::F16, Type::F32) if simple && !shape.flush_result => {
            unary(|a: u16| canonical32(half::widen::<half::F16>(a) as f32))
        }
        // A shift, also of a NaN.
        (Type::BF16, Type::F32) if simple && !shape.flush_result => {
            unary(|a: u16| u32::from(a) << 16)
        }
        (Type::F32, Type::F32) if simple && !shape.flush_source => unary(|a: u32| a),
        (Type::F32, Type::F32) if !shape.saturate && !shape.flush_source => match whole {
            Some(Rounding::Down) => unary(|a: f32| canonical32(a.floor())),
            Some(Rounding::Up) => unary(|a: f32| canonical32(a.ceil())),
            Some(Rounding::Zero) => unary(|a: f32| canonical32(a.trunc())),
            _ => unary(|a: f32| canonical32(a.round_ties_even())),
        },
        (Type::F64, Type::F64) if simple => unary(|a: u64| a),
        _ => single(move |s| {
            let x = match (shape.flush_source, to) {
                // On the way to f16, hardware keeps f32's subnormals, as directed roundings show.
                (true, Type::F16) | (false, _) => s[0],
                (true, _) => source.flush(s[0]),
            };
            let value = source.decode(x);
            if value == Value::Nan && !shape.saturate {
                return nan(x, source, target, rounding, shape);
            }
            let value = whole.map_or(value, |direction| precise::to_integral(value, direction));
            finish(value, target, rounding, shape)
        }),
    };
    Ok(plain(to.kind(), &[from.kind()], eval))
}

/// What hardware makes of a NaN: f64 on either side keeps sign and payload and makes it quiet;
/// tf32 with `.rna` is cut from the bits as they are; all others give the canonical NaN.
fn nan(bits: u64, source: Format, target: Format, rounding: Rounding, shape: Shape) -> u64 {
    match (source, target) {
        (precise::F32, precise::F64) if shape.flush_source => {
            precise::F64.convert_nan(precise::F32.canonical_nan(), source)
        }
        (precise::F64, _) | (_, precise::F64) => target.convert_nan(bits, source),
        (_, precise::TF32) if rounding == Rounding::NearestAway => {
            let cut = bits >> target.padding << target.padding;
            let step = u64::from(shape.satfinite) << target.padding;
            cut - step
        }
        _ => target.canonical_nan(),
    }
}
