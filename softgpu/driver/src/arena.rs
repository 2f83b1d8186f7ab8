//! The device's memory: one reserved address range, handed out in blocks.
//!
//! Pages cost nothing until they are touched. Blocks start at multiples of 512 and are followed by
//! a gap that belongs to nobody, so that running over the end of one allocation is a fault instead
//! of damage to its neighbour.

use std::collections::{BTreeMap, BTreeSet, HashMap};

const GRANULE: u64 = 512;
const GAP: u64 = 512;
const PAGE: u64 = 4096;
/// Giving small blocks back to the kernel costs more than it saves.
const RETURN_PAGES_FROM: u64 = 64 * 1024;

pub struct Arena {
    base: u64,
    size: u64,
    free: BTreeMap<u64, u64>,
    /// The free blocks again, as (length, start): best fit is the first that is long enough.
    by_length: BTreeSet<(u64, u64)>,
    blocks: HashMap<u64, u64>,
    used: u64,
}

impl Arena {
    /// Reserves `size` bytes of address space; None where the process may not have so much.
    pub fn reserve(size: u64) -> Option<Self> {
        let size = size.checked_next_multiple_of(PAGE)?;
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                usize::try_from(size).ok()?,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return None;
        }
        // A core dump of the host program should not hold gigabytes of device memory.
        unsafe { libc::madvise(base, size as usize, libc::MADV_DONTDUMP) };
        Some(Self::over(base as u64, size))
    }

    fn over(base: u64, size: u64) -> Self {
        Self {
            base,
            size,
            free: BTreeMap::from([(base, size)]),
            by_length: BTreeSet::from([(size, base)]),
            blocks: HashMap::new(),
            used: 0,
        }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn contains(&self, address: u64) -> bool {
        (self.base..self.base + self.size).contains(&address)
    }

    pub fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let length = bytes
            .checked_next_multiple_of(GRANULE)?
            .checked_add(GAP)?
            .max(GRANULE + GAP);
        let &(found, start) = self.by_length.range((length, 0)..).next()?;
        self.by_length.remove(&(found, start));
        self.free.remove(&start);
        if found > length {
            self.free.insert(start + length, found - length);
            self.by_length.insert((found - length, start + length));
        }
        self.blocks.insert(start, length);
        self.used += length;
        Some(start)
    }

    /// Gives a block back; false if no block starts there.
    pub fn release(&mut self, start: u64) -> bool {
        let Some(length) = self.blocks.remove(&start) else {
            return false;
        };
        self.used -= length;
        let (mut low, mut high) = (start, start + length);
        if let Some((&before, &size)) = self.free.range(..start).next_back()
            && before + size == start
        {
            self.free.remove(&before);
            self.by_length.remove(&(size, before));
            low = before;
        }
        if let Some(&size) = self.free.get(&high) {
            self.free.remove(&high);
            self.by_length.remove(&(size, high));
            high += size;
        }
        self.free.insert(low, high - low);
        self.by_length.insert((high - low, low));
        if length >= RETURN_PAGES_FROM {
            let from = start.next_multiple_of(PAGE);
            let to = (start + length) & !(PAGE - 1);
            unsafe {
                libc::madvise(from as *mut _, (to - from) as usize, libc::MADV_DONTNEED);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Never touches memory: only blocks below the size whose pages are returned are released.
    fn arena() -> Arena {
        Arena::over(1 << 40, 1 << 20)
    }

    #[test]
    fn blocks_are_aligned_and_apart() {
        let mut arena = arena();
        let mut last_end = 0;
        for bytes in [1, 511, 512, 513, 4096] {
            let start = arena.allocate(bytes).unwrap();
            assert_eq!(start % 512, 0);
            assert!(start >= last_end + GAP || last_end == 0);
            last_end = start + bytes;
        }
    }

    #[test]
    fn all_that_was_released_is_one_block_again() {
        let mut arena = arena();
        let blocks: Vec<u64> = (0..100).map(|i| arena.allocate(i * 37).unwrap()).collect();
        for i in (0..100).step_by(2).chain((1..100).step_by(2)) {
            assert!(arena.release(blocks[i]));
            assert!(!arena.release(blocks[i]));
        }
        assert_eq!(arena.used(), 0);
        assert_eq!(arena.free.len(), 1);
        assert_eq!(arena.by_length.len(), 1);
    }

    #[test]
    fn exhaustion_and_absurd_sizes_are_refused() {
        let mut arena = arena();
        assert_eq!(arena.allocate(1 << 20), None);
        assert_eq!(arena.allocate(u64::MAX), None);
        assert_eq!(arena.allocate(u64::MAX - 600), None);
        assert!(arena.allocate((1 << 20) - GAP).is_some());
        assert_eq!(arena.allocate(1), None);
    }
}
