//! The consumer's side of the rings.

use event::note::Note;
use event::ring::{
    ARENA_HEADER_SIZE, ARENA_MAGIC, ARENA_TEXT, ArenaHeader, COUNTERS_FILE, CallSlot, FLAG_NOTE,
    FLAG_PAYLOADS, PAYLOAD_BYTES, PayloadSlot, RING_HEADER_SIZE, RING_MAGIC, RingHeader, RingState,
    SLOT_BYTES, TEXT_WORD, payload_within, ring_stride,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

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

/// One thread's use of a ring.
struct Ring {
    at: usize,
    capacity: u64,
    pid: u32,
    tid: u32,
    /// Calls by function.
    counts: Vec<u64>,
    /// Where it began, and the next to look at.
    first: u64,
    next: u64,
    /// Looked at, but not closed: (sequence, slots, stack pointer).
    open: VecDeque<(u64, u64, u32)>,
    /// Its thread has ended.
    ended: bool,
}

/// A process's file.
struct Arena {
    at: usize,
    /// Which of the session's rings each of its own is, for the thread that has it now.
    rings: Vec<Option<usize>>,
    read: usize,
}

/// What has been taken out of a session's rings.
pub struct Drained {
    folder: PathBuf,
    known: HashSet<OsString>,
    arenas: Vec<Arena>,
    rings: Vec<Ring>,
    pub calls: Vec<Call>,
    /// Calls that a later one shows to have been left by an exception or a jump.
    pub unwound: u64,
    /// Notes of the stacks that calls come from.
    pub stacks: u64,
    /// What processes said by way of their rings, each with its number.
    pub said: Vec<(u32, String)>,
}

impl Drained {
    pub fn new(folder: &Path) -> Drained {
        Drained {
            folder: folder.to_owned(),
            known: HashSet::new(),
            arenas: Vec::new(),
            rings: Vec::new(),
            calls: Vec::new(),
            unwound: 0,
            stacks: 0,
            said: Vec::new(),
        }
    }

    fn find(&mut self) {
        for entry in fs::read_dir(&self.folder).unwrap().flatten() {
            let name = entry.file_name();
            let is_one = name.to_string_lossy().starts_with("rings.");
            if is_one
                && !self.known.contains(&name)
                && let Some(arena) = Arena::map(&entry.path())
            {
                self.known.insert(name);
                self.arenas.push(arena);
            }
        }
        for arena in &mut self.arenas {
            arena.find(&mut self.rings);
            arena.hear(&mut self.said);
        }
    }

    /// Takes what is there now.
    pub fn take(&mut self) {
        // Asked before: what an ended thread has left is taken now.
        let ended: Vec<(usize, usize)> = (self.arenas.iter().enumerate())
            .flat_map(|(number, arena)| arena.ended().map(move |index| (number, index)))
            .collect();
        self.find();
        for index in 0..self.rings.len() {
            if self.rings[index].ended {
                continue;
            }
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
        for (number, index) in ended {
            let arena = &mut self.arenas[number];
            if let Some(ring) = arena.rings[index].take() {
                let ring = &mut self.rings[ring];
                ring.ended = true;
                ring.header().tail.store(ring.next, Ordering::Release);
                arena
                    .state(index)
                    .store(RingState::Free as u32, Ordering::Release);
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

    /// Calls that were not recorded, by the rings' word and by the session's.
    pub fn dropped(&self) -> u64 {
        let rings: HashSet<usize> = self.rings.iter().map(|ring| ring.at).collect();
        // SAFETY: rings that were mapped.
        let header = |at: &usize| unsafe { &*(*at as *const RingHeader) };
        let dropped = rings
            .iter()
            .map(header)
            .map(|ring| ring.dropped.load(Ordering::Relaxed));
        dropped.sum::<u64>() + self.counter(0)
    }

    /// Calls of a class that were let by and counted.
    pub fn shed(&self, class: u8) -> u64 {
        let rings: HashSet<usize> = self.rings.iter().map(|ring| ring.at).collect();
        // SAFETY: rings that were mapped.
        let header = |at: &usize| unsafe { &*(*at as *const RingHeader) };
        let shed = |ring: &RingHeader| ring.shed[usize::from(class)].load(Ordering::Relaxed);
        rings.iter().map(header).map(shed).sum()
    }

    /// Ticks that the program's threads waited for the injected library.
    pub fn spent(&self) -> u64 {
        self.counter(8)
    }

    fn counter(&self, offset: u64) -> u64 {
        let mut word = [0; 8];
        fs::File::open(self.folder.join(COUNTERS_FILE))
            .and_then(|file| file.read_exact_at(&mut word, offset))
            .map_or(0, |()| u64::from_le_bytes(word))
    }

    /// Threads that have ended and given their rings back.
    pub fn closed(&self) -> usize {
        self.rings.iter().filter(|ring| ring.ended).count()
    }

    /// Rings that these threads had between them.
    pub fn places(&self) -> usize {
        let rings: HashSet<usize> = self.rings.iter().map(|ring| ring.at).collect();
        rings.len()
    }

    pub fn slots_taken(&self) -> u64 {
        self.rings.iter().map(|ring| ring.next - ring.first).sum()
    }

    pub fn slots_reserved(&self) -> u64 {
        let reserved = |ring: &Ring| match ring.ended {
            true => ring.next - ring.first,
            false => ring.header().head.load(Ordering::Relaxed) - ring.first,
        };
        self.rings.iter().map(reserved).sum()
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

impl Arena {
    fn map(path: &Path) -> Option<Arena> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .ok()?;
        let mut magic = [0; 8];
        file.read_exact_at(&mut magic, 0).ok()?;
        // Otherwise not ready yet: next time.
        (u64::from_le_bytes(magic) == ARENA_MAGIC).then_some(())?;
        let bytes = file.metadata().ok()?.len() as usize;
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
        Some(Arena {
            at: at as usize,
            rings: Vec::new(),
            read: 0,
        })
    }

    fn header(&self) -> &ArenaHeader {
        // SAFETY: mapped for the test's life.
        unsafe { &*(self.at as *const ArenaHeader) }
    }

    fn state(&self, index: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &*((self.at + ARENA_HEADER_SIZE + 4 * index) as *const AtomicU32) }
    }

    fn ended(&self) -> impl Iterator<Item = usize> {
        let ended =
            |index: &usize| self.state(*index).load(Ordering::Acquire) == RingState::Ended as u32;
        (0..self.rings.len()).filter(ended)
    }

    /// Takes up the rings that threads have got since.
    fn find(&mut self, rings: &mut Vec<Ring>) {
        let taken = self.header().taken.load(Ordering::Acquire) as usize;
        self.rings
            .resize(taken.min(self.header().most as usize), None);
        for index in 0..self.rings.len() {
            let state = RingState::from_word(self.state(index).load(Ordering::Acquire));
            let is_used = matches!(state, Some(RingState::Live | RingState::Ended));
            if self.rings[index].is_some() || !is_used {
                continue;
            }
            let stride = ring_stride(self.header().capacity);
            let at = self.at + ARENA_TEXT + self.header().text as usize + index * stride;
            // SAFETY: within the file.
            let header = unsafe { &*(at as *const RingHeader) };
            assert_eq!(header.magic.load(Ordering::Acquire), RING_MAGIC);
            let first = header.tail.load(Ordering::Relaxed);
            self.rings[index] = Some(rings.len());
            rings.push(Ring {
                at,
                capacity: header.capacity.into(),
                pid: header.pid,
                tid: header.tid,
                counts: Vec::new(),
                first,
                next: first,
                open: VecDeque::new(),
                ended: false,
            });
        }
    }

    /// What was said by way of it.
    fn hear(&mut self, said: &mut Vec<(u32, String)>) {
        loop {
            let used = self.header().said.load(Ordering::Acquire) as usize;
            if self.read >= used {
                return;
            }
            let place = self.at + ARENA_TEXT + self.read;
            // SAFETY: within the file, and it has memory.
            let (length, pid, bytes) = unsafe {
                let word = (*(place as *const AtomicU64)).load(Ordering::Acquire);
                let length = word as u32 as usize;
                let text = (place + TEXT_WORD) as *const u8;
                (
                    length,
                    (word >> 32) as u32,
                    std::slice::from_raw_parts(text, length),
                )
            };
            if length == 0 {
                return;
            }
            said.push((pid, String::from_utf8_lossy(bytes).into_owned()));
            self.read += (TEXT_WORD + length).next_multiple_of(TEXT_WORD);
        }
    }
}

impl Ring {
    fn header(&self) -> &RingHeader {
        // SAFETY: mapped for the test's life.
        unsafe { &*(self.at as *const RingHeader) }
    }

    fn address(&self, sequence: u64) -> usize {
        self.at + RING_HEADER_SIZE + (sequence & (self.capacity - 1)) as usize * SLOT_BYTES
    }

    fn commit(&self, sequence: u64) -> u32 {
        // SAFETY: the commit word of a slot; written by another process.
        let word = unsafe {
            &*((self.address(sequence) + offset_of!(CallSlot, commit)) as *const AtomicU32)
        };
        word.load(Ordering::Acquire)
    }

    fn slot(&self, sequence: u64) -> CallSlot {
        // SAFETY: within the ring.
        unsafe { (self.address(sequence) as *const CallSlot).read_volatile() }
    }

    fn call(&self, sequence: u64, slot: &CallSlot) -> Call {
        let mut payload = Vec::new();
        for index in 1..=u64::from(slot.flags & FLAG_PAYLOADS) {
            // SAFETY: within the ring.
            let bytes = unsafe {
                (self.address(sequence + index) as *const [u8; SLOT_BYTES]).read_volatile()
            };
            payload.extend(PayloadSlot::payload(&bytes).concat());
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
