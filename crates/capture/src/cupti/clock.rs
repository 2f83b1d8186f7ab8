//! CUPTI's clock on the host's: straight lines between neighbouring pairs.

use event::ClockPair;

/// Pairs that are kept: the newest.
const MOST_PAIRS: usize = 512;
/// A clock that leaps by more than this between two pairs is another one.
const LEAP: f64 = 0.01;

#[derive(Debug, Default)]
pub struct Clock {
    /// By time.
    pairs: Vec<ClockPair>,
    total: u64,
    error: u64,
}

impl Clock {
    /// A pair that came after the others.
    pub fn add(&mut self, pair: ClockPair) {
        if let Some(last) = self.pairs.last() {
            if pair.source <= last.source || pair.host <= last.host {
                return;
            }
            let (ticks, time) = (pair.source - last.source, pair.host - last.host);
            if (ticks as f64 / time as f64 - 1.0).abs() > LEAP && time > 1_000_000 {
                return;
            }
        }
        // How wrong the line up to here would have been at this pair says how wrong times between
        // pairs can be.
        if self.pairs.len() >= 2 {
            let off = self.to_host(pair.source).abs_diff(pair.host);
            self.error = self.error.max(off / 2);
        }
        self.error = self.error.max(pair.margin);
        if self.pairs.len() >= MOST_PAIRS {
            self.pairs.drain(..MOST_PAIRS / 2);
        }
        self.pairs.push(pair);
        self.total += 1;
    }

    pub fn is_known(&self) -> bool {
        !self.pairs.is_empty()
    }

    pub fn to_host(&self, source: u64) -> u64 {
        let after = self.pairs.partition_point(|pair| pair.source <= source);
        let (a, b) = match (after.checked_sub(1), self.pairs.get(after)) {
            (Some(before), Some(next)) => (self.pairs[before], *next),
            // Outside, both clocks count nanoseconds.
            (Some(before), None) => {
                let last = self.pairs[before];
                return last.host.saturating_add(source - last.source);
            }
            (None, Some(first)) => return first.host.saturating_sub(first.source - source),
            (None, None) => return source,
        };
        let part = (source - a.source) as f64 / (b.source - a.source) as f64;
        let span = b.host.saturating_sub(a.host) as f64;
        a.host.saturating_add((span * part) as u64)
    }

    /// No time is wrong by more than this, as far as the pairs show.
    pub fn error(&self) -> u64 {
        self.error
    }

    pub fn pairs(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAL: u64 = 1_794_734_344_000_000_000;

    #[test]
    fn a_drifting_clock_is_followed_within_its_error() {
        let mut clock = Clock::default();
        // 50 parts in a million fast, and read up to 60 ns late.
        let source = |host: u64| REAL + host + host / 20_000;
        for step in 0..2_000u64 {
            let host = step * 100_000_000;
            let late = step * 7919 % 60;
            clock.add(ClockPair {
                source: source(host),
                host: host + late,
                margin: 60,
            });
            let between = host.saturating_sub(50_000_000);
            if step > 0 && step < 500 {
                let found = clock.to_host(source(between));
                assert!(found.abs_diff(between) <= clock.error() + 60, "{step}");
            }
        }
        // Beyond the last pair the drift is not known: 5 µs in 100 ms here.
        assert!(clock.error() < 6_000, "{}", clock.error());
        assert_eq!(clock.pairs(), 2_000);
    }

    #[test]
    fn another_clock_and_nonsense_are_left_out() {
        let mut clock = Clock::default();
        assert_eq!((clock.is_known(), clock.to_host(7)), (false, 7));
        let pair = |source, host| ClockPair {
            source,
            host,
            margin: 30,
        };
        clock.add(pair(REAL, 1_000));
        clock.add(pair(142_657_754_380, 2_000_000_000));
        clock.add(pair(REAL * 2, 2_000_000_000));
        assert_eq!(clock.pairs(), 1);
        assert_eq!(clock.to_host(REAL + 5), 1_005);
        assert_eq!(clock.to_host(0), 0);
        assert_eq!(clock.to_host(u64::MAX), u64::MAX - REAL + 1_000);
    }
}
