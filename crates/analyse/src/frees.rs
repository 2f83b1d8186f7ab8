//! Frees that went wrong, or that free what the trace never saw allocated.
//!
//! A free of an unknown pointer that succeeds is no mistake: the memory is older than the trace, or
//! came by a call that was not traced. A pointer freed twice, and a free that the driver refused,
//! are mistakes.

use crate::memory::{Class, Key};
use ahash::RandomState;
use event::{Event, Extent, Meaning, Name, Value};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Pointers remembered as freed, at most: two generations of this many.
const MOST_FREED: usize = 1 << 19;
/// Bad frees listed, at most.
const MOST_LISTED: usize = 64;
/// CUDA_ERROR_DEINITIALIZED and cudaErrorCudartUnloading: the driver is going away with its memory,
/// as it does under every program whose destructors run late.
const SHUTTING_DOWN: i64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadFree {
    /// The pointer had been freed and not allocated again.
    Twice,
    /// The pointer is another process's, and the driver refused it.
    OfAnotherProcess,
    /// It was allocated by a function that another one frees.
    WrongFunction,
    /// The driver refused it, and nothing is known of the pointer.
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadFreeCall {
    pub what: BadFree,
    pub function: Name,
    pub pid: u32,
    pub ptr: Option<u64>,
    /// The driver's error, where it refused.
    pub error: Option<Name>,
    pub op_id: u64,
    pub at_ns: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frees {
    /// Mistakes, in time order, the first of them.
    pub bad: Vec<BadFreeCall>,
    /// Mistakes in all.
    pub bad_count: u64,
    /// Frees that succeeded of memory the trace did not see allocated.
    pub of_older_memory: u64,
    /// Allocations at an address that was in use: their frees were not seen.
    pub unseen: u64,
}

/// Remembers what was freed, and lists what went wrong.
#[derive(Debug, Default)]
pub(crate) struct FreeSweep {
    freed: HashSet<Key, RandomState>,
    freed_before: HashSet<Key, RandomState>,
    pub found: Frees,
    /// The last failed call of each thread, by where it stands in the list: the runtime's call
    /// around it fails with it, and is the one to name.
    inner: HashMap<(u32, u32), (u64, Option<usize>), RandomState>,
}

impl FreeSweep {
    pub fn freed(&mut self, key: Key) {
        if self.freed.len() >= MOST_FREED {
            self.freed_before = std::mem::take(&mut self.freed);
        }
        self.freed.insert(key);
    }

    pub fn allocated(&mut self, key: &Key) {
        self.freed.remove(key);
        self.freed_before.remove(key);
    }

    fn was_freed(&self, key: &Key) -> bool {
        self.freed.contains(key) || self.freed_before.contains(key)
    }

    /// A free that succeeded, of something that is not live.
    pub fn unmatched(&mut self, key: Key, meaning: &Meaning, at: u64) {
        // Handles count their holders: releasing one twice is right where it was retained.
        let counted = key.class == Class::Handle || meaning.name.contains("Ipc");
        if counted || !self.was_freed(&key) {
            self.found.of_older_memory += 1;
            return;
        }
        self.list(BadFreeCall {
            what: BadFree::Twice,
            function: meaning.name.clone(),
            pid: meaning.pid,
            ptr: Some(key.ptr),
            error: None,
            op_id: meaning.op,
            at_ns: at,
        });
    }

    /// A call of a freeing function that failed. `owner` knows whose a pointer is.
    pub fn refused(&mut self, event: &Event, at: u64, owner: impl Fn(u64) -> Owner) {
        let Some(status) = event.status.as_ref().filter(|status| status.code != 0) else {
            return;
        };
        if status.code == SHUTTING_DOWN || !matches!(event.extent, Extent::Closed(_)) {
            return;
        }
        let thread = (event.pid, event.tid);
        if let Some(&(start, place)) = self.inner.get(&thread)
            && event.start <= start
        {
            if let Some(call) = place.and_then(|place| self.found.bad.get_mut(place)) {
                call.function = event.name.clone();
                call.op_id = event.id;
                call.error = status.name.clone();
            }
            self.inner.insert(thread, (event.start, place));
            return;
        }
        let ptr = pointer_argument(event);
        let what = match ptr {
            None => BadFree::Refused,
            Some(ptr) => {
                let freed = Class::ALL.iter().any(|&class| {
                    self.was_freed(&Key {
                        pid: event.pid,
                        class,
                        ptr,
                    })
                });
                match owner(ptr) {
                    Owner::ThisProcess => BadFree::WrongFunction,
                    _ if freed => BadFree::Twice,
                    Owner::AnotherProcess => BadFree::OfAnotherProcess,
                    Owner::Unknown => BadFree::Refused,
                }
            }
        };
        let place = self.list(BadFreeCall {
            what,
            function: event.name.clone(),
            pid: event.pid,
            ptr,
            error: status.name.clone(),
            op_id: event.id,
            at_ns: at,
        });
        if self.inner.len() >= MOST_LISTED {
            self.inner.clear();
        }
        self.inner.insert(thread, (event.start, place));
    }

    fn list(&mut self, call: BadFreeCall) -> Option<usize> {
        self.found.bad_count += 1;
        if self.found.bad.len() >= MOST_LISTED {
            return None;
        }
        self.found.bad.push(call);
        Some(self.found.bad.len() - 1)
    }
}

/// Whose live memory a pointer is.
pub(crate) enum Owner {
    ThisProcess,
    AnotherProcess,
    Unknown,
}

/// The function frees memory, by its name.
pub(crate) fn frees_memory(function: &str) -> bool {
    let family = cuda::family(function);
    (family.starts_with("cuMemFree") || family.starts_with("cudaFree"))
        || matches!(
            family,
            "cuMemRelease" | "cuArrayDestroy" | "cuMipmappedArrayDestroy"
        )
}

fn pointer_argument(event: &Event) -> Option<u64> {
    ["dptr", "devPtr", "p", "ptr", "handle", "hArray", "array"]
        .iter()
        .find_map(|name| event.arg(name))
        .and_then(Value::as_u64)
}
