//! Mapping a source's clock (TSC, CUPTI, %globaltimer) to the host's CLOCK_MONOTONIC by a
//! straight line through repeated pairs, with a bound on the error.

/// One reading of a source's clock between two readings of the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockPair {
    pub source: u64,
    /// The middle of the two host readings.
    pub host: u64,
    /// Half the time between them, rounded up: the pair cannot be wrong by more.
    pub margin: u64,
}

impl ClockPair {
    /// The source was read after `before` and before `after`. None if the host's clock ran backwards.
    pub fn around(before: u64, source: u64, after: u64) -> Option<Self> {
        let between = after.checked_sub(before)?;
        Some(ClockPair {
            source,
            host: before + between / 2,
            margin: between.div_ceil(2),
        })
    }
}

/// A straight line from a source's clock to the host's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockMap {
    source: u64,
    host: u64,
    /// Host nanoseconds at `source`, past `host`.
    intercept: f64,
    /// Host nanoseconds for each unit of the source.
    rate: f64,
    error: u64,
    first: u64,
    last: u64,
}

/// What a crystal may drift where only one pair is known, in parts of a million.
const UNKNOWN_DRIFT_PPM: f64 = 100.0;

impl ClockMap {
    /// The line that fits the pairs best, tight ones counting more. With fewer than two distinct
    /// source times the slope is `nominal_rate` (1.0 for clocks that count nanoseconds).
    pub fn fit(pairs: &[ClockPair], nominal_rate: f64) -> Option<Self> {
        let reference = *pairs.first()?;
        if !(nominal_rate.is_finite() && nominal_rate > 0.0) {
            return None;
        }
        let place = |pair: &ClockPair| {
            let x = difference(pair.source, reference.source);
            let y = difference(pair.host, reference.host);
            let tightness = 1.0 / (1.0 + pair.margin as f64);
            (x, y, tightness * tightness)
        };
        let (mut weight, mut x_sum, mut y_sum) = (0.0, 0.0, 0.0);
        for (x, y, w) in pairs.iter().map(place) {
            weight += w;
            x_sum += w * x;
            y_sum += w * y;
        }
        let (x_mean, y_mean) = (x_sum / weight, y_sum / weight);
        let (mut xx, mut xy) = (0.0, 0.0);
        for (x, y, w) in pairs.iter().map(place) {
            xx += w * (x - x_mean) * (x - x_mean);
            xy += w * (x - x_mean) * (y - y_mean);
        }
        let fitted = xy / xx;
        let rate = if fitted.is_finite() && fitted > 0.0 {
            fitted
        } else {
            nominal_rate
        };
        let mut map = ClockMap {
            source: reference.source,
            host: reference.host,
            intercept: y_mean - rate * x_mean,
            rate,
            error: 0,
            first: pairs.iter().map(|pair| pair.source).min()?,
            last: pairs.iter().map(|pair| pair.source).max()?,
        };
        map.error = (pairs.iter())
            .map(|pair| {
                map.to_host(pair.source)
                    .abs_diff(pair.host)
                    .saturating_add(pair.margin)
            })
            .max()?;
        Some(map)
    }

    /// The host's time at the source's, clamped to what a u64 can hold.
    pub fn to_host(&self, source: u64) -> u64 {
        let past = self.intercept + self.rate * difference(source, self.source);
        // Rounds to nearest; `as` saturates.
        let past = if past < 0.0 { past - 0.5 } else { past + 0.5 } as i128;
        (i128::from(self.host) + past).clamp(0, u64::MAX.into()) as u64
    }

    /// Host nanoseconds for each unit of the source.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// No time between the first and the last pair is wrong by more, if the clocks ran evenly.
    pub fn error(&self) -> u64 {
        self.error
    }

    /// The same for any time: outside the pairs the slope's own error adds up.
    pub fn error_at(&self, source: u64) -> u64 {
        let outside = if source < self.first {
            difference(self.first, source)
        } else if source > self.last {
            difference(source, self.last)
        } else {
            return self.error;
        };
        let span = difference(self.last, self.first);
        let slope_error = if span > 0.0 {
            2.0 * self.error as f64 / span
        } else {
            self.rate * UNKNOWN_DRIFT_PPM / 1e6
        };
        self.error
            .saturating_add((outside * slope_error) as u64 + 1)
    }
}

/// `a - b` without overflow; exact below 2⁵³.
fn difference(a: u64, b: u64) -> f64 {
    (i128::from(a) - i128::from(b)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 2.1 GHz counter, read `count` times over 10 s with host windows of up to `jitter` ns.
    fn tsc_pairs(count: u64, jitter: u64) -> impl Iterator<Item = (u64, ClockPair)> {
        (0..count).map(move |i| {
            let host = 5_000_000_000 + i * (10_000_000_000 / count);
            let tsc = 77_000_000_000_000 + (host - 5_000_000_000) * 21 / 10;
            // A cheap scatter: the true moment lies anywhere in the window.
            let window = 1 + (i * 7919) % jitter;
            let before = host - (i * 104_729) % window;
            (
                host,
                ClockPair::around(before, tsc, before + window).expect("time goes forward"),
            )
        })
    }

    #[test]
    fn a_fitted_line_stays_within_its_error() {
        let (truth, pairs): (Vec<_>, Vec<_>) = tsc_pairs(50, 400).unzip();
        let map = ClockMap::fit(&pairs, 0.5).expect("pairs");
        assert!((map.rate() - 10.0 / 21.0).abs() < 1e-6, "{}", map.rate());
        for (host, pair) in truth.iter().zip(&pairs) {
            assert!(map.to_host(pair.source).abs_diff(*host) <= map.error());
        }
        assert!(map.error() <= 400, "{}", map.error());
        assert_eq!(map.error_at(pairs[10].source), map.error());
        assert!(map.error_at(pairs[49].source + 21_000_000_000) > map.error());
    }

    #[test]
    fn one_pair_uses_the_nominal_rate() {
        let pair = ClockPair::around(1_000, 500, 1_010).expect("time goes forward");
        let map = ClockMap::fit(&[pair], 1.0).expect("a pair");
        assert_eq!(
            (map.to_host(500), map.to_host(600), map.to_host(0)),
            (1_005, 1_105, 505)
        );
        assert_eq!(map.error(), 5);
        // A second later the unknown drift dominates.
        assert!(map.error_at(1_000_000_500) >= 100_000);
    }

    #[test]
    fn nonsense_has_no_map_and_extremes_do_not_overflow() {
        assert!(ClockMap::fit(&[], 1.0).is_none());
        assert!(ClockPair::around(10, 0, 9).is_none());
        let pair = ClockPair {
            source: 0,
            host: u64::MAX,
            margin: u64::MAX,
        };
        assert!(ClockMap::fit(&[pair], f64::NAN).is_none());
        let map = ClockMap::fit(
            &[
                pair,
                ClockPair {
                    source: u64::MAX,
                    ..pair
                },
            ],
            1.0,
        )
        .expect("pairs");
        assert_eq!(map.to_host(u64::MAX), u64::MAX);
        assert_eq!(map.error_at(u64::MAX), u64::MAX);
    }
}
