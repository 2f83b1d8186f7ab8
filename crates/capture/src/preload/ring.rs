//! A ring in memory. What is in it was written by another process and is believed in
//! nothing: every number is checked before it is used, every word is read by an atomic load.

use event::ring::{
    CallSlot, GATES, PayloadSlot, RING_HEADER_SIZE, RING_MAGIC, RingHeader, SLOT_BYTES as SLOT,
};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

const WORDS: usize = SLOT / 8;

/// Shared memory that another process writes to: read and written by atomic operations only.
#[derive(Debug)]
pub struct Mapping {
    memory: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value and is only read and written by atomic operations.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub fn new(file: &File, length: usize) -> io::Result<Self> {
        // SAFETY: a new shared mapping of a file we hold; the result is checked.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Mapping { memory, length })
    }

    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.length);
        // SAFETY: inside the mapping, aligned, and shared memory is only touched by atomics.
        unsafe { self.memory.add(offset).cast().as_ref() }
    }

    pub fn half(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.length);
        // SAFETY: as above.
        unsafe { self.memory.add(offset).cast().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.length) };
    }
}

/// One thread's ring in its process's file.
#[derive(Debug, Clone)]
pub struct Ring {
    mapping: Arc<Mapping>,
    /// Where it begins.
    base: usize,
    length: usize,
    capacity: u64,
    pub pid: u32,
    pub tid: u32,
    /// The PID namespace of these numbers; 0: unknown.
    pub namespace: u64,
}

/// A slot's words, copied.
pub type SlotWords = [u64; WORDS];

impl Ring {
    /// The ring at `base`, of `most` slots at most. None: no producer writes such a one.
    pub fn at(mapping: &Arc<Mapping>, base: usize, most: u32) -> Option<Self> {
        let mut ring = Ring {
            mapping: mapping.clone(),
            base,
            length: RING_HEADER_SIZE,
            capacity: 0,
            pid: 0,
            tid: 0,
            namespace: 0,
        };
        let magic = ring.word(offset_of!(RingHeader, magic));
        if magic.load(Ordering::Acquire) != RING_MAGIC {
            return None;
        }
        let half = |offset| ring.half(offset).load(Ordering::Relaxed);
        let capacity = half(offset_of!(RingHeader, capacity));
        if !capacity.is_power_of_two() || capacity > most {
            return None;
        }
        let (pid, tid) = (
            half(offset_of!(RingHeader, pid)),
            half(offset_of!(RingHeader, tid)),
        );
        let namespace = ring.word(offset_of!(RingHeader, namespace));
        ring.namespace = namespace.load(Ordering::Relaxed);
        (ring.pid, ring.tid) = (pid, tid);
        ring.capacity = capacity.into();
        ring.length = RING_HEADER_SIZE + capacity as usize * SLOT;
        Some(ring)
    }

    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    pub fn head(&self) -> u64 {
        self.word(offset_of!(RingHeader, head))
            .load(Ordering::Acquire)
    }

    pub fn dropped(&self) -> u64 {
        self.word(offset_of!(RingHeader, dropped))
            .load(Ordering::Relaxed)
    }

    /// Calls of a class that were let by and counted.
    pub fn shed(&self, class: u8) -> u64 {
        let class = usize::from(class).min(GATES - 1);
        self.word(offset_of!(RingHeader, shed) + 8 * class)
            .load(Ordering::Relaxed)
    }

    /// Ticks that its thread has spent beside recording calls.
    pub fn spent(&self) -> u64 {
        self.word(offset_of!(RingHeader, spent))
            .load(Ordering::Relaxed)
    }

    /// Everything before this sequence number may be overwritten.
    pub fn release(&self, tail: u64) {
        self.word(offset_of!(RingHeader, tail))
            .store(tail, Ordering::Release);
    }

    /// The slot of that sequence number, if its commit word says that it is filled. If its exit is
    /// not 0, all else in it is what the call left.
    #[inline]
    pub fn committed(&self, sequence: u64) -> Option<SlotWords> {
        const EXIT: usize = offset_of!(CallSlot, exit) / 8;
        // The upper half of its word.
        const COMMIT: usize = offset_of!(CallSlot, commit) / 8;
        let words = self.slot_words(sequence);
        let commit = (words[COMMIT].load(Ordering::Acquire) >> 32) as u32;
        if commit != (sequence as u32).wrapping_add(1) {
            return None;
        }
        let exit = words[EXIT].load(Ordering::Acquire);
        Some(std::array::from_fn(|word| match word {
            EXIT => exit,
            _ => words[word].load(Ordering::Relaxed),
        }))
    }

    fn slot_words(&self, sequence: u64) -> &[AtomicU64; WORDS] {
        let offset = self.slot(sequence);
        assert!(offset + SLOT <= self.length && self.base + self.length <= self.mapping.length);
        // SAFETY: inside the mapping, aligned, and shared memory is only touched by atomics.
        unsafe { self.mapping.memory.add(self.base + offset).cast().as_ref() }
    }

    /// The exit time of a call: 0 while it is open. What it has left in its slots is there to be
    /// read once this is not 0.
    pub fn exit(&self, sequence: u64) -> u64 {
        self.word(self.slot(sequence) + offset_of!(CallSlot, exit))
            .load(Ordering::Acquire)
    }

    /// The low half of what the call returned.
    pub fn result(&self, sequence: u64) -> u32 {
        self.half(self.slot(sequence) + offset_of!(CallSlot, result))
            .load(Ordering::Relaxed)
    }

    /// Appends some of the words of a call's own slot.
    pub fn words(&self, sequence: u64, which: Range<usize>, bytes: &mut Vec<u8>) {
        let base = self.slot(sequence) + offset_of!(CallSlot, args);
        for number in which {
            let word = self.word(base + 8 * number).load(Ordering::Relaxed);
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Appends the payload of a call's following slots.
    pub fn payload(&self, sequence: u64, slots: u8, bytes: &mut Vec<u8>) {
        for number in 1..=u64::from(slots) {
            let base = self.slot(sequence.wrapping_add(number));
            let mut slot = [0; SLOT];
            for (word, eight) in slot.chunks_exact_mut(8).enumerate() {
                eight.copy_from_slice(
                    &self
                        .word(base + 8 * word)
                        .load(Ordering::Relaxed)
                        .to_le_bytes(),
                );
            }
            for part in PayloadSlot::payload(&slot) {
                bytes.extend_from_slice(part);
            }
        }
        fence(Ordering::Acquire);
    }

    fn slot(&self, sequence: u64) -> usize {
        RING_HEADER_SIZE + (sequence & (self.capacity - 1)) as usize * SLOT
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= self.length);
        self.mapping.word(self.base + offset)
    }

    fn half(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= self.length);
        self.mapping.half(self.base + offset)
    }
}
