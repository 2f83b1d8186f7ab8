//! %globaltimer to CLOCK_MONOTONIC.

use event::{ClockMap, ClockPair, ClockRules};

/// A device's clock in one context.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceClock(ClockMap);

impl Default for DeviceClock {
    fn default() -> Self {
        DeviceClock(ClockMap::new(ClockRules::SPARSE))
    }
}

impl DeviceClock {
    pub fn add(&mut self, pair: ClockPair) {
        self.0.add(pair);
    }

    /// The host's time of a device's.
    pub fn host(&self, device: u64) -> Option<u64> {
        self.0.to_host(device)
    }

    /// How far off it may be.
    pub fn error(&self) -> u64 {
        self.0.error()
    }

    pub fn pairs(&self) -> usize {
        self.0.pairs() as usize
    }
}
