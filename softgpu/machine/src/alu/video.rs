//! Scalar video instructions: vadd, vsub, vabsdiff, vmin, vmax, vshl, vshr, vmad, vset, on whole
//! registers.
//!
//! Operands are read by their types, the first operation gives an exact intermediate result, `.sat`
//! clamps it to the destination's range (else it wraps), and a second operation (`.add`, `.min`,
//! `.max`) combines it with c. Where hardware departs from this text, so does this file: the answers
//! it gave are in fixtures/ptx. Parts of registers (`a.b0`, `a.h1`) are not supported.

use super::form::{Form, Table, Type, Unsupported};
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

/// Whether each of the instruction's types is signed.
pub fn signs(form: &mut Form) -> Result<Vec<bool>, Unsupported> {
    let signed = |ty| match ty {
        Type::Int {
            bits: 32,
            signed,
            raw: false,
        } => Some(signed),
        _ => None,
    };
    let types = form.types(3).into_iter().map(signed);
    let signs = types.collect::<Option<_>>();
    signs.ok_or_else(|| form.unsupported("needs u32 or s32"))
}

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    let types = signs(form)?;
    let set = form.opcode == "vset";
    let (to, left, right) = match types[..] {
        // The result is 0 or 1; c is read by the type of a.
        [left, right] if set => (left, left, right),
        [to, left, right] if !set => (to, left, right),
        _ => return Err(form.unsupported("needs a type per operand")),
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
            form.take_one(TESTS)
                .ok_or_else(|| form.unsupported("needs a comparison"))?,
        ),
    };
    let saturate = !set && form.take("sat");
    let shifts = matches!(first, First::Shl | First::Shr);
    let wrap = shifts && form.take("wrap");
    if shifts && wrap == form.take("clamp") {
        return Err(form.unsupported("needs .clamp or .wrap"));
    }
    if shifts && right {
        return Err(form.unsupported("shifts by u32"));
    }
    let mad = matches!(first, First::Mad);
    let scale = if mad {
        form.take_one(SCALES).unwrap_or(0)
    } else {
        0
    };
    let second = if mad { None } else { form.take_one(SECONDS) };
    let chooses = matches!(second, Some(Second::Min | Second::Max));
    if shifts && saturate && chooses {
        return Err(form.unsupported("no .min or .max after a saturated shift"));
    }
    let eval = single(move |s| {
        let a = operand(s[0], left);
        let b = operand(s[1], right);
        let c = s[2] as u32;
        let exact = match first {
            First::Add => a + b,
            First::Sub => a - b,
            First::AbsDiff => (a - b).abs(),
            First::Min => a.min(b),
            First::Max => a.max(b),
            First::Shl => a << count(b, wrap),
            First::Shr => a >> count(b, wrap),
            First::Set(test) => i64::from(holds(test, a, b)),
            First::Mad => return multiply_add(s, scale, saturate, left || right),
        };
        let limited = match (saturate, first) {
            (false, _) => exact,
            (true, First::Shl) if !to => signed34(exact).clamp(0, i64::from(u32::MAX)),
            (true, First::Shl) => clamped(signed34(exact), to),
            (true, _) => clamped(exact, to),
        };
        let result = limited as u32;
        // Sums and differences go on as 32 bits that count as signed, the others whole.
        let compared = match first {
            First::Add | First::Sub => i64::from(result as i32),
            _ => limited,
        };
        let chosen = match second {
            None => result,
            Some(Second::Add) => result.wrapping_add(c),
            Some(Second::Min) if less(compared, c, to) => result,
            Some(Second::Max) if !less(compared, c, to) => result,
            Some(_) => c,
        };
        u64::from(chosen)
    });
    let kind = |signed| Kind::Int { bits: 32, signed };
    let all = [kind(left), kind(right), kind(to)];
    let count = if mad || second.is_some() { 3 } else { 2 };
    Ok(plain(kind(to), &all[..count], eval))
}

pub const TESTS: Table<Test> = &[
    ("eq", Test::Eq),
    ("ne", Test::Ne),
    ("lt", Test::Lt),
    ("le", Test::Le),
    ("gt", Test::Gt),
    ("ge", Test::Ge),
];

/// vmad's shifts of the result to the right.
const SCALES: Table<u32> = &[("shr7", 7), ("shr15", 15)];

const SECONDS: Table<Second> = &[
    ("add", Second::Add),
    ("min", Second::Min),
    ("max", Second::Max),
];

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

fn operand(register: u64, signed: bool) -> i64 {
    if signed {
        i64::from(register as i32)
    } else {
        i64::from(register as u32)
    }
}

/// The comparison of `.min` and `.max` has 64 bits: with an unsigned destination, a negative
/// intermediate result is larger than any c.
fn less(x: i64, c: u32, signed: bool) -> bool {
    if signed {
        x < i64::from(c as i32)
    } else {
        (x as u64) < u64::from(c)
    }
}

fn count(b: i64, wrap: bool) -> i64 {
    if wrap { b & 31 } else { b.min(32) }
}

/// Saturation looks at 34 bits of a shift's result.
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

/// vmad: all three operands count as signed, whatever their types; the result is signed if a or b
/// is, whatever the destination. An unsigned one is shifted as a number of 64 bits.
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
