//! What the draining thread hands to the assembling one: beginnings and ends of calls, still raw.

use event::note::Note;
use event::ring::{SLOT_ARGS, payload_within};
use std::num::NonZeroU8;

/// One step of one thread, in the order of the thread's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// When, by the source's clock.
    pub time: u64,
    /// Which call, by its place in the ring.
    pub sequence: u64,
    pub step: Step,
}

// In a flood all of them are written to memory that no cache holds: a line is what one may take.
const _: () = assert!(size_of::<Item>() == 64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Begin {
        function: u32,
        args: [u64; SLOT_ARGS],
        payload: PayloadRange,
        /// The call had returned when it was read: all of its payload is there, in those of `args`
        /// if not in a piece. Otherwise only the words of its arguments are, and the end brings the
        /// payload again.
        complete: Option<Within>,
        /// The number of the stack it was called from; 0 if that is not known.
        stack: u32,
    },
    /// A stack or a code object that later beginnings refer to.
    Note { note: Note, payload: PayloadRange },
    End {
        enter: u64,
        result: u32,
        payload: PayloadRange,
    },
    /// A beginning and its end, with nothing of the thread's in between: what most calls are. All
    /// that it left is in `args`.
    Whole {
        exit: u64,
        function: u16,
        result: u32,
        args: [u64; SLOT_ARGS],
        within: Within,
    },
    /// The call never returned: its frame was left by an exception or a longjmp.
    Unwound { enter: u64 },
    /// Nobody watches for its return.
    Unseen { enter: u64 },
    /// Calls that were not recorded, before this moment.
    Lost { count: u64 },
}

/// Where in a batch's bytes something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(Rust, packed(2))]
pub struct PayloadRange {
    start: u32,
    length: u16,
}

impl PayloadRange {
    /// From there to the end of the bytes. No batch is longer than a piece can tell; if one were,
    /// there would be no payload, never another's.
    pub fn since(start: usize, bytes: &[u8]) -> PayloadRange {
        let length = bytes.len().saturating_sub(start);
        match (u32::try_from(start), u16::try_from(length)) {
            (Ok(start), Ok(length)) => PayloadRange { start, length },
            _ => PayloadRange::default(),
        }
    }

    /// No more than so many bytes of it.
    pub fn at_most(self, bytes: usize) -> PayloadRange {
        let length = usize::from(self.length).min(bytes) as u16;
        PayloadRange { length, ..self }
    }

    pub fn is_empty(self) -> bool {
        self.length == 0
    }

    pub fn of(self, bytes: &[u8]) -> &[u8] {
        let start = self.start as usize;
        let end = start + usize::from(self.length);
        bytes.get(start..end).unwrap_or_default()
    }
}

/// Which words of a call's own slot are payload: the last ones, from this on, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Within(NonZeroU8);

impl Within {
    /// None of them.
    pub const NONE: Within = Within(NonZeroU8::MAX);

    pub fn from_flags(flags: u16) -> Within {
        let first = payload_within(flags).start as u8;
        NonZeroU8::new(first + 1).map_or(Within::NONE, Within)
    }

    /// In a byte that is not 0, for [`Within::from_byte`].
    pub fn to_byte(self) -> u8 {
        self.0.get()
    }

    pub fn from_byte(byte: u8) -> Option<Within> {
        NonZeroU8::new(byte).map(Within)
    }

    /// The payload's bytes: the first so many.
    pub fn payload(self, args: &[u64; SLOT_ARGS]) -> ([u8; 8 * SLOT_ARGS], usize) {
        let mut bytes = [0; 8 * SLOT_ARGS];
        let first = usize::from(self.0.get()) - 1;
        let words = args.get(first..).unwrap_or_default();
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        (bytes, 8 * words.len())
    }
}

/// Steps of one ring.
#[derive(Debug, Default)]
pub struct Batch {
    pub ring: usize,
    pub items: Vec<Item>,
    /// What the items' `payload` are places in.
    pub bytes: Vec<u8>,
}

/// Less memory than this has no huge page in it.
const WORTH_ASKING: usize = 1 << 20;
const PAGE: usize = 4096;
const LEAST_ROOM: usize = 64;

impl Batch {
    /// An empty one for so many steps: its memory in one piece and in huge pages where the kernel
    /// gives them. In a flood every batch is a fresh one, and growing it while it is filled, page by
    /// page, would take four times as long as filling it.
    pub fn with_room(steps: usize) -> Batch {
        let batch = Batch {
            // Few sizes, so that a used one serves another ring.
            items: Vec::with_capacity(steps.next_power_of_two().max(LEAST_ROOM)),
            ..Batch::default()
        };
        let bytes = batch.size();
        if bytes >= WORTH_ASKING {
            let begin = batch.items.as_ptr().addr();
            let (first, end) = (begin.next_multiple_of(PAGE), (begin + bytes) / PAGE * PAGE);
            // SAFETY: whole pages of memory that is this batch's alone. It stays what it is, however
            // the kernel provides it; a refusal costs time only.
            unsafe { libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_HUGEPAGE) };
        }
        batch
    }

    /// An empty one for another ring, with the memory that this one had.
    pub fn emptied(mut self) -> Batch {
        self.items.clear();
        self.bytes.clear();
        self
    }

    pub fn has_room(&self, steps: usize) -> bool {
        self.items.capacity() >= steps
    }

    /// The memory it takes.
    pub fn size(&self) -> usize {
        self.items.capacity() * size_of::<Item>() + self.bytes.capacity()
    }
}
