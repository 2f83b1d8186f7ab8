//! Scalar video instructions: vadd, vsub, vabsdiff, vmin, vmax, vshl, vshr, vmad, vset.
//!
//! Operands are read by their types, the first operation gives an exact intermediate result, `.sat`
//! clamps it to the destination's range (else it wraps), and a second operation (`.add`, `.min`,
//! `.max`) combines it with c. Where hardware departs from this text, so does this file. Selectors (`a.b0`, `a.h1`) are written on
//! operands in PTX; here they come as further modifiers `a:b0`, `b:h1`.

use super::form::{Form, Type, Unsupported};
use super::lanes::{plain, single};
use super::{Alu, Kind};

#[derive(Debug, Clone, Copy)]
enum First {
    Add,
    Sub,
    AbsDiff,
    Min,
    Max,
    Shl,
    Shr,
    Mad,
    Set(Test),
}

#[derive(Debug, Clone, Copy)]
pub enum Test {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Debug, Clone, Copy)]
enum Second {
    Add,
    Min,
    Max,
}

/// The part of a register an operand is.
#[derive(Debug, Clone, Copy)]
struct Part {
    shift: u32,
    bits: u32,
}

const WHOLE: Part = Part { shift: 0, bits: 32 };

pub fn is_video(opcode: &str) -> bool {
    matches!(
        opcode,
        "vadd" | "vsub" | "vabsdiff" | "vmin" | "vmax" | "vshl" | "vshr" | "vmad" | "vset"
    )
}

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    let types: Vec<bool> = form
        .types()
        .into_iter()
        .map(|ty| match ty {
            Type::Int {
                bits: 32,
                signed,
                raw: false,
            } => Some(signed),
            _ => None,
        })
        .collect::<Option<_>>()
        .ok_or_else(|| form.unsupported("wants u32 or s32"))?;
    let set = form.opcode == "vset";
    let (to, left, right) = match types[..] {
        [left, right] if set => (false, left, right),
        [to, left, right] if !set => (to, left, right),
        _ => return Err(form.unsupported("wants a type an operand")),
    };
    let first = match form.opcode {
        "vadd" => First::Add,
        "vsub" => First::Sub,
        "vabsdiff" => First::AbsDiff,
        "vmin" => First::Min,
        "vmax" => First::Max,
        "vshl" => First::Shl,
        "vshr" => First::Shr,
        "vmad" => First::Mad,
        _ => First::Set(
            form.take_one(test)
                .ok_or_else(|| form.unsupported("wants a comparison"))?,
        ),
    };
    let saturate = !set && form.take("sat");
    let shifts = matches!(first, First::Shl | First::Shr);
    let wrap = shifts && form.take("wrap");
    if shifts && wrap == form.take("clamp") {
        return Err(form.unsupported("wants .clamp or .wrap"));
    }
    if shifts && right {
        return Err(form.unsupported("shifts by u32"));
    }
    let mad = matches!(first, First::Mad);
    let scale = match (mad && form.take("shr7"), mad && form.take("shr15")) {
        (true, _) => 7,
        (_, true) => 15,
        _ => 0,
    };
    let second = if mad { None } else { form.take_one(second) };
    let a_part = form.take_one(|w| part(w, "a:")).unwrap_or(WHOLE);
    let b_part = form.take_one(|w| part(w, "b:")).unwrap_or(WHOLE);
    // Hardware has its own ways with mixed signs: only those that were seen are here.
    let known = (to, left, right) == (true, true, true) || (left, right) == (false, true);
    if matches!(second, Some(Second::Min | Second::Max)) && !known {
        return Err(form.unsupported("no .min or .max after these types"));
    }
    let never_negative =
        matches!(first, First::AbsDiff) || matches!(first, First::Max) && !(left && right);
    let eval = single(move |s| {
        let a = operand(s[0], a_part, left);
        let b = operand(s[1], b_part, right);
        let c = s[2] as u32;
        if mad {
            return multiply_add(s, scale, saturate, to);
        }
        let exact = match first {
            First::Add => a + b,
            First::Sub => a - b,
            First::AbsDiff => (a - b).abs(),
            First::Min => a.min(b),
            First::Max => a.max(b),
            First::Shl => signed34(a << count(b, wrap)),
            First::Shr => a >> count(b, wrap),
            First::Set(test) => i64::from(holds(test, a, b)),
            First::Mad => 0,
        };
        let result = match (saturate, first) {
            (false, _) => exact,
            (true, First::Shl) if !to => exact.clamp(0, i64::from(u32::MAX)),
            (true, _) => clamped(exact, to),
        } as u32;
        let c_number = operand(s[2], WHOLE, to);
        let less = match (never_negative, to) {
            (true, _) => exact < c_number,
            (false, true) => i64::from(result as i32) < c_number,
            // A result with its top bit set counts as larger than any c.
            (false, false) => (result as i32 as u64) < c_number as u64,
        };
        let result = match second {
            None => result,
            Some(Second::Add) => result.wrapping_add(c),
            Some(Second::Min) if less => result,
            Some(Second::Max) if !less => result,
            Some(_) => c,
        };
        u64::from(result)
    });
    let kind = |signed| Kind::Int { bits: 32, signed };
    let all = [kind(left), kind(right), kind(to)];
    let count = if mad || second.is_some() { 3 } else { 2 };
    Ok(plain(kind(to), &all[..count], eval))
}

pub fn test(word: &str) -> Option<Test> {
    Some(match word {
        "eq" => Test::Eq,
        "ne" => Test::Ne,
        "lt" => Test::Lt,
        "le" => Test::Le,
        "gt" => Test::Gt,
        "ge" => Test::Ge,
        _ => return None,
    })
}

pub fn holds(test: Test, a: i64, b: i64) -> bool {
    match test {
        Test::Eq => a == b,
        Test::Ne => a != b,
        Test::Lt => a < b,
        Test::Le => a <= b,
        Test::Gt => a > b,
        Test::Ge => a >= b,
    }
}

fn second(word: &str) -> Option<Second> {
    Some(match word {
        "add" => Second::Add,
        "min" => Second::Min,
        "max" => Second::Max,
        _ => return None,
    })
}

/// `a:b0` … `a:b3`, `a:h0`, `a:h1`.
fn part(word: &str, operand: &str) -> Option<Part> {
    Some(match word.strip_prefix(operand)? {
        "b0" => Part { shift: 0, bits: 8 },
        "b1" => Part { shift: 8, bits: 8 },
        "b2" => Part { shift: 16, bits: 8 },
        "b3" => Part { shift: 24, bits: 8 },
        "h0" => Part { shift: 0, bits: 16 },
        "h1" => Part {
            shift: 16,
            bits: 16,
        },
        _ => return None,
    })
}

fn operand(register: u64, part: Part, signed: bool) -> i64 {
    let unused = 32 - part.bits;
    let bits = (register as u32) >> part.shift << unused;
    if signed {
        i64::from(bits as i32 >> unused)
    } else {
        i64::from(bits >> unused)
    }
}

fn count(b: i64, wrap: bool) -> i64 {
    if wrap { b & 31 } else { b.min(32) }
}

/// Intermediate results of shifts have 34 bits.
fn signed34(x: i64) -> i64 {
    x << 30 >> 30
}

/// Saturation: signed at both ends; unsigned at 0 only, since hardware lets the upper end wrap.
fn clamped(x: i64, signed: bool) -> i64 {
    if signed {
        x.clamp(i64::from(i32::MIN), i64::from(i32::MAX))
    } else {
        x.max(0)
    }
}

/// vmad: all three operands count as signed, whatever their types; the sum is shifted as an
/// unsigned number of 64 bits when the destination is unsigned.
fn multiply_add(s: [u64; 4], scale: u32, saturate: bool, signed: bool) -> u64 {
    let [a, b, c] = [s[0], s[1], s[2]].map(|x| i64::from(x as i32));
    let sum = a * b + c;
    let result = match (saturate, signed) {
        (false, _) => sum >> scale,
        (true, true) => (sum >> scale).clamp(i64::from(i32::MIN), i64::from(i32::MAX)),
        (true, false) if scale == 0 => sum.clamp(0, i64::from(u32::MAX)),
        (true, false) => (sum as u64 >> scale).min(u64::from(u32::MAX)) as i64,
    };
    u64::from(result as u32)
}
