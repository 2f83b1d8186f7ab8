//! How far a result may be from hardware's. Only the approximate instructions have any room: each as
//! much as was measured over all its recorded rows, and a test that this is still what is measured.
//! (How far hardware itself may be from the true value is in `documented.rs`.)

use std::collections::BTreeMap;

use crate::fixture::{Case, Class, Fixture, ROUNDS, result};
use crate::format::Format;
use crate::scalar;

/// The largest distance from hardware's answers: units in the last place; for sines, cosines and
/// logarithms of numbers near one, whose results come close to zero, also the absolute difference
/// in units of 2^-32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Limit {
    places: u64,
    absolute: u64,
}

const fn limit(places: u64, absolute: u64) -> Limit {
    Limit { places, absolute }
}

const LIMITS: [(&str, Limit); 30] = [
    ("cos.approx.f32", limit(0, 1376)),
    ("cos.approx.ftz.f32", limit(0, 1376)),
    ("div.approx.f32", limit(1, 0)),
    ("div.approx.ftz.f32", limit(1, 0)),
    ("div.full.f32", limit(1, 0)),
    ("div.full.ftz.f32", limit(1, 0)),
    ("ex2.approx.f16", limit(1, 0)),
    ("ex2.approx.f16x2", limit(1, 0)),
    ("ex2.approx.f32", limit(2, 0)),
    ("ex2.approx.ftz.bf16", limit(1, 0)),
    ("ex2.approx.ftz.bf16x2", limit(1, 0)),
    ("ex2.approx.ftz.f32", limit(2, 0)),
    ("lg2.approx.f32", limit(2, 768)),
    ("lg2.approx.ftz.f32", limit(2, 768)),
    ("rcp.approx.f32", limit(1, 0)),
    ("rcp.approx.ftz.f32", limit(1, 0)),
    // One place of the upper word; the lower is zero.
    ("rcp.approx.ftz.f64", limit(1 << 32, 0)),
    ("rsqrt.approx.f32", limit(1, 0)),
    ("rsqrt.approx.f64", limit(1, 0)),
    ("rsqrt.approx.ftz.f32", limit(1, 0)),
    // One place of the upper word; the lower is zero.
    ("rsqrt.approx.ftz.f64", limit(1 << 32, 0)),
    ("sin.approx.f32", limit(0, 1376)),
    ("sin.approx.ftz.f32", limit(0, 1376)),
    ("sqrt.approx.f32", limit(1, 0)),
    ("sqrt.approx.ftz.f32", limit(1, 0)),
    ("tanh.approx.bf16", limit(1, 0)),
    ("tanh.approx.bf16x2", limit(1, 0)),
    ("tanh.approx.f16", limit(1, 0)),
    ("tanh.approx.f16x2", limit(1, 0)),
    ("tanh.approx.f32", limit(114, 0)),
];

const ABSOLUTE_UNIT: f64 = (1u64 << 32) as f64;

/// Whether a row is measured by its absolute difference.
fn near_zero(fixture: &Fixture, case: &Case, row: usize) -> bool {
    match case.tolerance.as_str() {
        "sin" => true,
        "lg2" => {
            let input = f32::from_bits(fixture.operand(case.sources[0], row) as u32);
            input > 0.5 && input < 2.0
        }
        _ => false,
    }
}

/// The distance of a row's result from hardware's; none if one of them is not a number.
fn distance(fixture: &Fixture, case: &Case, row: usize, expected: u64, got: u64) -> Option<Limit> {
    let format = Format::of(&case.name);
    let mut found = Limit::default();
    for (x, y) in format
        .parts(case.results[0], expected)
        .zip(format.parts(case.results[0], got))
    {
        if x == y {
            continue;
        }
        let (a, b) = (format.value(x)?, format.value(y)?);
        if near_zero(fixture, case, row) {
            let units = ((a - b).abs() * ABSOLUTE_UNIT).ceil() as u64;
            found.absolute = found.absolute.max(units);
        } else {
            found.places = found.places.max(format.places_between(x, y));
        }
    }
    Some(found)
}

pub fn accepts(fixture: &Fixture, case: &Case, row: usize, expected: u64, got: u64) -> bool {
    if expected == got {
        return true;
    }
    let Some((_, limit)) = LIMITS.iter().find(|(name, _)| *name == case.name) else {
        return false;
    };
    distance(fixture, case, row, expected, got)
        .is_some_and(|d| d.places <= limit.places && d.absolute <= limit.absolute)
}

#[test]
fn the_limits_are_what_is_measured() {
    let mut measured: BTreeMap<String, Limit> = BTreeMap::new();
    let mut equal: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for fixture in Fixture::all() {
        for case in fixture.cases.iter().filter(|c| c.tolerance != "exact") {
            assert_eq!(case.class, Class::Scalar, "{}", case.name);
            let area = scalar::results(&fixture, case).expect("resolves");
            let most = measured.entry(case.name.clone()).or_default();
            let count = equal.entry(case.name.clone()).or_default();
            for row in 0..ROUNDS {
                let expected = result(fixture.answers(case), case, 0, row);
                let got = result(&area, case, 0, row);
                count.0 += usize::from(expected == got);
                count.1 += 1;
                let Some(d) = distance(&fixture, case, row, expected, got) else {
                    assert_eq!(expected, got, "{} row {row}", case.name);
                    continue;
                };
                most.places = most.places.max(d.places);
                most.absolute = most.absolute.max(d.absolute);
            }
        }
    }
    let listed: BTreeMap<String, Limit> = LIMITS
        .iter()
        .map(|(name, limit)| (name.to_string(), *limit))
        .collect();
    let rows: Vec<String> = measured
        .iter()
        .map(|(name, m)| format!("(\"{name}\", limit({}, {})),", m.places, m.absolute))
        .collect();
    for (name, (same, all)) in &equal {
        println!("{name}: {same} of {all} rows bit for bit");
    }
    assert!(
        listed == measured,
        "the limits are now\n{}",
        rows.join("\n")
    );
}
