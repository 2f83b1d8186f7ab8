//! What probes inside kernels saw of blocks, or of threads: how many there were, on which multiprocessors, and
//! how long they took.

use crate::{Quantiles, intervals::LateUnion};
use event::{Event, Extent, Layer, Name};
use serde::{Deserialize, Serialize};

/// Blocks, or threads, of one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockRow {
    pub device: Option<u32>,
    /// What they are: `block` or `thread`.
    pub name: Name,
    pub count: u64,
    /// Their times added up.
    pub sum_ns: u64,
    /// How long at least one of them ran.
    pub busy_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub longest_ns: u64,
    pub longest_op_id: Option<u64>,
    /// How many there were at one time.
    pub most_at_once: u64,
    /// By multiprocessor.
    pub multiprocessors: Vec<MultiprocessorRow>,
}

/// Those on one multiprocessor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MultiprocessorRow {
    pub sm: u32,
    pub count: u64,
    pub sum_ns: u64,
    pub busy_ns: u64,
}

/// A GPU has one kind of these, and no GPU has so many multiprocessors; a damaged trace may have more.
const MOST_ROWS: usize = 64;
const MOST_MULTIPROCESSORS: usize = 1024;

#[derive(Default)]
pub(crate) struct BlockSweep {
    rows: Vec<KernelBlocks>,
    /// The row of the last one: the next is often of the same.
    latest: usize,
}

struct KernelBlocks {
    row: BlockRow,
    durations: Quantiles,
    busy: LateUnion,
    now: u64,
    /// By number.
    multiprocessors: Vec<Option<(MultiprocessorRow, LateUnion)>>,
}

impl BlockSweep {
    pub fn add(&mut self, event: &Event) {
        let Some(sm) = event.cpu.filter(|_| event.layer == Layer::Device) else {
            return;
        };
        let is_it =
            |seen: &KernelBlocks| seen.row.device == event.device && seen.row.name == event.name;
        if !self.rows.get(self.latest).is_some_and(is_it) {
            self.latest = match self.rows.iter().position(is_it) {
                Some(place) => place,
                None if self.rows.len() >= MOST_ROWS => return,
                None => {
                    self.rows.push(KernelBlocks::new(event));
                    self.rows.len() - 1
                }
            };
        }
        let seen = &mut self.rows[self.latest];
        match event.extent {
            Extent::Open => {
                seen.now += 1;
                seen.row.most_at_once = seen.row.most_at_once.max(seen.now);
            }
            Extent::Closed(duration) => seen.end(event, sm as usize, duration),
            Extent::Instant => {}
        }
    }

    /// By GPU; multiprocessors in their order.
    pub fn finish(self) -> Vec<BlockRow> {
        let mut rows: Vec<BlockRow> = self.rows.into_iter().map(KernelBlocks::finish).collect();
        rows.retain(|row| row.count > 0);
        rows.sort_by(|a, b| (a.device, &a.name).cmp(&(b.device, &b.name)));
        rows
    }
}

impl KernelBlocks {
    fn new(event: &Event) -> KernelBlocks {
        KernelBlocks {
            row: BlockRow {
                device: event.device,
                name: event.name.clone(),
                count: 0,
                sum_ns: 0,
                busy_ns: 0,
                p50_ns: 0,
                p99_ns: 0,
                longest_ns: 0,
                longest_op_id: None,
                most_at_once: 0,
                multiprocessors: Vec::new(),
            },
            durations: Quantiles::default(),
            busy: LateUnion::default(),
            now: 0,
            multiprocessors: Vec::new(),
        }
    }

    fn end(&mut self, event: &Event, sm: usize, duration: u64) {
        let end = event.start.saturating_add(duration);
        self.now = self.now.saturating_sub(1);
        self.durations.add(duration);
        self.busy.add(event.start, end);
        let row = &mut self.row;
        row.count += 1;
        row.sum_ns = row.sum_ns.saturating_add(duration);
        if row.longest_op_id.is_none() || duration > row.longest_ns {
            (row.longest_ns, row.longest_op_id) = (duration, Some(event.id));
        }
        if sm >= MOST_MULTIPROCESSORS {
            return;
        }
        if self.multiprocessors.len() <= sm {
            self.multiprocessors.resize_with(sm + 1, || None);
        }
        let (row, busy) = self.multiprocessors[sm].get_or_insert_with(|| {
            let row = MultiprocessorRow {
                sm: sm as u32,
                count: 0,
                sum_ns: 0,
                busy_ns: 0,
            };
            (row, LateUnion::default())
        });
        row.count += 1;
        row.sum_ns = row.sum_ns.saturating_add(duration);
        busy.add(event.start, end);
    }

    fn finish(self) -> BlockRow {
        let multiprocessors = self.multiprocessors.into_iter().flatten();
        BlockRow {
            busy_ns: self.busy.length(),
            p50_ns: self.durations.quantile(0.5),
            p99_ns: self.durations.quantile(0.99),
            multiprocessors: multiprocessors
                .map(|(row, busy)| MultiprocessorRow {
                    busy_ns: busy.length(),
                    ..row
                })
                .collect(),
            ..self.row
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::Category;

    #[test]
    fn blocks_are_counted_by_multiprocessor_and_at_once() {
        let mut sweep = BlockSweep::default();
        let block = |id: u64, sm: u32, start: u64, extent: Extent| {
            let mut event = Event::new(id, Layer::Device, Category::Kernel, "block", start);
            event.cpu = Some(sm);
            event.device = Some(0);
            event.extent = extent;
            event
        };
        // Two on one multiprocessor, beside each other for a while; one on another, later.
        for event in [
            block(1, 0, 100, Extent::Open),
            block(2, 0, 150, Extent::Open),
            block(1, 0, 100, Extent::Closed(100)),
            block(2, 0, 150, Extent::Closed(100)),
            block(3, 5, 400, Extent::Open),
            block(3, 5, 400, Extent::Closed(40)),
        ] {
            sweep.add(&event);
        }
        // What probes send without a multiprocessor is none.
        sweep.add(&Event::new(
            4,
            Layer::Device,
            Category::Kernel,
            "event",
            500,
        ));
        let rows = sweep.finish();
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((row.count, row.most_at_once), (3, 2));
        assert_eq!((row.sum_ns, row.busy_ns), (240, 190));
        assert_eq!((row.longest_ns, row.longest_op_id), (100, Some(1)));
        let expected = [(0, 2, 200, 150), (5, 1, 40, 40)];
        let by_sm = row.multiprocessors.iter();
        let by_sm: Vec<_> = by_sm
            .map(|row| (row.sm, row.count, row.sum_ns, row.busy_ns))
            .collect();
        assert_eq!(by_sm, expected);
    }
}
