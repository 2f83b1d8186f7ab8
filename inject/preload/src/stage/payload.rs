//! Copies what a call's own slot has no room for into the payload slots after it.
//!
//! Reads must not bring the program down. After success the callee has used the same pointers, so
//! they are read directly, but never past the page where the callee is known to have been; all
//! other reads go through the kernel, which refuses bad addresses.

mod arrays;

use crate::layout::{Entry, HotItem, HotKind, HotPlan, PayloadStore};
use crate::sys;
use core::mem::offset_of;
use event::ring::{FLAG_PAYLOADS, PAYLOAD_BYTES, PayloadSlot, SLOT_BYTES};

const _: () = assert!(FLAG_PAYLOADS as usize >= cuda::capture::MAX_PAYLOAD_SLOTS);

const PAGE: usize = 4096;

/// The payload of one call, across the slots that hold it.
struct Payload {
    slots: *mut u8,
    mask: u32,
    sequence: u32,
    /// The first slot, if all follow it in memory: not where the ring begins again.
    straight: *mut u8,
    pieces: *const PayloadStore,
}

impl Payload {
    /// `slot` is a call's, `commit` its commit word, `mask` its ring's capacity less one.
    #[inline]
    unsafe fn of(slot: *mut u8, mask: u32, commit: u32, plan: &HotPlan) -> Payload {
        let own = commit.wrapping_sub(1) & mask;
        // SAFETY: where the ring's slots begin, and the slot behind the call's own.
        let (slots, next) = unsafe { (slot.sub(own as usize * SLOT_BYTES), slot.add(SLOT_BYTES)) };
        let straight = if own + u32::from(plan.slots) <= mask {
            next
        } else {
            core::ptr::null_mut()
        };
        Payload {
            slots,
            mask,
            sequence: commit,
            straight,
            pieces: plan.pieces,
        }
    }

    /// Piece by piece, where the item can be taken apart; false: it cannot.
    #[inline]
    unsafe fn put_pieces(&self, item: &HotItem, from: *const u8) -> bool {
        let (long, short) = (
            usize::from(item.pieces.long),
            usize::from(item.pieces.short),
        );
        if self.straight.is_null() || long + short == 0 {
            return false;
        }
        // SAFETY: the plan's pieces lie within the item, and within its payload.
        unsafe {
            let pieces = self.pieces.add(item.pieces.first.into());
            for number in 0..long {
                let piece = *pieces.add(number);
                let to = self.straight.add(piece.to.into()).cast::<u64>();
                to.write_unaligned(
                    from.offset(piece.from.into())
                        .cast::<u64>()
                        .read_unaligned(),
                );
            }
            for number in long..long + short {
                let piece = *pieces.add(number);
                let to = self.straight.add(piece.to.into()).cast::<u32>();
                to.write_unaligned(
                    from.offset(piece.from.into())
                        .cast::<u32>()
                        .read_unaligned(),
                );
            }
        }
        true
    }

    fn slot(&self, index: usize) -> *mut u8 {
        let at = self.sequence.wrapping_add(index as u32) & self.mask;
        // SAFETY: masked into the ring.
        unsafe { self.slots.add(at as usize * SLOT_BYTES) }
    }

    /// Where a byte of the payload is, and how many follow it without a gap.
    fn place(&self, at: usize) -> (*mut u8, usize) {
        let (offset, room) = PayloadSlot::place(at % PAYLOAD_BYTES);
        // SAFETY: within the slot.
        (unsafe { self.slot(at / PAYLOAD_BYTES).add(offset) }, room)
    }

    unsafe fn put(&self, mut at: usize, mut from: *const u8, mut bytes: usize) {
        while bytes > 0 {
            let (to, room) = self.place(at);
            let part = room.min(bytes);
            // SAFETY: `room` bytes lie in the slot; the caller vouches for the source.
            unsafe {
                copy(to, from, part);
                from = from.add(part);
            }
            at += part;
            bytes -= part;
        }
    }

    fn zero(&self, at: usize, bytes: usize) {
        const ZEROS: [u8; 64] = [0; 64];
        let mut done = 0;
        while done < bytes {
            let part = ZEROS.len().min(bytes - done);
            // SAFETY: the source is as long as that.
            unsafe { self.put(at + done, ZEROS.as_ptr(), part) };
            done += part;
        }
    }

    unsafe fn commit(&self, slots: usize) {
        for index in 0..slots {
            let commit = self.sequence.wrapping_add(index as u32).wrapping_add(1);
            // SAFETY: the commit word lies between the two parts.
            unsafe {
                self.slot(index)
                    .add(offset_of!(PayloadSlot, commit))
                    .cast::<u32>()
                    .write_volatile(commit)
            };
        }
    }
}

#[inline]
unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    // Words first: most pieces are one.
    unsafe {
        let mut done = 0;
        while bytes - done >= 8 {
            to.add(done)
                .cast::<u64>()
                .write_unaligned(from.add(done).cast::<u64>().read_unaligned());
            done += 8;
        }
        while done < bytes {
            to.add(done).write_volatile(from.add(done).read());
            done += 1;
        }
    }
}

/// An argument word, from the frame of the common part: registers are saved below its base, the
/// caller's stack begins above it.
#[inline]
unsafe fn word(frame: *const u8, item: &HotItem) -> *const u8 {
    unsafe { frame.offset(item.word.into()) }
}

/// Before the call: the arguments, where the payload's slots are at both ends of the ring. Otherwise
/// the common part does it.
///
/// # Safety
/// Called by the common part only, with the call's slot, its commit word not yet written.
pub unsafe extern "C" fn write_arguments(
    slot: *mut u8,
    plan: *const HotPlan,
    mask: u32,
    frame: *const u8,
    commit: u32,
) {
    unsafe {
        let plan = &*plan;
        let payload = Payload::of(slot, mask, commit, plan);
        for item in plan.items.get_unchecked(..usize::from(plan.arguments)) {
            payload.put(item.place.into(), word(frame, item), 8);
        }
        payload.commit(plan.slots.into());
    }
}

/// After the call: what pointers lead to.
///
/// # Safety
/// As [`write_arguments`].
pub unsafe extern "C" fn write_results(
    slot: *mut u8,
    plan: *const HotPlan,
    mask: u32,
    frame: *const u8,
    commit: u32,
    result: u64,
) {
    unsafe {
        let plan = &*plan;
        let payload = Payload::of(slot, mask, commit, plan);
        let success = result as u32 == 0 || plan.always_succeeds;
        for item in plan
            .items
            .get_unchecked(usize::from(plan.arguments)..usize::from(plan.count))
        {
            let pointer = word(frame, item).cast::<usize>().read();
            match item.kind {
                HotKind::Argument => {}
                HotKind::MemoryIn => memory(&payload, item, pointer, success),
                HotKind::TextIn => text(&payload, item, pointer, success),
                HotKind::MemoryOut if success => memory(&payload, item, pointer, true),
                HotKind::TextOut if success => text(&payload, item, pointer, true),
                HotKind::MemoryOut | HotKind::TextOut => {}
                HotKind::Returned => payload.put(item.place.into(), (&raw const result).cast(), 8),
                HotKind::ReturnedText => text(&payload, item, result as usize, false),
                _ => arrays::write(&payload, item, pointer, frame, success),
            }
        }
    }
}

/// After the call: the values that its own slot has room for.
///
/// # Safety
/// Called by the common parts only, with a slot and the function's row.
pub unsafe extern "C" fn write_outputs(slot: *mut u8, entry: *const Entry, result: u32) {
    if result != 0 {
        return;
    }
    for output in unsafe { (*entry).outputs } {
        let bytes = match output.last {
            0 => continue,
            last => usize::from(last) + 1,
        };
        // SAFETY: the row's places lie in the slot.
        unsafe {
            let pointer = slot.add(output.pointer.into()).cast::<usize>().read();
            let mut value = [0u8; 8];
            if pointer >= LOWEST && in_one_page(pointer, bytes) {
                // The callee has just written there, in the same page.
                copy(value.as_mut_ptr(), pointer as *const u8, bytes);
            } else if pointer >= LOWEST {
                sys::read_own_memory(pointer, &mut value[..bytes.min(8)]);
            }
            copy(slot.add(output.place.into()), value.as_ptr(), bytes.min(8));
        }
    }
}

/// Nothing is ever mapped below; callers pass small numbers for "none".
pub const LOWEST: usize = PAGE;

unsafe fn memory(payload: &Payload, item: &HotItem, pointer: usize, used_by_callee: bool) {
    let (place, bytes) = (usize::from(item.place), usize::from(item.bytes));
    if pointer < LOWEST {
        return payload.zero(place, bytes);
    }
    let from = pointer.wrapping_add(item.offset.into());
    if used_by_callee && in_one_page(from, bytes) {
        // SAFETY: the callee has just read or written there, in the same page.
        return unsafe {
            if !payload.put_pieces(item, from as *const u8) {
                payload.put(place, from as *const u8, bytes);
            }
        };
    }
    carefully(payload, place, from, bytes);
}

fn in_one_page(from: usize, bytes: usize) -> bool {
    from % PAGE + bytes <= PAGE
}

/// Through the kernel; zeros from where memory ends.
fn carefully(payload: &Payload, place: usize, from: usize, bytes: usize) {
    let mut done = 0;
    while done < bytes {
        let mut buffer = [0u8; 256];
        let part = buffer.len().min(bytes - done);
        sys::read_own_memory(from.wrapping_add(done), &mut buffer[..part]);
        // SAFETY: the buffer is as long as that.
        unsafe { payload.put(place + done, buffer.as_ptr(), part) };
        done += part;
    }
}

unsafe fn text(payload: &Payload, item: &HotItem, pointer: usize, used_by_callee: bool) {
    let (place, bytes) = (usize::from(item.place), usize::from(item.bytes));
    if pointer < LOWEST {
        return payload.zero(place, bytes);
    }
    let mut buffer = [0u8; 256];
    let bytes = bytes.min(buffer.len());
    let buffer = &mut buffer[..bytes];
    if used_by_callee {
        for (index, to) in buffer.iter_mut().enumerate() {
            // SAFETY: the callee has read or written the string up to its end.
            match unsafe { ((pointer + index) as *const u8).read_volatile() } {
                0 => break,
                byte => *to = byte,
            }
        }
    } else {
        let read = sys::read_own_memory(pointer, buffer);
        let end = buffer[..read]
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(read);
        buffer[end..].fill(0);
    }
    // SAFETY: the buffer is as long as that.
    unsafe { payload.put(place, buffer.as_ptr(), bytes) }
}
