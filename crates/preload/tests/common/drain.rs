//! The consumer's side of the rings.

use event::note::Note;
use event::ring::{
    CallSlot, FLAG_NOTE, FLAG_PAYLOADS, PAYLOAD_BYTES, RING_HEADER_SIZE, RING_MAGIC, RingHeader,
    payload_within,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Calls kept whole; all are counted.
const KEPT: usize = 100_000;
/// Calls between two moves of the tail.
const PORTION: usize = 256;

#[derive(Clone, Debug)]
pub struct Call {
    pub pid: u32,
    pub tid: u32,
    pub function: u16,
    pub enter: u64,
    /// 0: never returned.
    pub exit: u64,
    pub result: u32,
    pub args: [u64; 4],
    pub payload: Vec<u8>,
}

struct Ring {
    at: usize,
    capacity: u64,
    pid: u32,
    tid: u32,
    /// Calls by function.
    counts: Vec<u64>,
    /// The next to look at.
    next: u64,
    /// Looked at, but not closed: (sequence, slots, stack pointer).
    open: VecDeque<(u64, u64, u32)>,
}

/// What has been taken out of a session's rings.
pub struct Drained {
    folder: PathBuf,
    known: HashSet<OsString>,
    rings: Vec<Ring>,
    pub calls: Vec<Call>,
    /// Calls that a later one shows to have been left by an exception or a jump.
    pub unwound: u64,
    /// Notes of the stacks that calls come from.
    pub stacks: u64,
}

impl Drained {
    pub fn new(folder: &Path) -> Drained {
        Drained {
            folder: folder.to_owned(),
            known: HashSet::new(),
            rings: Vec::new(),
            calls: Vec::new(),
            unwound: 0,
            stacks: 0,
        }
    }

    fn find(&mut self) {
        for entry in fs::read_dir(&self.folder).unwrap().flatten() {
            let name = entry.file_name();
            let is_ring = name.to_string_lossy().starts_with("ring.");
            if is_ring
                && !self.known.contains(&name)
                && let Some(ring) = Ring::map(&entry.path())
            {
                self.known.insert(name);
                self.rings.push(ring);
            }
        }
    }

    /// Takes what is there now.
    pub fn take(&mut self) {
        self.find();
        for index in 0..self.rings.len() {
            // Room is given back in small portions, so that the producer need not wait.
            loop {
                let more = (0..PORTION).all(|_| self.step(index));
                let ring = &mut self.rings[index];
                let tail = ring.open.front().map_or(ring.next, |oldest| oldest.0);
                ring.header().tail.store(tail, Ordering::Release);
                if !more {
                    break;
                }
            }
        }
    }

    pub fn total(&self) -> u64 {
        self.rings.iter().flat_map(|ring| &ring.counts).sum()
    }

    /// Calls by process and function.
    pub fn counts(&self) -> HashMap<(u32, u16), u64> {
        let mut counts = HashMap::new();
        for ring in &self.rings {
            for (function, count) in ring
                .counts
                .iter()
                .enumerate()
                .filter(|(_, count)| **count > 0)
            {
                *counts.entry((ring.pid, function as u16)).or_default() += count;
            }
        }
        counts
    }

    pub fn dropped(&self) -> u64 {
        self.rings
            .iter()
            .map(|ring| ring.header().dropped.load(Ordering::Relaxed))
            .sum()
    }

    /// Rings whose threads have ended.
    pub fn closed(&self) -> usize {
        let closed = |ring: &&Ring| ring.header().closed.load(Ordering::Relaxed) == 1;
        self.rings.iter().filter(closed).count()
    }

    pub fn slots_taken(&self) -> u64 {
        self.rings.iter().map(|ring| ring.next).sum()
    }

    pub fn slots_reserved(&self) -> u64 {
        self.rings
            .iter()
            .map(|ring| ring.header().head.load(Ordering::Relaxed))
            .sum()
    }

    /// Calls still open: in flight when their process ended.
    pub fn open(&self) -> Vec<Call> {
        let all = self.rings.iter().flat_map(|ring| {
            ring.open
                .iter()
                .map(|(sequence, ..)| ring.call(*sequence, &ring.slot(*sequence)))
        });
        all.collect()
    }

    fn step(&mut self, index: usize) -> bool {
        let ring = &mut self.rings[index];
        ring.close_returned(&mut self.calls);
        let sequence = ring.next;
        if ring.commit(sequence) != (sequence as u32).wrapping_add(1) {
            return false;
        }
        let slot = ring.slot(sequence);
        if slot.flags & FLAG_NOTE != 0 {
            ring.next += 1 + u64::from(slot.flags & FLAG_PAYLOADS);
            let note = Note::from_words(slot.args[0], slot.args[1]);
            self.stacks += u64::from(!matches!(note, None | Some(Note::Code { .. })));
            return true;
        }
        // Frames at or below this one's are gone.
        while let Some(last) = ring.open.back().filter(|open| open.2 <= slot.stack_pointer) {
            let slot = ring.slot(last.0);
            self.unwound += u64::from(slot.exit == 0);
            keep(&mut self.calls, ring, last.0, &slot);
            ring.open.pop_back();
        }
        let slots = 1 + u64::from(slot.flags & FLAG_PAYLOADS);
        if slot.exit == 0 {
            ring.open.push_back((sequence, slots, slot.stack_pointer));
        } else {
            keep(&mut self.calls, ring, sequence, &slot);
        }
        ring.next += slots;
        let function = usize::from(slot.function);
        if function >= ring.counts.len() {
            ring.counts.resize(function + 1, 0);
        }
        ring.counts[function] += 1;
        true
    }
}

/// Lets every ring of a session overwrite itself, without reading it.
pub fn never_full(folder: &Path, stop: &AtomicBool) {
    let mut drained = Drained::new(folder);
    while !stop.load(Ordering::Relaxed) {
        drained.find();
        for ring in &drained.rings {
            ring.header().tail.store(1 << 62, Ordering::Relaxed);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn keep(calls: &mut Vec<Call>, ring: &Ring, sequence: u64, slot: &CallSlot) {
    if calls.len() < KEPT {
        calls.push(ring.call(sequence, slot));
    }
}

impl Ring {
    fn map(path: &Path) -> Option<Ring> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .ok()?;
        let bytes = file.metadata().ok()?.len() as usize;
        if bytes <= RING_HEADER_SIZE {
            return None;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh shared mapping of a file that does not shrink.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        // SAFETY: as long as a header at least.
        let header = unsafe { &*(at as *const RingHeader) };
        if header.magic.load(Ordering::Acquire) != RING_MAGIC {
            // SAFETY: just mapped. Not ready yet: next time.
            unsafe { libc::munmap(at, bytes) };
            return None;
        }
        Some(Ring {
            at: at as usize,
            capacity: header.capacity.into(),
            pid: header.pid,
            tid: header.tid,
            counts: Vec::new(),
            next: 0,
            open: VecDeque::new(),
        })
    }

    fn header(&self) -> &RingHeader {
        // SAFETY: mapped for the test's life.
        unsafe { &*(self.at as *const RingHeader) }
    }

    fn address(&self, sequence: u64) -> usize {
        self.at + RING_HEADER_SIZE + (sequence & (self.capacity - 1)) as usize * 64
    }

    fn commit(&self, sequence: u64) -> u32 {
        // SAFETY: the commit word of a slot; written by another process.
        let word = unsafe { &*((self.address(sequence) + 24) as *const AtomicU64) };
        (word.load(Ordering::Acquire) >> 32) as u32
    }

    fn slot(&self, sequence: u64) -> CallSlot {
        // SAFETY: within the ring.
        unsafe { (self.address(sequence) as *const CallSlot).read_volatile() }
    }

    fn call(&self, sequence: u64, slot: &CallSlot) -> Call {
        let mut payload = Vec::new();
        for index in 1..=u64::from(slot.flags & FLAG_PAYLOADS) {
            // SAFETY: within the ring.
            let bytes =
                unsafe { (self.address(sequence + index) as *const [u8; 64]).read_volatile() };
            payload.extend(&bytes[..28]);
            payload.extend(&bytes[32..]);
        }
        assert_eq!(payload.len() % PAYLOAD_BYTES, 0);
        for word in &slot.args[payload_within(slot.flags)] {
            payload.extend(word.to_le_bytes());
        }
        Call {
            pid: self.pid,
            tid: self.tid,
            function: slot.function,
            enter: slot.enter,
            exit: slot.exit,
            result: slot.result,
            args: slot.args,
            payload,
        }
    }

    fn close_returned(&mut self, calls: &mut Vec<Call>) {
        while let Some(&(sequence, ..)) = self.open.back() {
            let slot = self.slot(sequence);
            if slot.exit == 0 {
                break;
            }
            keep(calls, self, sequence, &slot);
            self.open.pop_back();
        }
    }
}
