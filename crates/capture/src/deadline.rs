//! When recording ends, known only once everything is attached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The moment of CLOCK_MONOTONIC after which nothing is recorded. Clones share it: `-d` counts from when hooks
/// are in place, and by then the threads that ask for it have long started.
#[derive(Debug, Clone)]
pub struct Deadline(Arc<AtomicU64>);

impl Default for Deadline {
    fn default() -> Self {
        Deadline(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Deadline {
    pub fn set(&self, ns: u64) {
        self.0.store(ns, Ordering::Relaxed);
    }

    /// Whether something that begins at this moment comes too late.
    pub fn is_past(&self, ns: u64) -> bool {
        ns > self.0.load(Ordering::Relaxed)
    }

    /// The moment itself, if there is one.
    pub fn get(&self) -> Option<u64> {
        let ns = self.0.load(Ordering::Relaxed);
        (ns != u64::MAX).then_some(ns)
    }
}
