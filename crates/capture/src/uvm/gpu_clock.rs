//! Migrations by the GPU's clock. The driver's own times of a migration are those of asking for it and
//! of noticing that it is done, which may be long after; the GPU's are of the copy itself, on a clock
//! of its own.
//!
//! No copy begins before it was asked for: the smallest distance seen between the two is what the
//! clocks differ by, and what it took to begin at the fastest. Copies are shown earlier than they were
//! by that fastest time, some microseconds, and never before they were asked for.

use super::entry::UvmEntry;
use super::words::copier;
use event::{ClockMap, ClockPair, ClockRules};
use std::collections::HashMap;

/// The clocks of the GPUs of one process.
#[derive(Debug, Default)]
pub struct GpuClocks {
    /// By processor, to the driver's clock.
    maps: HashMap<u16, ClockMap>,
}

impl GpuClocks {
    pub fn learn(&mut self, entry: &UvmEntry) {
        let (Some((begin, _)), Some(gpu)) = (entry.on_gpu, copier(&entry.what)) else {
            return;
        };
        let map = (self.maps.entry(gpu)).or_insert_with(|| ClockMap::new(ClockRules::UNREAD));
        map.add(ClockPair {
            source: begin,
            host: entry.start,
            margin: 0,
        });
    }

    /// The entry with the copy's own times, on the driver's clock.
    pub fn placed(&self, mut entry: UvmEntry) -> UvmEntry {
        let map = copier(&entry.what).and_then(|gpu| self.maps.get(&gpu));
        if let (Some((begin, end)), Some(map)) = (entry.on_gpu, map)
            && let Some(start) = map.to_host(begin)
        {
            entry.start = start;
            entry.end = Some(start.saturating_add(end.saturating_sub(begin)));
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::What;
    use super::*;

    fn migration(asked: u64, on_gpu: Option<(u64, u64)>) -> UvmEntry {
        UvmEntry {
            start: asked,
            end: Some(asked + 50_000),
            on_gpu,
            what: What::Migration {
                cause: 1,
                source: 0,
                target: 1,
                address: 0,
                bytes: 4096,
            },
        }
    }

    #[test]
    fn a_copy_is_where_the_gpu_made_it_and_never_before_it_was_asked_for() {
        const GPU: u64 = 1_794_737_677_699_123_456;
        let entries = [
            migration(1_000, Some((GPU + 1_300, GPU + 1_700))),
            migration(2_000, Some((GPU + 2_010, GPU + 2_050))),
            migration(3_000, None),
        ];
        let mut clocks = GpuClocks::default();
        entries.iter().for_each(|entry| clocks.learn(entry));
        let times = entries.map(|entry| {
            let placed = clocks.placed(entry);
            (placed.start, placed.end)
        });
        let expected = [
            (1_290, Some(1_690)),
            (2_000, Some(2_040)),
            // Without times of its own it keeps the driver's.
            (3_000, Some(53_000)),
        ];
        assert_eq!(times, expected);
    }
}
