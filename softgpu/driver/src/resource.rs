//! The kernel side of resources: the system calls a real libcuda makes for them, on stand-in
//! devices. Launches, copies and modules make none, on hardware neither.

use std::sync::{Mutex, PoisonError};

use super::allocation::{Allocation, MemoryKind};
use crate::resman::{ContextHandles, MemHandle, Session, StreamHandle};

static SESSION: Session = Session::start();

/// Called by cuInit.
pub fn start() {
    SESSION.init();
}

/// Called by cuDeviceGetName.
pub fn device_name(name: &str) {
    SESSION.device_name(name);
}

/// Called by cuMemGetInfo.
pub fn memory_info(free: u64, total: u64) {
    SESSION.mem_info(free, total);
}

/// What the kernel side holds for a context.
pub struct ContextResource(Mutex<Option<ContextHandles>>);

impl ContextResource {
    pub fn create() -> Self {
        Self(Mutex::new(Some(SESSION.context_create())))
    }

    pub fn destroy(&self) {
        let handles = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handles) = handles {
            SESSION.context_destroy(handles);
        }
    }
}

/// What the kernel side holds for a stream.
#[derive(Default)]
pub struct StreamResource(Mutex<Option<StreamHandle>>);

impl StreamResource {
    pub fn create() -> Self {
        Self(Mutex::new(Some(SESSION.stream_create())))
    }

    pub fn destroy(&self) {
        let handle = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle {
            SESSION.stream_destroy(handle);
        }
    }
}

/// What the kernel side holds for memory.
#[derive(Default)]
pub struct MemoryResource(Mutex<Option<MemHandle>>);

/// Called when memory has been allocated.
pub fn allocated(kind: MemoryKind, start: u64, size: u64) -> MemoryResource {
    let mut device = None;
    match kind {
        MemoryKind::Device => device = Some(SESSION.mem_alloc_at(start, size)),
        MemoryKind::Pinned => SESSION.host_alloc(start, size),
        MemoryKind::Registered => SESSION.host_register(start, size),
        MemoryKind::Managed => SESSION.managed_alloc(start, size),
        MemoryKind::Variable | MemoryKind::Pooled | MemoryKind::Graph | MemoryKind::Mapped => {}
    }
    MemoryResource(Mutex::new(device))
}

/// Called before memory is given back.
pub fn freed(allocation: &Allocation) {
    match allocation.kind {
        MemoryKind::Device => {
            let handle = allocation
                .resource
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(handle) = handle {
                SESSION.mem_free(handle);
            }
        }
        MemoryKind::Pinned => SESSION.host_free(allocation.start),
        MemoryKind::Registered => SESSION.host_unregister(allocation.start),
        MemoryKind::Managed => SESSION.managed_free(allocation.start),
        MemoryKind::Variable | MemoryKind::Pooled | MemoryKind::Graph | MemoryKind::Mapped => {}
    }
}

/// Called by cuMemPrefetchAsync.
pub fn prefetched(start: u64, size: u64) {
    SESSION.managed_prefetch(start, size);
}

/// Called by cuMemAdvise for memory that is read mostly.
pub fn read_mostly(start: u64, size: u64) {
    SESSION.managed_read_mostly(start, size);
}
