//! Pinned and registered host memory.

use std::ffi::c_void;

use super::memory::finish_owner;
use crate::{
    allocation::MemoryKind,
    capture,
    entry::{api, put},
    result::{Answer, HOST_MEMORY_NOT_REGISTERED, INVALID_VALUE},
    state::driver,
    thread,
};

const ALLOC_FLAGS: u32 = 7;
const REGISTER_FLAGS: u32 = 0xf;
const MAPPED: u32 = 2;

unsafe fn allocate(place: *mut *mut c_void, bytes: usize, flags: u32) -> Answer {
    if place.is_null() || flags & !ALLOC_FLAGS != 0 {
        return Err(INVALID_VALUE);
    }
    let context = thread::usable()?;
    capture::refuse_unsafe_call()?;
    if bytes == 0 {
        return unsafe { put(place, std::ptr::null_mut()) };
    }
    let start = driver()
        .allocations
        .allocate_host(&context, bytes as u64, flags)?;
    unsafe { put(place, start as *mut c_void) }
}

fn register(start: *mut c_void, bytes: usize, flags: u32) -> Answer {
    if start.is_null() || bytes == 0 || flags & !REGISTER_FLAGS != 0 {
        return Err(INVALID_VALUE);
    }
    let context = thread::usable()?;
    capture::refuse_unsafe_call()?;
    driver()
        .allocations
        .register(&context, start as u64, bytes as u64, flags)
}

api! {
    fn cuMemAllocHost(place: *mut *mut c_void, bytes: u32) {
        allocate(place, bytes as usize, 0)
    }

    fn cuMemAllocHost_v2(place: *mut *mut c_void, bytes: usize) {
        allocate(place, bytes, 0)
    }

    fn cuMemHostAlloc(place: *mut *mut c_void, bytes: usize, flags: u32) {
        allocate(place, bytes, flags)
    }

    fn cuMemFreeHost(start: *mut c_void) {
        let context = thread::usable()?;
        if start.is_null() {
            return Ok(());
        }
        capture::refuse_unsafe_call()?;
        let found = driver().allocations.find(start as u64).ok_or(INVALID_VALUE)?;
        if found.start != start as u64 || found.kind != MemoryKind::Pinned {
            return Err(INVALID_VALUE);
        }
        finish_owner(&context, found.context);
        let freed = driver().allocations.release(start as u64, &[MemoryKind::Pinned]);
        freed.map(|_| ()).ok_or(INVALID_VALUE)
    }

    fn cuMemHostRegister(start: *mut c_void, bytes: usize, flags: u32) {
        register(start, bytes, flags)
    }

    fn cuMemHostRegister_v2(start: *mut c_void, bytes: usize, flags: u32) {
        register(start, bytes, flags)
    }

    fn cuMemHostUnregister(start: *mut c_void) {
        let context = thread::usable()?;
        capture::refuse_unsafe_call()?;
        if start.is_null() {
            return Err(INVALID_VALUE);
        }
        let found = driver().allocations.find(start as u64).ok_or(HOST_MEMORY_NOT_REGISTERED)?;
        if found.start != start as u64 || found.kind != MemoryKind::Registered {
            return Err(INVALID_VALUE);
        }
        finish_owner(&context, found.context);
        let gone = driver().allocations.release(start as u64, &[MemoryKind::Registered]);
        gone.map(|_| ()).ok_or(HOST_MEMORY_NOT_REGISTERED)
    }

    /// A device pointer is the host pointer itself.
    fn cuMemHostGetDevicePointer_v2(address: *mut u64, start: *mut c_void, flags: u32) {
        thread::usable()?;
        if address.is_null() || flags != 0 {
            return Err(INVALID_VALUE);
        }
        let found = driver().allocations.find(start as u64).ok_or(INVALID_VALUE)?;
        if !found.is_host() {
            return Err(INVALID_VALUE);
        }
        put(address, start as u64)
    }

    fn cuMemHostGetFlags(flags: *mut u32, start: *mut c_void) {
        thread::usable()?;
        let found = driver().allocations.find(start as u64).ok_or(INVALID_VALUE)?;
        if !found.is_host() {
            return Err(INVALID_VALUE);
        }
        // Under unified addressing all pinned memory is mapped.
        put(flags, found.flags | MAPPED)
    }
}
