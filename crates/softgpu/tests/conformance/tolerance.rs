//! How far a result may be from hardware's. Only the approximate instructions have any room: PTX
//! bounds their error (PTX ISA, sections of div, rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh). Ours
//! are correctly rounded, so hardware's may differ by its bound and the rounding of one place.
//! The bounds below have not been compared with the text of those sections yet.

use crate::fixture::{Case, Fixture};

/// The layouts the bounds are stated for.
#[derive(Clone, Copy)]
struct Layout {
    exponent: u32,
    mantissa: u32,
}

/// A bound: how far hardware may be from the true value, by magnitude or absolutely.
#[derive(Clone, Copy)]
struct Bound {
    relative: f64,
    absolute: f64,
}

pub fn accepts(fixture: &Fixture, case: &Case, row: usize, expected: u64, got: u64) -> bool {
    if expected == got {
        return true;
    }
    let f16 = Layout {
        exponent: 5,
        mantissa: 10,
    };
    let bf16 = Layout {
        exponent: 8,
        mantissa: 7,
    };
    let f32 = Layout {
        exponent: 8,
        mantissa: 23,
    };
    let f64 = Layout {
        exponent: 11,
        mantissa: 52,
    };
    let input = f64::from(f32::from_bits(fixture.operand(case.sources[0], row) as u32));
    let relative = |power: f64| Bound {
        relative: power.exp2(),
        absolute: 0.0,
    };
    let absolute = |power: f64| Bound {
        relative: 0.0,
        absolute: power.exp2(),
    };
    let half = if case.name.contains(".bf16") {
        bf16
    } else {
        f16
    };
    let (layout, bound) = match case.tolerance.as_str() {
        // 2 ulp.
        "div" => (f32, relative(-22.0)),
        "rcp" => (f32, relative(-23.0)),
        "sqrt" => (f32, relative(-23.0)),
        "rsqrt" => (f32, relative(-22.9)),
        // 2^-20.5 within ±pi, 2^-14.7 within ±100 pi; beyond, nothing is promised but the range.
        "sin" if input.abs() <= std::f64::consts::PI => (f32, absolute(-20.5)),
        "sin" if input.abs() <= 100.0 * std::f64::consts::PI => (f32, absolute(-14.7)),
        "sin" => (f32, absolute(1.0)),
        "ex2" => (f32, relative(-22.5)),
        // Absolute near one, relative elsewhere.
        "lg2" if input > 0.5 && input < 2.0 => (f32, absolute(-22.0)),
        "lg2" => (f32, relative(-22.0)),
        "tanh" => (f32, relative(-11.0)),
        "tanh16" if half.mantissa == 10 => (half, absolute(-10.987)),
        "tanh16" => (half, absolute(-8.0)),
        "ex2h" => (half, relative(-9.9)),
        "ex2b" => (half, relative(-7.0)),
        "rsqrt64" if !case.name.contains(".ftz") => (f64, relative(-51.0)),
        "rcp64" | "rsqrt64" => (f64, relative(-19.0)),
        _ => return false,
    };
    let width = layout.exponent + layout.mantissa + 1;
    let halves = if case.results[0] > width { 2 } else { 1 };
    (0..halves).all(|i| {
        let part = |bits: u64| bits >> (i * width) & (u64::MAX >> (64 - width));
        close(layout, bound, part(expected), part(got))
    })
}

fn close(layout: Layout, bound: Bound, expected: u64, got: u64) -> bool {
    if expected == got {
        return true;
    }
    let (Some(x), Some(y)) = (value(layout, expected), value(layout, got)) else {
        return false;
    };
    let tiny = f64::from(1 - ((1i32 << (layout.exponent - 1)) - 1) - layout.mantissa as i32).exp2();
    let distance = (x - y).abs();
    // A result in the subnormal range is good to its last place.
    let last_place = (y.abs() * (-f64::from(layout.mantissa)).exp2()).max(tiny);
    distance <= bound.absolute.max(bound.relative * y.abs()) + last_place
}

/// A value; infinity as the number after the largest, for what just overflows. None for NaN, which
/// must match exactly.
fn value(layout: Layout, bits: u64) -> Option<f64> {
    let field = bits >> layout.mantissa & ((1 << layout.exponent) - 1);
    let fraction = (bits & ((1 << layout.mantissa) - 1)) as f64;
    if field == (1 << layout.exponent) - 1 && fraction != 0.0 {
        return None;
    }
    let bias = (1i32 << (layout.exponent - 1)) - 1;
    let hidden = if field == 0 {
        0.0
    } else {
        f64::from(layout.mantissa).exp2()
    };
    let scale = f64::from(field.max(1) as i32 - bias - layout.mantissa as i32);
    let magnitude = (hidden + fraction) * scale.exp2();
    let negative = bits >> (layout.exponent + layout.mantissa) & 1 != 0;
    Some(if negative { -magnitude } else { magnitude })
}
