//! From when to when calls are recorded, known only once everything is attached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The moments of CLOCK_MONOTONIC between which calls are recorded. Clones share them: `-d` counts from when hooks
/// are in place, and by then the threads that ask have long started.
#[derive(Debug, Clone)]
pub struct Deadline {
    from: Arc<AtomicU64>,
    until: Arc<AtomicU64>,
}

impl Default for Deadline {
    fn default() -> Self {
        Deadline {
            from: Arc::default(),
            until: Arc::new(AtomicU64::new(u64::MAX)),
        }
    }
}

impl Deadline {
    pub fn set(&self, ns: u64) {
        self.until.store(ns, Ordering::Relaxed);
    }

    /// Nothing is recorded until a beginning is set: while some functions are hooked and others are not, calls
    /// would look like pauses.
    pub fn hold(&self) {
        self.begin(u64::MAX);
    }

    pub fn begin(&self, ns: u64) {
        self.from.store(ns, Ordering::Relaxed);
    }

    /// Whether something that begins at this moment comes too late.
    pub fn is_past(&self, ns: u64) -> bool {
        ns > self.until.load(Ordering::Relaxed)
    }

    /// Whether something that begins at this moment comes too early or too late.
    pub fn leaves_out(&self, ns: u64) -> bool {
        ns < self.from.load(Ordering::Relaxed) || self.is_past(ns)
    }

    /// The end itself, if there is one.
    pub fn get(&self) -> Option<u64> {
        let ns = self.until.load(Ordering::Relaxed);
        (ns != u64::MAX).then_some(ns)
    }
}
