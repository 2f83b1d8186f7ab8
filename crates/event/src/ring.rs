//! The record of one call in the shared rings between injected code and the tracer.
//!
//! One slot a call, published at entry and closed in place, so that a crash leaves the call
//! that was in flight visible as open. Who reserves and drains slots is not decided here.

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

/// The slot continues the arguments of the one before.
pub const FLAG_CONTINUATION: u16 = 1;
/// The call never returned: a later one on the same thread shows that its frame is gone.
pub const FLAG_UNWOUND: u16 = 2;

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
