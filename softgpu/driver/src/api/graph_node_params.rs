//! Node parameters: from the structures of cuda.h to work, and back.

use super::{
    graph_memory_node::{allocate, free, memory_operations},
    graph_node::{child, event},
};
use crate::{
    abi::{
        BatchMemOpNodeParams, ConditionalNodeParams, GraphNodeParams, HostNodeParams,
        KernelNodeParams, KernelNodeParams2, MemAllocNodeParams, Memcpy3d, MemcpyNodeParams,
        MemsetNodeParams,
    },
    context,
    copy::{Copy, Fill},
    graph::Graph,
    launch::{self, KernelWork, Shape, gather},
    notice,
    result::{Answer, INVALID_VALUE, NOT_SUPPORTED},
    state::driver,
    thread,
    work::{Conditional, ConditionalKind, HostCall, Work},
};

/// More graphs in one node are refused.
const MOST_BODIES: u32 = 1024;

pub unsafe fn kernel_of(params: KernelNodeParams, kernel: u64, context: u64) -> Answer<Work> {
    let context = match context {
        0 => thread::usable()?,
        handle => context::by_handle(handle)?,
    };
    let handle = if params.function == 0 {
        kernel
    } else {
        params.function
    };
    let function = launch::resolve(&context, handle)?;
    let shape = Shape::new(params.grid, params.block, params.shared);
    let block = unsafe { gather(function.kernel(), params.params.cast(), params.extra.cast())? };
    Ok(Work::Kernel(KernelWork::new(function, shape, block)?))
}

/// The parameters as the node holds them: the pointers are the node's own.
pub fn kernel_params(work: &KernelWork) -> KernelNodeParams {
    KernelNodeParams {
        function: work.function.handle,
        grid: work.grid,
        block: work.block,
        shared: work.shared,
        params: work.param_pointers(),
        extra: std::ptr::null_mut(),
    }
}

pub fn copy_of(params: Memcpy3d) -> Answer<Work> {
    Ok(Work::Copy(Copy::rows(&params)?.into()))
}

pub fn fill_of(params: MemsetNodeParams) -> Answer<Work> {
    let (width, height) = (params.width as u64, params.height as u64);
    let pitch = params.pitch as u64;
    let fill = Fill::new(
        params.dst,
        pitch,
        params.value,
        params.element_size,
        width,
        height,
    )?;
    Ok(Work::Fill(fill))
}

pub fn put_fill(fill: &Fill) -> MemsetNodeParams {
    MemsetNodeParams {
        dst: fill.start,
        pitch: fill.pitch as usize,
        value: fill.value,
        element_size: fill.element,
        width: fill.width as usize,
        height: fill.height as usize,
    }
}

pub fn host_of(params: HostNodeParams) -> Answer<Work> {
    if params.function.is_none() {
        return Err(INVALID_VALUE);
    }
    Ok(Work::Host(HostCall {
        function: params.function,
        data: params.data as usize,
    }))
}

pub fn put_host(call: &HostCall) -> HostNodeParams {
    HostNodeParams {
        function: call.function,
        data: call.data as *mut _,
    }
}

/// The work CUgraphNodeParams describes.
pub unsafe fn node_work(params: &GraphNodeParams) -> Answer<Work> {
    let words = params.words.as_ptr();
    unsafe {
        match params.kind {
            0 => {
                let kernel = words.cast::<KernelNodeParams2>().read_unaligned();
                kernel_of(kernel.base, kernel.kernel, kernel.context)
            }
            1 => copy_of(words.cast::<MemcpyNodeParams>().read_unaligned().copy),
            2 => fill_of(words.cast::<MemsetNodeParams>().read_unaligned()),
            3 => host_of(words.cast::<HostNodeParams>().read_unaligned()),
            4 => child(params.words[0]),
            5 => Ok(Work::Empty),
            6 => Ok(Work::WaitEvent(event(params.words[0])?)),
            7 => Ok(Work::RecordEvent(event(params.words[0])?)),
            10 => allocate(&words.cast::<MemAllocNodeParams>().read_unaligned()),
            11 => free(params.words[0]),
            12 => memory_operations(&words.cast::<BatchMemOpNodeParams>().read_unaligned()),
            13 => conditional(&words.cast::<ConditionalNodeParams>().read_unaligned()),
            8 | 9 => {
                notice::say(
                    "softgpu does not implement nodes that wait for or signal external semaphores",
                );
                Err(NOT_SUPPORTED)
            }
            _ => Err(INVALID_VALUE),
        }
    }
}

/// The same for a node that is there: a conditional one cannot be changed.
pub unsafe fn changed_work(params: &GraphNodeParams) -> Answer<Work> {
    const CONDITIONAL: u32 = 13;
    if params.kind == CONDITIONAL {
        return Err(INVALID_VALUE);
    }
    unsafe { node_work(params) }
}

fn conditional(params: &ConditionalNodeParams) -> Answer<Work> {
    let condition = driver()
        .conditions
        .get(params.handle)
        .ok_or(INVALID_VALUE)?;
    let (kind, sizes) = match params.kind {
        0 => (ConditionalKind::If, 1..=2),
        1 => (ConditionalKind::While, 1..=1),
        2 => (ConditionalKind::Switch, 1..=MOST_BODIES),
        _ => return Err(INVALID_VALUE),
    };
    if !sizes.contains(&params.size) {
        return Err(INVALID_VALUE);
    }
    if kind == ConditionalKind::While && condition.value != 0 {
        notice::say("softgpu does not implement loops in graphs: kernels cannot end them");
        return Err(NOT_SUPPORTED);
    }
    let bodies = (0..params.size).map(|_| Graph::create()).collect();
    Ok(Work::Conditional(Conditional::new(
        condition.value,
        kind,
        bodies,
    )))
}
