//! Memory that CUPTI fills: taken and given back again and again, so that it stays mapped.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

/// Some 4,000 kernels with their launches. CUPTI takes one for each thread that makes calls.
pub const BYTES: usize = 1 << 20;
/// Buffers kept for use again.
const MOST_SPARE: usize = 64;

/// As u64, for CUPTI wants them aligned to 8 bytes.
static SPARE: Mutex<Vec<Box<[u64]>>> = Mutex::new(Vec::new());

static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Buffers that CUPTI has.
pub fn in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// CUPTI wants a buffer, on whichever thread.
pub extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, most_records: *mut usize) {
    IN_USE.fetch_add(1, Ordering::Relaxed);
    let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let memory = spare.unwrap_or_else(|| vec![0u64; BYTES / 8].into_boxed_slice());
    // SAFETY: CUPTI passes places for all three.
    unsafe {
        buffer.write(Box::into_raw(memory).cast());
        size.write(BYTES);
        most_records.write(0);
    }
}

/// One of ours comes back.
pub fn give_back(buffer: *mut u8) {
    IN_USE.fetch_sub(1, Ordering::Relaxed);
    let place = std::ptr::slice_from_raw_parts_mut(buffer.cast::<u64>(), BYTES / 8);
    // SAFETY: `request` made it, and CUPTI gives each back once.
    let memory = unsafe { Box::from_raw(place) };
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    if spare.len() < MOST_SPARE {
        spare.push(memory);
    }
}
