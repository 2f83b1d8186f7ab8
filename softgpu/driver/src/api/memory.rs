//! Device memory: allocation, pitch, information.

use crate::{
    allocation::MemoryKind,
    capture,
    context::Context,
    entry::{api, put, put_optional, stream_api},
    graph_memory::GraphMemory,
    resource,
    result::{Answer, INVALID_VALUE, NOT_FOUND},
    state::driver,
    stream::{NullStream, resolve},
    thread,
    work::Work,
};

/// Rows start at multiples of this.
const PITCH: u64 = 512;

/// Frees device memory once nothing can be using it any more.
fn free(address: u64) -> Answer {
    let context = thread::usable()?;
    if address == 0 {
        return Ok(());
    }
    capture::refuse_unsafe_call()?;
    let kinds = [MemoryKind::Device, MemoryKind::Managed, MemoryKind::Pooled];
    let allocation = driver().allocations.find(address).ok_or(INVALID_VALUE)?;
    if allocation.kind == MemoryKind::Graph && allocation.start == address {
        // The graph's node holds it for the next launch.
        return context.synchronise();
    }
    if allocation.start != address || !kinds.contains(&allocation.kind) {
        return Err(INVALID_VALUE);
    }
    finish_owner(&context, allocation.context);
    context.healthy()?;
    driver()
        .allocations
        .release(address, &kinds)
        .map(|_| ())
        .ok_or(INVALID_VALUE)
}

/// Waits for the work of the context that owns an allocation.
pub fn finish_owner(current: &Context, owner: u64) {
    if owner == current.handle {
        current.drain();
    } else if let Some(owner) = driver().contexts.get(owner) {
        owner.drain();
    }
}

api! {
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) {
        if address.is_null() {
            return Err(INVALID_VALUE);
        }
        let context = thread::usable()?;
        capture::refuse_unsafe_call()?;
        let start = driver().allocations.allocate(&context, bytes as u64, MemoryKind::Device, 0)?;
        put(address, start)
    }

    fn cuMemAllocPitch_v2(
        address: *mut u64,
        pitch: *mut usize,
        width: usize,
        height: usize,
        element: u32,
    ) {
        if address.is_null() || pitch.is_null() || !matches!(element, 4 | 8 | 16) {
            return Err(INVALID_VALUE);
        }
        let context = thread::usable()?;
        capture::refuse_unsafe_call()?;
        let row = (width as u64).checked_next_multiple_of(PITCH).ok_or(INVALID_VALUE)?;
        let bytes = row.checked_mul(height as u64).ok_or(INVALID_VALUE)?;
        let start = driver().allocations.allocate(&context, bytes, MemoryKind::Device, 0)?;
        put(pitch, row as usize)?;
        put(address, start)
    }

    fn cuMemFree_v2(address: u64) {
        free(address)
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        thread::usable()?;
        let (left, all) = driver().allocations.free_and_total();
        resource::memory_info(left, all);
        put(free, left as usize)?;
        put(total, all as usize)
    }

    fn cuMemGetInfo(free: *mut u32, total: *mut u32) {
        thread::usable()?;
        let (left, all) = driver().allocations.free_and_total();
        put(free, u32::try_from(left).unwrap_or(u32::MAX))?;
        put(total, u32::try_from(all).unwrap_or(u32::MAX))
    }

    fn cuMemGetAddressRange_v2(start: *mut u64, bytes: *mut usize, address: u64) {
        thread::usable()?;
        let found = driver().allocations.find(address).ok_or(NOT_FOUND)?;
        put_optional(start, found.start);
        put_optional(bytes, found.size as usize);
        Ok(())
    }
}

/// Memory in stream order: the address is known at once.
pub fn allocate_async(null: NullStream, bytes: usize, stream: u64) -> Answer<u64> {
    let (context, stream) = resolve(null, stream)?;
    if bytes == 0 {
        return Ok(0);
    }
    if capture::of(&stream).is_some() {
        let memory = GraphMemory::allocate(&context, bytes as u64)?;
        let start = memory.start;
        capture::add_work(&stream, &Work::Allocate(memory))?;
        return Ok(start);
    }
    driver()
        .allocations
        .allocate(&context, bytes as u64, MemoryKind::Pooled, 0)
}

stream_api! {
    fn cuMemAllocAsync / cuMemAllocAsync_ptsz(null; address: *mut u64, bytes: usize, stream: u64) {
        if address.is_null() {
            return Err(INVALID_VALUE);
        }
        put(address, allocate_async(null, bytes, stream)?)
    }

    fn cuMemFreeAsync / cuMemFreeAsync_ptsz(null; address: u64, stream: u64) {
        let (context, stream) = resolve(null, stream)?;
        if address == 0 {
            return Ok(());
        }
        let found = driver().allocations.find(address).ok_or(INVALID_VALUE)?;
        if found.kind == MemoryKind::Graph && found.start == address {
            stream.issue(&context, Work::FreeNode(address))?;
            return Ok(());
        }
        let kinds = [MemoryKind::Pooled, MemoryKind::Device];
        if found.start != address || !kinds.contains(&found.kind) {
            return Err(INVALID_VALUE);
        }
        stream.issue(&context, Work::Free(address))
    }
}
