//! The TSC as CLOCK_MONOTONIC, for events that are written while they happen.
//!
//! A time that has been written cannot be corrected, so the line from one clock to the other is
//! never moved: it is bent, a little at a time, towards each new pair.

use crate::clock::monotonic;
use event::ClockPair;
use std::collections::VecDeque;

/// Lines kept for times that are looked up late.
const SEGMENTS: usize = 256;
/// Pairs closer than this add nothing.
const SPACING: u64 = 10_000_000;
/// An error is worked off over this many nanoseconds,
const HORIZON: f64 = 100_000_000.0;
/// but the line is never bent by more than this part.
const MOST_BEND: f64 = 500e-6;

#[derive(Debug, Clone)]
pub struct TscClock {
    first: ClockPair,
    latest: ClockPair,
    segments: VecDeque<Segment>,
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
            error: first.margin.max(second.margin),
            pairs: 2,
        })
    }

    pub fn add(&mut self, pair: ClockPair) {
        if pair.host.saturating_sub(self.latest.host) < SPACING {
            return;
        }
        let Some(rate) = rate(self.first, pair) else {
            return;
        };
        let predicted = self.to_host(pair.source);
        let behind = (i128::from(pair.host) - i128::from(predicted)) as f64;
        self.error = self
            .error
            .max(predicted.abs_diff(pair.host).saturating_add(pair.margin));
        let bend = (behind / HORIZON).clamp(-MOST_BEND, MOST_BEND);
        if self.segments.len() == SEGMENTS {
            self.segments.pop_front();
        }
        self.segments.push_back(Segment {
            source: pair.source,
            host: predicted,
            rate: rate * (1.0 + bend),
        });
        self.latest = pair;
        self.pairs += 1;
    }

    pub fn to_host(&self, source: u64) -> u64 {
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
    fn this_machines_clocks_can_be_paired() {
        let first = pair();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let clock = TscClock::new(first, pair()).expect("both move");
        let (before, source, after) = (monotonic(), timestamp(), monotonic());
        let slack = 200_000;
        assert!((before - slack..after + slack).contains(&clock.to_host(source)));
    }
}
