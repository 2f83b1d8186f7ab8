//! What kernels print: kept until the host synchronises, then written to C's stdout.
//!
//! The C stream is used, not the descriptor, so that the order with the program's own printf holds.

use std::sync::{Mutex, PoisonError};

unsafe extern "C" {
    static mut stdout: *mut libc::FILE;
}

#[derive(Default)]
pub struct PrintBuffer(Mutex<Vec<u8>>);

impl PrintBuffer {
    /// Hardware overwrites the oldest output beyond `limit`; here it is written early instead.
    pub fn push(&self, bytes: &[u8], limit: usize) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        if kept.len() > limit {
            write(&kept);
            kept.clear();
        }
    }

    pub fn flush(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.is_empty() {
            write(&kept);
            kept.clear();
        }
    }
}

fn write(bytes: &[u8]) {
    unsafe {
        libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stdout);
    }
}
