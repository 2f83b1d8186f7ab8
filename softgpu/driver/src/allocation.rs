//! Every range of memory the device may use: where it came from and what it is.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use super::{
    arena::Arena,
    context::Context,
    resource::{self, MemoryResource},
    result::{Answer, HOST_MEMORY_ALREADY_REGISTERED, INVALID_VALUE, OUT_OF_MEMORY},
    state::driver,
    virtual_memory,
};
use softgpu_machine::memory::Memory;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryKind {
    Device,
    /// Allocated by cuMemAllocHost and its like.
    Pinned,
    Managed,
    /// The program's own, made known by cuMemHostRegister.
    Registered,
    /// A variable of a module.
    Variable,
    /// From cuMemAllocAsync.
    Pooled,
    /// Of an allocation node: lives as long as graphs hold the node.
    Graph,
    /// Mapped by cuMemMap and made accessible.
    Mapped,
}

pub struct Allocation {
    pub start: u64,
    pub size: u64,
    pub kind: MemoryKind,
    /// Handle of the context it was made in.
    pub context: u64,
    /// CU_MEMHOSTALLOC_*, CU_MEMHOSTREGISTER_* or CU_MEM_ATTACH_* flags.
    pub flags: u32,
    /// CU_POINTER_ATTRIBUTE_BUFFER_ID: unique in the process.
    pub id: u64,
    pub sync_memops: AtomicBool,
    pub resource: MemoryResource,
}

impl Allocation {
    pub fn is_host(&self) -> bool {
        matches!(self.kind, MemoryKind::Pinned | MemoryKind::Registered)
    }
}

/// The table of allocations, and the regions kernels see.
#[derive(Default)]
pub struct Allocations {
    pub memory: Memory,
    arena: Mutex<Option<Arena>>,
    live: RwLock<BTreeMap<u64, Arc<Allocation>>>,
    next_id: AtomicU64,
}

impl Allocations {
    /// The allocation that holds `address`.
    pub fn find(&self, address: u64) -> Option<Arc<Allocation>> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        let (_, found) = live.range(..=address).next_back()?;
        (address < found.start + found.size).then(|| found.clone())
    }

    /// The allocation that holds all of [address, address + bytes).
    pub fn covering(&self, address: u64, bytes: u64) -> Option<Arc<Allocation>> {
        let found = self.find(address)?;
        let end = address.checked_add(bytes)?;
        let mut last = found.start + found.size;
        // Mappings side by side are one range to whoever uses them.
        while last < end && found.kind == MemoryKind::Mapped {
            let next = self.find(last)?;
            if next.kind != MemoryKind::Mapped {
                return None;
            }
            last = next.start + next.size;
        }
        (end <= last).then_some(found)
    }

    /// Makes a mapping visible to kernels and copies.
    pub fn expose(&self, context: &Context, start: u64, size: u64) {
        self.enter(context, start, size, MemoryKind::Mapped, 0);
    }

    /// Takes a mapping from the sight of kernels and copies.
    pub fn conceal(&self, start: u64) {
        self.release(start, &[MemoryKind::Mapped]);
    }

    /// True for an address of device memory, allocated or not.
    pub fn is_device_address(&self, address: u64) -> bool {
        self.arena()
            .as_ref()
            .is_some_and(|arena| arena.contains(address))
    }

    fn arena(&self) -> std::sync::MutexGuard<'_, Option<Arena>> {
        self.arena.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a block of device memory. `reserved` bytes lie at its start, `bytes` are accessible.
    pub fn allocate(
        &self,
        context: &Context,
        bytes: u64,
        kind: MemoryKind,
        flags: u32,
    ) -> Answer<u64> {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        // Memory without addresses counts as well.
        if virtual_memory::committed() > 0 && bytes > self.free_and_total().0 {
            return Err(OUT_OF_MEMORY);
        }
        let start = {
            let mut arena = self.arena();
            if arena.is_none() {
                *arena = reserve(driver().device.memory);
            }
            arena
                .as_mut()
                .and_then(|arena| arena.allocate(bytes))
                .ok_or(OUT_OF_MEMORY)?
        };
        self.enter(context, start, bytes, kind, flags);
        Ok(start)
    }

    /// Pinned memory: pages of its own, outside the device's memory.
    pub fn allocate_host(&self, context: &Context, bytes: u64, flags: u32) -> Answer<u64> {
        let length = usize::try_from(bytes).map_err(|_| OUT_OF_MEMORY)?;
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(OUT_OF_MEMORY);
        }
        self.enter(context, start as u64, bytes, MemoryKind::Pinned, flags);
        Ok(start as u64)
    }

    /// Makes the program's own memory visible to kernels.
    pub fn register(&self, context: &Context, start: u64, bytes: u64, flags: u32) -> Answer {
        let end = start.checked_add(bytes).ok_or(INVALID_VALUE)?;
        let overlaps = self
            .live
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .range(..end)
            .next_back()
            .is_some_and(|(_, a)| a.start + a.size > start);
        if overlaps {
            return Err(HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.enter(context, start, bytes, MemoryKind::Registered, flags);
        Ok(())
    }

    fn enter(&self, context: &Context, start: u64, size: u64, kind: MemoryKind, flags: u32) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let allocation = Arc::new(Allocation {
            start,
            size,
            kind,
            context: context.handle,
            flags,
            id,
            sync_memops: AtomicBool::new(false),
            resource: resource::allocated(kind, start, size),
        });
        self.live
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(start, allocation);
        // Word loads at an odd-sized buffer's end must not fault.
        self.memory.add(start, size.next_multiple_of(4));
    }

    /// Frees what starts at `start`, if it is of one of these kinds.
    pub fn release(&self, start: u64, kinds: &[MemoryKind]) -> Option<Arc<Allocation>> {
        let allocation = {
            let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
            if !kinds.contains(&live.get(&start)?.kind) {
                return None;
            }
            live.remove(&start)?
        };
        self.forget(&allocation);
        Some(allocation)
    }

    fn forget(&self, allocation: &Allocation) {
        self.memory.remove(allocation.start);
        resource::freed(allocation);
        match allocation.kind {
            MemoryKind::Registered | MemoryKind::Mapped => {}
            MemoryKind::Pinned => unsafe {
                libc::munmap(allocation.start as *mut _, allocation.size as usize);
            },
            _ => {
                if let Some(arena) = self.arena().as_mut() {
                    arena.release(allocation.start);
                }
            }
        }
    }

    /// Frees an allocation of a graph, unless it went with its context.
    pub fn release_graph_memory(&self, start: u64, id: u64) {
        let is_same = self.find(start).is_some_and(|found| found.id == id);
        if is_same {
            self.release(start, &[MemoryKind::Graph]);
        }
    }

    /// Frees everything a context owns.
    pub fn release_context(&self, context: u64) {
        let gone: Vec<Arc<Allocation>> = {
            let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
            let gone = live
                .values()
                .filter(|a| a.context == context)
                .cloned()
                .collect::<Vec<_>>();
            for allocation in &gone {
                live.remove(&allocation.start);
            }
            gone
        };
        for allocation in gone {
            self.forget(&allocation);
        }
    }

    /// (free, total) bytes of device memory.
    pub fn free_and_total(&self) -> (u64, u64) {
        let (free, total) = match self.arena().as_ref() {
            Some(arena) => (arena.size() - arena.used(), arena.size()),
            None => (driver().device.memory, driver().device.memory),
        };
        (free.saturating_sub(virtual_memory::committed()), total)
    }

    /// Bytes in allocations of one kind.
    pub fn total_of(&self, kind: MemoryKind) -> u64 {
        self.live
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .filter(|a| a.kind == kind)
            .map(|a| a.size)
            .sum()
    }
}

/// Reserves the device's memory, or as much of it as the process may have.
fn reserve(size: u64) -> Option<Arena> {
    std::iter::successors(Some(size), |size| Some(size / 2))
        .take_while(|size| *size >= 64 << 20)
        .find_map(Arena::reserve)
        .or_else(|| Arena::reserve(size))
}
