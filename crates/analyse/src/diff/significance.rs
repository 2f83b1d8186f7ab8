//! Whether two sets of durations differ by more than chance: the rank-sum test of Mann and Whitney
//! on their histograms. It asks nothing of the shape of the distributions, which have long tails.
//!
//! Values in one bucket count as equal, so that changes of less than about 3 % are not seen.

use crate::Quantiles;
use serde::Serialize;

/// With fewer values on a side the test's approximation does not hold.
const ENOUGH: u64 = 8;
/// Chance explains one in a hundred of what is called a change.
const LEVEL: f64 = 0.01;
/// Of many thousands of calls the smallest shift is beyond chance. It must also be a shift: a value
/// of the one run exceeds one of the other in more than 55 of 100 pairs.
const EFFECT: f64 = 0.05;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Significance {
    pub verdict: Verdict,
    pub samples_a: u64,
    pub samples_b: u64,
    /// How likely such a difference is by chance; None with too few values.
    pub p: Option<f64>,
    /// How often a value of `b` exceeds one of `a`, ties halved: 0.5 where nothing changed.
    pub b_exceeds_a: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Slower,
    Faster,
    /// The same, as far as these values can tell.
    Same,
    /// Too few values to tell.
    NotEnough,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::Same => "same",
            Verdict::NotEnough => "not enough",
        }
    }
}

/// Compares the durations of `b` with those of `a`.
pub fn compare(a: &Quantiles, b: &Quantiles) -> Significance {
    let sum = |side: &Quantiles| side.buckets().map(|(_, count)| count).sum::<u64>();
    let (samples_a, samples_b) = (sum(a), sum(b));
    let mut found = Significance {
        verdict: Verdict::NotEnough,
        samples_a,
        samples_b,
        p: None,
        b_exceeds_a: None,
    };
    if samples_a < ENOUGH || samples_b < ENOUGH {
        return found;
    }
    let (n, m) = (samples_a as f64, samples_b as f64);
    let all = n + m;
    // Pairs in which b is greater, and how far ties narrow the spread.
    let (mut wins, mut ties, mut below) = (0.0, 0.0, 0.0);
    let mut left = a.buckets().peekable();
    let mut right = b.buckets().peekable();
    loop {
        let bucket = match (left.peek(), right.peek()) {
            (None, None) => break,
            (Some(&(bucket, _)), None) | (None, Some(&(bucket, _))) => bucket,
            (Some(&(one, _)), Some(&(other, _))) => one.min(other),
        };
        let x = left
            .next_if(|next| next.0 == bucket)
            .map_or(0, |next| next.1) as f64;
        let y = right
            .next_if(|next| next.0 == bucket)
            .map_or(0, |next| next.1) as f64;
        wins += y * (below + x / 2.0);
        below += x;
        let equal = x + y;
        ties += equal * equal * equal - equal;
    }
    let exceeds = wins / (n * m);
    let variance = n * m / 12.0 * ((all + 1.0) - ties / (all * (all - 1.0)));
    let p = if variance > 0.0 {
        // Half a step back, because counts move in steps.
        let off = ((wins - n * m / 2.0).abs() - 0.5).max(0.0);
        erfc(off / variance.sqrt() / std::f64::consts::SQRT_2)
    } else {
        1.0
    };
    found.p = Some(p);
    found.b_exceeds_a = Some(exceeds);
    found.verdict = if p >= LEVEL || (exceeds - 0.5).abs() < EFFECT {
        Verdict::Same
    } else if exceeds > 0.5 {
        Verdict::Slower
    } else {
        Verdict::Faster
    };
    found
}

/// The complementary error function of a number that is not negative, to seven digits: the rational
/// approximation of Hastings.
fn erfc(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    let sum = series.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    (sum * (-x * x).exp()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Quantiles {
        let mut quantiles = Quantiles::default();
        values.into_iter().for_each(|value| quantiles.add(value));
        quantiles
    }

    #[test]
    fn the_error_function_is_right() {
        for (x, expected) in [
            (0.0, 1.0),
            (0.5, 0.479_500_122),
            (1.0, 0.157_299_207),
            (2.0, 0.004_677_735),
        ] {
            assert!((erfc(x) - expected).abs() < 2e-7, "{x}: {}", erfc(x));
        }
    }

    /// Values below 64 have a bucket each: a = 1..8, b = 5..12.
    #[test]
    fn a_small_case_worked_by_hand() {
        let found = compare(&of(1..=8), &of(5..=12));
        // Pairs with b > a: 4, 5, 6 and 7 for b = 5 to 8, then 8 four times: 54. Equal: 4.
        assert_eq!(found.b_exceeds_a, Some((54.0 + 2.0) / 64.0));
        // Variance 64/12 · (17 − 4·6/(16·15)) = 90.133; (56 − 32 − ½)/9.4939 = 2.4753; p = 0.01331.
        assert!((found.p.unwrap() - 0.013_312).abs() < 1e-4, "{found:?}");
        assert_eq!(
            found.verdict,
            Verdict::Same,
            "more likely than one in a hundred"
        );
    }

    #[test]
    fn verdicts() {
        let base = || (0..100).map(|i| 1000 + i * 7);
        let slow = compare(&of(base()), &of(base().map(|value| value * 12 / 10)));
        assert_eq!(slow.verdict, Verdict::Slower);
        let fast = compare(&of(base()), &of(base().map(|value| value * 8 / 10)));
        assert_eq!(fast.verdict, Verdict::Faster);
        assert_eq!(compare(&of(base()), &of(base())).verdict, Verdict::Same);
        let few = compare(&of(base()), &of([5000; 7]));
        assert_eq!((few.verdict, few.p), (Verdict::NotEnough, None));
        let constant = compare(&of([5; 100]), &of([5; 50]));
        assert_eq!((constant.verdict, constant.p), (Verdict::Same, Some(1.0)));
        // Two modes swap their weight a little: beyond chance, but no shift worth a word.
        let many = |share: u64| (0..200_000).map(move |i| if i % 100 < share { 100 } else { 900 });
        let tiny = compare(&of(many(50)), &of(many(48)));
        assert!(tiny.p.unwrap() < 1e-6);
        assert_eq!(tiny.verdict, Verdict::Same);
    }

    #[test]
    fn chance_is_called_a_change_rarely() {
        // A fixed sequence of pseudo-random numbers: 200 pairs of samples of one distribution.
        let mut state = 7u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            1_000 + (state >> 54)
        };
        let alarms = (0..200)
            .filter(|_| {
                let a = of((0..40).map(|_| next()));
                let b = of((0..40).map(|_| next()));
                compare(&a, &b).verdict != Verdict::Same
            })
            .count();
        assert!(
            alarms <= 8,
            "{alarms} of 200 at a level of one in a hundred"
        );
    }
}
