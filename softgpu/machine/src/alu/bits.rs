//! Counting, finding and moving bits: popc, clz, bfind, fns, brev, bfe, bfi, szext, bmsk.
//!
//! bfind gives the place of the highest bit that is not a copy of the sign, all ones if there is
//! none; `.shiftamt` the left shift that brings it to the top. bfe and bfi take position and length
//! from bits 7..0 of their operands; a field that leaves the register is cut, and bfe.s fills with
//! the field's sign, which is the register's sign if the field leaves it, 0 if the length is 0.

use super::form::{Form, Type, Unsupported};
use super::lanes::{binary, plain, single, ternary, unary};
use super::{Alu, Eval, Kind};

const U32: Kind = Kind::Int {
    bits: 32,
    signed: false,
};

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    let Type::Int {
        bits: bits @ (32 | 64),
        signed,
        raw,
    } = form.one_type()?
    else {
        return Err(form.unsupported("needs a 32 or 64 bit type"));
    };
    if raw == matches!(form.opcode, "bfind" | "bfe" | "szext") {
        return Err(form.unsupported("no such type here"));
    }
    let kind = Kind::Int { bits, signed };
    let long = bits == 64;
    Ok(match form.opcode {
        "popc" => plain(U32, &[kind], unary(|a: u64| a.count_ones())),
        "clz" if long => plain(U32, &[kind], unary(|a: u64| a.leading_zeros())),
        "clz" => plain(U32, &[kind], unary(|a: u32| a.leading_zeros())),
        "brev" if long => plain(kind, &[kind], unary(|a: u64| a.reverse_bits())),
        "brev" => plain(kind, &[kind], unary(|a: u32| a.reverse_bits())),
        "bfind" => {
            let shift_amount = form.take("shiftamt");
            let eval: Eval = if long {
                unary(move |a: u64| {
                    find(
                        if signed && (a as i64) < 0 { !a } else { a },
                        64,
                        shift_amount,
                    )
                })
            } else {
                unary(move |a: u32| {
                    find(
                        u64::from(if signed && (a as i32) < 0 { !a } else { a }),
                        32,
                        shift_amount,
                    )
                })
            };
            plain(U32, &[kind], eval)
        }
        "fns" if !long => {
            let signed32 = Kind::Int {
                bits: 32,
                signed: true,
            };
            plain(U32, &[U32, U32, signed32], ternary(find_nth))
        }
        "bfe" => {
            let eval =
                single(move |s| extract(s[0], place(s[1], long), place(s[2], long), bits, signed));
            plain(kind, &[kind, U32, U32], eval)
        }
        "bfi" => {
            let eval = single(move |s| {
                let (position, length) = (place(s[2], long), place(s[3], long));
                let mask = field(position, length, u32::from(bits));
                let moved = s[0].checked_shl(position).unwrap_or(0);
                s[1] & !mask | moved & mask
            });
            plain(kind, &[kind, kind, U32, U32], eval)
        }
        "szext" if !long => {
            let wrap = clamp_or_wrap(form)?;
            plain(
                kind,
                &[kind, U32],
                binary(move |a: u32, n: u32| extend(a, n, wrap, signed)),
            )
        }
        "bmsk" if !long => {
            let wrap = clamp_or_wrap(form)?;
            plain(
                U32,
                &[U32, U32],
                binary(move |a: u32, b: u32| {
                    let (a, b) = if wrap {
                        (a & 31, b & 31)
                    } else {
                        (a.min(32), b.min(32))
                    };
                    field(a, b, 32) as u32
                }),
            )
        }
        _ => return Err(form.unsupported("no such type here")),
    })
}

/// A position or length. PTX allows 0 to 255; beyond, hardware looks at the low 8 bits of it for
/// 32-bit fields and at all of it for 64-bit ones.
fn place(operand: u64, long: bool) -> u32 {
    if long {
        (operand as u32).min(255)
    } else {
        operand as u32 & 0xff
    }
}

fn clamp_or_wrap(form: &mut Form) -> Result<bool, Unsupported> {
    match (form.take("wrap"), form.take("clamp")) {
        (true, false) => Ok(true),
        (false, true) => Ok(false),
        _ => Err(form.unsupported("needs .clamp or .wrap")),
    }
}

fn find(a: u64, bits: u32, shift_amount: bool) -> u32 {
    if a == 0 {
        return u32::MAX;
    }
    let place = 63 - a.leading_zeros();
    if shift_amount {
        bits - 1 - place
    } else {
        place
    }
}

/// The n-th set bit of `mask` from `base` on: upwards for n > 0, downwards for n < 0, `base` itself
/// for 0; all ones if there is none.
fn find_nth(mask: u32, base: u32, n: i32) -> u32 {
    if base > 31 {
        return u32::MAX;
    }
    // Has no negative; hardware says 0.
    if n == i32::MIN {
        return 0;
    }
    if n == 0 {
        return if mask >> base & 1 != 0 {
            base
        } else {
            u32::MAX
        };
    }
    let mut left = n.unsigned_abs();
    let mut at = base as i32;
    while (0..32).contains(&at) {
        if mask >> at & 1 != 0 {
            left -= 1;
            if left == 0 {
                return at as u32;
            }
        }
        at += n.signum();
    }
    u32::MAX
}

/// `length` ones from `position` on, cut at the register's width.
fn field(position: u32, length: u32, bits: u32) -> u64 {
    let ones = |n: u32| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    let end = (position + length).min(bits);
    if position >= end {
        0
    } else {
        ones(end) & !ones(position)
    }
}

fn extract(a: u64, position: u32, length: u32, bits: u8, signed: bool) -> u64 {
    let top = u32::from(bits) - 1;
    let all = if bits == 64 {
        u64::MAX
    } else {
        u64::from(u32::MAX)
    };
    let end = position + length;
    let sign = if !signed || length == 0 {
        0
    } else {
        a >> (end - 1).min(top) & 1
    };
    let taken = field(position, length, u32::from(bits));
    let value = if position > top {
        0
    } else {
        (a & taken) >> position
    };
    let held = taken.count_ones();
    let fill = if sign != 0 {
        all & !field(0, held, u32::from(bits))
    } else {
        0
    };
    value | fill
}

/// The low `n` bits, extended by their sign or by zeros.
fn extend(a: u32, n: u32, wrap: bool, signed: bool) -> u32 {
    let n = if wrap { n & 31 } else { n.min(32) };
    match n {
        0 => 0,
        32 => a,
        _ if signed => ((a << (32 - n)) as i32 >> (32 - n)) as u32,
        _ => a & ((1 << n) - 1),
    }
}
