//! A ring's file in memory. What lies in it was written by another process and is believed in
//! nothing: every number is checked before it is used, every word is read by an atomic load.

use event::ring::{CallSlot, RING_HEADER_SIZE, RING_MAGIC, RingHeader};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// More slots than any session asks for; bounds what a damaged header makes us map.
const MOST_SLOTS: u32 = 1 << 22;
const SLOT: usize = 64;
const WORDS: usize = SLOT / 8;

#[derive(Debug)]
pub struct Ring {
    memory: NonNull<u8>,
    length: usize,
    file: File,
    capacity: u64,
    pub pid: u32,
    pub tid: u32,
}

// SAFETY: the mapping belongs to this value and is only read and written by atomic operations.
unsafe impl Send for Ring {}

/// A slot's words, copied.
pub type SlotWords = [u64; WORDS];

impl Ring {
    /// None while the file is not (or not yet) a whole ring.
    pub fn open(path: &Path) -> Option<Self> {
        let file = super::folder::open_left(path, true).ok()?;
        let length = usize::try_from(file.metadata().ok()?.len()).ok()?;
        if length < RING_HEADER_SIZE + SLOT
            || length > RING_HEADER_SIZE + MOST_SLOTS as usize * SLOT
        {
            return None;
        }
        // SAFETY: a new shared mapping of a file we hold; the result is checked.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return None;
        }
        let mut ring = Ring {
            memory: NonNull::new(memory.cast())?,
            length,
            file,
            capacity: 0,
            pid: 0,
            tid: 0,
        };
        if ring
            .word(offset_of!(RingHeader, magic))
            .load(Ordering::Acquire)
            != RING_MAGIC
        {
            return None;
        }
        let capacity = ring
            .half(offset_of!(RingHeader, capacity))
            .load(Ordering::Relaxed);
        if !capacity.is_power_of_two()
            || capacity > MOST_SLOTS
            || length < RING_HEADER_SIZE + capacity as usize * SLOT
        {
            return None;
        }
        ring.capacity = capacity.into();
        ring.pid = ring
            .half(offset_of!(RingHeader, pid))
            .load(Ordering::Relaxed);
        ring.tid = ring
            .half(offset_of!(RingHeader, tid))
            .load(Ordering::Relaxed);
        Some(ring)
    }

    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The file still has the length that was mapped: touching pages past its end would kill us.
    pub fn is_whole(&self) -> bool {
        (self.file.metadata()).is_ok_and(|found| found.len() >= self.length as u64)
    }

    /// Whether a process still has the ring mapped: one that was killed, or replaced itself, does
    /// not close it. The kernel grants a write lease only on a file that nobody else has open.
    /// None where the file system knows no leases.
    pub fn has_producer(&self) -> Option<bool> {
        let lease = |kind: libc::c_int| {
            // SAFETY: a plain system call on a descriptor we hold.
            match unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETLEASE, kind) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        match lease(libc::F_WRLCK) {
            Ok(()) => lease(libc::F_UNLCK).ok().map(|()| false),
            Err(why) => (why.kind() == io::ErrorKind::WouldBlock).then_some(true),
        }
    }

    pub fn head(&self) -> u64 {
        self.word(offset_of!(RingHeader, head))
            .load(Ordering::Acquire)
    }

    pub fn dropped(&self) -> u64 {
        self.word(offset_of!(RingHeader, dropped))
            .load(Ordering::Relaxed)
    }

    pub fn is_closed(&self) -> bool {
        self.half(offset_of!(RingHeader, closed))
            .load(Ordering::Acquire)
            != 0
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
        assert!(offset + SLOT <= self.length);
        // SAFETY: inside the mapping, aligned, and shared memory is only touched by atomics.
        unsafe { self.memory.add(offset).cast().as_ref() }
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
            bytes.extend_from_slice(&slot[..28]);
            bytes.extend_from_slice(&slot[32..]);
        }
        fence(Ordering::Acquire);
    }

    fn slot(&self, sequence: u64) -> usize {
        RING_HEADER_SIZE + (sequence & (self.capacity - 1)) as usize * SLOT
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.length);
        // SAFETY: inside the mapping, aligned, and shared memory is only touched by atomics.
        unsafe { self.memory.add(offset).cast().as_ref() }
    }

    fn half(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.length);
        // SAFETY: as above.
        unsafe { self.memory.add(offset).cast().as_ref() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no reference into it outlives self.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.length) };
    }
}
