//! The TSC as CLOCK_MONOTONIC, for events that are written while they happen.
//!
//! A time that has been written cannot be corrected, so the line from one clock to the other is
//! never moved where it has been used: beyond that it leads to each new pair, or, if that would be a
//! corner, is bent towards it a little at a time.

use crate::clock::monotonic;
use event::ClockPair;
use std::cell::Cell;
use std::collections::VecDeque;

/// Lines kept for times that are looked up late.
const SEGMENTS: usize = 512;
/// How often a pair is wanted; much closer ones add nothing.
pub const SPACING: u64 = 10_000_000;
/// An error is worked off over this many nanoseconds,
const HORIZON: f64 = 50_000_000.0;
/// but the line is never bent by more than this part.
const MOST_BEND: f64 = 500e-6;

#[derive(Debug, Clone)]
pub struct TscClock {
    first: ClockPair,
    latest: ClockPair,
    segments: VecDeque<Segment>,
    /// The latest time that was asked for: up to it the line stays as it is.
    told: Cell<u64>,
    error: u64,
    pairs: u32,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    source: u64,
    host: u64,
    rate: f64,
}

impl TscClock {
    /// Starts from two pairs. None if the source did not move between them.
    pub fn new(first: ClockPair, second: ClockPair) -> Option<Self> {
        let rate = rate(first, second)?;
        Some(TscClock {
            first,
            latest: second,
            segments: VecDeque::from([Segment {
                source: first.source,
                host: first.host,
                rate,
            }]),
            told: Cell::new(0),
            error: first.margin.max(second.margin),
            pairs: 2,
        })
    }

    pub fn add(&mut self, pair: ClockPair) {
        if pair.host.saturating_sub(self.latest.host) < SPACING / 2 {
            return;
        }
        let Some(rate) = rate(self.first, pair) else {
            return;
        };
        let off = self.at(pair.source).abs_diff(pair.host);
        self.error = self.error.max(pair.margin);
        // Nothing that lies before was told yet, if all was quiet since the last pair.
        let from = self.told.get().max(self.latest.source);
        if let Some(ticks) = pair.source.checked_sub(from).filter(|ticks| *ticks > 0) {
            let passed = pair.source - self.latest.source;
            let told = (off as f64 * (from - self.latest.source) as f64 / passed as f64) as u64;
            self.error = self.error.max(told.saturating_add(pair.margin));
            let host = self.at(from);
            let straight = pair.host.saturating_sub(host) as f64 / ticks as f64;
            let bounds = (rate * (1.0 - MOST_BEND), rate * (1.0 + MOST_BEND));
            self.push(from, host, straight.clamp(bounds.0, bounds.1));
        } else {
            self.error = self.error.max(off.saturating_add(pair.margin));
        }
        let host = self.at(pair.source);
        let behind = (i128::from(pair.host) - i128::from(host)) as f64;
        let bend = (behind / HORIZON).clamp(-MOST_BEND, MOST_BEND);
        self.push(pair.source, host, rate * (1.0 + bend));
        self.latest = pair;
        self.pairs += 1;
    }

    fn push(&mut self, source: u64, host: u64, rate: f64) {
        if self.segments.len() == SEGMENTS {
            self.segments.pop_front();
        }
        self.segments.push_back(Segment { source, host, rate });
    }

    pub fn to_host(&self, source: u64) -> u64 {
        if source > self.told.get() {
            self.told.set(source);
        }
        self.at(source)
    }

    /// The same, of a time that nobody is told.
    pub fn at(&self, source: u64) -> u64 {
        let segments = self.segments.iter().rev();
        let segment = segments
            .clone()
            .find(|segment| segment.source <= source)
            .or_else(|| self.segments.front());
        let Some(segment) = segment else {
            return source;
        };
        if let Some(ticks) = source.checked_sub(segment.source) {
            let past = (ticks as f64 * segment.rate + 0.5) as u64;
            return segment.host.saturating_add(past);
        }
        let before = ((segment.source - source) as f64 * segment.rate + 0.5) as u64;
        segment.host.saturating_sub(before)
    }

    /// How long so many ticks are, in nanoseconds.
    pub fn length(&self, ticks: u64) -> u64 {
        rate(self.first, self.latest).map_or(0, |rate| (ticks as f64 * rate) as u64)
    }

    /// No time was seen to be wrong by more.
    pub fn error(&self) -> u64 {
        self.error
    }

    pub fn pairs(&self) -> u32 {
        self.pairs
    }
}

fn rate(from: ClockPair, to: ClockPair) -> Option<f64> {
    let ticks = to
        .source
        .checked_sub(from.source)
        .filter(|ticks| *ticks > 0)?;
    let time = to.host.checked_sub(from.host).filter(|time| *time > 0)?;
    Some(time as f64 / ticks as f64)
}

/// The TSC now, between two readings of CLOCK_MONOTONIC: the tightest of a few.
pub fn pair() -> ClockPair {
    let mut best: Option<ClockPair> = None;
    for _ in 0..8 {
        let before = monotonic();
        let source = timestamp();
        let pair = ClockPair::around(before, source, monotonic());
        best = match (best, pair) {
            (Some(old), Some(new)) if new.margin < old.margin => Some(new),
            (None, new) => new,
            (old, _) => old,
        };
    }
    best.unwrap_or(ClockPair {
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
