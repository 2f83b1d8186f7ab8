//! The second line of defence against what stands in for a function and leads back to it. By design nothing
//! does (see `hooks::Driver`); if something did, every call would lie in one of the same thread, deeper and
//! deeper, until the stack ended. Looked for where it costs nothing: when a ring wants more room.

use super::report;
use crate::layout::{Entry, Thread};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use event::ring::{CallSlot, FLAG_UNWOUND, RingHeader};

/// Calls that lie in each other. No program comes near this.
const TOO_DEEP: usize = 256;
/// Slots that are looked at, from the last one back.
const LOOKED_AT: u64 = 2048;

/// What continues with the functions themselves: (row of the table, original).
type Original = (u16, usize);

static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(core::ptr::null_mut());
static ORIGINALS: AtomicPtr<Original> = AtomicPtr::new(core::ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Replaces the table; the old one stays, for a thread may be looking.
pub fn publish(entries: *mut Entry, originals: alloc::vec::Vec<Original>) {
    let table = originals.leak();
    ENTRIES.store(entries, Ordering::Relaxed);
    // Emptied first: a reader must never take one's length with the other's memory.
    COUNT.store(0, Ordering::SeqCst);
    ORIGINALS.store(table.as_mut_ptr(), Ordering::SeqCst);
    COUNT.store(table.len(), Ordering::SeqCst);
}

/// Ends a runaway of this thread, if it is in one: from then on nothing stands in for anything.
pub fn look(thread: &Thread) {
    let count = COUNT.load(Ordering::SeqCst);
    if count == 0 || depth(thread) < TOO_DEEP || STOPPED.swap(true, Ordering::SeqCst) {
        return;
    }
    let (entries, table) = (
        ENTRIES.load(Ordering::Relaxed),
        ORIGINALS.load(Ordering::SeqCst),
    );
    // SAFETY: published together, and never freed.
    for (number, original) in unsafe { core::slice::from_raw_parts(table, count) } {
        // SAFETY: a row of the table; calls read its target as one word.
        unsafe {
            (&raw mut (*entries.add((*number).into())).target).write_volatile(*original);
        }
    }
    report::note(
        b"note a CUDA function led back to itself inside cutrace's own code: GPU times by events and GPU probes were turned off (please report this)\n",
    );
}

/// Open calls of this thread of which each is in the one before, counted from the last one back.
fn depth(thread: &Thread) -> usize {
    // SAFETY: the thread's own ring.
    let head = unsafe { &*(thread.header as *const RingHeader) }
        .head
        .load(Ordering::Relaxed);
    let (mut found, mut below) = (0, 0);
    for back in 1..=LOOKED_AT.min(head) {
        let sequence = head - back;
        let at = thread.slots + (sequence & thread.mask) as usize * size_of::<CallSlot>();
        // SAFETY: a slot that has memory: it was reserved. Payloads are plain bytes.
        let slot = unsafe { (at as *const CallSlot).read_volatile() };
        let is_open = slot.is_committed(sequence as u32)
            && slot.exit == 0
            && slot.flags & FLAG_UNWOUND == 0
            && slot.enter != 0;
        if is_open && slot.stack_pointer > below {
            below = slot.stack_pointer;
            found += 1;
            if found >= TOO_DEEP {
                break;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn thread_with(calls: &[(u32, u64)]) -> usize {
        let mut memory = vec![0u64; 8192];
        let header = memory.as_mut_ptr().cast::<RingHeader>();
        let mut slots = vec![CallSlot::default(); 4096];
        for (number, (stack_pointer, exit)) in calls.iter().enumerate() {
            slots[number] = CallSlot {
                enter: 1,
                exit: *exit,
                stack_pointer: *stack_pointer,
                commit: number as u32 + 1,
                ..CallSlot::default()
            };
        }
        // SAFETY: zeroed memory of that size.
        unsafe { (*header).head.store(calls.len() as u64, Ordering::Relaxed) };
        depth(&Thread {
            header: header as usize,
            slots: slots.as_ptr() as usize,
            mask: 4095,
            limit: 0,
            pid: 0,
            state: 0,
            stalled_tail: 0,
            backed: 4096,
            waiting: 0,
        })
    }

    #[test]
    fn only_calls_inside_of_calls_are_deep() {
        let nested: vec::Vec<(u32, u64)> = (0..400).map(|n| (1_000_000 - n * 64, 0)).collect();
        assert!(thread_with(&nested) >= TOO_DEEP);
        // One after the other; left by longjmp again and again; few.
        assert_eq!(thread_with(&vec![(1000, 5); 3000]), 0);
        assert_eq!(thread_with(&vec![(1000, 0); 3000]), 1);
        assert_eq!(thread_with(&nested[..30]), 30);
        assert_eq!(thread_with(&[]), 0);
    }
}
