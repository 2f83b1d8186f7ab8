//! Writes notes into the thread's ring.

use crate::engine::rings;
use crate::layout::Thread;
use core::mem::offset_of;
use event::note::Note;
use event::ring::{CallSlot, FLAG_NOTE, PAYLOAD_BYTES, PayloadSlot};

/// Which call a note belongs to.
#[derive(Clone, Copy)]
pub struct NotedCall {
    pub function: u16,
    pub stack_pointer: u32,
    /// When; not asked for where nothing new is said.
    pub time: u64,
}

/// False: there was no room.
pub fn write(thread: &mut Thread, call: NotedCall, note: Note, parts: [&[u8]; 2]) -> bool {
    let payloads = note.bytes().div_ceil(PAYLOAD_BYTES);
    let Some(first) = rings::reserve(thread, 1 + payloads as u64) else {
        return false;
    };
    let slot = |sequence: u64| {
        let at = (sequence & thread.mask) as usize;
        (thread.slots + at * size_of::<CallSlot>()) as *mut u8
    };
    let commit = |sequence: u64| {
        let word = (sequence as u32).wrapping_add(1);
        // SAFETY: within the ring, in a slot that is this call's.
        unsafe {
            let place = slot(sequence).add(offset_of!(CallSlot, commit));
            place.cast::<u32>().write_volatile(word);
        };
    };
    let mut bytes = parts.into_iter().flatten();
    for number in 1..=payloads as u64 {
        let at = slot(first.wrapping_add(number));
        for (within, byte) in bytes.by_ref().take(PAYLOAD_BYTES).enumerate() {
            // SAFETY: within the slot.
            unsafe { at.add(PayloadSlot::place(within).0).write(*byte) };
        }
        commit(first.wrapping_add(number));
    }
    let content = CallSlot {
        enter: call.time,
        exit: call.time,
        function: call.function,
        flags: FLAG_NOTE | payloads as u16,
        stack_pointer: call.stack_pointer,
        result: 0,
        commit: 0,
        args: [note.head(), note.sizes(), 0, 0],
    };
    // SAFETY: as above; the commit word says that the slot is not filled until it is.
    unsafe { slot(first).cast::<CallSlot>().write(content) };
    commit(first);
    true
}
