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

impl Batch {
    /// An empty one for another ring, with the memory that this one had.
    pub fn emptied(mut self) -> Batch {
        self.items.clear();
        self.bytes.clear();
        self
    }

    /// The memory it takes.
    pub fn size(&self) -> usize {
        self.items.capacity() * size_of::<Item>() + self.bytes.capacity()
    }
}
