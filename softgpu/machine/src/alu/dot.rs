//! dp4a and dp2a: small dot products added to a 32-bit number.
//!
//! dp4a multiplies the four bytes of a with those of b; dp2a the two halves of a with the lower or
//! upper two bytes of b. Each operand is signed or unsigned by its own type.

use super::form::{Form, Type, Unsupported};
use super::lanes::{plain, ternary};
use super::{Alu, Kind};

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    let (
        Type::Int {
            bits: 32,
            signed: left,
            raw: false,
        },
        Type::Int {
            bits: 32,
            signed: right,
            raw: false,
        },
    ) = form.two_types()?
    else {
        return Err(form.unsupported("needs two of u32 and s32"));
    };
    let kind = |signed| Kind::Int { bits: 32, signed };
    let byte = |x: u32, i: u32, signed: bool| {
        let x = (x >> (i * 8)) as u8;
        if signed {
            i32::from(x as i8)
        } else {
            i32::from(x)
        }
    };
    let half = |x: u32, i: u32, signed: bool| {
        let x = (x >> (i * 16)) as u16;
        if signed {
            i32::from(x as i16)
        } else {
            i32::from(x)
        }
    };
    let eval = if form.opcode == "dp4a" {
        ternary(move |a: u32, b: u32, c: u32| {
            (0..4).fold(c, |sum, i| {
                sum.wrapping_add((byte(a, i, left) * byte(b, i, right)) as u32)
            })
        })
    } else {
        let first = match (form.take("lo"), form.take("hi")) {
            (true, false) => 0,
            (false, true) => 2,
            _ => return Err(form.unsupported("needs .lo or .hi")),
        };
        ternary(move |a: u32, b: u32, c: u32| {
            (0..2).fold(c, |sum, i| {
                sum.wrapping_add((half(a, i, left) * byte(b, first + i, right)) as u32)
            })
        })
    };
    let sum = kind(left || right);
    Ok(plain(sum, &[kind(left), kind(right), sum], eval))
}
