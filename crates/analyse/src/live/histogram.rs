//! Durations by size, four buckets to an octave of seconds: those of Prometheus's native histograms with schema 2, so
//! that they need no conversion.

/// Counts of durations. Memory: the buckets between the shortest and the longest, at most 168 numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    first: i32,
    counts: Vec<u64>,
    count: u64,
    sum_ns: u64,
    longest_ns: u64,
}

/// Buckets of an octave.
pub const PER_OCTAVE: i32 = 4;
/// Prometheus's number for that.
pub const SCHEMA: i32 = 2;
/// The bucket of a nanosecond and less: up to 2^-29.75 s.
const LEAST: i32 = -119;
/// Up to 2^12 s, and all that is longer.
const GREATEST: i32 = 48;

impl Histogram {
    pub fn add(&mut self, ns: u64) {
        let bucket = bucket_of(ns);
        if self.counts.is_empty() {
            self.first = bucket;
            self.counts.push(0);
        } else if bucket < self.first {
            let more = (self.first - bucket) as usize;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = bucket;
        }
        let place = (bucket - self.first) as usize;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (bucket, count) in other.buckets() {
            if self.counts.is_empty() {
                self.first = bucket;
            }
            if bucket < self.first {
                let more = (self.first - bucket) as usize;
                self.counts.splice(0..0, std::iter::repeat_n(0, more));
                self.first = bucket;
            }
            let place = (bucket - self.first) as usize;
            if place >= self.counts.len() {
                self.counts.resize(place + 1, 0);
            }
            self.counts[place] += count;
        }
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// Those that are not empty: the bucket's number and its count. Bucket n holds what is longer than 2^((n-1)/4) s, up
    /// to and including 2^(n/4) s.
    pub fn buckets(&self) -> impl Iterator<Item = (i32, u64)> {
        (self.first..)
            .zip(&self.counts)
            .map(|(bucket, &count)| (bucket, count))
            .filter(|(_, count)| *count > 0)
    }

    /// A duration that this share of all does not exceed, to 19 %; 0 of nothing.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let rank = (share.clamp(0.0, 1.0) * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets() {
            seen += count;
            if seen >= rank.max(1) {
                return ((upper(bucket) * 1e9) as u64).min(self.longest_ns);
            }
        }
        self.longest_ns
    }
}

/// The longest duration of a bucket, in seconds.
pub fn upper(bucket: i32) -> f64 {
    (f64::from(bucket) / f64::from(PER_OCTAVE)).exp2()
}

/// By the bits of the number: no logarithm for each call.
fn bucket_of(ns: u64) -> i32 {
    // 2^(1/4), 2^(1/2), 2^(3/4)
    const STEPS: [f64; 3] = [
        1.189_207_115_002_721,
        std::f64::consts::SQRT_2,
        1.681_792_830_507_429,
    ];
    if ns <= 1 {
        return LEAST;
    }
    let seconds = ns as f64 * 1e-9;
    let bits = seconds.to_bits();
    let exponent = (bits >> 52) as i32 - 1_023;
    // Between 1 and 2.
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1_023 << 52);
    let step = match mantissa {
        1.0 => 0,
        more => 1 + STEPS.iter().filter(|step| more > **step).count() as i32,
    };
    (exponent * PER_OCTAVE + step).clamp(LEAST, GREATEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn powers_of_two_end_their_buckets() {
        assert_eq!((bucket_of(0), bucket_of(1)), (LEAST, LEAST));
        assert_eq!(bucket_of(1_000_000_000), 0);
        assert_eq!(bucket_of(1_000_000_001), 1);
        assert_eq!(bucket_of(500_000_000), -4);
        assert_eq!(bucket_of(u64::MAX), GREATEST);
        assert!((upper(0), upper(4)) == (1.0, 2.0));
    }

    proptest! {
        #[test]
        fn a_value_is_within_its_bucket(ns in 2u64..4_000_000_000_000) {
            let bucket = bucket_of(ns);
            let seconds = ns as f64 * 1e-9;
            prop_assert!(seconds <= upper(bucket) * 1.000_001, "{} {}", ns, bucket);
            prop_assert!(bucket == LEAST || seconds >= upper(bucket - 1) * 0.999_999, "{} {}", ns, bucket);
        }

        #[test]
        fn merging_is_adding(
            left in prop::collection::vec(0u64..1 << 50, 0..50),
            right in prop::collection::vec(0u64..1 << 50, 0..50),
        ) {
            let of = |values: &[u64]| {
                let mut all = Histogram::default();
                values.iter().for_each(|&value| all.add(value));
                all
            };
            let mut merged = of(&left);
            merged.merge(&of(&right));
            let both = of(&[left, right].concat());
            prop_assert!(merged.buckets().eq(both.buckets()));
            prop_assert_eq!((merged.count(), merged.sum_ns()), (both.count(), both.sum_ns()));
        }
    }
}
