//! Memory that was allocated, from when until when, by whom: who holds it at any moment.

use ahash::RandomState;
use event::{Meaning, Memory, MemoryOp, MemorySpace};
use serde::Serialize;
use std::collections::HashMap;

/// Allocations the page knows; beyond it the smallest go, half of them at a time.
const MAX_KNOWN: usize = 20_000;
/// Allocations followed until they are freed.
const MAX_LIVE: usize = 200_000;

#[derive(Clone, Serialize)]
pub struct Allocation {
    pub from: u64,
    /// Missing if it was never freed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    pub bytes: u64,
    pub op: u64,
    pub pid: u32,
    /// The function, by its place among the names.
    pub name: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<&'static str>,
}

#[derive(Default)]
pub struct Allocations {
    live: HashMap<(u32, bool, u64), Allocation, RandomState>,
    ended: Vec<Allocation>,
    /// Allocations that are not in the list, and the bytes of the largest.
    pub left_out: u64,
    pub left_out_bytes: u64,
}

impl Allocations {
    /// Memory came or went. `of`: when, by which function, from which stack.
    pub fn add(&mut self, meaning: &Meaning, memory: &Memory, of: (u64, u32, Option<u32>)) {
        let (at, name, stack) = of;
        let host = memory.space == Some(MemorySpace::Host);
        let key = (meaning.pid, host, memory.ptr);
        match memory.op {
            MemoryOp::Alloc => {
                if self.live.len() >= MAX_LIVE {
                    self.leave_out(1, memory.size.unwrap_or(0));
                    return;
                }
                let before = self.live.insert(
                    key,
                    Allocation {
                        from: at,
                        to: None,
                        bytes: memory.size.unwrap_or(0),
                        op: meaning.op,
                        pid: meaning.pid,
                        name,
                        stack,
                        space: memory.space.map(|space| space.as_str()),
                    },
                );
                // Its free was not seen.
                if let Some(before) = before {
                    self.end(before, at);
                }
            }
            MemoryOp::Free => {
                let other = (meaning.pid, !host, memory.ptr);
                if let Some(allocation) =
                    self.live.remove(&key).or_else(|| self.live.remove(&other))
                {
                    self.end(allocation, at);
                }
            }
        }
    }

    fn end(&mut self, mut allocation: Allocation, at: u64) {
        allocation.to = Some(at);
        self.ended.push(allocation);
        if self.ended.len() >= 2 * MAX_KNOWN {
            let ended = std::mem::take(&mut self.ended);
            self.ended = self.largest(ended);
        }
    }

    fn largest(&mut self, mut list: Vec<Allocation>) -> Vec<Allocation> {
        if list.len() > MAX_KNOWN {
            list.sort_unstable_by_key(|one| (std::cmp::Reverse(one.bytes), one.op));
            let bytes = list[MAX_KNOWN].bytes;
            self.leave_out((list.len() - MAX_KNOWN) as u64, bytes);
            list.truncate(MAX_KNOWN);
        }
        list
    }

    fn leave_out(&mut self, count: u64, bytes: u64) {
        self.left_out += count;
        self.left_out_bytes = self.left_out_bytes.max(bytes);
    }

    /// All of them, or the largest, by when they were made.
    pub fn finish(&mut self) -> Vec<Allocation> {
        let mut all = std::mem::take(&mut self.ended);
        all.extend(self.live.drain().map(|(_, allocation)| allocation));
        let mut all = self.largest(all);
        all.sort_unstable_by_key(|one| (one.from, one.op));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Event, Layer, What};

    fn change(list: &mut Allocations, op: MemoryOp, ptr: u64, size: u64, at: u64) {
        let call = Event::new(at, Layer::Driver, Category::Memory, "f", at);
        let memory = Memory {
            op,
            size: Some(size),
            ptr,
            space: Some(MemorySpace::Device),
        };
        let meaning = Meaning::of(&call, What::Memory(memory.clone()));
        list.add(&meaning, &memory, (at, 1, None));
    }

    #[test]
    fn memory_is_held_from_its_allocation_to_its_free() {
        let mut list = Allocations::default();
        change(&mut list, MemoryOp::Alloc, 16, 100, 1);
        change(&mut list, MemoryOp::Alloc, 32, 200, 2);
        change(&mut list, MemoryOp::Free, 16, 100, 5);
        let told: Vec<_> = (list.finish().iter())
            .map(|one| (one.from, one.to, one.bytes))
            .collect();
        assert_eq!(told, [(1, Some(5), 100), (2, None, 200)]);
    }

    #[test]
    fn of_many_the_largest_stay() {
        let mut list = Allocations::default();
        for i in 0..100_000u64 {
            change(&mut list, MemoryOp::Alloc, 16, i, 2 * i);
            change(&mut list, MemoryOp::Free, 16, i, 2 * i + 1);
        }
        let all = list.finish();
        assert_eq!(all.len(), MAX_KNOWN);
        assert!(all.iter().all(|one| one.bytes >= 80_000));
        assert_eq!(list.left_out, 80_000);
    }
}
