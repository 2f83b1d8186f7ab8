//! What earlier calls have shown: kernels by handle, contexts and devices, live allocations.

mod contexts;
mod physical;
mod ranges;

pub use contexts::{Contexts, ThreadState};
pub use physical::PhysicalMemory;
pub use ranges::{Handle, Ranges};

use super::demangle::demangled;
use super::driver_names::DriverNames;
use ahash::AHashMap;
use event::{MemorySpace, Name};
use std::collections::BTreeMap;

/// Bounds for programs that never give anything back.
const MOST_KERNELS: usize = 1 << 20;
const MOST_ALLOCATIONS: usize = 1 << 22;

/// Of one process.
#[derive(Debug, Default)]
pub struct ProcessState {
    pub contexts: Contexts,
    pub physical: PhysicalMemory,
    pub ranges: Ranges,
    kernels: AHashMap<u64, Kernel>,
    /// Of kernels that are not in `kernels`.
    pub driver_names: DriverNames,
    /// Sizes of blocks and of shared memory that legacy launches go by.
    blocks: AHashMap<u64, ([u32; 3], u64)>,
    /// By address, so that pointers into the middle are found.
    allocations: BTreeMap<u64, Allocation>,
    /// Memory that another process made.
    foreign: BTreeMap<u64, Allocation>,
    /// Bytes of an element, by array.
    arrays: AHashMap<u64, u64>,
    /// What a kernel without a name was last called by its handle.
    handle_name: Option<(u64, Name)>,
}

/// A kernel's name.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub name: Name,
    /// It is what the driver calls the kernel: the program said so. Symbols of the program may differ in detail.
    pub certain: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    pub size: Option<u64>,
    pub space: MemorySpace,
}

impl ProcessState {
    pub fn name_kernel(&mut self, handle: u64, mangled: &str) {
        let name = demangled(mangled);
        self.set_kernel(
            handle,
            Kernel {
                name,
                certain: true,
            },
        );
    }

    pub fn set_kernel(&mut self, handle: u64, kernel: Kernel) {
        if self.kernels.len() < MOST_KERNELS || self.kernels.contains_key(&handle) {
            self.kernels.insert(handle, kernel);
        }
    }

    pub fn kernel(&self, handle: u64) -> Option<&Kernel> {
        self.kernels.get(&handle)
    }

    /// What a kernel is called that has no name.
    pub fn name_of_handle(&mut self, handle: u64) -> Name {
        match &self.handle_name {
            Some((known, name)) if *known == handle => name.clone(),
            _ => {
                let name: Name = format!("{handle:#x}").into();
                self.handle_name = Some((handle, name.clone()));
                name
            }
        }
    }

    pub fn allocate(&mut self, address: u64, allocation: Allocation) {
        if self.allocations.len() < MOST_ALLOCATIONS {
            self.allocations.insert(address, allocation);
        }
    }

    pub fn free(&mut self, address: u64) -> Freed {
        self.arrays.remove(&address);
        match self.allocations.remove(&address) {
            Some(allocation) => Freed::Known(allocation),
            None if self.foreign.remove(&address).is_some() => Freed::Foreign,
            None => Freed::Unknown,
        }
    }

    /// Memory that is not made here, but can be reached now.
    pub fn see(&mut self, address: u64, allocation: Allocation) {
        if self.foreign.len() < MOST_ALLOCATIONS {
            self.foreign.insert(address, allocation);
        }
    }

    pub fn forget(&mut self, address: u64) {
        self.foreign.remove(&address);
    }

    /// Where an address is, if it is in memory that was seen to come.
    pub fn space_of(&self, address: u64) -> Option<MemorySpace> {
        let inside = |places: &BTreeMap<u64, Allocation>| {
            let (start, allocation) = places.range(..=address).next_back()?;
            let inside = address - start < allocation.size.unwrap_or(1);
            inside.then_some(allocation.space)
        };
        inside(&self.allocations)
            .or_else(|| inside(&self.foreign))
            .or_else(|| self.physical.space_of(address))
    }

    pub fn set_array(&mut self, array: u64, element: u64) {
        if self.arrays.len() < MOST_ALLOCATIONS {
            self.arrays.insert(array, element);
        }
    }

    /// Bytes of an array's element.
    pub fn array_element(&self, array: u64) -> Option<u64> {
        self.arrays.get(&array).copied()
    }

    pub fn set_block(&mut self, kernel: u64, block: [u32; 3]) {
        self.legacy(kernel, |sizes| sizes.0 = block);
    }

    pub fn set_shared(&mut self, kernel: u64, bytes: u64) {
        self.legacy(kernel, |sizes| sizes.1 = bytes);
    }

    fn legacy(&mut self, kernel: u64, change: impl FnOnce(&mut ([u32; 3], u64))) {
        if self.blocks.len() < MOST_KERNELS {
            change(self.blocks.entry(kernel).or_insert(([1; 3], 0)));
        }
    }

    pub fn legacy_sizes(&self, kernel: u64) -> ([u32; 3], u64) {
        self.blocks.get(&kernel).copied().unwrap_or(([1; 3], 0))
    }
}

/// What an address that is given back was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freed {
    Known(Allocation),
    /// Another process's: only the way to it is given up.
    Foreign,
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_inside_allocations_only() {
        let mut state = ProcessState::default();
        let allocation = Allocation {
            size: Some(256),
            space: MemorySpace::Device,
        };
        state.allocate(0x1000, allocation);
        assert_eq!(state.space_of(0x10ff), Some(MemorySpace::Device));
        assert_eq!(
            (state.space_of(0x1100), state.space_of(0xfff)),
            (None, None)
        );
        assert_eq!(state.free(0x1000), Freed::Known(allocation));
        assert_eq!(state.free(0x1000), Freed::Unknown);
        state.see(0x9000, allocation);
        assert_eq!(state.space_of(0x9001), Some(MemorySpace::Device));
        assert_eq!(state.free(0x9000), Freed::Foreign);
        assert_eq!(state.space_of(0x1000), None);
    }
}
