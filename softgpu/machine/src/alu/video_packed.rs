//! Video instructions on packed bytes and halves: vadd2, vadd4, vsub, vavrg, vabsdiff, vmin, vmax
//! and vset, in the plain form without lane masks and selectors.
//!
//! Each part of a and b is read by its type and combined; the result is clamped with `.sat`, else
//! it wraps, and lands in the same part of d. With `.add`, d is c plus the exact results of all
//! parts. vavrg rounds halves away from zero; vset gives 1 or 0.

use super::form::{Form, Unsupported};
use super::lanes::{plain, single};
use super::video::{TESTS, Test, holds, signs};
use super::{Alu, Kind};

#[derive(Debug, Clone, Copy)]
enum Operation {
    Add,
    Sub,
    Average,
    AbsDiff,
    Min,
    Max,
    Set(Test),
}

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    let bits = if form.opcode.ends_with('2') { 16 } else { 8 };
    let name = form.opcode.trim_end_matches(['2', '4']);
    let types = signs(form)?;
    let set = name == "vset";
    let (to, left, right) = match types[..] {
        [left, right] if set => (false, left, right),
        [to, left, right] if !set => (to, left, right),
        _ => return Err(form.unsupported("needs a type per operand")),
    };
    let operation = match name {
        "vadd" => Operation::Add,
        "vsub" => Operation::Sub,
        "vavrg" => Operation::Average,
        "vabsdiff" => Operation::AbsDiff,
        "vmin" => Operation::Min,
        "vmax" => Operation::Max,
        _ => Operation::Set(
            form.take_one(TESTS)
                .ok_or_else(|| form.unsupported("needs a comparison"))?,
        ),
    };
    let saturate = !set && form.take("sat");
    let accumulate = form.take("add");
    if saturate && accumulate {
        return Err(form.unsupported("either .sat or .add"));
    }
    let eval = single(move |s| {
        let mut packed = 0u32;
        let mut sum = i64::from(s[2] as u32);
        for i in 0..32 / bits {
            let a = part(s[0], i, bits, left);
            let b = part(s[1], i, bits, right);
            let result = combine(operation, a, b);
            let result = if saturate {
                clamp(result, bits, to)
            } else {
                result
            };
            packed |= (result as u32 & (u32::MAX >> (32 - bits))) << (i * bits);
            sum += result;
        }
        u64::from(if accumulate { sum as u32 } else { packed })
    });
    let kind = |signed| Kind::Int { bits: 32, signed };
    Ok(plain(kind(to), &[kind(left), kind(right), kind(to)], eval))
}

fn combine(operation: Operation, a: i64, b: i64) -> i64 {
    match operation {
        Operation::Add => a + b,
        Operation::Sub => a - b,
        Operation::Average => (a + b + i64::from(a + b >= 0)) >> 1,
        Operation::AbsDiff => (a - b).abs(),
        Operation::Min => a.min(b),
        Operation::Max => a.max(b),
        Operation::Set(test) => i64::from(holds(test, a, b)),
    }
}

/// Part `i` of a register, as a number.
fn part(register: u64, i: u32, bits: u32, signed: bool) -> i64 {
    let unused = 32 - bits;
    let moved = (register as u32) >> (i * bits) << unused;
    if signed {
        i64::from(moved as i32 >> unused)
    } else {
        i64::from(moved >> unused)
    }
}

fn clamp(x: i64, bits: u32, signed: bool) -> i64 {
    if signed {
        x.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        x.clamp(0, (1 << bits) - 1)
    }
}
