//! Conversions into packed registers: two small floats, and cvt.pack's clamped integers.

use super::super::form::{Form, Rounding, Type, Unsupported};
use super::super::lanes::{plain, single};
use super::super::precise::{self, Format};
use super::super::{Alu, Kind};
use super::integers::{clamp, number};
use super::{Shape, finish};

/// Two small floats in one register.
pub fn pair(
    form: &Form,
    to: Type,
    from: Type,
    rounding: Option<Rounding>,
    shape: Shape,
) -> Result<Alu, Unsupported> {
    let Some(rounding) = rounding else {
        return Err(form.unsupported("needs a rounding mode"));
    };
    let wrong = || Err(form.unsupported("no such conversion"));
    if shape.saturate || !matches!(rounding, Rounding::NearestEven | Rounding::Zero) {
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
        return Err(form.unsupported("needs .rn.satfinite"));
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
        Type::E4M3x2 | Type::E5M2x2
            if to == Type::F16x2 && !shape.satfinite && rounding == Rounding::NearestEven =>
        {
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
pub fn pack(form: &mut Form) -> Result<Alu, Unsupported> {
    let saturates = form.take("sat");
    let types = form.types(3);
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
        return Err(form.unsupported("needs .sat"));
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
