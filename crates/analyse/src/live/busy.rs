//! How long at least one of several things went on, by the clock: the union of intervals, in short cells of the last
//! seconds and in all. Intervals come when they end, in about that order, and may be late.

use std::collections::VecDeque;

/// A cell's length.
const CELL: u64 = 10_000_000;
/// Cells that are kept: 20 s.
const CELLS: u64 = 2_000;
/// Separate stretches that a later interval may still reach back over.
const MOST_PENDING: usize = 1 << 10;

#[derive(Debug, Clone, Default)]
pub struct Busy {
    /// Apart and in order; what comes later counts only outside of these.
    pending: VecDeque<(u64, u64)>,
    /// Nothing before this counts any more.
    settled: u64,
    total: u64,
    /// Nanoseconds of each cell, by its number modulo `CELLS`.
    cells: Vec<u32>,
    /// The cell after the last that has been written.
    next: u64,
}

impl Busy {
    pub fn add(&mut self, start: u64, end: u64) {
        let (from, to) = (start.max(self.settled), end);
        if to <= from {
            return;
        }
        let first = self.pending.partition_point(|stretch| stretch.1 < from);
        let mut past = first;
        let (mut low, mut high) = (from, to);
        let mut uncovered = from;
        while let Some(&(known_from, known_to)) = self.pending.get(past)
            && known_from <= to
        {
            self.credit(uncovered, known_from);
            uncovered = uncovered.max(known_to);
            (low, high) = (low.min(known_from), high.max(known_to));
            past += 1;
        }
        self.credit(uncovered, to);
        self.pending.drain(first..past);
        self.pending.insert(first, (low, high));
        if self.pending.len() > MOST_PENDING
            && let Some((_, until)) = self.pending.pop_front()
        {
            self.settled = until;
        }
    }

    fn credit(&mut self, from: u64, to: u64) {
        if to <= from {
            return;
        }
        self.total = self.total.saturating_add(to - from);
        if self.cells.is_empty() {
            self.cells = vec![0; CELLS as usize];
            self.next = from / CELL;
        }
        let last = (to - 1) / CELL;
        // What is older than the cells is in the total only.
        let oldest = last
            .max(self.next.saturating_sub(1))
            .saturating_sub(CELLS - 1);
        for skipped in self.next.max(oldest)..=last {
            self.cells[(skipped % CELLS) as usize] = 0;
        }
        self.next = self.next.max(last + 1);
        for cell in (from / CELL).max(oldest)..=last {
            let inside = to.min((cell + 1).saturating_mul(CELL)) - from.max(cell * CELL);
            self.cells[(cell % CELLS) as usize] += inside as u32;
        }
    }

    /// All of it.
    pub fn total_ns(&self) -> u64 {
        self.total
    }

    /// What of the time between these two was covered: from 0 to 1, to the nearest cells. Only the last 20 s are known.
    pub fn share(&self, from: u64, to: u64) -> f64 {
        let (first, last) = (from / CELL, to / CELL);
        if last <= first {
            return 0.0;
        }
        let known = self.next.saturating_sub(CELLS).max(first)..last.min(self.next);
        let busy: u64 = known
            .filter(|_| !self.cells.is_empty())
            .map(|cell| u64::from(self.cells[(cell % CELLS) as usize]))
            .sum();
        (busy as f64 / ((last - first) * CELL) as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn overlaps_count_once_and_time_passes() {
        let mut busy = Busy::default();
        // Half of each 20 ms, twice over.
        for step in 0..500 {
            let at = 5 * SECOND + step * 20_000_000;
            busy.add(at, at + 10_000_000);
            busy.add(at + 2_000_000, at + 10_000_000);
        }
        assert_eq!(busy.total_ns(), 5 * SECOND);
        assert!((busy.share(6 * SECOND, 14 * SECOND) - 0.5).abs() < 0.01);
        // It was busy for ten of the last twenty.
        assert!((busy.share(5 * SECOND, 25 * SECOND) - 0.25).abs() < 0.01);
        assert!(busy.share(30 * SECOND, 31 * SECOND) == 0.0);
        // A minute later, the cells are used again.
        busy.add(80 * SECOND, 81 * SECOND);
        assert!((busy.share(79 * SECOND, 81 * SECOND) - 0.5).abs() < 0.01);
        assert_eq!(busy.total_ns(), 6 * SECOND);
    }

    #[test]
    fn a_very_long_one_and_a_late_one_are_harmless() {
        let mut busy = Busy::default();
        busy.add(0, 1_000 * SECOND);
        assert!(busy.share(990 * SECOND, 1_000 * SECOND) > 0.99);
        busy.add(1, 2);
        busy.add(u64::MAX - 5, u64::MAX);
        assert!(busy.total_ns() >= 1_000 * SECOND);
    }

    proptest! {
        #[test]
        fn it_is_the_number_of_moments_covered(intervals in prop::collection::vec((0u64..500, 0u64..60), 0..80)) {
            let mut busy = Busy::default();
            let mut covered = [false; 600];
            for (start, length) in intervals {
                busy.add(start, start + length);
                covered[start as usize..(start + length) as usize].fill(true);
            }
            prop_assert_eq!(busy.total_ns(), covered.iter().filter(|moment| **moment).count() as u64);
        }
    }
}
