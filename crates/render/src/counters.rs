//! Numbers that change over time, for viewers that draw them: memory in use, bytes on the move.

use ahash::HashMap;
use event::{
    Category, Direction, Event, Extent, Kind, Layer, Meaning, Memory, MemoryOp, MemorySpace, What,
};
use std::collections::VecDeque;

/// Ends of names of numbers, and the units they mean.
const UNITS: [(&str, &str); 6] = [
    ("_percent", "percent"),
    ("_bytes_per_s", "bytes per second"),
    ("_bytes", "bytes"),
    ("_mw", "mW"),
    ("_mhz", "MHz"),
    ("_c", "°C"),
];

/// Whose number it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Of {
    Process(u32),
    Gpu(u32),
}

/// One step of one counter.
#[derive(Debug, Clone, PartialEq)]
pub struct Counter {
    pub ts: u64,
    pub of: Of,
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

    /// A copy as the GPU made it, or a sample.
    pub fn event(&mut self, event: &Event) {
        if event.kind == Kind::Counter {
            return self.sample(event);
        }
        if event.layer != Layer::Gpu || event.category != Category::Transfer {
            return;
        }
        let bytes = event.arg("bytes").and_then(|bytes| bytes.as_u64());
        if let (Extent::Closed(duration), Some(bytes)) = (event.extent, bytes) {
            let end = event.start.saturating_add(duration);
            self.transfer(event.pid, None, end, duration, bytes);
        }
    }

    /// Every number of a sample is a counter; the end of its name is its unit.
    fn sample(&mut self, event: &Event) {
        let of = event.device.map_or(Of::Process(event.pid), Of::Gpu);
        for arg in &event.args {
            let Some(value) = arg.value.as_u64() else {
                continue;
            };
            let known = UNITS.iter().find_map(|(end, unit)| {
                let name = arg.name.strip_suffix(end)?;
                Some((name.replace('_', " "), *unit))
            });
            let (name, unit) = known.unwrap_or_else(|| (arg.name.replace('_', " "), "value"));
            self.steps.push_back(Counter {
                ts: event.start,
                of,
                name,
                unit,
                value,
            });
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
            of: Of::Process(pid),
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

#[cfg(test)]
mod tests {
    use super::*;
    use event::Arg;

    #[test]
    fn a_sample_is_a_step_of_each_of_its_counters() {
        let mut event = Event::new(1, Layer::Gpu, Category::Other, "nvml", 50);
        (event.kind, event.device) = (Kind::Counter, Some(2));
        event.args = vec![
            Arg::new("gpu_percent", 80u64),
            Arg::new("memory_used_bytes", 1u64 << 30),
            Arg::new("pcie_rx_bytes_per_s", 5u64),
            Arg::new("odd", 7u64),
            Arg::new("text", "no number"),
        ];
        let mut counters = Counters::default();
        counters.event(&event);
        let steps: Vec<_> = counters
            .map(|step| (step.ts, step.of, step.name, step.unit, step.value))
            .collect();
        let of = Of::Gpu(2);
        let expected = [
            (50, of, "gpu".to_owned(), "percent", 80),
            (50, of, "memory used".to_owned(), "bytes", 1 << 30),
            (50, of, "pcie rx".to_owned(), "bytes per second", 5),
            (50, of, "odd".to_owned(), "value", 7),
        ];
        assert_eq!(steps, expected);
    }
}
