//! What the draining thread hands to the assembling one: beginnings and ends of calls, still raw.

use event::note::Note;
use std::ops::Range;

/// One step of one thread, in the order of the thread's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// When, by the source's clock.
    pub time: u64,
    /// Which call, by its place in the ring.
    pub sequence: u64,
    pub step: Step,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Begin {
        function: u32,
        args: [u64; 4],
        payload: Range<usize>,
        /// The call had returned when it was read: all of its payload is there. Otherwise only
        /// the words of its arguments are, and the end brings the payload again.
        complete: bool,
        /// The number of the stack it was called from; 0 if that is not known.
        stack: u32,
    },
    /// A stack or a code object that later beginnings refer to.
    Note { note: Note, payload: Range<usize> },
    End {
        enter: u64,
        result: u32,
        payload: Range<usize>,
    },
    /// The call never returned: its frame was left by an exception or a longjmp.
    Unwound { enter: u64 },
    /// Calls that were not recorded, before this moment.
    Lost { count: u64 },
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
