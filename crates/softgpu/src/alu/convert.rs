//! cvt: conversions between integers, floats and packed small floats.
//!
//! Integers to narrower integers are cut, or clamped with `.sat`. Floats to integers round in the
//! given direction (`.rni`, `.rzi`, `.rmi`, `.rpi`) and always clamp; NaN gives 0, or the top bit
//! alone when the source is f64 or the destination has 64 bits. Floats to narrower floats, and
//! integers to floats, round by `.rn`, `.rz`, `.rm`, `.rp` (`.rna` for tf32). `.sat` on a float
//! clamps to [0, 1], NaN to 0; `.satfinite` replaces overflow by the largest finite value; `.relu`
//! raises negatives to 0. `.ftz` flushes f32 subnormals on either side. Packed forms take a for
//! the upper and b for the lower half.

use super::floating::canonical32;
use super::form::{Form, Rounding, Type, Unsupported};
use super::lanes::{plain, single, unary};
use super::precise::{self, Format, Value};
use super::{Alu, Eval, Kind, half};

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
        return pack(form);
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
        return Err(form.unsupported(".ftz wants f32"));
    }
    if away && to != Type::TF32 {
        return Err(form.unsupported(".rna wants tf32"));
    }
    let wrong = || Err(form.unsupported("no such conversion"));
    if matches!(to, Type::F16x2 | Type::BF16x2 | Type::E4M3x2 | Type::E5M2x2) {
        return pair(form, to, from, rounding, shape);
    }
    match (integer(to), integer(from)) {
        (Some((to_bits, to_signed)), Some((from_bits, from_signed))) => {
            if whole.is_some() || rounding.is_some() || shape.satfinite || shape.relu {
                return wrong();
            }
            let eval = between_integers(to_bits, to_signed, from_bits, from_signed, shape.saturate);
            Ok(plain(to.kind(), &[from.kind()], eval))
        }
        (Some((bits, signed)), None) => {
            let Some((source, Some(whole))) = format(from).map(|f| (f, whole)) else {
                return wrong();
            };
            if rounding.is_some() || shape.satfinite || shape.relu {
                return wrong();
            }
            let eval = to_integers(source, whole, shape.flush_source, bits, signed);
            Ok(plain(to.kind(), &[from.kind()], eval))
        }
        (None, Some((bits, signed))) => {
            let Some((target, Some(rounding))) = format(to).map(|f| (f, rounding)) else {
                return wrong();
            };
            if whole.is_some() || target == precise::TF32 || shape.satfinite || shape.relu {
                return wrong();
            }
            let eval = from_integers(to, target, bits, signed, rounding, shape);
            Ok(plain(to.kind(), &[from.kind()], eval))
        }
        (None, None) => {
            let (Some(target), Some(source)) = (format(to), format(from)) else {
                return wrong();
            };
            between_floats(form, to, from, target, source, whole, rounding, shape)
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

/// The low bits as a number.
fn number(x: u64, bits: u8, signed: bool) -> i128 {
    let unused = 64 - bits;
    if signed {
        i128::from((x << unused) as i64 >> unused)
    } else {
        i128::from(x << unused >> unused)
    }
}

/// A number's nearest one in range, as bits.
fn clamp(x: i128, bits: u8, signed: bool) -> u64 {
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

fn between_integers(
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

fn to_integers(source: Format, whole: Rounding, flush: bool, bits: u8, signed: bool) -> Eval {
    // Rust's casts cut towards zero, clamp, and take NaN to 0: PTX's rules. Subnormals are 0 either way.
    match (source, whole, bits, signed) {
        (precise::F32, Rounding::Zero, 32, true) => unary(|a: f32| a as i32),
        (precise::F32, Rounding::Zero, 32, false) => unary(|a: f32| a as u32),
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

fn from_integers(
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

#[allow(clippy::too_many_arguments)]
fn between_floats(
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
    if from == Type::TF32 {
        return wrong("no such conversion");
    }
    let narrows = target.mantissa < source.mantissa || target.exponent < source.exponent;
    match (narrows, whole, rounding) {
        (_, Some(_), Some(_)) => return wrong("two roundings"),
        (true, None, None) => return wrong("wants a rounding"),
        (true, Some(_), _) => return wrong("wants .rn, .rz, .rm or .rp"),
        (false, Some(_), _) if target != source => {
            return wrong("rounds to whole numbers of one type only");
        }
        _ => {}
    }
    if shape.satfinite
        && to != Type::TF32
        && !(from == Type::F32 && matches!(to, Type::F16 | Type::BF16))
    {
        return wrong("no .satfinite here");
    }
    if to == Type::TF32 && from != Type::F32 {
        return wrong("tf32 is made of f32");
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

/// Two small floats in one register.
fn pair(
    form: &Form,
    to: Type,
    from: Type,
    rounding: Option<Rounding>,
    shape: Shape,
) -> Result<Alu, Unsupported> {
    let Some(rounding) = rounding else {
        return Err(form.unsupported("wants a rounding"));
    };
    let wrong = || Err(form.unsupported("no such conversion"));
    if shape.saturate || shape.flush_source {
        return wrong();
    }
    let (target, width) = match to {
        Type::F16x2 => (precise::F16, 16),
        Type::BF16x2 => (precise::BF16, 16),
        Type::E4M3x2 => (precise::E4M3, 8),
        _ => (precise::E5M2, 8),
    };
    let small = width == 8;
    if small && !(shape.satfinite && rounding == Rounding::NearestEven) {
        return Err(form.unsupported("wants .rn.satfinite"));
    }
    let convert =
        move |bits: u64, source: Format| finish(source.decode(bits), target, rounding, shape);
    match from {
        Type::F32 => {
            let eval =
                single(move |s| convert(s[0], precise::F32) << width | convert(s[1], precise::F32));
            Ok(plain(to.kind(), &[Kind::F32; 2], eval))
        }
        Type::F16x2 if small => {
            let eval = single(move |s| {
                convert(s[0] >> 16 & 0xffff, precise::F16) << 8
                    | convert(s[0] & 0xffff, precise::F16)
            });
            Ok(plain(to.kind(), &[Kind::F16x2], eval))
        }
        Type::E4M3x2 | Type::E5M2x2 if to == Type::F16x2 && !shape.satfinite => {
            let source = if from == Type::E4M3x2 {
                precise::E4M3
            } else {
                precise::E5M2
            };
            let eval = single(move |s| {
                convert(s[0] >> 8 & 0xff, source) << 16 | convert(s[0] & 0xff, source)
            });
            Ok(plain(to.kind(), &[from.kind()], eval))
        }
        _ => wrong(),
    }
}

/// cvt.pack.sat: a and b clamped into the low bits, a above b; for types of 8 bits and fewer, c
/// moves up by as much.
fn pack(form: &mut Form) -> Result<Alu, Unsupported> {
    let saturates = form.take("sat");
    let types = form.types();
    let signed32 = Kind::Int {
        bits: 32,
        signed: true,
    };
    let unsigned32 = Kind::Int {
        bits: 32,
        signed: false,
    };
    let source = Type::Int {
        bits: 32,
        signed: true,
        raw: false,
    };
    let third = Type::Int {
        bits: 32,
        signed: false,
        raw: true,
    };
    let (bits, signed, joins) = match types[..] {
        [
            Type::Int {
                bits: 16,
                signed,
                raw: false,
            },
            from,
        ] if from == source => (16, signed, false),
        [
            Type::Int {
                bits: bits @ (2 | 4 | 8),
                signed,
                raw: false,
            },
            from,
            c,
        ] if from == source && c == third => (bits, signed, true),
        _ => return Err(form.unsupported("no such packing")),
    };
    if !saturates {
        return Err(form.unsupported("wants .sat"));
    }
    let eval = single(move |s| {
        let half = |x: u64| clamp(number(x, 32, true), bits, signed);
        let low = half(s[0]) << bits | half(s[1]);
        let above = if joins { s[2] << (2 * bits) } else { 0 };
        (above | low) & 0xffff_ffff
    });
    let src: &[Kind] = if joins {
        &[signed32, signed32, unsigned32]
    } else {
        &[signed32, signed32]
    };
    Ok(plain(unsigned32, src, eval))
}
