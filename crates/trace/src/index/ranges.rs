//! A set of numbers as a few ranges: those of one segment are mostly neighbours.

use super::codec::{Bytes, Damaged, varint};

/// Ranges that include the numbers of a set, and few others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ranges(Vec<(u64, u64)>);

/// Ranges of one set at most.
const MOST: usize = 12;

impl Ranges {
    /// The ranges of these numbers, which are left in order.
    pub fn of(numbers: &mut [u64]) -> Self {
        numbers.sort_unstable();
        let gaps = numbers.windows(2).map(|pair| pair[1] - pair[0]);
        let mut wide: Vec<u64> = gaps.filter(|&gap| gap > 1).collect();
        // Ranges end at the widest gaps.
        let least = if wide.len() < MOST {
            1
        } else {
            wide.sort_unstable_by_key(|&gap| std::cmp::Reverse(gap));
            wide[MOST - 1]
        };
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for &number in &*numbers {
            match ranges.last_mut() {
                Some((_, last)) if number - *last <= least => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        Ranges(ranges)
    }

    /// False if the number is not in the set; true if it may be.
    pub fn may_contain(&self, number: u64) -> bool {
        let after = self.0.partition_point(|&(first, _)| first <= number);
        after > 0 && number <= self.0[after - 1].1
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        varint(out, self.0.len() as u64);
        let mut before = 0;
        for &(first, last) in &self.0 {
            varint(out, first - before);
            varint(out, last - first);
            before = last;
        }
    }

    pub(super) fn decode(bytes: &mut Bytes<'_>) -> Result<Self, Damaged> {
        let count = bytes.count()?;
        if count > MOST {
            return Err(Damaged);
        }
        let mut before = 0u64;
        let mut ranges = Vec::with_capacity(count);
        for _ in 0..count {
            let first = before.checked_add(bytes.varint()?).ok_or(Damaged)?;
            let last = first.checked_add(bytes.varint()?).ok_or(Damaged)?;
            ranges.push((first, last));
            before = last;
        }
        Ok(Ranges(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_is_in_its_ranges(mut numbers in prop::collection::vec(any::<u64>(), 0..200)) {
            let ranges = Ranges::of(&mut numbers);
            prop_assert!(ranges.0.len() <= MOST);
            for &number in &numbers {
                prop_assert!(ranges.may_contain(number));
            }
            let mut out = Vec::new();
            ranges.encode(&mut out);
            prop_assert_eq!(Ranges::decode(&mut Bytes::new(&out)), Ok(ranges));
        }
    }

    #[test]
    fn clusters_are_kept_apart() {
        let mut numbers: Vec<u64> = (10..20).chain(1_000..2_000).chain([u64::MAX]).collect();
        let ranges = Ranges::of(&mut numbers);
        assert_eq!(ranges.0, [(10, 19), (1_000, 1_999), (u64::MAX, u64::MAX)]);
        assert!(!ranges.may_contain(500) && !ranges.may_contain(9) && !ranges.may_contain(2_000));
    }
}
