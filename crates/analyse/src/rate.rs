//! How often something happened and how long it took, over time: a fixed number of bins that double
//! their width when the trace outgrows them.

use serde::Serialize;

const BINS: u64 = 256;
const FIRST_SHIFT: u32 = 10;

/// Calls and their time in each of a row of equally long stretches.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Rate {
    /// Where the first bin begins.
    pub from_ns: u64,
    /// Nanoseconds each bin covers.
    pub bin_ns: u64,
    pub calls: Vec<u64>,
    pub time_ns: Vec<u64>,
}

impl Rate {
    /// Calls and their time between two moments, to the precision of the bins: bins of which half
    /// lies inside count.
    pub fn within(&self, from_ns: u64, to_ns: u64) -> (u64, u64) {
        let mut sums = (0u64, 0u64);
        for (bin, (calls, time)) in self.calls.iter().zip(&self.time_ns).enumerate() {
            let middle = (bin as u64)
                .saturating_mul(self.bin_ns)
                .saturating_add(self.bin_ns / 2)
                .saturating_add(self.from_ns);
            if (from_ns..to_ns).contains(&middle) {
                sums.0 = sums.0.saturating_add(*calls);
                sums.1 = sums.1.saturating_add(*time);
            }
        }
        sums
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
        let bin = (at >> self.shift) as usize;
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, (0, 0));
        }
        self.bins[bin].0 += 1;
        self.bins[bin].1 = self.bins[bin].1.saturating_add(time);
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
        assert_eq!(rates.rate(0).within(1024, 4000), (2, 20));
        assert_eq!(rates.rate(0).within(0, u64::MAX), (4, 40));
    }
}
