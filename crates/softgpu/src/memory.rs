//! Device-visible memory: which address ranges kernels may touch.
//!
//! A device pointer is a host pointer of this process, so copies and kernels need no translation.
//! Every allocation (device, pinned, managed, registered) is a region here; an access outside all
//! regions is a fault. Shared, local, constant and parameter windows of the generic address space
//! live at non-canonical addresses that no host mapping can have.

use std::sync::{
    Arc, RwLock,
    atomic::{AtomicU64, Ordering},
};

/// Start of the shared window; `cvta.shared` adds it to a shared offset.
pub const SHARED_WINDOW: u64 = 0x0100_0000_0000_0000;
/// Start of the local window.
pub const LOCAL_WINDOW: u64 = 0x0200_0000_0000_0000;
/// Start of the kernel-parameter window.
pub const PARAM_WINDOW: u64 = 0x0300_0000_0000_0000;
/// Each window is this long.
pub const WINDOW_SIZE: u64 = 1 << 40;

/// The live regions at one moment, sorted by start, disjoint.
#[derive(Debug, Default)]
pub struct Regions {
    sorted: Vec<(u64, u64)>,
}

impl Regions {
    /// The region (start, end) that holds `address`.
    pub fn find(&self, address: u64) -> Option<(u64, u64)> {
        let after = self.sorted.partition_point(|&(start, _)| start <= address);
        let region = self.sorted[..after].last().copied()?;
        (address < region.1).then_some(region)
    }
}

/// The regions, shared by the API threads that change them and the workers that read them.
#[derive(Debug, Default)]
pub struct Memory {
    regions: RwLock<Arc<Regions>>,
    generation: AtomicU64,
}

impl Memory {
    /// A snapshot; workers keep one and fetch again when [`Self::generation`] moved and a look-up missed.
    pub fn regions(&self) -> Arc<Regions> {
        self.regions
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .clone()
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Makes [start, start + len) accessible to kernels.
    pub fn add(&self, start: u64, len: u64) {
        self.change(|sorted| {
            let at = sorted.partition_point(|&(s, _)| s < start);
            sorted.insert(at, (start, start + len));
        });
    }

    /// Takes the region that starts at `start` away; false if there is none.
    pub fn remove(&self, start: u64) -> bool {
        let mut found = false;
        self.change(|sorted| {
            if let Ok(at) = sorted.binary_search_by_key(&start, |&(s, _)| s) {
                sorted.remove(at);
                found = true;
            }
        });
        found
    }

    fn change(&self, edit: impl FnOnce(&mut Vec<(u64, u64)>)) {
        let mut current = self
            .regions
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut sorted = current.sorted.clone();
        edit(&mut sorted);
        *current = Arc::new(Regions { sorted });
        self.generation.fetch_add(1, Ordering::Release);
    }
}
