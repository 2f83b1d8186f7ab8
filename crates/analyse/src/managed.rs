//! Managed memory: what moved between CPU and GPUs, why, and who faulted.

use event::{Event, Extent, Kind, Name, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the driver reported about managed memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Managed {
    /// By direction and cause, most bytes first.
    pub migrations: Vec<Migrations>,
    /// Faults and whatever else happened, by name.
    pub counts: Vec<Happened>,
    pub migrated_bytes: u64,
    pub cpu_faults: u64,
    pub gpu_faults: u64,
}

/// Migrations of one direction and cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Migrations {
    /// As in transfers: `H2D`, `D2H`, `P2P`.
    pub direction: Name,
    pub cause: Name,
    pub device: Option<u32>,
    pub count: u64,
    pub bytes: u64,
    /// The sum of their times: some overlap.
    pub sum_ns: u64,
    pub largest_bytes: u64,
    pub largest_op_id: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Happened {
    pub name: Name,
    pub count: u64,
    /// Where that is said: of evictions, thrashing, remote mappings.
    pub bytes: u64,
}

/// Directions, causes and names are the driver's few; a damaged trace may have more.
const MOST: usize = 256;

#[derive(Default)]
pub(crate) struct ManagedSweep {
    migrations: BTreeMap<(Option<u32>, Name, Name), Migrations>,
    counts: BTreeMap<Name, Happened>,
}

impl ManagedSweep {
    pub fn add(&mut self, event: &Event) {
        if event.kind != Kind::GpuMem || event.extent == Extent::Open {
            return;
        }
        let bytes = event.arg("bytes").and_then(Value::as_u64);
        if &*event.name == "migration" {
            // Who reads a trace without its arguments learns nothing of migrations.
            if let Some(bytes) = bytes {
                self.migration(event, bytes);
            }
            return;
        }
        if self.counts.len() >= MOST && !self.counts.contains_key(&event.name) {
            return;
        }
        let happened = (self.counts)
            .entry(event.name.clone())
            .or_insert_with(|| Happened {
                name: event.name.clone(),
                count: 0,
                bytes: 0,
            });
        happened.count += 1;
        happened.bytes = happened.bytes.saturating_add(bytes.unwrap_or(0));
    }

    fn migration(&mut self, event: &Event, bytes: u64) {
        let text = |name: &str| match event.arg(name) {
            Some(Value::Str(text)) => text.clone(),
            _ => "?".into(),
        };
        let key = (event.device, text("direction"), text("cause"));
        if self.migrations.len() >= MOST && !self.migrations.contains_key(&key) {
            return;
        }
        let (device, direction, cause) = key.clone();
        let row = self.migrations.entry(key).or_insert_with(|| Migrations {
            direction,
            cause,
            device,
            count: 0,
            bytes: 0,
            sum_ns: 0,
            largest_bytes: 0,
            largest_op_id: None,
        });
        row.count += 1;
        row.bytes = row.bytes.saturating_add(bytes);
        row.sum_ns = row.sum_ns.saturating_add(event.duration().unwrap_or(0));
        if bytes > row.largest_bytes {
            (row.largest_bytes, row.largest_op_id) = (bytes, Some(event.id));
        }
    }

    pub fn finish(self) -> Managed {
        let mut migrations: Vec<Migrations> = self.migrations.into_values().collect();
        migrations.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        let counts: Vec<Happened> = self.counts.into_values().collect();
        let count = |name: &str| {
            let found = counts.iter().find(|one| &*one.name == name);
            found.map_or(0, |one| one.count)
        };
        Managed {
            migrated_bytes: migrations
                .iter()
                .fold(0, |sum, row| row.bytes.saturating_add(sum)),
            cpu_faults: count("cpu_fault"),
            gpu_faults: count("gpu_fault"),
            migrations,
            counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Arg, Category, Layer};

    fn event(id: u64, name: &str, args: Vec<Arg>, extent: Extent) -> Event {
        let mut event = Event::new(id, Layer::Gpu, Category::Memory, name, 10);
        (event.kind, event.extent, event.device) = (Kind::GpuMem, extent, Some(0));
        event.outputs = args;
        event
    }

    fn migration(id: u64, direction: &str, cause: &str, bytes: u64) -> Event {
        let args = vec![
            Arg::new("bytes", bytes),
            Arg::new("direction", direction),
            Arg::new("cause", cause),
        ];
        event(id, "migration", args, Extent::Closed(5))
    }

    #[test]
    fn bytes_add_up_by_direction_and_cause() {
        let mut sweep = ManagedSweep::default();
        sweep.add(&migration(1, "H2D", "coherence", 4096));
        sweep.add(&migration(2, "H2D", "coherence", 65_536));
        sweep.add(&migration(3, "D2H", "user", 8192));
        sweep.add(&event(4, "gpu_fault", Vec::new(), Extent::Instant));
        sweep.add(&event(5, "gpu_fault", Vec::new(), Extent::Instant));
        let evicted = vec![Arg::new("bytes", 2u64 << 20)];
        sweep.add(&event(6, "eviction", evicted, Extent::Instant));
        let managed = sweep.finish();
        let rows: Vec<_> = (managed.migrations.iter())
            .map(|row| {
                (
                    &*row.direction,
                    &*row.cause,
                    row.count,
                    row.bytes,
                    row.largest_op_id,
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                ("H2D", "coherence", 2, 69_632, Some(2)),
                ("D2H", "user", 1, 8192, Some(3))
            ]
        );
        assert_eq!((managed.gpu_faults, managed.cpu_faults), (2, 0));
        assert_eq!(managed.migrated_bytes, 77_824);
        assert_eq!(managed.counts[0].bytes, 2 << 20);
    }
}
