//! Quantiles of durations in bounded space: a histogram whose buckets grow with the value, 32 to
//! an octave, so that an answer is wrong by 1.6 % at most however long the trace is.

use std::ops::Range;

/// Counts of values by the logarithm of their size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Only the buckets between the least and the greatest value seen are kept.
    counts: Vec<u32>,
    first: u32,
    total: u64,
    least: u64,
    greatest: u64,
}

/// Sub-buckets of an octave, as a power of two.
const BITS: u32 = 5;
const EXACT: u64 = 1 << (BITS + 1);

impl Quantiles {
    #[inline]
    pub fn add(&mut self, value: u64) {
        let bucket = bucket_of(value);
        if self.total == 0 {
            self.first = bucket;
            self.counts.push(0);
            self.least = value;
        } else if bucket < self.first {
            self.widen_down(bucket);
        } else if bucket - self.first >= self.counts.len() as u32 {
            self.counts.resize((bucket - self.first + 1) as usize, 0);
        }
        let count = &mut self.counts[(bucket - self.first) as usize];
        *count = count.saturating_add(1);
        self.total += 1;
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
    }

    /// Adds the same value several times.
    pub fn add_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        self.add(value);
        let count = &mut self.counts[(bucket_of(value) - self.first) as usize];
        let more = times - 1;
        *count = count.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        self.total = self.total.saturating_add(more);
    }

    #[cold]
    fn widen_down(&mut self, bucket: u32) {
        let more = (self.first - bucket) as usize;
        self.counts.splice(0..0, std::iter::repeat_n(0, more));
        self.first = bucket;
    }

    /// How many values fell into each bucket, the buckets in order of their values.
    pub fn buckets(&self) -> impl Iterator<Item = (u32, u64)> {
        (self.first..)
            .zip(&self.counts)
            .map(|(bucket, &count)| (bucket, u64::from(count)))
            .filter(|(_, count)| *count > 0)
    }

    pub fn count(&self) -> u64 {
        self.total
    }

    pub fn least(&self) -> u64 {
        self.least
    }

    pub fn greatest(&self) -> u64 {
        self.greatest
    }

    /// The value that a share `q` of all values does not exceed; 0 of nothing.
    pub fn quantile(&self, q: f64) -> u64 {
        if self.total == 0 {
            return 0;
        }
        let counted: u64 = self.counts.iter().map(|&count| u64::from(count)).sum();
        let rank = ((q.clamp(0.0, 1.0) * counted as f64).ceil() as u64).clamp(1, counted);
        let mut seen = 0;
        for (place, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                let range = range_of(self.first + place as u32);
                let middle = range.start + (range.end - range.start - 1) / 2;
                return middle.clamp(self.least, self.greatest);
            }
        }
        self.greatest
    }

    /// Adds the values of another.
    pub fn merge(&mut self, other: &Quantiles) {
        for (place, &count) in other.counts.iter().enumerate() {
            if count > 0 {
                let middle = range_of(other.first + place as u32).start;
                let (least, greatest) = (self.least, self.greatest);
                let empty = self.total == 0;
                self.add(middle);
                self.total += u64::from(count) - 1;
                let bucket = (bucket_of(middle) - self.first) as usize;
                self.counts[bucket] = self.counts[bucket].saturating_add(count - 1);
                (self.least, self.greatest) = if empty {
                    (other.least, other.greatest)
                } else {
                    (least.min(other.least), greatest.max(other.greatest))
                };
            }
        }
    }
}

/// Small values have a bucket each; larger ones share it with those of the same leading bits.
#[inline]
fn bucket_of(value: u64) -> u32 {
    if value < EXACT {
        return value as u32;
    }
    let shift = 63 - BITS - value.leading_zeros();
    ((shift + 1) << BITS) + ((value >> shift) as u32 & ((1 << BITS) - 1))
}

/// The values of a bucket; the very last value of all is left out of its range.
fn range_of(bucket: u32) -> Range<u64> {
    if u64::from(bucket) < EXACT {
        return bucket.into()..u64::from(bucket) + 1;
    }
    let shift = (bucket >> BITS) - 1;
    let start = (u64::from(bucket & ((1 << BITS) - 1)) + (1 << BITS)) << shift;
    start..start.saturating_add(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_numbers_are_exact() {
        let mut quantiles = Quantiles::default();
        assert_eq!(quantiles.quantile(0.5), 0);
        for value in 1..=50 {
            quantiles.add(value);
        }
        assert_eq!(quantiles.quantile(0.5), 25);
        assert_eq!(quantiles.quantile(0.0), 1);
        assert_eq!(quantiles.quantile(1.0), 50);
    }

    #[test]
    fn extremes_have_a_place() {
        let mut quantiles = Quantiles::default();
        for value in [u64::MAX, 0, u64::MAX, 1 << 40] {
            quantiles.add(value);
        }
        assert_eq!((quantiles.least(), quantiles.greatest()), (0, u64::MAX));
        assert_eq!(quantiles.quantile(0.0), 0);
        assert!(quantiles.quantile(1.0) > u64::MAX - (u64::MAX >> 5));
    }

    #[test]
    fn many_at_once_are_many() {
        let (mut one, mut many) = (Quantiles::default(), Quantiles::default());
        for (value, times) in [(900, 3), (40, 2), (7, 0), (900, 1)] {
            (0..times).for_each(|_| one.add(value));
            many.add_many(value, times);
        }
        assert_eq!(one, many);
    }

    proptest! {
        #[test]
        fn wrong_by_a_sixtieth_at_most(
            mut values in prop::collection::vec(0u64..10_000_000_000, 1..200),
            q in 0.0f64..=1.0,
        ) {
            let mut quantiles = Quantiles::default();
            values.iter().for_each(|&value| quantiles.add(value));
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1] as f64;
            let found = quantiles.quantile(q) as f64;
            prop_assert!((found - exact).abs() <= exact * 0.016 + 0.5, "{} {}", found, exact);
        }

        #[test]
        fn merging_is_adding(
            left in prop::collection::vec(0u64..1 << 50, 0..50),
            right in prop::collection::vec(0u64..1 << 50, 0..50),
        ) {
            let of = |values: &[u64]| {
                let mut quantiles = Quantiles::default();
                values.iter().for_each(|&value| quantiles.add(value));
                quantiles
            };
            let mut merged = of(&left);
            merged.merge(&of(&right));
            let both: Vec<u64> = left.iter().chain(&right).copied().collect();
            prop_assert_eq!(merged, of(&both));
        }
    }
}
