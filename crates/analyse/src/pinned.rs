//! What kind of host memory copies use: pinned, pageable, or unknown.
//!
//! Memory is pinned where an allocation or registration says so. Everything else is pageable, unless
//! the trace may have missed one: it began late, lost events, or saw a registration it could not read.

use ahash::RandomState;
use event::{Direction, Event, Meaning, MemoryOp, MemorySpace, Transfer, Value};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

use crate::transfers::HostUse;

/// Pinned ranges followed in each process.
const MOST_RANGES: usize = 1 << 20;
/// Processes told apart.
const MOST_PROCESSES: usize = 1 << 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostKind {
    Pinned,
    Pageable,
    /// Managed memory moves by itself: copying it is another matter.
    Managed,
    Unknown,
}

#[derive(Debug, Default)]
struct Process {
    /// First to last byte, pinned or managed.
    ranges: BTreeMap<u64, (u64, HostKind)>,
    /// A pinned range may have been missed.
    uncertain: bool,
    uses: HashMap<(Direction, HostKind), (u64, u64, u64), RandomState>,
}

#[derive(Debug, Default)]
pub(crate) struct HostMemory {
    processes: HashMap<u32, Process, RandomState>,
    all_uncertain: bool,
}

impl HostMemory {
    fn process(&mut self, pid: u32) -> Option<&mut Process> {
        if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&pid) {
            self.all_uncertain = true;
            return None;
        }
        Some(self.processes.entry(pid).or_default())
    }

    /// A call about memory has ended. Memory that is registered is no allocation, so that its call
    /// must be read here.
    pub fn called(&mut self, event: &Event) {
        let succeeded = (event.status.as_ref()).is_none_or(|status| status.code == 0);
        if !succeeded || !event.name.contains("Host") {
            return;
        }
        let family = cuda::family(&event.name);
        let argument = |names: [&str; 2]| {
            (names.iter().find_map(|name| event.arg(name))).and_then(Value::as_u64)
        };
        let start = argument(["p", "ptr"]);
        match family {
            "cuMemHostRegister" | "cudaHostRegister" => {
                let size = argument(["bytesize", "size"]);
                let known = start.zip(size);
                let Some(process) = self.process(event.pid) else {
                    return;
                };
                match known {
                    Some((start, size)) if process.ranges.len() < MOST_RANGES => {
                        let last = start.saturating_add(size.saturating_sub(1));
                        process.ranges.insert(start, (last, HostKind::Pinned));
                    }
                    _ => process.uncertain = true,
                }
            }
            "cuMemHostUnregister" | "cudaHostUnregister" => {
                if let (Some(start), Some(process)) = (start, self.process(event.pid)) {
                    process.ranges.remove(&start);
                }
            }
            _ => {}
        }
    }

    pub fn memory(&mut self, meaning: &Meaning, memory: &event::Memory) {
        let kind = match memory.space {
            Some(MemorySpace::Managed) => HostKind::Managed,
            _ => HostKind::Pinned,
        };
        let host = matches!(memory.space, Some(MemorySpace::Host | MemorySpace::Managed));
        let Some(process) = self.process(meaning.pid) else {
            return;
        };
        match memory.op {
            MemoryOp::Alloc if host => {
                if process.ranges.len() >= MOST_RANGES {
                    process.uncertain = true;
                    return;
                }
                let last = memory
                    .ptr
                    .saturating_add(memory.size.unwrap_or(1).saturating_sub(1));
                process.ranges.insert(memory.ptr, (last, kind));
            }
            MemoryOp::Alloc => {}
            MemoryOp::Free => {
                let known = process.ranges.remove(&memory.ptr).is_some();
                let frees_host = meaning.name.contains("Host");
                process.uncertain |= frees_host && !known;
            }
        }
    }

    pub fn lost(&mut self, pid: Option<u32>) {
        match pid {
            Some(pid) => {
                if let Some(process) = self.process(pid) {
                    process.uncertain = true;
                }
            }
            None => self.all_uncertain = true,
        }
    }

    pub fn copied(&mut self, pid: u32, transfer: &Transfer, time: u64) {
        let host = match transfer.direction {
            Direction::HostToDevice => transfer.src,
            Direction::DeviceToHost => transfer.dst,
            Direction::DeviceToDevice | Direction::HostToHost | Direction::Peer => return,
        };
        let Some(process) = self.process(pid) else {
            return;
        };
        let kind = match host {
            None => HostKind::Unknown,
            Some(address) => (process.ranges.range(..=address).next_back())
                .filter(|(_, (last, _))| address <= *last)
                .map_or(HostKind::Pageable, |(_, (_, kind))| *kind),
        };
        let sums = process.uses.entry((transfer.direction, kind)).or_default();
        *sums = (
            sums.0 + 1,
            sums.1.saturating_add(transfer.size),
            sums.2.saturating_add(time),
        );
    }

    pub fn finish(self) -> HostUses {
        let mut uses = HostUses::default();
        for process in self.processes.into_values() {
            let uncertain = self.all_uncertain || process.uncertain;
            for ((direction, kind), (count, bytes, time)) in process.uses {
                let kind = match kind {
                    HostKind::Pageable if uncertain => HostKind::Unknown,
                    known => known,
                };
                let sums = uses.0.entry((direction, kind)).or_default();
                sums.0 += count;
                sums.1 = sums.1.saturating_add(bytes);
                sums.2 = sums.2.saturating_add(time);
            }
        }
        uses
    }
}

/// Count, bytes and time by direction and kind of host memory.
#[derive(Debug, Default)]
pub(crate) struct HostUses(BTreeMap<(Direction, HostKind), (u64, u64, u64)>);

impl HostUses {
    pub fn of(&self, direction: Direction) -> Vec<HostUse> {
        (self.0.iter())
            .filter(|((way, _), _)| *way == direction)
            .map(|((_, memory), &(count, bytes, call_ns))| HostUse {
                memory: *memory,
                count,
                bytes,
                call_ns,
            })
            .collect()
    }
}
