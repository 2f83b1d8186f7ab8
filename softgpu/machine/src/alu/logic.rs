//! Bitwise logic, shifts, byte permutation and plain moves.
//!
//! and, or, xor, not on predicates and bits; cnot is 1 for zero, else 0. lop3's fourth source is
//! the truth table of (a, b, c). Shift counts are unsigned 32-bit and clamp at the width: shl and
//! shr.u give 0, shr.s copies of the sign. shf shifts {b, a} (a low) by c, clamped at 32 or taken
//! modulo 32; `.l` gives the upper word, `.r` the lower. prmt picks bytes of {b, a}.

use super::form::{Form, Table, Type, Unsupported};
use super::lanes::{Lane, binary, plain, quaternary, ternary, unary};
use super::{Alu, Eval, Kind};

const U32: Kind = Kind::Int {
    bits: 32,
    signed: false,
};

const B32: Type = Type::Int {
    bits: 32,
    signed: false,
    raw: true,
};

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    match form.opcode {
        "lop3" => {
            if form.one_type()? != B32 {
                return Err(form.unsupported("needs b32"));
            }
            let eval = quaternary(|a: u32, b: u32, c: u32, table: u32| lop3(a, b, c, table));
            return Ok(plain(U32, &[U32; 4], eval));
        }
        "shf" => return funnel(form),
        "prmt" => return permute(form),
        "shl" | "shr" => return shift(form),
        "mov" => {
            let ty = form.one_type()?;
            let kind = ty.kind();
            let eval: Eval = match ty {
                Type::Pred => unary(|a: bool| a),
                Type::Int { bits: 16, .. } => unary(|a: u16| a),
                Type::Int { bits: 32, .. } | Type::F32 => unary(|a: u32| a),
                Type::Int { bits: 64, .. } | Type::F64 => unary(|a: u64| a),
                _ => return Err(form.unsupported("no such type here")),
            };
            return Ok(plain(kind, &[kind], eval));
        }
        _ => {}
    }
    let ty = form.one_type()?;
    if !matches!(
        ty,
        Type::Pred
            | Type::Int {
                bits: 16 | 32 | 64,
                raw: true,
                ..
            }
    ) {
        return Err(form.unsupported("needs pred, b16, b32 or b64"));
    }
    let kind = ty.kind();
    let sized = |f: fn(u8) -> Option<Eval>| match ty {
        Type::Pred => f(1),
        Type::Int { bits, .. } => f(bits),
        _ => None,
    };
    // Upper bits are zero on the way in, so and, or, xor need no width.
    let (count, eval): (usize, Option<Eval>) = match form.opcode {
        "and" => (2, Some(binary(|a: u64, b: u64| a & b))),
        "or" => (2, Some(binary(|a: u64, b: u64| a | b))),
        "xor" => (2, Some(binary(|a: u64, b: u64| a ^ b))),
        "not" => (
            1,
            sized(|bits| {
                Some(match bits {
                    1 => unary(|a: bool| !a),
                    16 => unary(|a: u16| !a),
                    32 => unary(|a: u32| !a),
                    64 => unary(|a: u64| !a),
                    _ => return None,
                })
            }),
        ),
        "cnot" => (
            1,
            sized(|bits| {
                Some(match bits {
                    16 => unary(|a: u16| u16::from(a == 0)),
                    32 => unary(|a: u32| u32::from(a == 0)),
                    64 => unary(|a: u64| u64::from(a == 0)),
                    _ => return None,
                })
            }),
        ),
        _ => (0, None),
    };
    let eval = eval.ok_or_else(|| form.unsupported("no such type here"))?;
    Ok(plain(kind, &vec![kind; count], eval))
}

/// Each bit of the result is the table's bit numbered by the operands' bits (a: 4, b: 2, c: 1).
#[inline(always)]
fn lop3(a: u32, b: u32, c: u32, table: u32) -> u32 {
    let all = |row: u32| 0u32.wrapping_sub(table >> row & 1);
    let choose = |by: u32, one: u32, zero: u32| zero ^ ((zero ^ one) & by);
    let by_c = |row: u32| choose(c, all(row + 1), all(row));
    choose(a, choose(b, by_c(6), by_c(4)), choose(b, by_c(2), by_c(0)))
}

fn shift(form: &mut Form) -> Result<Alu, Unsupported> {
    let Type::Int { bits, signed, raw } = form.one_type()? else {
        return Err(form.unsupported("needs an integer type"));
    };
    let left = form.opcode == "shl";
    if left && !raw {
        return Err(form.unsupported("needs b16, b32 or b64"));
    }
    let eval: Eval = match (left, bits, signed) {
        (true, 16, _) => binary(|a: u16, n: u32| if n < 16 { a << (n & 15) } else { 0 }),
        (true, 32, _) => binary(|a: u32, n: u32| if n < 32 { a << (n & 31) } else { 0 }),
        (true, 64, _) => binary(|a: u64, n: u32| if n < 64 { a << (n & 63) } else { 0 }),
        (false, 16, false) => binary(|a: u16, n: u32| if n < 16 { a >> (n & 15) } else { 0 }),
        (false, 32, false) => binary(|a: u32, n: u32| if n < 32 { a >> (n & 31) } else { 0 }),
        (false, 64, false) => binary(|a: u64, n: u32| if n < 64 { a >> (n & 63) } else { 0 }),
        (false, 16, true) => binary(|a: i16, n: u32| a >> n.min(15)),
        (false, 32, true) => binary(|a: i32, n: u32| a >> n.min(31)),
        (false, 64, true) => binary(|a: i64, n: u32| a >> n.min(63)),
        _ => return Err(form.unsupported("no such type here")),
    };
    let kind = Kind::Int { bits, signed };
    Ok(plain(kind, &[kind, U32], eval))
}

fn funnel(form: &mut Form) -> Result<Alu, Unsupported> {
    if form.one_type()? != B32 {
        return Err(form.unsupported("needs b32"));
    }
    let left = form.take("l");
    if !left && !form.take("r") {
        return Err(form.unsupported("needs .l or .r"));
    }
    let wrap = form.take("wrap");
    if !wrap && !form.take("clamp") {
        return Err(form.unsupported("needs .clamp or .wrap"));
    }
    let joined = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    let eval: Eval = match (left, wrap) {
        (true, true) => {
            ternary(move |a: u32, b: u32, n: u32| (joined(a, b) << (n & 31) >> 32) as u32)
        }
        (true, false) => ternary(move |a: u32, b: u32, n: u32| {
            if n >= 32 {
                a
            } else {
                (joined(a, b) << n >> 32) as u32
            }
        }),
        (false, true) => ternary(move |a: u32, b: u32, n: u32| (joined(a, b) >> (n & 31)) as u32),
        (false, false) => ternary(move |a: u32, b: u32, n: u32| (joined(a, b) >> n.min(32)) as u32),
    };
    Ok(plain(U32, &[U32; 3], eval))
}

fn permute(form: &mut Form) -> Result<Alu, Unsupported> {
    if form.one_type()? != B32 {
        return Err(form.unsupported("needs b32"));
    }
    // For each of the four modes' counts: the byte of {b, a} that result byte i takes.
    type Source = fn(count: u32, i: u32) -> u32;
    const MODES: Table<Source> = &[
        ("f4e", |n, i| n + i),
        ("b4e", |n, i| n.wrapping_sub(i) & 7),
        ("rc8", |n, _| n),
        ("ecl", |n, i| n.max(i)),
        ("ecr", |n, i| n.min(i)),
        ("rc16", |n, i| (n & 1) * 2 + (i & 1)),
    ];
    let mode = form.take_one(MODES);
    let bytes = |a: u32, b: u32| (u64::from(b) << 32 | u64::from(a)).bits();
    let eval = match mode {
        Some(source) => ternary(move |a: u32, b: u32, c: u32| {
            let all = bytes(a, b);
            (0..4).fold(0u32, |d, i| {
                d | ((all >> (source(c & 3, i) * 8)) as u32 & 0xff) << (i * 8)
            })
        }),
        None => ternary(move |a: u32, b: u32, c: u32| {
            let all = bytes(a, b);
            (0..4).fold(0u32, |d, i| {
                let select = c >> (i * 4);
                let byte = (all >> ((select & 7) * 8)) as u8;
                // Bit 3 of a selector spreads the byte's sign over it.
                let byte = if select & 8 != 0 {
                    (byte as i8 >> 7) as u8
                } else {
                    byte
                };
                d | u32::from(byte) << (i * 8)
            })
        }),
    };
    Ok(plain(U32, &[U32; 3], eval))
}
