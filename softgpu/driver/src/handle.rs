//! Handles: opaque values given to the program, checked whenever they come back.
//!
//! A handle is never reused, so one that was destroyed, or was never given out, is found to be
//! invalid instead of being followed.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// What a handle names; part of its value, so that one kind is never taken for another.
#[derive(Clone, Copy)]
#[repr(u64)]
pub enum Kind {
    Context = 1,
    Stream,
    Event,
    Module,
    Function,
    Library,
    Kernel,
    Graph,
    GraphNode,
    GraphExec,
    Link,
    UserObject,
    Pool,
    Physical,
    Condition,
}

/// Handles look like pointers of no mapping: above the heap, below the kernel.
const BASE: u64 = 0x0000_6000_0000_0000;

/// The live objects of one kind.
pub struct Registry<T> {
    kind: Kind,
    next: AtomicU64,
    live: RwLock<Option<HashMap<u64, Arc<T>>>>,
}

impl<T> Registry<T> {
    pub const fn new(kind: Kind) -> Self {
        Self {
            kind,
            next: AtomicU64::new(1),
            live: RwLock::new(None),
        }
    }

    /// A handle nobody has had before.
    pub fn fresh(&self) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        BASE | (self.kind as u64) << 40 | (number & 0xf_ffff_ffff) << 4
    }

    pub fn insert(&self, handle: u64, object: Arc<T>) {
        self.live
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_default()
            .insert(handle, object);
    }

    pub fn get(&self, handle: u64) -> Option<Arc<T>> {
        self.live
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()?
            .get(&handle)
            .cloned()
    }

    pub fn remove(&self, handle: u64) -> Option<Arc<T>> {
        self.live
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()?
            .remove(&handle)
    }

    /// All objects there are now.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.live
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .flat_map(|live| live.values().cloned())
            .collect()
    }

    /// Drops every object for which `gone` is true, and returns them.
    pub fn remove_where(&self, mut gone: impl FnMut(&T) -> bool) -> Vec<Arc<T>> {
        let mut removed = Vec::new();
        if let Some(live) = self
            .live
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
        {
            live.retain(|_, object| {
                let goes = gone(object);
                if goes {
                    removed.push(object.clone());
                }
                !goes
            });
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_handle_never_comes_back() {
        let registry = Registry::new(Kind::Event);
        let first = registry.fresh();
        registry.insert(first, Arc::new(1));
        assert_eq!(registry.get(first).as_deref(), Some(&1));
        assert!(registry.remove(first).is_some());
        assert!(registry.remove(first).is_none());
        let second = registry.fresh();
        registry.insert(second, Arc::new(2));
        assert_ne!(first, second);
        assert!(registry.get(first).is_none());
    }
}
