//! Memory whose bytes and addresses come and go apart (`cuMemCreate`, `cuMemMap`): it lives while
//! a handle or a mapping of it does.

use super::Allocation;
use std::collections::{BTreeMap, HashMap};

const MOST_HANDLES: usize = 1 << 20;
const MOST_MAPPINGS: usize = 1 << 22;

#[derive(Debug, Default)]
pub struct PhysicalMemory {
    /// By handle. A handle may be given out again while memory that it named is still mapped.
    handles: HashMap<u64, usize>,
    /// By address.
    mappings: BTreeMap<u64, Mapping>,
    memory: HashMap<usize, Memory>,
    next: usize,
}

#[derive(Debug)]
struct Memory {
    handle: u64,
    /// None: another process made it.
    allocation: Option<Allocation>,
    /// Times it was created, imported or retained, less the times it was released.
    references: u64,
    mappings: u64,
}

#[derive(Debug)]
struct Mapping {
    size: u64,
    memory: usize,
}

impl PhysicalMemory {
    pub fn create(&mut self, handle: u64, allocation: Option<Allocation>) {
        if self.memory.len() >= MOST_HANDLES {
            return;
        }
        self.next += 1;
        self.handles.insert(handle, self.next);
        self.memory.insert(
            self.next,
            Memory {
                handle,
                allocation,
                references: 1,
                mappings: 0,
            },
        );
    }

    /// A handle of what is mapped at an address.
    pub fn retain(&mut self, handle: u64, address: u64) {
        let Some(place) = self.at(address).map(|mapping| mapping.memory) else {
            return;
        };
        if let Some(memory) = self.memory.get_mut(&place) {
            memory.references += 1;
            self.handles.insert(handle, place);
        }
    }

    /// What is gone with the handle, if anything is.
    pub fn release(&mut self, handle: u64) -> Option<(u64, Allocation)> {
        let place = *self.handles.get(&handle)?;
        let memory = self.memory.get_mut(&place)?;
        memory.references = memory.references.saturating_sub(1);
        if memory.references == 0 {
            self.handles.remove(&handle);
        }
        self.gone(place)
    }

    pub fn map(&mut self, handle: u64, address: u64, size: u64) {
        let Some(place) = self.handles.get(&handle).copied() else {
            return;
        };
        if self.mappings.len() >= MOST_MAPPINGS {
            return;
        }
        if let Some(memory) = self.memory.get_mut(&place) {
            memory.mappings += 1;
            let mapping = Mapping {
                size,
                memory: place,
            };
            self.mappings.insert(address, mapping);
        }
    }

    /// What is gone with the mappings of a range.
    pub fn unmap(&mut self, address: u64, size: u64) -> Vec<(u64, Allocation)> {
        let end = address.saturating_add(size);
        let inside: Vec<u64> = self
            .mappings
            .range(address..end)
            .map(|one| *one.0)
            .collect();
        let mut freed = Vec::new();
        for start in inside {
            let Some(mapping) = self.mappings.remove(&start) else {
                continue;
            };
            if let Some(memory) = self.memory.get_mut(&mapping.memory) {
                memory.mappings = memory.mappings.saturating_sub(1);
            }
            freed.extend(self.gone(mapping.memory));
        }
        freed
    }

    /// Where an address is.
    pub fn space_of(&self, address: u64) -> Option<event::MemorySpace> {
        let memory = self.memory.get(&self.at(address)?.memory)?;
        Some(
            memory
                .allocation
                .map_or(event::MemorySpace::Device, |allocation| allocation.space),
        )
    }

    fn at(&self, address: u64) -> Option<&Mapping> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (address - start < mapping.size).then_some(mapping)
    }

    fn gone(&mut self, place: usize) -> Option<(u64, Allocation)> {
        let memory = self.memory.get(&place)?;
        if memory.references > 0 || memory.mappings > 0 {
            return None;
        }
        let memory = self.memory.remove(&place)?;
        Some((memory.handle, memory.allocation?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::MemorySpace;

    const SIZE: u64 = 2 << 20;
    const MADE: Allocation = Allocation {
        size: Some(SIZE),
        space: MemorySpace::Device,
    };

    #[test]
    fn memory_lives_as_long_as_a_handle_or_a_mapping() {
        let mut memory = PhysicalMemory::default();
        memory.create(1, Some(MADE));
        memory.map(1, 0x7000_0000, SIZE);
        assert_eq!(memory.release(1), None, "still mapped");
        assert_eq!(memory.space_of(0x7000_0000 + SIZE - 1), Some(MADE.space));
        assert_eq!(memory.unmap(0x7000_0000, SIZE), [(1, MADE)]);
        assert_eq!(memory.space_of(0x7000_0000), None);

        // The handle's number is used again while the old memory is mapped.
        memory.create(2, Some(MADE));
        memory.map(2, 0x1000_0000, SIZE);
        assert_eq!(memory.release(2), None);
        memory.create(2, Some(MADE));
        assert_eq!(memory.unmap(0, u64::MAX), [(2, MADE)]);
        assert_eq!(memory.release(2), Some((2, MADE)));
        assert_eq!(memory.release(2), None);
    }

    #[test]
    fn one_unmap_can_free_many_and_retained_ones_stay() {
        let mut memory = PhysicalMemory::default();
        for handle in 1..=3 {
            memory.create(handle, Some(MADE));
            memory.map(handle, handle * SIZE, SIZE);
            memory.release(handle);
        }
        memory.retain(9, 2 * SIZE + 5);
        let freed: Vec<u64> = memory
            .unmap(SIZE, 3 * SIZE)
            .iter()
            .map(|one| one.0)
            .collect();
        assert_eq!(freed, [1, 3]);
        assert_eq!(memory.release(9), Some((2, MADE)));
        memory.create(4, None);
        assert_eq!(memory.release(4), None, "memory of another process");
    }
}
