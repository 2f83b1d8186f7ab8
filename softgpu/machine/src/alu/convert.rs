//! cvt: conversions between integers, floats and packed small floats.
//!
//! Integers to narrower integers are cut, or clamped with `.sat`. Floats to integers round in the
//! given direction (`.rni`, `.rzi`, `.rmi`, `.rpi`) and always clamp; NaN gives 0, or the top bit
//! alone when the source is f64 or the destination has 64 bits. Floats to narrower floats, and
//! integers to floats, round by `.rn`, `.rz`, `.rm`, `.rp` (`.rna` for tf32). `.sat` on a float
//! clamps to [0, 1], NaN to 0; `.satfinite` replaces overflow by the largest finite value; `.relu`
//! raises negatives to 0. `.ftz` flushes f32 subnormals on either side. Packed forms take a for
//! the upper and b for the lower half.

mod floats;
mod integers;
mod pairs;

use super::Alu;
use super::form::{Form, Rounding, Type, Unsupported};
use super::lanes::plain;
use super::precise::{self, Format, Value};

/// What may follow the rounding of a float.
#[derive(Debug, Clone, Copy, Default)]
struct Shape {
    saturate: bool,
    satfinite: bool,
    relu: bool,
    flush_source: bool,
    flush_result: bool,
}

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    if form.take("pack") {
        return pairs::pack(form);
    }
    let whole = form.integral_rounding();
    let away = form.take("rna");
    let rounding = if away {
        Some(Rounding::NearestAway)
    } else {
        form.rounding()
    };
    let flush = form.take("ftz");
    let (to, from) = form.two_types()?;
    let shape = Shape {
        saturate: form.take("sat"),
        satfinite: form.take("satfinite"),
        relu: form.take("relu"),
        flush_source: flush && matches!(from, Type::F32),
        flush_result: flush && matches!(to, Type::F32),
    };
    if flush && !shape.flush_source && !shape.flush_result {
        return Err(form.unsupported(".ftz needs f32"));
    }
    if away && to != Type::TF32 {
        return Err(form.unsupported(".rna needs tf32"));
    }
    let wrong = || Err(form.unsupported("no such conversion"));
    let small = |ty| matches!(ty, Some((8, _)));
    if shape.saturate && (to == Type::BF16 || from == Type::BF16)
        || from == Type::TF32
        || to == Type::BF16 && small(integer(from))
        || from == Type::BF16 && small(integer(to))
    {
        return wrong();
    }
    if matches!(to, Type::F16x2 | Type::BF16x2 | Type::E4M3x2 | Type::E5M2x2) {
        if whole.is_some() || flush {
            return wrong();
        }
        return pairs::pair(form, to, from, rounding, shape);
    }
    match (integer(to), integer(from)) {
        (Some((to_bits, to_signed)), Some((from_bits, from_signed))) => {
            if whole.is_some() || rounding.is_some() || shape.satfinite || shape.relu {
                return wrong();
            }
            // A type that holds every value of the other has nothing to clamp.
            let holds = match (to_signed, from_signed) {
                (false, false) => to_bits >= from_bits,
                (false, true) => false,
                (true, false) => to_bits > from_bits,
                (true, true) => to_bits >= from_bits,
            };
            if shape.saturate && holds {
                return wrong();
            }
            let eval =
                integers::between(to_bits, to_signed, from_bits, from_signed, shape.saturate);
            Ok(plain(to.kind(), &[from.kind()], eval))
        }
        (Some((bits, signed)), None) => {
            let Some((source, Some(whole))) = format(from).map(|f| (f, whole)) else {
                return wrong();
            };
            if rounding.is_some() || shape.satfinite || shape.relu {
                return wrong();
            }
            let eval = integers::from_floats(source, whole, shape.flush_source, bits, signed);
            Ok(plain(to.kind(), &[from.kind()], eval))
        }
        (None, Some((bits, signed))) => {
            let Some((target, Some(rounding))) = format(to).map(|f| (f, rounding)) else {
                return wrong();
            };
            if whole.is_some() || target == precise::TF32 || shape.satfinite || shape.relu {
                return wrong();
            }
            let eval = integers::to_floats(to, target, bits, signed, rounding, shape);
            Ok(plain(to.kind(), &[from.kind()], eval))
        }
        (None, None) => {
            let (Some(target), Some(source)) = (format(to), format(from)) else {
                return wrong();
            };
            floats::between(form, to, from, target, source, whole, rounding, shape)
        }
    }
}

fn integer(ty: Type) -> Option<(u8, bool)> {
    match ty {
        Type::Int {
            bits: bits @ (8 | 16 | 32 | 64),
            signed,
            raw: false,
        } => Some((bits, signed)),
        _ => None,
    }
}

fn format(ty: Type) -> Option<Format> {
    Some(match ty {
        Type::F16 => precise::F16,
        Type::BF16 => precise::BF16,
        Type::TF32 => precise::TF32,
        Type::F32 => precise::F32,
        Type::F64 => precise::F64,
        _ => return None,
    })
}

/// Rounds a value and applies what the modifiers ask of the result.
fn finish(value: Value, target: Format, rounding: Rounding, shape: Shape) -> u64 {
    if value == Value::Nan {
        return if shape.saturate {
            0
        } else {
            target.canonical_nan()
        };
    }
    let negative = precise::is_negative(value);
    if (shape.relu || shape.saturate) && negative {
        return 0;
    }
    let bits = if shape.flush_result {
        target.encode_flushed(value, rounding)
    } else {
        target.encode(value, rounding)
    };
    let beyond = matches!(target.decode(bits), Value::Infinite { .. } | Value::Nan);
    let bits = if shape.satfinite && beyond {
        target.largest(negative)
    } else {
        bits
    };
    if shape.saturate {
        bits.min(target.one())
    } else {
        bits
    }
}
