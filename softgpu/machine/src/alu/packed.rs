//! Pairs of 16-bit integers: add, min, max on u16x2 and s16x2, each half by itself.

use super::form::{Form, Type, Unsupported};
use super::lanes::{binary, plain};
use super::{Alu, Eval};

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    let ty = form.one_type()?;
    let signed = ty == Type::S16x2;
    let relu = signed && matches!(form.opcode, "min" | "max") && form.take("relu");
    let eval: Eval = match (form.opcode, signed) {
        ("add", _) => binary(|a: u32, b: u32| halves(a, b, u16::wrapping_add)),
        ("min", false) => binary(|a: u32, b: u32| halves(a, b, u16::min)),
        ("max", false) => binary(|a: u32, b: u32| halves(a, b, u16::max)),
        ("min", true) => binary(move |a: u32, b: u32| {
            halves(a, b, |x, y| raised((x as i16).min(y as i16), relu))
        }),
        ("max", true) => binary(move |a: u32, b: u32| {
            halves(a, b, |x, y| raised((x as i16).max(y as i16), relu))
        }),
        _ => return Err(form.unsupported("no such instruction on pairs")),
    };
    let kind = ty.kind();
    Ok(plain(kind, &[kind; 2], eval))
}

#[inline(always)]
fn raised(x: i16, relu: bool) -> u16 {
    (if relu { x.max(0) } else { x }) as u16
}

#[inline(always)]
fn halves(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    let low = f(a as u16, b as u16);
    let high = f((a >> 16) as u16, (b >> 16) as u16);
    u32::from(high) << 16 | u32::from(low)
}
