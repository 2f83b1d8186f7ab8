//! The engine's heap: blocks of powers of two out of mapped chunks, kept for reuse by size.
//! The engine runs under the loader's lock, one thread at a time, so there is no lock here.

use crate::sys;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::null_mut;

const CLASSES: usize = 32;
const SMALLEST: usize = 16;
const CHUNK: usize = 256 << 10;

struct Heap(UnsafeCell<State>);

struct State {
    free: [*mut u8; CLASSES],
    next: usize,
    end: usize,
}

// SAFETY: see above: one thread at a time.
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new(State {
    free: [null_mut(); CLASSES],
    next: 0,
    end: 0,
}));

fn class_of(layout: &Layout) -> (usize, usize) {
    let size = layout
        .size()
        .max(layout.align())
        .max(SMALLEST)
        .next_power_of_two();
    ((size / SMALLEST).trailing_zeros() as usize, size)
}

fn map(bytes: usize) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh mapping, wherever the kernel likes.
    unsafe { sys::map(0, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, None) }
}

unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (class, size) = class_of(&layout);
        // SAFETY: one thread at a time.
        let state = unsafe { &mut *self.0.get() };
        if class >= CLASSES || layout.align() > 4096 {
            return null_mut();
        }
        let head = state.free[class];
        if !head.is_null() {
            // SAFETY: a free block begins with the address of the next.
            state.free[class] = unsafe { head.cast::<*mut u8>().read() };
            return head;
        }
        if size >= CHUNK {
            return map(size).map_or(null_mut(), |at| at as *mut u8);
        }
        let mut at = state.next.next_multiple_of(size.min(4096));
        if at + size > state.end || state.next == 0 {
            let Some(chunk) = map(CHUNK) else {
                return null_mut();
            };
            at = chunk;
            state.end = chunk + CHUNK;
        }
        state.next = at + size;
        at as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let (class, _) = class_of(&layout);
        // SAFETY: one thread at a time; the block is at least as large as a pointer.
        unsafe {
            let state = &mut *self.0.get();
            block.cast::<*mut u8>().write(state.free[class]);
            state.free[class] = block;
        }
    }
}
