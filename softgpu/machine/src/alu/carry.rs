//! Extended-precision arithmetic over the carry flag: add.cc, addc, sub.cc, subc, mad.cc, madc.
//!
//! `.cc` writes the carry out of (for subtraction: the borrow into) the top bit; addc, subc and
//! madc take it in. `mad.lo.cc` and `mad.hi.cc` carry out of the addition, not of the product.

use super::form::{Form, Type, Unsupported};
use super::lanes::{general, kinds};
use super::{Alu, Kind};

#[derive(Clone, Copy)]
enum Operation {
    Add,
    Sub,
    MulLo,
    MulHi,
}

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    let Type::Int {
        bits: bits @ (32 | 64),
        signed,
        raw: false,
    } = form.one_type()?
    else {
        return Err(form.unsupported("needs a 32 or 64 bit integer"));
    };
    let carry_out = form.take("cc");
    let carry_in = form.opcode.len() == 4;
    let operation = match (form.opcode, form.take("lo"), form.take("hi")) {
        ("add" | "addc", false, false) => Operation::Add,
        ("sub" | "subc", false, false) => Operation::Sub,
        ("mad" | "madc", true, false) => Operation::MulLo,
        ("mad" | "madc", false, true) => Operation::MulHi,
        _ => return Err(form.unsupported("no such instruction with carry")),
    };
    let count = if matches!(operation, Operation::Add | Operation::Sub) {
        2
    } else {
        3
    };
    let mask = if bits == 64 {
        u64::MAX
    } else {
        u64::from(u32::MAX)
    };
    let eval = general(move |s| {
        let flag = if carry_in { s[count] & 1 } else { 0 };
        let (a, b) = (s[0] & mask, s[1] & mask);
        let sum = |x: u64, y: u64| {
            let wide = u128::from(x) + u128::from(y) + u128::from(flag);
            (wide as u64 & mask, (wide >> bits) as u64 & 1)
        };
        match operation {
            Operation::Add => sum(a, b),
            Operation::Sub => {
                let wide = u128::from(a)
                    .wrapping_sub(u128::from(b))
                    .wrapping_sub(u128::from(flag));
                (wide as u64 & mask, (wide >> bits) as u64 & 1)
            }
            Operation::MulLo => sum(a.wrapping_mul(b) & mask, s[2] & mask),
            Operation::MulHi => sum(
                (product(a, b, bits, signed) >> bits) as u64 & mask,
                s[2] & mask,
            ),
        }
    });
    let kind = Kind::Int { bits, signed };
    Ok(Alu {
        dst: kind,
        dst2: None,
        src: kinds(&vec![kind; count]),
        carry_in,
        carry_out,
        eval,
    })
}

fn product(a: u64, b: u64, bits: u8, signed: bool) -> u128 {
    if !signed {
        return u128::from(a) * u128::from(b);
    }
    let extend = |x: u64| i128::from((x << (64 - bits)) as i64 >> (64 - bits));
    (extend(a) * extend(b)) as u128
}
