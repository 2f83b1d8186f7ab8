//! The queue that the driver fills: its size, and taking entries out of it.

use super::entry::Layout;
use std::fs;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Entries of a queue, powers of two: the most, 75 MB; and the fewest, 4.7 MB, which 60,000 faults fill.
const MOST_ENTRIES: u32 = 1 << 20;
const LEAST_ENTRIES: u32 = 1 << 16;
/// Of the memory that is available, all queues together may take this part: it cannot be swapped.
const PART: u64 = 64;

/// get_ahead, get_behind, put_ahead, put_behind, and a count of dropped entries by kind.
const CONTROL_BYTES: usize = 16 + 64 * 8;

/// How many entries the next queue has, where so many bytes of memory are available and there are so many
/// queues already.
pub fn entries(available: u64, queues: usize) -> u32 {
    let bytes = available / PART / (queues as u64 + 1);
    let count = bytes / Layout::Second.bytes() as u64;
    let mut entries = MOST_ENTRIES;
    while u64::from(entries) > count && entries > LEAST_ENTRIES {
        entries /= 2;
    }
    entries
}

/// Sizes to try one after the other.
pub fn smaller(entries: u32) -> impl Iterator<Item = u32> {
    let next = |entries: &u32| (*entries > LEAST_ENTRIES).then_some(*entries / 4);
    std::iter::successors(Some(entries), next).map(|entries| entries.max(LEAST_ENTRIES))
}

/// Memory that programs can still have, in bytes; 0 if that is not known.
pub fn available_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB"));
    let kilobytes = kilobytes.and_then(|number| number.trim().parse::<u64>().ok());
    kilobytes.map_or(0, |number| number.saturating_mul(1024))
}

/// Memory that the driver writes to while we read.
struct Shared {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory of this process: entries are copied by one thread, the rest are atomics.
unsafe impl Send for Shared {}
unsafe impl Sync for Shared {}

impl Shared {
    fn new(bytes: usize) -> io::Result<Shared> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: a fresh mapping.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Shared { at, bytes })
    }

    fn word(&self, place: usize) -> &AtomicU32 {
        assert!(place + 4 <= self.bytes);
        // SAFETY: inside, aligned, and an atomic may be shared with the kernel.
        unsafe { AtomicU32::from_ptr(self.at.as_ptr().add(place).cast()) }
    }

    fn long(&self, place: usize) -> &AtomicU64 {
        assert!(place + 8 <= self.bytes);
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.at.as_ptr().add(place).cast()) }
    }

    fn copy(&self, place: usize, to: &mut [u8]) {
        assert!(place + to.len() <= self.bytes);
        // SAFETY: inside; the driver does not write to entries that it has published.
        unsafe {
            std::ptr::copy_nonoverlapping(self.at.as_ptr().add(place), to.as_mut_ptr(), to.len());
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it; the driver holds its pages itself while it needs them.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// One process's queue. One thread takes from it.
pub struct Queue {
    pub layout: Layout,
    pub entries: u32,
    memory: Shared,
    control: Shared,
}

impl Queue {
    pub fn new(layout: Layout, entries: u32) -> io::Result<Queue> {
        Ok(Queue {
            layout,
            entries,
            memory: Shared::new(entries as usize * layout.bytes())?,
            control: Shared::new(CONTROL_BYTES)?,
        })
    }

    pub fn address(&self) -> u64 {
        self.memory.at.as_ptr() as u64
    }

    pub fn control_address(&self) -> u64 {
        self.control.at.as_ptr() as u64
    }

    /// Appends what is in the queue, so many entries at most; how many there were.
    pub fn drain(&self, bytes: &mut Vec<u8>, most: usize) -> usize {
        let mask = self.entries - 1;
        let (ahead, behind) = (self.control.word(0), self.control.word(4));
        let mut get = behind.load(Ordering::Relaxed) & mask;
        let put = self.control.word(12).load(Ordering::Acquire) & mask;
        let size = self.layout.bytes();
        let mut taken = 0;
        while get != put && taken < most {
            let to = bytes.len();
            bytes.resize(to + size, 0);
            self.memory.copy(get as usize * size, &mut bytes[to..]);
            get = (get + 1) & mask;
            taken += 1;
        }
        ahead.store(get, Ordering::Release);
        behind.store(get, Ordering::Release);
        taken
    }

    /// Entries that found the queue full, so far.
    pub fn dropped(&self) -> u64 {
        let all = (0..64).map(|kind| self.control.long(16 + kind * 8).load(Ordering::Relaxed));
        all.fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
impl Queue {
    pub fn is_empty(&self) -> bool {
        let word = |place| self.control.word(place).load(Ordering::Acquire);
        word(4) == word(12)
    }

    /// What the driver does: an entry of this kind, or one more that is dropped.
    pub fn put(&self, kind: u8) {
        let mask = self.entries - 1;
        let put = self.control.word(12).load(Ordering::Relaxed);
        let get = self.control.word(4).load(Ordering::Acquire);
        if (put + 1) & mask == get & mask {
            let dropped = self.control.long(16 + usize::from(kind) * 8);
            dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let place = (put & mask) as usize * self.layout.bytes();
        assert!(place < self.memory.bytes);
        // SAFETY: inside.
        unsafe { self.memory.at.as_ptr().add(place).write(kind) };
        self.control
            .word(12)
            .store((put + 1) & mask, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_as_large_as_memory_allows() {
        const GIB: u64 = 1 << 30;
        // Machines with a GPU: all they can use; ten processes share.
        assert_eq!(entries(128 * GIB, 0), MOST_ENTRIES);
        assert_eq!(entries(128 * GIB, 9), MOST_ENTRIES);
        assert_eq!(entries(8 * GIB, 0), MOST_ENTRIES);
        assert_eq!(entries(8 * GIB, 3), MOST_ENTRIES / 4);
        // And those with little memory.
        assert_eq!(entries(GIB, 0), 1 << 17);
        assert_eq!(
            (entries(0, 0), entries(GIB, 100)),
            (LEAST_ENTRIES, LEAST_ENTRIES)
        );
        for available in (0..64).map(|bit| 1u64 << bit) {
            for queues in [0, 1, 7, 4096] {
                let entries = entries(available, queues);
                assert!(entries.is_power_of_two());
                assert!((LEAST_ENTRIES..=MOST_ENTRIES).contains(&entries));
            }
        }
        assert!(available_memory() > 1 << 20);
    }

    #[test]
    fn a_driver_without_room_is_asked_for_less() {
        let sizes: Vec<u32> = smaller(MOST_ENTRIES).collect();
        assert_eq!(sizes, [1 << 20, 1 << 18, 1 << 16]);
        assert_eq!(smaller(LEAST_ENTRIES).collect::<Vec<_>>(), [LEAST_ENTRIES]);
        assert_eq!(
            smaller(1 << 17).collect::<Vec<_>>(),
            [1 << 17, LEAST_ENTRIES]
        );
    }

    #[test]
    fn entries_come_out_in_order_and_those_without_room_are_counted() {
        let queue = Queue::new(Layout::Second, 8).expect("memory");
        let mut bytes = Vec::new();
        for round in 0..5 {
            for kind in 1..=10 {
                queue.put(kind);
            }
            // One place stays free.
            bytes.clear();
            assert_eq!(queue.drain(&mut bytes, 3), 3);
            assert_eq!(queue.drain(&mut bytes, 100), 4);
            let kinds: Vec<u8> = bytes.chunks(72).map(|entry| entry[0]).collect();
            assert_eq!(kinds, [1, 2, 3, 4, 5, 6, 7]);
            assert_eq!(queue.dropped(), 3 * (round + 1));
        }
        assert_eq!(queue.drain(&mut bytes, 100), 0);
    }
}
