//! %globaltimer to CLOCK_MONOTONIC, by pairs of readings.

/// A device's clock in one context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceClock {
    /// (device, host, error), in the order they were taken.
    pairs: Vec<(u64, u64, u64)>,
}

impl DeviceClock {
    pub fn add(&mut self, device: u64, host: u64, error: u64) {
        self.pairs.push((device, host, error));
    }

    /// The host's time of a device's; with two pairs also how much faster one runs is known.
    pub fn host(&self, device: u64) -> Option<u64> {
        let (first, last) = (self.pairs.first()?, self.pairs.last()?);
        let (device_width, host_width) = (
            last.0.saturating_sub(first.0),
            last.1.saturating_sub(first.1),
        );
        let since = i128::from(device) - i128::from(first.0);
        let scaled = if device_width > 1_000_000 && host_width > 0 {
            since * i128::from(host_width) / i128::from(device_width)
        } else {
            since
        };
        let host = i128::from(first.1) + scaled;
        Some(u64::try_from(host.max(0)).unwrap_or(u64::MAX))
    }

    /// How far off it may be.
    pub fn error(&self) -> u64 {
        self.pairs.iter().map(|pair| pair.2).max().unwrap_or(0)
    }

    pub fn pairs(&self) -> usize {
        self.pairs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_clock_is_stretched() {
        let mut clock = DeviceClock::default();
        assert_eq!(clock.host(5), None);
        clock.add(1_000, 50_000, 10);
        assert_eq!(clock.host(900), Some(49_900));
        clock.add(10_001_000, 20_050_000, 20);
        assert_eq!(clock.host(5_001_000), Some(10_050_000));
        assert_eq!((clock.error(), clock.pairs()), (20, 2));
    }
}
