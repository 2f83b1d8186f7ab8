//! setp and set: comparisons, ordered and unordered, optionally combined with a predicate.
//!
//! eq ne lt le gt ge are false (ne too) when a float operand is NaN; the `u` forms are true then;
//! `num` holds when neither is NaN, `nan` when one is. lo ls hi hs compare unsigned. setp writes
//! p = cmp OP c and q = !cmp OP c; on packed halves p is for the low, q for the high half. set
//! writes all ones or 1.0.

use super::form::{Form, Table, Type, Unsupported};
use super::lanes::{comparison, general, kinds, plain};
use super::precise;
use super::{Alu, Eval, Kind, Lanes, WARP};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Num,
    Nan,
}

/// A comparison; `unordered` makes it hold for NaN.
#[derive(Debug, Clone, Copy)]
struct Test {
    order: Order,
    unordered: bool,
}

#[derive(Debug, Clone, Copy)]
enum Combine {
    And,
    Or,
    Xor,
}

const fn entry(
    word: &'static str,
    order: Order,
    unordered: bool,
    unsigned: bool,
) -> (&'static str, (Test, bool)) {
    (word, (Test { order, unordered }, unsigned))
}

/// Comparisons, and whether they are those of unsigned integers.
const TESTS: Table<(Test, bool)> = &[
    entry("eq", Order::Eq, false, false),
    entry("ne", Order::Ne, false, false),
    entry("lt", Order::Lt, false, false),
    entry("le", Order::Le, false, false),
    entry("gt", Order::Gt, false, false),
    entry("ge", Order::Ge, false, false),
    entry("lo", Order::Lt, false, true),
    entry("ls", Order::Le, false, true),
    entry("hi", Order::Gt, false, true),
    entry("hs", Order::Ge, false, true),
    entry("equ", Order::Eq, true, false),
    entry("neu", Order::Ne, true, false),
    entry("ltu", Order::Lt, true, false),
    entry("leu", Order::Le, true, false),
    entry("gtu", Order::Gt, true, false),
    entry("geu", Order::Ge, true, false),
    entry("num", Order::Num, false, false),
    entry("nan", Order::Nan, true, false),
];

const COMBINES: Table<Combine> = &[
    ("and", Combine::And),
    ("or", Combine::Or),
    ("xor", Combine::Xor),
];

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    let (test, unsigned) = form
        .take_one(TESTS)
        .ok_or_else(|| form.unsupported("needs a comparison"))?;
    let combine = form.take_one(COMBINES);
    let flush = form.take("ftz");
    let (dst, ty) = if form.opcode == "set" {
        form.two_types()?
    } else {
        (Type::Pred, form.one_type()?)
    };
    let integer_test = !test.unordered && test.order != Order::Num;
    match ty {
        Type::Int {
            bits: 16 | 32 | 64,
            signed,
            raw,
        } => {
            let equality = matches!(test.order, Order::Eq | Order::Ne);
            if flush || !integer_test || raw && !equality || unsigned && (signed || raw) {
                return Err(form.unsupported("no such comparison of integers"));
            }
        }
        Type::F32 | Type::F16 | Type::F16x2 if !unsigned => {}
        Type::F64 | Type::BF16 | Type::BF16x2 if !unsigned && !flush => {}
        _ => return Err(form.unsupported("no such comparison of this type")),
    }
    let kind = ty.kind();
    let compare = match ty {
        Type::Int { bits, signed, .. } => integers(test.order, bits, signed),
        Type::F32 if flush => floats32_flushed(test),
        Type::F32 => floats32(test),
        Type::F64 => floats64(test),
        Type::F16 => halves(test, precise::F16, flush, false),
        Type::BF16 => halves(test, precise::BF16, flush, false),
        Type::F16x2 => halves(test, precise::F16, flush, true),
        _ => halves(test, precise::BF16, flush, true),
    };
    let packed = matches!(ty, Type::F16x2 | Type::BF16x2);
    let compare = match combine {
        None => compare,
        Some(combine) => combined(compare, combine),
    };
    let src: &[Kind] = if combine.is_some() {
        &[kind, kind, Kind::Pred]
    } else {
        &[kind, kind]
    };
    if form.opcode == "setp" {
        return Ok(Alu {
            dst: Kind::Pred,
            dst2: Some(Kind::Pred),
            src: kinds(src),
            carry_in: false,
            carry_out: false,
            eval: compare,
        });
    }
    let half = matches!(ty, Type::F16 | Type::BF16);
    let yes = match (dst, ty) {
        (Type::F16x2, Type::F16x2) => precise::F16.one(),
        (Type::BF16x2, Type::BF16x2) => precise::BF16.one(),
        (
            Type::Int {
                bits: 32,
                raw: false,
                ..
            },
            _,
        ) if packed => 0xffff,
        _ if packed => return Err(form.unsupported("no such destination")),
        (Type::F32, _) if !half => precise::F32.one(),
        (Type::F16, _) if ty != Type::BF16 => precise::F16.one(),
        (Type::BF16, _) if !flush => precise::BF16.one(),
        (
            Type::Int {
                bits: 32,
                raw: false,
                ..
            },
            _,
        ) => 0xffff_ffff,
        (
            Type::Int {
                bits: 16,
                raw: false,
                ..
            },
            _,
        ) if half => 0xffff,
        _ => return Err(form.unsupported("no such destination")),
    };
    let eval = as_values(compare, yes, packed);
    Ok(plain(dst.kind(), src, eval))
}

/// Turns predicates into values: `yes` or 0; the second predicate fills the upper half.
fn as_values(compare: Eval, yes: u64, packed: bool) -> Eval {
    Box::leak(Box::new(move |out: &mut [Lanes; 2], src: [&Lanes; 4]| {
        compare(out, src);
        let [first, second] = out;
        for i in 0..WARP {
            let high = if packed { (second[i] * yes) << 16 } else { 0 };
            first[i] = (first[i] * yes) | high;
        }
    }))
}

/// Combines both results with the predicate, which is the third source.
fn combined(compare: Eval, combine: Combine) -> Eval {
    fn joined(compare: Eval, join: impl Fn(u64, u64) -> u64 + Send + Sync + 'static) -> Eval {
        Box::leak(Box::new(move |out: &mut [Lanes; 2], src: [&Lanes; 4]| {
            compare(out, src);
            for lanes in out {
                for (value, c) in lanes.iter_mut().zip(src[2]) {
                    *value = join(*value, c & 1);
                }
            }
        }))
    }
    match combine {
        Combine::And => joined(compare, |p, c| p & c),
        Combine::Or => joined(compare, |p, c| p | c),
        Combine::Xor => joined(compare, |p, c| p ^ c),
    }
}

/// Narrow values are zero-extended, so equality and unsigned order need no width.
fn integers(order: Order, bits: u8, signed: bool) -> Eval {
    macro_rules! ordered {
        ($T:ty) => {
            match order {
                Order::Lt => comparison(|a: $T, b: $T| a < b),
                Order::Le => comparison(|a: $T, b: $T| a <= b),
                Order::Gt => comparison(|a: $T, b: $T| a > b),
                _ => comparison(|a: $T, b: $T| a >= b),
            }
        };
    }
    match (order, bits, signed) {
        (Order::Eq, ..) => comparison(|a: u64, b: u64| a == b),
        (Order::Ne, ..) => comparison(|a: u64, b: u64| a != b),
        (_, 16, true) => ordered!(i16),
        (_, 32, true) => ordered!(i32),
        (_, 64, true) => ordered!(i64),
        _ => ordered!(u64),
    }
}

macro_rules! float_comparison {
    ($test:expr, $T:ty, $read:expr) => {{
        let read = $read;
        match ($test.order, $test.unordered) {
            (Order::Eq, false) => comparison(move |a: $T, b: $T| read(a) == read(b)),
            // Ordered inequality: less or greater, so not for NaN.
            (Order::Ne, false) => {
                comparison(move |a: $T, b: $T| read(a) < read(b) || read(a) > read(b))
            }
            (Order::Lt, false) => comparison(move |a: $T, b: $T| read(a) < read(b)),
            (Order::Le, false) => comparison(move |a: $T, b: $T| read(a) <= read(b)),
            (Order::Gt, false) => comparison(move |a: $T, b: $T| read(a) > read(b)),
            (Order::Ge, false) => comparison(move |a: $T, b: $T| read(a) >= read(b)),
            (Order::Eq, true) => {
                comparison(move |a: $T, b: $T| !(read(a) < read(b) || read(a) > read(b)))
            }
            (Order::Ne, true) => comparison(move |a: $T, b: $T| read(a) != read(b)),
            (Order::Lt, true) => comparison(move |a: $T, b: $T| !(read(a) >= read(b))),
            (Order::Le, true) => comparison(move |a: $T, b: $T| !(read(a) > read(b))),
            (Order::Gt, true) => comparison(move |a: $T, b: $T| !(read(a) <= read(b))),
            (Order::Ge, true) => comparison(move |a: $T, b: $T| !(read(a) < read(b))),
            (Order::Num, _) => comparison(|a: $T, b: $T| !a.is_nan() && !b.is_nan()),
            (Order::Nan, _) => comparison(|a: $T, b: $T| a.is_nan() || b.is_nan()),
        }
    }};
}

// Negated comparisons hold for NaN: just what the unordered forms are.
#[allow(clippy::neg_cmp_op_on_partial_ord)]
fn floats32(test: Test) -> Eval {
    float_comparison!(test, f32, |x: f32| x)
}

// Negated comparisons hold for NaN: just what the unordered forms are.
#[allow(clippy::neg_cmp_op_on_partial_ord)]
fn floats32_flushed(test: Test) -> Eval {
    float_comparison!(test, f32, super::floating::flush32)
}

// Negated comparisons hold for NaN: just what the unordered forms are.
#[allow(clippy::neg_cmp_op_on_partial_ord)]
fn floats64(test: Test) -> Eval {
    float_comparison!(test, f64, |x: f64| x)
}

/// Halves compare as the f64 they are; of a pair, the second result is the upper one's.
fn halves(test: Test, format: precise::Format, flush: bool, packed: bool) -> Eval {
    let read = move |bits: u64| {
        let bits = bits & 0xffff;
        let bits = if flush { format.flush(bits) } else { bits };
        let value = format.decode(bits);
        if value == precise::Value::Nan {
            return f64::NAN;
        }
        f64::from_bits(precise::F64.encode(value, super::form::Rounding::NearestEven))
    };
    let holds = move |a: u64, b: u64| holds(test, read(a), read(b)) as u64;
    if packed {
        general(move |s| (holds(s[0], s[1]), holds(s[0] >> 16, s[1] >> 16)))
    } else {
        general(move |s| {
            let p = holds(s[0], s[1]);
            (p, p ^ 1)
        })
    }
}

fn holds(test: Test, a: f64, b: f64) -> bool {
    if a.is_nan() || b.is_nan() {
        return test.unordered;
    }
    match test.order {
        Order::Eq => a == b,
        Order::Ne => a != b,
        Order::Lt => a < b,
        Order::Le => a <= b,
        Order::Gt => a > b,
        Order::Ge => a >= b,
        Order::Num => true,
        Order::Nan => false,
    }
}
