//! Unions of intervals: how long at least one of several overlapping things went on. Sums of
//! overlapping times say nothing about the clock on the wall.

/// The union of intervals whose beginnings and ends are told in time order.
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

    /// Something of which only the end was told: it lay between these two moments.
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
