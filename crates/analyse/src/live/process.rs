//! Sums by process: memory, copies, launches, errors, ranges, the GPU's time.

use super::{Busy, Histogram};
use event::{Direction, Event, Memory, MemoryOp, MemorySpace, Name, Transfer};
use std::collections::HashMap;

/// What one process did.
#[derive(Debug, Default)]
pub struct Process {
    /// When it was first seen.
    pub first_ns: u64,
    /// Calls of its own, without those inside them.
    pub calls: u64,
    pub launches: u64,
    pub errors: u64,
    /// Device memory that it has allocated and not freed.
    pub held_bytes: u64,
    pub peak_bytes: u64,
    /// Page-locked memory of the host, likewise.
    pub host_bytes: u64,
    pub allocations: u64,
    pub frees: u64,
    /// Copies and bytes, by direction.
    pub copies: [(u64, u64); Direction::ALL.len()],
    /// When it had work on a GPU.
    pub gpu: Busy,
    /// Errors by function and code.
    pub failures: Vec<Failure>,
    /// NVTX ranges by name.
    pub ranges: HashMap<Name, Range, ahash::RandomState>,
    /// Ranges whose names had no place.
    pub further_ranges: Range,
}

/// A function that failed, always in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub function: Name,
    pub code: i64,
    /// `CUDA_ERROR_OUT_OF_MEMORY`
    pub result: Option<Name>,
    pub count: u64,
    pub last_ns: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Range {
    pub durations: Histogram,
}

const MOST_FAILURES: usize = 64;
const MOST_RANGES: usize = 256;
/// Processes that are kept apart; later ones count in events only, until others are forgotten.
pub const MOST_PROCESSES: usize = 1_024;

impl Process {
    pub(super) fn memory(&mut self, memory: &Memory) {
        let size = memory.size.unwrap_or(0);
        let is_host = memory.space == Some(MemorySpace::Host);
        let held = if is_host {
            &mut self.host_bytes
        } else {
            &mut self.held_bytes
        };
        match memory.op {
            MemoryOp::Alloc => {
                self.allocations += 1;
                *held = held.saturating_add(size);
            }
            MemoryOp::Free => {
                self.frees += 1;
                *held = held.saturating_sub(size);
            }
        }
        self.peak_bytes = self.peak_bytes.max(self.held_bytes);
    }

    pub(super) fn copied(&mut self, transfer: &Transfer) {
        let (count, bytes) = &mut self.copies[transfer.direction as usize];
        *count += 1;
        *bytes = bytes.saturating_add(transfer.size);
    }

    pub(super) fn failed(&mut self, event: &Event, code: i64) {
        self.errors += 1;
        let last_ns = event.end().unwrap_or(event.start);
        let known = (self.failures.iter())
            .position(|known| known.code == code && known.function == event.name);
        match known {
            Some(place) => {
                let known = &mut self.failures[place];
                known.count += 1;
                known.last_ns = known.last_ns.max(last_ns);
            }
            None if self.failures.len() >= MOST_FAILURES => {}
            None => self.failures.push(Failure {
                function: event.name.clone(),
                code,
                result: event.status.as_ref().and_then(|status| status.name.clone()),
                count: 1,
                last_ns,
            }),
        }
    }

    pub(super) fn range(&mut self, name: &Name, duration: u64) {
        let has_room = self.ranges.len() < MOST_RANGES;
        let range = match self.ranges.get_mut(name) {
            Some(known) => known,
            None if has_room => self.ranges.entry(name.clone()).or_default(),
            None => &mut self.further_ranges,
        };
        range.durations.add(duration);
    }
}

#[derive(Debug, Default)]
pub(super) struct Processes(HashMap<u32, Process, ahash::RandomState>);

impl Processes {
    pub fn of(&mut self, pid: u32, at: u64) -> Option<&mut Process> {
        if !self.0.contains_key(&pid) {
            if self.0.len() >= MOST_PROCESSES {
                return None;
            }
            let process = Process {
                first_ns: at,
                ..Process::default()
            };
            self.0.insert(pid, process);
        }
        self.0.get_mut(&pid)
    }

    pub fn forget(&mut self, pid: u32) {
        self.0.remove(&pid);
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Process)> {
        self.0.iter().map(|(pid, process)| (*pid, process))
    }
}
