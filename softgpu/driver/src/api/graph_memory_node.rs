//! Nodes of graphs that allocate and free memory, and nodes of memory operations.

use super::{
    graph_node::{add, read, replace},
    memory_operation::batch,
};
use crate::{
    abi::{BatchMemOpNodeParams, MemAllocNodeParams},
    allocation::MemoryKind,
    device::Device,
    entry::{api, put, take},
    graph_memory::GraphMemory,
    result::{Answer, INVALID_VALUE, NOT_SUPPORTED},
    state::driver,
    thread,
    work::Work,
};

const PINNED: u32 = 1;
const DEVICE_LOCATION: u32 = 1;

/// Allocates what an allocation node asks for.
pub fn allocate(params: &MemAllocNodeParams) -> Answer<Work> {
    let context = thread::usable()?;
    if params.kind != PINNED || params.size == 0 {
        return Err(INVALID_VALUE);
    }
    if params.location.kind != DEVICE_LOCATION || params.handle_types != 0 {
        return Err(NOT_SUPPORTED);
    }
    Device::check(params.location.id)?;
    let memory = GraphMemory::allocate(&context, params.size as u64)?;
    Ok(Work::Allocate(memory))
}

pub fn free(address: u64) -> Answer<Work> {
    match driver().allocations.find(address) {
        Some(found) if found.kind == MemoryKind::Graph && found.start == address => {
            Ok(Work::FreeNode(address))
        }
        _ => Err(INVALID_VALUE),
    }
}

pub unsafe fn memory_operations(params: &BatchMemOpNodeParams) -> Answer<Work> {
    if params.flags != 0 {
        return Err(INVALID_VALUE);
    }
    unsafe { batch(params.count, params.operations) }
}

api! {
    fn cuGraphAddMemAllocNode(
        node: *mut u64,
        graph: u64,
        after: *const u64,
        count: usize,
        params: *mut MemAllocNodeParams,
    ) {
        let mut asked = take(params)?;
        let work = allocate(&asked)?;
        if let Work::Allocate(memory) = &work {
            asked.address = memory.start;
        }
        add(node, graph, after, count, Ok(work))?;
        put(params, asked)
    }

    fn cuGraphMemAllocNodeGetParams(node: u64, params: *mut MemAllocNodeParams) {
        match read(node)?.work {
            Work::Allocate(memory) => put(params, MemAllocNodeParams::of(memory.start, memory.size)),
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuGraphAddMemFreeNode(
        node: *mut u64,
        graph: u64,
        after: *const u64,
        count: usize,
        address: u64,
    ) {
        add(node, graph, after, count, free(address))
    }

    fn cuGraphMemFreeNodeGetParams(node: u64, address: *mut u64) {
        match read(node)?.work {
            Work::FreeNode(freed) => put(address, freed),
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuGraphAddBatchMemOpNode(
        node: *mut u64,
        graph: u64,
        after: *const u64,
        count: usize,
        params: *const BatchMemOpNodeParams,
    ) {
        add(node, graph, after, count, memory_operations(&take(params)?))
    }

    fn cuGraphBatchMemOpNodeGetParams(node: u64, params: *mut BatchMemOpNodeParams) {
        match read(node)?.work {
            // The array is the node's own: valid while the node is not changed.
            Work::Memory(batch) => put(params, BatchMemOpNodeParams {
                context: thread::current_handle(),
                count: batch.described.len() as u32,
                operations: batch.described.as_ptr(),
                flags: 0,
            }),
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuGraphBatchMemOpNodeSetParams(node: u64, params: *const BatchMemOpNodeParams) {
        replace(node, memory_operations(&take(params)?)?)
    }

    fn cuGraphExecBatchMemOpNodeSetParams(
        exec: u64,
        node: u64,
        params: *const BatchMemOpNodeParams,
    ) {
        let exec = driver().executables.get(exec).ok_or(INVALID_VALUE)?;
        exec.set_work(node, memory_operations(&take(params)?)?)
    }
}
