//! Numbers that change over time, for viewers that draw them: memory in use, bytes on the move.

use ahash::HashMap;
use event::{
    Category, Direction, Event, Extent, Layer, Meaning, Memory, MemoryOp, MemorySpace, What,
};
use std::collections::VecDeque;

/// One step of one counter.
#[derive(Debug, Clone, PartialEq)]
pub struct Counter {
    pub ts: u64,
    pub pid: u32,
    pub name: String,
    pub unit: &'static str,
    pub value: u64,
}

/// Follows records and gives the steps they mean.
#[derive(Debug, Default)]
pub struct Counters {
    in_use: HashMap<(u32, u32, MemorySpace), u64>,
    /// What is allocated: a free does not always say how much.
    live: HashMap<(u32, u64), u64>,
    /// Until when a copy is drawn, by process and direction.
    busy: HashMap<(u32, Option<Direction>), u64>,
    steps: VecDeque<Counter>,
}

impl Counters {
    pub fn meaning(&mut self, meaning: &Meaning) {
        match &meaning.what {
            What::Memory(memory) => self.memory(meaning, memory),
            What::Transfer(transfer) => {
                // An asynchronous call returns before the copy is done: its time says nothing.
                let synchronous = !meaning.name.contains("Async");
                if let (Some(duration), true) = (transfer.duration, synchronous) {
                    let direction = Some(transfer.direction);
                    self.transfer(meaning.pid, direction, meaning.ts, duration, transfer.size);
                }
            }
            What::Launch(_) => {}
        }
    }

    /// A copy as the GPU made it.
    pub fn event(&mut self, event: &Event) {
        if event.layer != Layer::Gpu || event.category != Category::Transfer {
            return;
        }
        let bytes = event.arg("bytes").and_then(|bytes| bytes.as_u64());
        if let (Extent::Closed(duration), Some(bytes)) = (event.extent, bytes) {
            let end = event.start.saturating_add(duration);
            self.transfer(event.pid, None, end, duration, bytes);
        }
    }

    fn memory(&mut self, meaning: &Meaning, memory: &Memory) {
        let space = memory.space.unwrap_or(MemorySpace::Device);
        let device = meaning.device.unwrap_or(0);
        let key = (meaning.pid, memory.ptr);
        let in_use = (self.in_use)
            .entry((meaning.pid, device, space))
            .or_default();
        *in_use = match memory.op {
            MemoryOp::Alloc => {
                let size = memory.size.unwrap_or(0);
                self.live.insert(key, size);
                in_use.saturating_add(size)
            }
            MemoryOp::Free => {
                let known = self.live.remove(&key);
                in_use.saturating_sub(memory.size.or(known).unwrap_or(0))
            }
        };
        let value = *in_use;
        let name = match space {
            MemorySpace::Host => "pinned host memory".to_owned(),
            space => format!("GPU {device} {} memory", space.as_str()),
        };
        self.step(meaning.ts, meaning.pid, name, "bytes", value);
    }

    /// The rate of the copy under way; of several at once the part not drawn yet.
    fn transfer(
        &mut self,
        pid: u32,
        direction: Option<Direction>,
        end: u64,
        duration: u64,
        bytes: u64,
    ) {
        let busy = self.busy.entry((pid, direction)).or_default();
        let start = end.saturating_sub(duration).max(*busy);
        if duration == 0 || start >= end {
            return;
        }
        *busy = end;
        let rate = (bytes as f64 * 1e9 / duration as f64) as u64;
        let name = match direction {
            Some(direction) => format!("copy {}", direction.as_str()),
            None => "copies on the GPU".to_owned(),
        };
        self.step(start, pid, name.clone(), "bytes per second", rate);
        self.step(end, pid, name, "bytes per second", 0);
    }

    fn step(&mut self, ts: u64, pid: u32, name: String, unit: &'static str, value: u64) {
        self.steps.push_back(Counter {
            ts,
            pid,
            name,
            unit,
            value,
        });
    }
}

impl Iterator for Counters {
    type Item = Counter;

    fn next(&mut self) -> Option<Counter> {
        self.steps.pop_front()
    }
}
