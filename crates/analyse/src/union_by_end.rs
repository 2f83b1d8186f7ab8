//! The union of intervals that become known when they end: a long one may reach back over several
//! that ended before it.

use std::collections::VecDeque;

/// Separate stretches that a later interval may still join, at most. An interval that reaches back
/// over more than these counts from the oldest of them on.
const MOST_PENDING: usize = 1 << 10;

#[derive(Debug, Clone, Default)]
pub(crate) struct UnionByEnd {
    pending: VecDeque<(u64, u64)>,
    /// Of stretches that are no longer pending.
    settled: u64,
    settled_until: u64,
}

impl UnionByEnd {
    pub fn add(&mut self, start: u64, end: u64) {
        let mut start = start.max(self.settled_until);
        let mut end = end;
        if end <= start {
            return;
        }
        // Those that overlap it are its neighbours in time, at the back but for stray late ones.
        let first = self.pending.partition_point(|stretch| stretch.1 < start);
        let mut past = first;
        while let Some(&(from, to)) = self.pending.get(past)
            && from <= end
        {
            (start, end) = (start.min(from), end.max(to));
            past += 1;
        }
        self.pending.drain(first..past);
        self.pending.insert(first, (start, end));
        if self.pending.len() > MOST_PENDING
            && let Some((from, to)) = self.pending.pop_front()
        {
            self.settled = self.settled.saturating_add(to - from);
            self.settled_until = to;
        }
    }

    pub fn length(&self) -> u64 {
        (self.pending.iter()).fold(self.settled, |sum, (from, to)| {
            sum.saturating_add(to - from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_one_covers_what_came_before() {
        let mut union = UnionByEnd::default();
        union.add(10, 20);
        union.add(30, 40);
        assert_eq!(union.length(), 20);
        union.add(5, 45);
        assert_eq!(union.length(), 40);
        union.add(100, 100);
        union.add(60, 50);
        assert_eq!(union.length(), 40);
    }

    #[test]
    fn what_was_settled_is_not_counted_again() {
        let mut union = UnionByEnd::default();
        for start in 0..3_000 {
            union.add(start * 10, start * 10 + 5);
        }
        assert_eq!(union.length(), 15_000);
        // Reaches back over everything: what is pending joins it, what is settled stays as it was.
        union.add(0, 30_000);
        assert!(union.length() > 15_000 && union.length() <= 30_000);
    }

    proptest! {
        #[test]
        fn it_is_the_number_of_moments_covered(intervals in prop::collection::vec((0u64..500, 0u64..60), 0..80)) {
            let mut union = UnionByEnd::default();
            let mut covered = [false; 600];
            for (start, length) in intervals {
                union.add(start, start + length);
                covered[start as usize..(start + length) as usize].fill(true);
            }
            prop_assert_eq!(union.length(), covered.iter().filter(|moment| **moment).count() as u64);
        }
    }
}
