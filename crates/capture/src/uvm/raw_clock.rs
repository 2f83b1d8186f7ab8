//! The driver's clock, CLOCK_MONOTONIC_RAW, on the trace's: the two run at rates that differ by what
//! the clock is being slewed by, so they are read together again and again.

use crate::clock::monotonic;
use event::{ClockMap, ClockPair};

/// Readings for one pair.
const READINGS: usize = 3;

pub struct RawClock {
    pub map: ClockMap,
}

impl RawClock {
    pub fn now() -> RawClock {
        let mut clock = RawClock {
            map: ClockMap::default(),
        };
        clock.follow();
        clock
    }

    /// One more pair.
    pub fn follow(&mut self) {
        let readings = (0..READINGS).filter_map(|_| {
            let before = monotonic();
            ClockPair::around(before, raw(), monotonic())
        });
        if let Some(pair) = ClockPair::tightest(readings) {
            self.map.add(pair);
        }
    }

    pub fn to_host(&self, raw: u64) -> u64 {
        self.map.to_host(raw).unwrap_or(raw)
    }
}

fn raw() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes the timespec and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_same_on_both_clocks() {
        let mut clock = RawClock::now();
        clock.follow();
        let before = monotonic();
        let mapped = clock.to_host(raw());
        let after = monotonic();
        let slack = clock.map.error() + 1_000_000;
        assert!(mapped + slack >= before && mapped <= after + slack);
        assert_eq!(clock.map.pairs(), 2);
    }
}
