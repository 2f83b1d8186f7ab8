//! The TSC as CLOCK_MONOTONIC, for events that are written while they happen: times that have been asked
//! for stay as they are.

use crate::clock::monotonic;
use event::{ClockMap, ClockPair, ClockRules, ClockStretch};
use std::cell::Cell;

/// How often a pair is wanted.
pub const SPACING: u64 = 10_000_000;
/// Readings for one pair.
const READINGS: usize = 8;

#[derive(Debug, Clone)]
pub struct TscClock {
    map: ClockMap,
    /// The latest time that was asked for: up to it the line stays as it is.
    asked: Cell<u64>,
    /// The piece of the line used last: most times are near it.
    recent: Cell<Option<ClockStretch>>,
}

impl TscClock {
    /// Starts from two pairs. None if the source did not move between them.
    pub fn new(first: ClockPair, second: ClockPair) -> Option<Self> {
        let map = ClockMap::through(ClockRules::COUNTER, &[first, second]);
        let asked = Cell::new(0);
        let recent = Cell::new(None);
        map.is_known().then_some(TscClock { map, asked, recent })
    }

    pub fn add(&mut self, pair: ClockPair) {
        self.map.settle(self.asked.get());
        self.map.add(pair);
        self.recent.set(None);
    }

    pub fn to_host(&self, source: u64) -> u64 {
        if source > self.asked.get() {
            self.asked.set(source);
        }
        self.at(source)
    }

    /// The same, of a time that is not reported.
    pub fn at(&self, source: u64) -> u64 {
        let recent = self.recent.get().and_then(|recent| recent.to_host(source));
        recent.unwrap_or_else(|| {
            self.recent.set(self.map.stretch_at(source));
            self.map.to_host(source).unwrap_or(source)
        })
    }

    /// How long so many ticks are, in nanoseconds.
    pub fn length(&self, ticks: u64) -> u64 {
        self.map.length(ticks)
    }

    /// No time was seen to be wrong by more.
    pub fn error(&self) -> u64 {
        self.map.error()
    }

    pub fn pairs(&self) -> u32 {
        self.map.pairs()
    }
}

/// The TSC now, between two readings of CLOCK_MONOTONIC.
pub fn pair() -> ClockPair {
    let readings = (0..READINGS).filter_map(|_| {
        let before = monotonic();
        ClockPair::around(before, timestamp(), monotonic())
    });
    ClockPair::tightest(readings).unwrap_or(ClockPair {
        source: timestamp(),
        host: monotonic(),
        margin: 0,
    })
}

#[cfg(target_arch = "x86_64")]
pub fn timestamp() -> u64 {
    // SAFETY: reading the counter has no preconditions.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
pub fn timestamp() -> u64 {
    monotonic()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of 2.5 GHz and a host clock that is read up to 80 ns late.
    fn pair_at(host: u64) -> ClockPair {
        let late = host * 7919 % 80;
        ClockPair {
            source: 1_000_000 + host * 5 / 2,
            host: 9_000_000_000 + host + late,
            margin: 80,
        }
    }

    #[test]
    fn the_line_stays_near_the_pairs_and_never_goes_back() {
        let mut clock = TscClock::new(pair_at(0), pair_at(1_000_000)).expect("moving");
        let (mut latest, mut worst) = (0, 0);
        for step in 1..20_000u64 {
            let host = step * 1_000_000;
            clock.add(pair_at(host));
            let time = clock.to_host(pair_at(host).source);
            assert!(time >= latest, "{time} after {latest}");
            latest = time;
            if step > 500 {
                worst = worst.max(time.abs_diff(9_000_000_000 + host));
            }
        }
        assert!(worst < 300, "{worst}");
        assert!(
            clock.pairs() > 1_000 && clock.error() < 2_000,
            "{}",
            clock.error()
        );
    }

    #[test]
    fn what_was_not_told_yet_lies_between_pairs() {
        let exact = |host: u64| ClockPair {
            source: 1_000_000 + host * 5 / 2,
            host: 9_000_000_000 + host,
            margin: 20,
        };
        // The first pairs are close, and one was read late: 40 parts of a million too slow.
        let late = ClockPair {
            host: exact(1_000_000).host + 40,
            ..exact(1_000_000)
        };
        let mut clock = TscClock::new(exact(0), late).expect("moving");
        let off = |clock: &TscClock, host: u64| {
            clock
                .to_host(exact(host).source)
                .abs_diff(9_000_000_000 + host)
        };
        // Nobody asked before the machine had paused for long.
        clock.add(exact(80_000_000));
        assert!(off(&clock, 40_000_000) < 40 && off(&clock, 80_000_000) < 3);
        // What was told stays, and what comes after it is led to the pair.
        let told = clock.to_host(exact(90_000_000).source);
        clock.add(exact(200_000_000));
        assert_eq!(clock.to_host(exact(90_000_000).source), told);
        assert!(off(&clock, 200_000_000) < 3);
        assert!(clock.error() < 100, "{}", clock.error());
        // A time that makes no sense does not end that pairs are followed.
        clock.to_host(u64::MAX);
        let slow = |host: u64| ClockPair {
            host: exact(host).host + (host - 200_000_000) / 100_000,
            ..exact(host)
        };
        (21..=60).for_each(|step| clock.add(slow(step * 10_000_000)));
        let last = slow(600_000_000);
        assert!(clock.to_host(last.source).abs_diff(last.host) < 1_000);
    }

    #[test]
    fn this_machines_clocks_can_be_paired() {
        let first = pair();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let clock = TscClock::new(first, pair()).expect("both move");
        let (before, source, after) = (monotonic(), timestamp(), monotonic());
        let slack = 200_000;
        assert!((before - slack..after + slack).contains(&clock.to_host(source)));
    }
}
