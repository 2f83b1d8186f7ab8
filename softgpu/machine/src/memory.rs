//! Device-visible memory: which address ranges kernels may touch.
//!
//! A device pointer is a host pointer of this process, so copies and kernels need no translation.
//! Every allocation (device, pinned, managed, registered) is a region here; an access outside all
//! regions is a fault. Shared, local, constant and parameter windows of the generic address space
//! live at non-canonical addresses that no host mapping can have.

use std::sync::{
    Arc, RwLock,
    atomic::{AtomicU64, Ordering},
};

/// Start of the shared window; `cvta.shared` adds it to a shared offset.
pub const SHARED_WINDOW: u64 = 0x0100_0000_0000_0000;
/// Start of the local window.
pub const LOCAL_WINDOW: u64 = 0x0200_0000_0000_0000;
/// Start of the kernel-parameter window.
pub const PARAM_WINDOW: u64 = 0x0300_0000_0000_0000;
/// Each window is this long.
pub const WINDOW_SIZE: u64 = 1 << 40;

/// A chunk is split when it grows beyond this: a change then copies a few kilobytes, not all.
const CHUNK: usize = 256;

/// The live regions at one moment, sorted by start, disjoint.
///
/// Held in shared chunks, so that a snapshot is cheap and a change beside a snapshot copies one
/// chunk only.
#[derive(Debug, Default, Clone)]
pub struct Regions {
    /// First start of each chunk; chunks are never empty.
    starts: Vec<u64>,
    chunks: Vec<Arc<Vec<(u64, u64)>>>,
}

impl Regions {
    /// The region (start, end) that holds `address`.
    pub fn find(&self, address: u64) -> Option<(u64, u64)> {
        let chunk = &self.chunks[self.chunk_of(address)?];
        let after = chunk.partition_point(|&(start, _)| start <= address);
        let region = chunk[..after].last().copied()?;
        (address < region.1).then_some(region)
    }

    /// The last chunk that begins at or before `address`.
    fn chunk_of(&self, address: u64) -> Option<usize> {
        self.starts
            .partition_point(|&start| start <= address)
            .checked_sub(1)
    }

    fn insert(&mut self, start: u64, end: u64) {
        if self.chunks.is_empty() {
            self.starts.push(start);
            self.chunks.push(Arc::new(vec![(start, end)]));
            return;
        }
        let at = self.chunk_of(start).unwrap_or(0);
        let chunk = Arc::make_mut(&mut self.chunks[at]);
        let place = chunk.partition_point(|&(s, _)| s < start);
        chunk.insert(place, (start, end));
        self.starts[at] = chunk[0].0;
        if chunk.len() > CHUNK {
            let upper = chunk.split_off(CHUNK / 2);
            self.starts.insert(at + 1, upper[0].0);
            self.chunks.insert(at + 1, Arc::new(upper));
        }
    }

    fn remove(&mut self, start: u64) -> bool {
        let Some(at) = self.chunk_of(start) else {
            return false;
        };
        let Ok(place) = self.chunks[at].binary_search_by_key(&start, |&(s, _)| s) else {
            return false;
        };
        let chunk = Arc::make_mut(&mut self.chunks[at]);
        chunk.remove(place);
        match chunk.first() {
            Some(first) => self.starts[at] = first.0,
            None => {
                self.chunks.remove(at);
                self.starts.remove(at);
            }
        }
        true
    }
}

/// The regions, shared by the API threads that change them and the workers that read them.
#[derive(Debug, Default)]
pub struct Memory {
    regions: RwLock<Arc<Regions>>,
    generation: AtomicU64,
}

impl Memory {
    /// A snapshot; workers keep one and fetch again when [`Self::generation`] moved and a look-up missed.
    pub fn regions(&self) -> Arc<Regions> {
        self.regions
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .clone()
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Makes [start, start + len) accessible to kernels.
    pub fn add(&self, start: u64, len: u64) {
        self.change(|regions| regions.insert(start, start.saturating_add(len)));
    }

    /// Takes the region that starts at `start` away; false if there is none.
    pub fn remove(&self, start: u64) -> bool {
        self.change(|regions| regions.remove(start))
    }

    fn change<T>(&self, edit: impl FnOnce(&mut Regions) -> T) -> T {
        let mut current = self
            .regions
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let result = edit(Arc::make_mut(&mut current));
        self.generation.fetch_add(1, Ordering::Release);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_exactly_the_live_regions_among_many() {
        let memory = Memory::default();
        // Insert in a scattered order, so that chunks split in the middle too.
        let count = 20_000u64;
        for i in 0..count {
            let slot = (i * 7919) % count;
            memory.add(slot * 1024, 100);
        }
        for slot in (0..count).step_by(3) {
            assert!(memory.remove(slot * 1024));
            assert!(!memory.remove(slot * 1024));
        }
        let regions = memory.regions();
        for slot in 0..count {
            let start = slot * 1024;
            let expected = (slot % 3 != 0).then_some((start, start + 100));
            assert_eq!(regions.find(start), expected);
            assert_eq!(regions.find(start + 99), expected);
            assert_eq!(regions.find(start + 100), None);
        }
    }

    #[test]
    fn a_snapshot_does_not_change() {
        let memory = Memory::default();
        memory.add(4096, 64);
        let before = memory.regions();
        let generation = memory.generation();
        assert!(memory.remove(4096));
        memory.add(8192, 64);
        assert_eq!(before.find(4100), Some((4096, 4160)));
        assert_eq!(before.find(8192), None);
        assert_eq!(memory.regions().find(4100), None);
        assert_ne!(memory.generation(), generation);
    }

    #[test]
    fn emptied_and_refilled() {
        let memory = Memory::default();
        for start in [4096, 8192, 12288] {
            memory.add(start, 16);
        }
        for start in [8192, 4096, 12288] {
            assert!(memory.remove(start));
        }
        assert_eq!(memory.regions().find(4096), None);
        memory.add(4096, 16);
        assert_eq!(memory.regions().find(4111), Some((4096, 4112)));
    }
}
