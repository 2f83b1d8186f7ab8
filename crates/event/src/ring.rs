//! The rings that injected code and the tracer share.
//!
//! A process has one file in the session's folder, `rings.PID.N`, of which each thread gets a piece:
//! an [`ArenaHeader`], a directory of [`RingState`]s, an area for text, then rings of one size. A file is
//! long and sparse, and mapped once; threads take a ring by atomic operations in it, so that a
//! new thread needs no rights, no descriptor and no space for a name. Children that cannot make a file of
//! their own go on in their parent's.
//!
//! A ring is a [`RingHeader`] in [`RING_HEADER_SIZE`] bytes, then [`RingHeader::capacity`] slots. One
//! [`CallSlot`] a call,
//! published at entry and closed in place, so that a crash leaves the call that was in flight
//! visible as open; [`PayloadSlot`]s after it hold what does not fit, reserved together with it.
//!
//! The order of a call's stores is what a reader may rely on: `exit` = 0 and all that is known at
//! entry, then `commit`; at return `result` and outputs, then `exit`, once. So a slot with its commit
//! word is this call's, and with an exit it is final. No store is a locked one: only the ring's own
//! thread writes to it, and x86 shows its stores to others in their order.

use core::mem::{align_of, offset_of};
use core::sync::atomic::{AtomicU8, AtomicU64};

/// `CUTARENA`, little-endian.
pub const ARENA_MAGIC: u64 = u64::from_le_bytes(*b"CUTARENA");
/// Where the directory begins: a [`RingState`] of four bytes for each ring.
pub const ARENA_HEADER_SIZE: usize = 4096;
/// Rings that a directory has room for.
pub const MOST_RINGS: usize = 8192;
/// Where the text begins.
pub const ARENA_TEXT: usize = ARENA_HEADER_SIZE + 4 * MOST_RINGS;

/// The head of a process's file; `magic` is written last, so that a reader never takes a half-made one.
#[repr(C)]
pub struct ArenaHeader {
    pub magic: AtomicU64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of the area for text, at [`ARENA_TEXT`]; the rings come right behind it.
    pub text: u64,
    /// Slots of each ring, a power of two.
    pub capacity: u32,
    /// Rings that there is room for.
    pub most: u32,
    /// Who made it, by its own number.
    pub pid: u32,
    pub reserved: u32,
    /// The PID namespace that the number is of; 0: unknown.
    pub namespace: u64,
    pub unused: [u64; 2],
    /// Rings that have been taken, from the first on; the directory says what became of them.
    pub taken: AtomicU64,
    /// Bytes of text; see [`TEXT_WORD`].
    pub said: AtomicU64,
    /// Bytes of text that have memory.
    pub text_backed: AtomicU64,
}

/// A message in the area for text is a word (its length, and in the upper half the process's number),
/// written last, then its bytes, filled up to a multiple of this.
pub const TEXT_WORD: usize = 8;

/// What stands for the end of an argument, and for the end of a line in one, where a process says its command
/// line as one line of text.
pub const ARGUMENT_END: u8 = 0x1f;
pub const NEWLINE: u8 = 0x1e;

/// Bytes from one ring to the next.
pub const fn ring_stride(capacity: u32) -> usize {
    RING_HEADER_SIZE + capacity as usize * SLOT_BYTES
}

/// What a ring of the directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum RingState {
    /// Nobody has it, and nothing of it has memory.
    Unused = 0,
    /// A thread is about to use it: there is nothing to see yet.
    Taken = 1,
    /// A thread writes to it.
    Live = 2,
    /// Its thread has ended; what it left is to be read.
    Ended = 3,
    /// Everything has been read: the next thread may have it. Only the reader says so.
    Free = 4,
}

impl RingState {
    pub fn from_word(word: u32) -> Option<Self> {
        use RingState::{Ended, Free, Live, Taken, Unused};
        [Unused, Taken, Live, Ended, Free]
            .into_iter()
            .find(|state| *state as u32 == word & 0xff)
    }

    /// [`RingState::Live`], with whose ring it is: who finds that a thread has ended must not end the ring of
    /// the next one, which may have it by then.
    pub fn live(thread: u32) -> u32 {
        RingState::Live as u32 | thread << 8
    }

    /// The thread of a live ring's word; the kernel's numbers have 22 bits.
    pub fn thread(word: u32) -> u32 {
        word >> 8
    }
}

/// The file that all processes of a session share; the tracer makes it before the program starts.
pub const COUNTERS_FILE: &str = "counters";
pub const COUNTERS_SIZE: usize = 4096;

/// What is counted in every process, whatever rights it has left.
#[repr(C)]
pub struct Counters {
    /// Calls that were not recorded and that no ring's [`RingHeader::dropped`] counts.
    pub lost: AtomicU64,
    /// Ticks of the TSC that went by in the program's threads beside recording itself: setting up,
    /// hooking, getting rings and room in them.
    pub spent: AtomicU64,
    /// Tenths of nanoseconds that recording a call costs, as measured in the program; 0: not known.
    pub cost: AtomicU64,
    /// The same of a call that is shed.
    pub shed_cost: AtomicU64,
    pub unused: [u64; 4],
    /// Which calls are recorded: [`GATE_OPEN`] and so on, by a function's class (`cuda::gate`). A cache line of its own: every
    /// call reads it, and it hardly ever changes.
    pub gates: [AtomicU8; GATES],
    /// While the program itself opens the gates: how many of the ranges are open that it does so for.
    pub open_ranges: AtomicU64,
}

/// Classes of functions that have a gate each.
pub const GATES: usize = 64;
/// Calls are recorded.
pub const GATE_OPEN: u8 = 0;
/// Calls go by unrecorded and uncounted: nobody watches.
pub const GATE_CLOSED: u8 = 1;
/// Calls are counted ([`RingHeader::shed`]); those that fail are recorded.
pub const GATE_SHED: u8 = 2;
/// The same for calls whose third argument, a size, is at most [`SMALL_COPY`].
pub const GATE_SHED_SMALL: u8 = 3;
/// Bytes of a copy that is small.
pub const SMALL_COPY: u32 = 64 << 10;

/// `CUTRING1`, little-endian.
pub const RING_MAGIC: u64 = u64::from_le_bytes(*b"CUTRING1");
/// Where a ring's slots begin.
pub const RING_HEADER_SIZE: usize = 4096;

/// The head of a ring. The producer's and the consumer's words are on cache lines of their own.
#[repr(C)]
pub struct RingHeader {
    pub magic: AtomicU64,
    /// Slots, a power of two.
    pub capacity: u32,
    pub pid: u32,
    pub tid: u32,
    pub unused: u32,
    /// The PID namespace that these numbers are of; 0: unknown.
    pub namespace: u64,
    pub reserved: [u64; 4],
    /// Sequence number of the next slot to be reserved. It goes on where the thread that had the ring
    /// before has left it.
    pub head: AtomicU64,
    /// Calls that found the ring full and were not recorded, of all threads that had it.
    pub dropped: AtomicU64,
    /// Slots that have memory.
    pub backed: AtomicU64,
    /// Ticks of the TSC that went by beside recording calls: walking stacks.
    pub spent: AtomicU64,
    pub producer: [u64; 4],
    /// Everything before this sequence number has been taken.
    pub tail: AtomicU64,
    pub consumer: [u64; 7],
    /// Calls that a gate let by and counted, by class, of all threads that had the ring.
    pub shed: [AtomicU64; GATES],
}

/// Bytes after a call that its slot has no room for: arguments past the fourth, captured memory.
/// What they mean follows from the function (`cuda::capture::plan`). 60 bytes around the commit word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct PayloadSlot {
    pub first: [u8; 28],
    /// As in [`CallSlot::commit`].
    pub commit: u32,
    pub rest: [u8; 32],
}

/// Bytes of payload in a [`PayloadSlot`].
pub const PAYLOAD_BYTES: usize = size_of::<PayloadSlot>() - size_of::<u32>();

impl PayloadSlot {
    /// Where in the slot a byte of its payload is, and how many bytes follow it before a gap, itself included.
    #[inline]
    pub const fn place(within: usize) -> (usize, usize) {
        const GAP: usize = offset_of!(PayloadSlot, commit);
        if within < GAP {
            (within, GAP - within)
        } else {
            let rest = offset_of!(PayloadSlot, rest) + within - GAP;
            (rest, PAYLOAD_BYTES - within)
        }
    }

    /// The payload in a slot's bytes: what comes before the commit word, and what comes after it.
    pub fn payload(slot: &[u8; SLOT_BYTES]) -> [&[u8]; 2] {
        [
            &slot[..offset_of!(PayloadSlot, commit)],
            &slot[offset_of!(PayloadSlot, rest)..],
        ]
    }
}

/// Values of a slot's `args`.
pub const SLOT_ARGS: usize = 4;

/// One call: a cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(64))]
pub struct CallSlot {
    /// TSC at entry.
    pub enter: u64,
    /// TSC at return; 0 while the call is open.
    pub exit: u64,
    /// Which function, by the table of the hooking session.
    pub function: u16,
    pub flags: u16,
    /// The low half of the stack pointer at entry: tells nesting, and frames that were unwound.
    pub stack_pointer: u32,
    /// The low half of what was returned: every CUDA function returns an enum.
    pub result: u32,
    /// The slot's sequence number + 1, written last: anything else is a slot not yet filled.
    pub commit: u32,
    pub args: [u64; SLOT_ARGS],
}

/// Bytes of any slot.
pub const SLOT_BYTES: usize = size_of::<CallSlot>();

const _: () = {
    // A slot is a cache line: a call touches one, and two calls never share one.
    assert!(SLOT_BYTES == 64 && align_of::<CallSlot>() == SLOT_BYTES);
    // Whether a slot is filled is asked before it is known which kind it is.
    assert!(size_of::<PayloadSlot>() == SLOT_BYTES);
    assert!(offset_of!(PayloadSlot, commit) == offset_of!(CallSlot, commit));
    // Each of these pairs is written by one store.
    assert!(offset_of!(CallSlot, flags) == offset_of!(CallSlot, function) + size_of::<u16>());
    assert!(offset_of!(CallSlot, commit) == offset_of!(CallSlot, result) + size_of::<u32>());
    // Producer and consumer write to cache lines of their own.
    assert!(
        offset_of!(RingHeader, head).is_multiple_of(64)
            && offset_of!(RingHeader, tail).is_multiple_of(64)
    );
    assert!(offset_of!(ArenaHeader, taken).is_multiple_of(64));
    assert!(size_of::<RingHeader>() <= RING_HEADER_SIZE);
    assert!(size_of::<ArenaHeader>() <= ARENA_HEADER_SIZE);
    assert!(size_of::<Counters>() <= COUNTERS_SIZE);
    assert!(offset_of!(Counters, gates).is_multiple_of(64));
};

/// The low byte of `flags` is the number of [`PayloadSlot`]s that follow.
pub const FLAG_PAYLOADS: u16 = 0xFF;
/// The call never returned: a later one on the same thread shows that its frame is gone.
pub const FLAG_UNWOUND: u16 = 0x100;
/// Not 0: the payload is in the slot itself, in those of `args` that no argument needs, from the
/// one with this number less one on. A short output then costs no second cache line.
pub const FLAG_WITHIN: u16 = 0x7 << WITHIN_SHIFT;
pub const WITHIN_SHIFT: u32 = 9;

/// Which of `args` hold the payload, by a slot's flags; none if it is in slots of its own.
pub fn payload_within(flags: u16) -> core::ops::Range<usize> {
    match usize::from((flags & FLAG_WITHIN) >> WITHIN_SHIFT) {
        0 => SLOT_ARGS..SLOT_ARGS,
        first => (first - 1).min(SLOT_ARGS)..SLOT_ARGS,
    }
}

/// No call: the slot says something of the call that comes next (`event::note`).
pub const FLAG_NOTE: u16 = 0x8000;

impl CallSlot {
    pub fn is_open(&self) -> bool {
        self.exit == 0 && self.flags & FLAG_UNWOUND == 0
    }

    /// Whether the slot holds the call of that sequence number.
    pub fn is_committed(&self, sequence: u32) -> bool {
        self.commit == sequence.wrapping_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_says_whose_a_ring_is() {
        assert_eq!(RingState::from_word(3), Some(RingState::Ended));
        assert_eq!(RingState::from_word(5), None);
        let live = RingState::live(4_194_303);
        assert_eq!(RingState::from_word(live), Some(RingState::Live));
        assert_eq!(RingState::thread(live), 4_194_303);
    }

    #[test]
    fn a_payload_lies_around_the_commit_word() {
        let mut slot = [0xff; SLOT_BYTES];
        for within in 0..PAYLOAD_BYTES {
            slot[PayloadSlot::place(within).0] = within as u8;
        }
        let commit = offset_of!(PayloadSlot, commit);
        assert_eq!(slot[commit..commit + 4], [0xff; 4]);
        let read: Vec<u8> = PayloadSlot::payload(&slot).concat();
        assert_eq!(read, (0..PAYLOAD_BYTES as u8).collect::<Vec<_>>());
        // To the gap and no further, then to the end.
        assert_eq!(PayloadSlot::place(commit - 1), (commit - 1, 1));
        assert_eq!(
            PayloadSlot::place(commit),
            (commit + 4, SLOT_BYTES - commit - 4)
        );
    }

    #[test]
    fn a_short_payload_lies_in_words_that_are_free() {
        let of = |first: u16| payload_within(0x1ff | first << WITHIN_SHIFT);
        assert_eq!((of(0).len(), of(2), of(4)), (0, 1..4, 3..4));
        // What no producer writes is no reason to read elsewhere.
        assert_eq!((of(5).len(), of(7).len()), (0, 0));
    }

    #[test]
    fn open_and_committed() {
        let mut slot = CallSlot {
            enter: 5,
            commit: 0,
            ..CallSlot::default()
        };
        assert!(slot.is_open() && !slot.is_committed(0) && slot.is_committed(u32::MAX));
        slot.exit = 6;
        assert!(!slot.is_open());
    }
}
