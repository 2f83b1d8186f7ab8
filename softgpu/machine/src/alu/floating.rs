//! Floating arithmetic with a defined rounding: add, sub, mul, fma, mad, div, rcp, sqrt, abs, neg
//! on f32, f64, f16, bf16 and their pairs.
//!
//! IEEE 754 results in the given rounding (nearest even if none is written). `.ftz` reads and
//! writes subnormals as zeros of their sign. `.sat` clamps to [0, 1], NaN to 0; `.relu` raises
//! negatives to 0, NaN stays. A NaN result of 32 bits or fewer is 0x7fffffff or 0x7fff.

use super::form::{Form, Rounding, Type, Unsupported};
use super::lanes::{binary, plain, single, ternary, unary};
use super::precise::{self, Format, Value};
use super::{Alu, Eval, approx, directed, half};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Reciprocal,
    SquareRoot,
    Abs,
    Neg,
}

impl Operation {
    fn operands(self) -> usize {
        match self {
            Operation::Add | Operation::Sub | Operation::Mul | Operation::Div => 2,
            Operation::Fma => 3,
            _ => 1,
        }
    }
}

/// How a result is brought into the destination's format.
#[derive(Debug, Clone, Copy)]
struct Finish {
    format: Format,
    rounding: Rounding,
    flush: bool,
    saturate: bool,
    relu: bool,
}

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    if form.has("approx") || form.has("full") || form.opcode == "rsqrt" {
        return approx::resolve(form);
    }
    let ty = form.one_type()?;
    let rounding = form.rounding();
    let operation = match form.opcode {
        "add" => Operation::Add,
        "sub" => Operation::Sub,
        "mul" => Operation::Mul,
        "fma" | "mad" => Operation::Fma,
        "div" => Operation::Div,
        "rcp" => Operation::Reciprocal,
        "sqrt" => Operation::SquareRoot,
        "abs" => Operation::Abs,
        "neg" => Operation::Neg,
        _ => return Err(form.unsupported("no such instruction on floats")),
    };
    let (format, halves) = layout(form, ty)?;
    let half = format == precise::F16 || format == precise::BF16;
    let moves = matches!(operation, Operation::Abs | Operation::Neg);
    let needs_rounding =
        !matches!(operation, Operation::Add | Operation::Sub | Operation::Mul) && !moves;
    let finish = Finish {
        format,
        rounding: rounding.unwrap_or(Rounding::NearestEven),
        flush: matches!(format, precise::F16 | precise::F32) && form.take("ftz"),
        saturate: matches!(ty, Type::F16 | Type::F16x2 | Type::F32)
            && matches!(
                operation,
                Operation::Add | Operation::Sub | Operation::Mul | Operation::Fma
            )
            && form.take("sat"),
        relu: half && operation == Operation::Fma && form.take("relu"),
    };
    if needs_rounding && rounding.is_none() {
        return Err(form.unsupported("needs a rounding mode"));
    }
    if moves && rounding.is_some()
        || half && (finish.rounding != Rounding::NearestEven)
        || (half || halves == 2)
            && matches!(
                operation,
                Operation::Div | Operation::Reciprocal | Operation::SquareRoot
            )
        || (half || halves == 2) && form.opcode == "mad"
        || finish.relu && finish.saturate
    {
        return Err(form.unsupported("no such combination"));
    }
    let kind = ty.kind();
    let eval = fast(operation, ty, finish).unwrap_or_else(|| slow(operation, finish, halves));
    Ok(plain(kind, &vec![kind; operation.operands()], eval))
}

/// The format of a type and how many of them it packs.
pub fn layout(form: &Form, ty: Type) -> Result<(Format, u32), Unsupported> {
    Ok(match ty {
        Type::F16 => (precise::F16, 1),
        Type::BF16 => (precise::BF16, 1),
        Type::F32 => (precise::F32, 1),
        Type::F64 => (precise::F64, 1),
        Type::F16x2 => (precise::F16, 2),
        Type::BF16x2 => (precise::BF16, 2),
        _ => return Err(form.unsupported("needs a floating type")),
    })
}

/// Applies `f` to each of the values packed in a register.
pub fn each(format: Format, halves: u32, f: impl Fn([u64; 4]) -> u64, s: [u64; 4]) -> u64 {
    let width = format.exponent + format.mantissa + 1;
    let mask = u64::MAX >> (64 - width);
    (0..halves).fold(0, |d, i| {
        d | f(s.map(|x| x >> (i * width) & mask)) << (i * width)
    })
}

/// Zero of the same sign in place of a subnormal.
#[inline(always)]
pub fn flush32(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE {
        0f32.copysign(x)
    } else {
        x
    }
}

/// A result's bits. Decided on the bits: a float's NaN may lose its payload on the way.
#[inline(always)]
pub fn canonical32(x: f32) -> u32 {
    let bits = x.to_bits();
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        0x7fff_ffff
    } else {
        bits
    }
}

/// Flushes a result that is below the normal range before it is rounded into that of subnormals:
/// `scaled` is the same result times 2^64, which rounds as if exponents had no end.
#[inline(always)]
fn flush_tiny(result: f32, scaled: f32) -> f32 {
    if scaled.abs() < f32::from_bits((1 + 64) << 23) {
        0f32.copysign(result)
    } else {
        result
    }
}

/// 2^64.
const UP: f32 = f32::from_bits((127 + 64) << 23);

#[inline(always)]
pub fn saturate32(x: f32) -> f32 {
    // Also takes NaN, for which no comparison holds, to 0.
    if x >= 1.0 {
        1.0
    } else if x > 0.0 {
        x
    } else {
        0.0
    }
}

/// What hardware gives for a NaN result in f64: the last NaN of the list, made quiet; if there is
/// none, the default NaN. Callers list operands from the least to the most preferred.
#[inline(always)]
pub fn nan64(operands: &[f64]) -> u64 {
    let mut result = 0xfff8_0000_0000_0000;
    for bits in operands.iter().map(|x| x.to_bits()) {
        if bits << 1 > 0xffe0_0000_0000_0000 {
            result = bits | 1 << 51;
        }
    }
    result
}

/// Plain loops of native arithmetic, where that is what PTX asks for.
fn fast(operation: Operation, ty: Type, finish: Finish) -> Option<Eval> {
    if finish.rounding != Rounding::NearestEven {
        return if ty == Type::F32 {
            one_direction(operation, finish)
        } else {
            None
        };
    }
    match ty {
        Type::F16 => return small::<half::F16>(operation, false, finish),
        Type::F16x2 => return small::<half::F16>(operation, true, finish),
        Type::BF16 => return small::<half::BF16>(operation, false, finish),
        Type::BF16x2 => return small::<half::BF16>(operation, true, finish),
        _ => {}
    }
    // The second expression is the first times 2^64, to tell results that are too small.
    macro_rules! f32_loops {
        ($build:ident, |$($x:ident),+| $e:expr, $scaled:expr) => {
            match (finish.flush, finish.saturate) {
                (false, false) => $build(|$($x: f32),+| canonical32($e)),
                (false, true) => $build(|$($x: f32),+| saturate32($e)),
                (true, false) => $build(|$($x: f32),+| {
                    $(let $x = flush32($x);)+
                    canonical32(flush_tiny($e, $scaled))
                }),
                (true, true) => $build(|$($x: f32),+| {
                    $(let $x = flush32($x);)+
                    saturate32(flush_tiny($e, $scaled))
                }),
            }
        };
    }
    macro_rules! f64_loop {
        ($build:ident, |$($x:ident),+| $e:expr) => {
            f64_loop!($build, |$($x),+| $e, [$($x),+])
        };
        ($build:ident, |$($x:ident),+| $e:expr, $preference:expr) => {
            $build(|$($x: f64),+| {
                let r: f64 = $e;
                if r.is_nan() { nan64(&$preference) } else { r.to_bits() }
            })
        };
    }
    Some(match (ty, operation) {
        (Type::F32, Operation::Add) => f32_loops!(binary, |a, b| a + b, (a + b) * UP),
        (Type::F32, Operation::Sub) => f32_loops!(binary, |a, b| a - b, (a - b) * UP),
        (Type::F32, Operation::Mul) => f32_loops!(binary, |a, b| a * b, (a * UP) * b),
        (Type::F32, Operation::Div) => f32_loops!(binary, |a, b| a / b, (a * UP) / b),
        (Type::F32, Operation::Fma) => {
            f32_loops!(
                ternary,
                |a, b, c| a.mul_add(b, c),
                (a * UP).mul_add(b, c * UP)
            )
        }
        (Type::F32, Operation::SquareRoot) => f32_loops!(unary, |a| a.sqrt(), UP),
        (Type::F32, Operation::Reciprocal) => f32_loops!(unary, |a| 1.0 / a, UP / a),
        (Type::F64, Operation::Add) => f64_loop!(binary, |a, b| a + b),
        (Type::F64, Operation::Sub) => f64_loop!(binary, |a, b| a - b),
        (Type::F64, Operation::Mul) => f64_loop!(binary, |a, b| a * b),
        (Type::F64, Operation::Div) => f64_loop!(binary, |a, b| a / b, [b, a]),
        (Type::F64, Operation::Fma) => f64_loop!(ternary, |a, b, c| a.mul_add(b, c), [a, c, b]),
        (Type::F64, Operation::SquareRoot) => f64_loop!(unary, |a| a.sqrt()),
        (Type::F64, Operation::Reciprocal) => f64_loop!(unary, |a| 1.0 / a),
        (Type::F32, Operation::Abs) if !finish.flush => unary(|a: f32| canonical32(a.abs())),
        (Type::F32, Operation::Neg) if !finish.flush => unary(|a: f32| canonical32(-a)),
        (Type::F64, Operation::Abs) => f64_loop!(unary, |a| a.abs()),
        (Type::F64, Operation::Neg) => f64_loop!(unary, |a| -a),
        _ => return None,
    })
}

fn one_direction(operation: Operation, finish: Finish) -> Option<Eval> {
    let finish = directed::Finish {
        rounding: finish.rounding,
        flush: finish.flush,
        saturate: finish.saturate,
    };
    Some(match operation {
        Operation::Add => directed::add(finish),
        Operation::Sub => directed::subtract(finish),
        Operation::Mul => directed::multiply(finish),
        Operation::Fma => directed::multiply_add(finish),
        _ => return None,
    })
}

fn small<H: half::Half + 'static>(
    operation: Operation,
    packed: bool,
    finish: Finish,
) -> Option<Eval> {
    let finish = half::Finish {
        flush: finish.flush,
        saturate: finish.saturate,
        relu: finish.relu,
    };
    Some(match operation {
        Operation::Add => half::add::<H>(packed, finish),
        Operation::Sub => half::subtract::<H>(packed, finish),
        Operation::Mul => half::multiply::<H>(packed, finish),
        Operation::Fma => half::multiply_add::<H>(packed, finish),
        _ => return None,
    })
}

fn slow(operation: Operation, finish: Finish, halves: u32) -> Eval {
    single(move |s| each(finish.format, halves, |s| compute(operation, finish, s), s))
}

fn compute(operation: Operation, finish: Finish, s: [u64; 4]) -> u64 {
    let format = finish.format;
    let bits = s.map(|x| if finish.flush { format.flush(x) } else { x });
    let [a, b, c, _] = bits.map(|x| format.decode(x));
    let rounding = finish.rounding;
    let one = Value::Finite {
        negative: false,
        exponent: 0,
        significand: 1,
    };
    let value = match operation {
        Operation::Add => precise::add(a, b, rounding),
        Operation::Sub => precise::add(a, precise::negate(b), rounding),
        Operation::Mul => precise::multiply(a, b),
        Operation::Fma => precise::add(precise::multiply(a, b), c, rounding),
        Operation::Div => precise::divide(a, b),
        Operation::Reciprocal => precise::divide(one, a),
        Operation::SquareRoot => precise::square_root(a),
        Operation::Abs if precise::is_negative(a) => precise::negate(a),
        Operation::Abs => a,
        Operation::Neg => precise::negate(a),
    };
    if value == Value::Nan {
        return match (finish.saturate, format == precise::F64) {
            (true, _) => 0,
            (_, true) => {
                let [a, b, c, _] = bits.map(f64::from_bits);
                match operation {
                    Operation::Fma => nan64(&[a, c, b]),
                    Operation::Div => nan64(&[b, a]),
                    Operation::Add | Operation::Sub | Operation::Mul => nan64(&[a, b]),
                    _ => nan64(&[a]),
                }
            }
            _ => format.canonical_nan(),
        };
    }
    let bits = if finish.flush {
        format.encode_flushed(value, rounding)
    } else {
        format.encode(value, rounding)
    };
    let negative = format.is_negative(bits);
    if (finish.saturate || finish.relu) && negative {
        return 0;
    }
    // Positive floats order as their bits do.
    if finish.saturate {
        bits.min(format.one())
    } else {
        bits
    }
}
