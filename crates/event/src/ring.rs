//! The rings that injected code and the tracer share.
//!
//! A ring is a file of the session's folder, `ring.PID.TID.N`: a [`RingHeader`] in the first
//! [`RING_HEADER_SIZE`] bytes, then [`RingHeader::capacity`] slots. One [`CallSlot`] a call,
//! published at entry and closed in place, so that a crash leaves the call that was in flight
//! visible as open; [`PayloadSlot`]s after it hold what does not fit, reserved together with it.
//!
//! The order of a call's stores is what a reader may rely on: `exit` = 0 and all that is known at
//! entry, then `commit`; at return `result` and outputs, then `exit`, once. So a slot with its commit
//! word is this call's, and with an exit it is final. No store is a locked one: only the ring's own
//! thread writes to it, and x86 shows its stores to others in their order.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// `CUTRING1`, little-endian.
pub const RING_MAGIC: u64 = u64::from_le_bytes(*b"CUTRING1");
/// Where the slots begin.
pub const RING_HEADER_SIZE: usize = 4096;

/// The head of a ring's file. The producer's and the consumer's words are on cache lines of their
/// own; `magic` is written last, so that a reader never takes a half-made ring.
#[repr(C)]
pub struct RingHeader {
    pub magic: AtomicU64,
    /// Slots, a power of two.
    pub capacity: u32,
    pub pid: u32,
    pub tid: u32,
    /// 1 when the thread has ended and no more will come.
    pub closed: AtomicU32,
    pub reserved: [u64; 5],
    /// Sequence number of the next slot to be reserved.
    pub head: AtomicU64,
    /// Calls that found the ring full and were not recorded.
    pub dropped: AtomicU64,
    pub producer: [u64; 6],
    /// Everything before this sequence number has been taken.
    pub tail: AtomicU64,
    pub consumer: [u64; 7],
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
pub const PAYLOAD_BYTES: usize = 60;

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

/// The low byte of `flags` is the number of [`PayloadSlot`]s that follow.
pub const FLAG_PAYLOADS: u16 = 0xFF;
/// The call never returned: a later one on the same thread shows that its frame is gone.
pub const FLAG_UNWOUND: u16 = 0x100;
/// Not 0: the payload lies in the slot itself, in those of `args` that no argument needs, from the
/// one with this number less one on. A short output then costs no second cache line.
pub const FLAG_WITHIN: u16 = 0x7 << WITHIN_SHIFT;
pub const WITHIN_SHIFT: u32 = 9;

/// Which of `args` hold the payload, by a slot's flags; none if it lies in slots of its own.
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
    use core::mem::{align_of, offset_of, size_of};

    #[test]
    fn a_slot_is_one_cache_line_with_a_fixed_layout() {
        assert_eq!((size_of::<CallSlot>(), align_of::<CallSlot>()), (64, 64));
        let offsets = [
            offset_of!(CallSlot, enter),
            offset_of!(CallSlot, exit),
            offset_of!(CallSlot, function),
            offset_of!(CallSlot, flags),
            offset_of!(CallSlot, stack_pointer),
            offset_of!(CallSlot, result),
            offset_of!(CallSlot, commit),
            offset_of!(CallSlot, args),
        ];
        assert_eq!(offsets, [0, 8, 16, 18, 20, 24, 28, 32]);
    }

    #[test]
    fn the_header_keeps_producer_and_consumer_apart() {
        let offsets = [
            offset_of!(RingHeader, capacity),
            offset_of!(RingHeader, head),
            offset_of!(RingHeader, dropped),
            offset_of!(RingHeader, tail),
        ];
        assert_eq!(offsets, [8, 64, 72, 128]);
        assert!(size_of::<RingHeader>() <= RING_HEADER_SIZE);
        assert_eq!(size_of::<PayloadSlot>(), 64);
        assert_eq!(
            offset_of!(PayloadSlot, commit),
            offset_of!(CallSlot, commit)
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
