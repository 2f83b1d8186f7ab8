//! Device malloc and free. Memory once handed to device code stays with it: a kernel that uses a
//! freed block may only ever damage other device blocks, never the host's heap.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::memory::Memory;

/// The largest single allocation device code gets; more is NULL.
const MAX_ALLOCATION: u64 = 1 << 30;

#[derive(Default)]
struct Heap {
    /// Size of each live block.
    live: HashMap<u64, u64>,
    /// Freed blocks by size.
    free: HashMap<u64, Vec<u64>>,
}

static HEAP: Mutex<Option<Heap>> = Mutex::new(None);

fn with_heap<T>(work: impl FnOnce(&mut Heap) -> T) -> T {
    let mut heap = HEAP.lock().unwrap_or_else(PoisonError::into_inner);
    work(heap.get_or_insert_default())
}

/// A block of at least `size` bytes, zeroed, or 0.
pub fn allocate(memory: &Memory, size: u64) -> u64 {
    if size == 0 || size > MAX_ALLOCATION {
        return 0;
    }
    let size = size.next_multiple_of(16);
    let address = with_heap(|heap| {
        let recycled = heap.free.get_mut(&size).and_then(Vec::pop);
        let address = recycled.unwrap_or_else(|| {
            // SAFETY: a plain allocation, checked for null below.
            unsafe { libc::calloc(1, size as usize) as u64 }
        });
        if address != 0 {
            heap.live.insert(address, size);
        }
        address
    });
    if address != 0 {
        memory.add(address, size);
    }
    address
}

/// Takes a block back; false if it is not one.
pub fn release(memory: &Memory, address: u64) -> bool {
    let size = with_heap(|heap| heap.live.remove(&address));
    let Some(size) = size else {
        return false;
    };
    memory.remove(address);
    with_heap(|heap| heap.free.entry(size).or_default().push(address));
    true
}
