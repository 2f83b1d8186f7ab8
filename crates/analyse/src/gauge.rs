//! A level over time, bytes in use for instance, in a fixed number of bins: when the trace outgrows
//! them, pairs are merged and every bin covers twice the time.

use serde::{Deserialize, Serialize};

/// Bins of a curve: enough for a picture as wide as a screen.
const BINS: u64 = 512;
/// The first width of a bin, as a power of two of nanoseconds (about a microsecond).
const FIRST_SHIFT: u32 = 10;

/// The highest level in each of a row of equally long stretches of time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Curve {
    /// Where the first bin begins.
    pub from_ns: u64,
    /// Nanoseconds each bin covers.
    pub bin_ns: u64,
    /// The highest level in each bin, up to the last change.
    pub peaks: Vec<u64>,
}

/// Follows a level as it changes.
#[derive(Debug, Clone)]
pub(crate) struct Gauge {
    shift: u32,
    bins: Vec<u64>,
    level: u64,
    high: u64,
    high_at: u64,
}

impl Default for Gauge {
    fn default() -> Self {
        Gauge {
            shift: FIRST_SHIFT,
            bins: Vec::new(),
            level: 0,
            high: 0,
            high_at: 0,
        }
    }
}

impl Gauge {
    /// The level is this from `at` on, in nanoseconds since the trace began. Times may step back:
    /// then the level counts where it was said to be, and carries on from the latest change.
    pub fn set(&mut self, at: u64, level: u64) {
        while at >> self.shift >= BINS {
            self.shift += 1;
            let merged: Vec<_> = (self.bins.chunks(2))
                .map(|pair| pair.iter().copied().max().unwrap_or(0))
                .collect();
            self.bins = merged;
        }
        let bin = (at >> self.shift) as usize;
        if bin >= self.bins.len() {
            // The level held until now, in the bin of the change too.
            self.bins.resize(bin + 1, self.level);
        }
        self.bins[bin] = self.bins[bin].max(level);
        if level > self.high {
            (self.high, self.high_at) = (level, at);
        }
        self.level = level;
    }

    /// The highest level ever and when it was first reached.
    pub fn high(&self) -> (u64, u64) {
        (self.high, self.high_at)
    }

    pub fn curve(&self, from_ns: u64) -> Curve {
        Curve {
            from_ns,
            bin_ns: 1 << self.shift,
            peaks: self.bins.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_level_holds_until_it_changes() {
        let mut gauge = Gauge::default();
        gauge.set(100, 5);
        gauge.set(3000, 2);
        gauge.set(3100, 1);
        gauge.set(6000, 9);
        let curve = gauge.curve(0);
        assert_eq!(curve.bin_ns, 1024);
        assert_eq!(curve.peaks, [5, 5, 5, 2, 1, 9]);
        assert_eq!(gauge.high(), (9, 6000));
    }

    #[test]
    fn the_end_of_time_fits() {
        let mut gauge = Gauge::default();
        gauge.set(0, 7);
        gauge.set(u64::MAX, 1);
        assert_eq!(gauge.curve(0).peaks.len(), 512);
        assert_eq!(gauge.curve(0).peaks[0], 7);
    }

    proptest! {
        #[test]
        fn the_curve_keeps_its_peak_and_its_size(steps in prop::collection::vec((0u64..1 << 40, any::<u64>()), 1..200)) {
            let mut gauge = Gauge::default();
            for (at, level) in &steps {
                gauge.set(*at, *level);
            }
            let curve = gauge.curve(0);
            prop_assert!(curve.peaks.len() <= 512);
            prop_assert_eq!(curve.peaks.iter().max(), steps.iter().map(|(_, level)| level).max());
        }
    }
}
