//! A source's clock (TSC, CUPTI, %globaltimer) on the host's, CLOCK_MONOTONIC, which is the trace's.
//! Sources read both clocks together now and then; [`ClockMap`] makes one time of the other.

#[cfg(feature = "alloc")]
mod map;
#[cfg(feature = "alloc")]
mod rules;
#[cfg(all(test, feature = "alloc"))]
mod tests;

#[cfg(feature = "alloc")]
pub use map::{ClockMap, ClockStretch};
#[cfg(feature = "alloc")]
pub use rules::{ClockLine, ClockRules};

/// One reading of a source's clock between two readings of the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockPair {
    pub source: u64,
    /// The middle of the two host readings.
    pub host: u64,
    /// Half the time between them, rounded up: the pair cannot be wrong by more.
    pub margin: u64,
}

impl ClockPair {
    /// The source was read after `before` and before `after`. None if the host's clock ran backwards.
    pub fn around(before: u64, source: u64, after: u64) -> Option<Self> {
        let between = after.checked_sub(before)?;
        Some(ClockPair {
            source,
            host: before + between / 2,
            margin: between.div_ceil(2),
        })
    }

    /// The best of a few readings: whatever came between the two clocks made the others wider.
    pub fn tightest(readings: impl IntoIterator<Item = ClockPair>) -> Option<Self> {
        readings.into_iter().min_by_key(|pair| pair.margin)
    }
}
