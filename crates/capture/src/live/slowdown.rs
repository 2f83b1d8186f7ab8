//! What recording costs the program itself. A call that was timed in a loop of nothing else finds everything in the
//! processor's caches; in a program it costs several times as much, and nobody knows how many.
//!
//! Where a class of calls is recorded part of the time (`super::budget`), the program tells: it makes fewer calls a second
//! while they are recorded. Stretches are compared with those next to them, so that a program that changes is not taken for
//! one that is slowed down. The middle one of many comparisons counts, and only as far as they agree.

use std::collections::VecDeque;

/// How much more a call costs than in the loop, while nothing better is known: what a loop of launches on an H200 took.
const ASSUMED: f64 = 4.0;
const MOST: f64 = 16.0;
/// So many comparisons say something, and so many are kept.
const LEAST_COMPARED: usize = 24;
const MOST_COMPARED: usize = 128;
/// A stretch with fewer calls says nothing, nor do calls that cost less of the time.
const LEAST_CALLS: u64 = 50;
const LEAST_COST: f64 = 0.002;

/// What a thread did while gates stayed as they were.
#[derive(Debug, Clone, Copy)]
pub struct Stretch {
    pub ring: usize,
    /// The class on the edge, and whether it was recorded.
    pub edge: (usize, bool),
    pub nanoseconds: u64,
    /// Calls that were made.
    pub calls: u64,
    /// What recording those took that were recorded, as timed in the loop.
    pub cost: f64,
}

/// How much more recording costs than in the loop.
pub struct Slowdown {
    factor: f64,
    last: Option<Stretch>,
    /// Shares of the time: what recording took by the number of calls, and what it takes as timed in the loop.
    compared: VecDeque<(f64, f64)>,
}

impl Default for Slowdown {
    fn default() -> Self {
        Slowdown {
            factor: ASSUMED,
            last: None,
            compared: VecDeque::new(),
        }
    }
}

impl Slowdown {
    pub fn factor(&self) -> f64 {
        self.factor
    }

    pub fn add(&mut self, stretch: Stretch) {
        if stretch.calls < LEAST_CALLS {
            self.last = None;
            return;
        }
        let Some(last) = self.last.replace(stretch) else {
            return;
        };
        if (last.ring, last.edge.0) != (stretch.ring, stretch.edge.0) {
            self.compared.clear();
            return;
        }
        let (open, shut) = match (last.edge.1, stretch.edge.1) {
            (true, false) => (last, stretch),
            (false, true) => (stretch, last),
            _ => return,
        };
        let rate = |of: &Stretch| of.calls as f64 / of.nanoseconds.max(1) as f64;
        let cost = |of: &Stretch| of.cost / of.nanoseconds.max(1) as f64;
        let slower = 1.0 - rate(&open) / rate(&shut);
        self.compared.push_back((slower, cost(&open) - cost(&shut)));
        if self.compared.len() > MOST_COMPARED {
            self.compared.pop_front();
        }
        self.conclude();
    }

    fn conclude(&mut self) {
        if self.compared.len() < LEAST_COMPARED {
            return;
        }
        let expected = median(self.compared.iter().map(|(_, expected)| *expected));
        if expected < LEAST_COST {
            return;
        }
        let slower = median(self.compared.iter().map(|(slower, _)| *slower));
        let deviation = median(self.compared.iter().map(|(one, _)| (one - slower).abs()));
        // Twice the error of a median; each stretch is in two comparisons.
        let error = 2.0 * 1.25 * 1.48 * deviation / (self.compared.len() as f64 / 2.0).sqrt();
        let at = |share: f64| (share / expected).clamp(1.0, MOST);
        self.factor = ASSUMED.clamp(at(slower - error), at(slower + error));
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop of calls of 4 µs of which recording takes `share` of the time and 50 ns each in a loop of its own; every
    /// eighth stretch is recorded, and what else the machine does makes stretches longer by up to `noise`.
    fn after(stretches: usize, share: f64, noise: f64) -> f64 {
        let mut slowdown = Slowdown::default();
        let mut random = 1_u64;
        for place in 0..stretches {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let longer = 1.0 + noise * (random >> 40) as f64 / (1 << 24) as f64;
            let open = place % 8 == 0;
            let each = if open { 4000.0 / (1.0 - share) } else { 4000.0 } * longer;
            let calls = (4e6 / each) as u64;
            slowdown.add(Stretch {
                ring: 0,
                edge: (3, open),
                nanoseconds: 4_000_000,
                calls,
                cost: if open { calls as f64 * 50.0 } else { 0.0 },
            });
        }
        slowdown.factor()
    }

    #[test]
    fn the_program_says_what_recording_costs() {
        // 50 ns of 5 µs are 1 %, of which 20 % are twenty times as much.
        assert_eq!(after(60, 0.2, 0.0), ASSUMED);
        for (share, expected) in [(0.1, 0.1 / 0.01125), (0.02, 0.02 / 0.01225)] {
            let factor = after(600, share, 0.02);
            assert!(
                (0.9..1.25).contains(&(factor / expected)),
                "{share} {factor}"
            );
        }
        assert_eq!(after(600, 0.0, 0.0), 1.0);
        assert_eq!(after(600, 0.5, 0.0), MOST);
    }

    #[test]
    fn a_program_that_does_this_and_that_says_nothing() {
        let factor = after(600, 0.03, 2.0);
        assert!((2.0..7.0).contains(&factor), "{factor}");
    }
}
