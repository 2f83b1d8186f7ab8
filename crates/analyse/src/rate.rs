//! How often something happened and how long it took, over time: a fixed number of bins that double
//! their width when the trace outgrows them.

use serde::{Deserialize, Serialize};

const BINS: u64 = 256;
const FIRST_SHIFT: u32 = 10;

/// Calls and their time in each of a row of equally long stretches.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rate {
    /// Where the first bin begins.
    pub from_ns: u64,
    /// Nanoseconds each bin covers.
    pub bin_ns: u64,
    pub calls: Vec<u64>,
    pub time_ns: Vec<u64>,
}

impl Rate {
    /// Calls that ended between two moments, and their time there. Of a bin that is only partly
    /// inside, the same part counts.
    pub fn within(&self, from_ns: u64, to_ns: u64) -> (u64, u64) {
        let mut sums = (0.0, 0.0);
        let width = self.bin_ns.max(1);
        for (bin, (calls, time)) in self.calls.iter().zip(&self.time_ns).enumerate() {
            let start = (self.from_ns).saturating_add((bin as u64).saturating_mul(width));
            let end = start.saturating_add(width);
            let inside = end.min(to_ns).saturating_sub(start.max(from_ns));
            let part = inside as f64 / width as f64;
            sums.0 += *calls as f64 * part;
            sums.1 += *time as f64 * part;
        }
        (sums.0.round() as u64, sums.1.round() as u64)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Rates {
    shift: u32,
    bins: Vec<(u64, u64)>,
}

impl Default for Rates {
    fn default() -> Self {
        Rates {
            shift: FIRST_SHIFT,
            bins: Vec::new(),
        }
    }
}

impl Rates {
    /// One more, that ended `at` and took `time`.
    pub fn add(&mut self, at: u64, time: u64) {
        while at >> self.shift >= BINS {
            self.shift += 1;
            let merged: Vec<_> = (self.bins.chunks(2))
                .map(|pair| {
                    pair.iter().fold((0, 0u64), |sum, bin| {
                        (sum.0 + bin.0, sum.1.saturating_add(bin.1))
                    })
                })
                .collect();
            self.bins = merged;
        }
        let last = (at >> self.shift) as usize;
        if last >= self.bins.len() {
            self.bins.resize(last + 1, (0, 0));
        }
        self.bins[last].0 += 1;
        // Its time lies where it went on; what was before the first bin counts in the first.
        let mut left = time;
        let mut end = at;
        for bin in (0..=last).rev() {
            let start = (bin as u64) << self.shift;
            let here = if bin == 0 {
                left
            } else {
                left.min(end - start)
            };
            self.bins[bin].1 = self.bins[bin].1.saturating_add(here);
            left -= here;
            end = start;
            if left == 0 {
                break;
            }
        }
    }

    pub fn rate(&self, from_ns: u64) -> Rate {
        Rate {
            from_ns,
            bin_ns: 1 << self.shift,
            calls: self.bins.iter().map(|bin| bin.0).collect(),
            time_ns: self.bins.iter().map(|bin| bin.1).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_lost_when_bins_merge(calls in prop::collection::vec((any::<u64>(), 0u64..1 << 30), 0..300)) {
            let mut rates = Rates::default();
            for (at, time) in &calls {
                rates.add(*at, *time);
            }
            let rate = rates.rate(0);
            prop_assert!(rate.calls.len() <= 256);
            prop_assert_eq!(rate.calls.iter().sum::<u64>(), calls.len() as u64);
            prop_assert_eq!(rate.time_ns.iter().sum::<u64>(), calls.iter().map(|call| call.1).sum::<u64>());
        }
    }

    #[test]
    fn a_stretch_of_time_is_summed() {
        let mut rates = Rates::default();
        for at in [0, 1500, 1600, 5000] {
            rates.add(at, 10);
        }
        assert_eq!(rates.rate(0).within(1024, 4096), (2, 20));
        assert_eq!(rates.rate(0).within(0, u64::MAX), (4, 40));
        assert_eq!(rates.rate(100).within(1024 + 100, 4096 + 100), (2, 20));
        // A long one lies in all the bins it went on in.
        let mut long = Rates::default();
        long.add(4096, 3072);
        assert_eq!(long.rate(0).within(0, 2048), (0, 1024));
        assert_eq!(long.rate(0).within(2560, 4096), (0, 1536));
    }
}
