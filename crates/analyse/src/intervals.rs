//! Unions of intervals: how long at least one of several overlapping things went on. Sums of
//! overlapping times say nothing about the clock on the wall.

use std::collections::VecDeque;

/// The union of intervals whose beginnings and ends come in time order.
///
/// Where the order is slightly wrong no moment counts twice, and nothing is negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Union {
    active: u64,
    /// Since when something goes on.
    since: u64,
    /// Up to here everything has been counted.
    until: u64,
    total: u64,
}

impl Union {
    /// Something begins.
    pub fn begin(&mut self, at: u64) {
        if self.active == 0 {
            self.since = at.max(self.until);
        }
        self.active += 1;
    }

    /// Something that has begun ends.
    pub fn end(&mut self, at: u64) {
        if self.active == 0 {
            return;
        }
        self.active -= 1;
        if self.active == 0 {
            self.count(at);
        }
    }

    /// Something of which only the end is known: it was between these two moments.
    pub fn add(&mut self, start: u64, end: u64) {
        if self.active == 0 {
            self.since = start.max(self.until);
            self.count(end);
        }
    }

    fn count(&mut self, end: u64) {
        self.total = self.total.saturating_add(end.saturating_sub(self.since));
        self.until = self.until.max(end);
    }

    pub fn is_active(&self) -> bool {
        self.active > 0
    }

    /// The length of the union, of which what still goes on reaches up to `now`.
    pub fn length(&self, now: u64) -> u64 {
        if self.active == 0 {
            self.total
        } else {
            self.total.saturating_add(now.saturating_sub(self.since))
        }
    }
}

/// The union of intervals that are reported when they are over, in about the order of their ends: a long
/// one may fill gaps between short ones that came before it.
#[derive(Debug, Clone, Default)]
pub struct LateUnion {
    /// What is covered, apart and in order; the latest of it.
    covered: VecDeque<(u64, u64)>,
    /// Before this nothing is known any more, and nothing counts.
    floor: u64,
    total: u64,
}

/// Gaps that are remembered.
const MOST_GAPS: usize = 256;

impl LateUnion {
    pub fn add(&mut self, start: u64, end: u64) {
        let (mut start, mut end) = (start.max(self.floor), end);
        if start >= end {
            return;
        }
        // Those that touch it become one with it.
        let first = self.covered.partition_point(|&(_, to)| to < start);
        let last = self.covered.partition_point(|&(from, _)| from <= end);
        for &(from, to) in self.covered.range(first..last) {
            (start, end) = (start.min(from), end.max(to));
            self.total -= to - from;
        }
        self.covered.drain(first..last);
        self.covered.insert(first, (start, end));
        self.total += end - start;
        if self.covered.len() > MOST_GAPS
            && let Some((_, to)) = self.covered.pop_front()
        {
            self.floor = to;
        }
    }

    pub fn length(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn overlaps_count_once() {
        let mut union = Union::default();
        // 0..10, 5..20 and 30..40
        union.begin(0);
        union.begin(5);
        union.end(10);
        union.end(20);
        union.begin(30);
        assert_eq!(union.length(35), 25);
        union.end(40);
        assert_eq!(union.length(99), 30);
    }

    #[test]
    fn what_is_told_late_counts_where_nothing_was() {
        let mut union = Union::default();
        union.add(0, 10);
        union.add(5, 12);
        union.end(90);
        assert_eq!(union.length(100), 12);
        union.begin(20);
        union.add(0, 25);
        union.end(30);
        assert_eq!(union.length(100), 22);
    }

    proptest! {
        #[test]
        fn it_is_the_number_of_moments_covered(
            intervals in prop::collection::vec((0u64..60, 0u64..20), 0..30)
        ) {
            let mut covered = [false; 100];
            let mut steps = Vec::new();
            for (start, length) in intervals {
                covered[start as usize..(start + length) as usize].fill(true);
                steps.push((start, true));
                steps.push((start + length, false));
            }
            // At the same moment ends may come before or after beginnings, but every
            // beginning before its own end.
            steps.sort_by_key(|&(at, begins)| (at, !begins));
            let mut union = Union::default();
            for (at, begins) in steps {
                if begins { union.begin(at) } else { union.end(at) }
            }
            let expected = covered.iter().filter(|&&moment| moment).count() as u64;
            prop_assert_eq!(union.length(1_000), expected);
        }

        #[test]
        fn told_late_in_any_order_it_is_the_same(
            intervals in prop::collection::vec((0u64..60, 0u64..20), 0..30)
        ) {
            let mut covered = [false; 100];
            let mut union = LateUnion::default();
            for (start, length) in intervals {
                covered[start as usize..(start + length) as usize].fill(true);
                union.add(start, start + length);
            }
            let expected = covered.iter().filter(|&&moment| moment).count() as u64;
            prop_assert_eq!(union.length(), expected);
        }

        #[test]
        fn any_order_stays_within_the_clock(
            steps in prop::collection::vec((0u64..100, 0u8..3), 0..60)
        ) {
            let mut union = Union::default();
            for (at, what) in steps {
                match what {
                    0 => union.begin(at),
                    1 => union.end(at),
                    _ => union.add(at / 2, at),
                }
            }
            prop_assert!(union.length(100) <= 100);
        }
    }
}
