//! Nodes of graphs: adding them, and reading and changing what they do.

use std::sync::Arc;

use super::graph_node_params::{
    changed_work, copy_of, fill_of, host_of, kernel_of, kernel_params, node_work, put_fill,
    put_host,
};
use crate::{
    abi::{
        EdgeData, GraphNodeParams, HostNodeParams, KernelNodeParams, KernelNodeParams2, Memcpy3d,
        MemsetNodeParams,
    },
    entry::{api, put, take, take_array},
    event::Event,
    graph::{self, Node},
    launch::KernelWork,
    result::{Answer, INVALID_HANDLE, INVALID_VALUE},
    state::driver,
    work::Work,
};

pub unsafe fn add(
    place: *mut u64,
    graph: u64,
    after: *const u64,
    count: usize,
    work: Answer<Work>,
) -> Answer {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    let graph = graph::by_handle(graph)?;
    let after = unsafe { take_array(after, count)? };
    unsafe { put(place, graph.add(work?, &after)?) }
}

/// Adds a node of any kind; an allocation's address and a conditional's graphs go back into the parameters.
unsafe fn add_general(
    place: *mut u64,
    graph: u64,
    after: *const u64,
    count: usize,
    params: *mut GraphNodeParams,
) -> Answer {
    /// Of CUDA_MEM_ALLOC_NODE_PARAMS.
    const ADDRESS_WORD: usize = 14;
    /// Of CUDA_CONDITIONAL_NODE_PARAMS.
    const GRAPHS_WORD: usize = 2;
    let mut given = unsafe { take(params)? };
    let work = unsafe { node_work(&given)? };
    match &work {
        Work::Allocate(memory) => given.words[ADDRESS_WORD] = memory.start,
        Work::Conditional(conditional) => {
            given.words[GRAPHS_WORD] = conditional.handles.as_ptr() as u64;
        }
        _ => {}
    }
    unsafe {
        add(place, graph, after, count, Ok(work))?;
        put(params, given)
    }
}

/// Replaces the work of a node by work of the same kind.
pub fn replace(node: u64, work: Work) -> Answer {
    let graph = graph::of_node(node)?;
    let mut nodes = graph.nodes();
    let place = nodes.get_mut(node)?;
    if std::mem::discriminant(&place.work) != std::mem::discriminant(&work) {
        return Err(INVALID_VALUE);
    }
    place.work = work;
    Ok(())
}

pub fn read(node: u64) -> Answer<Node> {
    Ok(graph::of_node(node)?.nodes().get(node)?.clone())
}

fn kernel(node: u64) -> Answer<Arc<KernelWork>> {
    match read(node)?.work {
        Work::Kernel(work) => Ok(work),
        _ => Err(INVALID_VALUE),
    }
}

pub fn event(handle: u64) -> Answer<Arc<Event>> {
    driver().events.get(handle).ok_or(INVALID_HANDLE)
}

pub fn child(graph: u64) -> Answer<Work> {
    Ok(Work::Child(graph::by_handle(graph)?.duplicate()))
}

// Kernel-node attributes, as far as they change anything.
const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;
const PRIORITY: u32 = 8;

api! {
    fn cuGraphAddKernelNode(
        node: *mut u64,
        graph: u64,
        after: *const u64,
        count: usize,
        params: *const KernelNodeParams,
    ) {
        add(node, graph, after, count, kernel_of(take(params)?, 0, 0))
    }

    fn cuGraphAddKernelNode_v2(
        node: *mut u64,
        graph: u64,
        after: *const u64,
        count: usize,
        params: *const KernelNodeParams2,
    ) {
        let params = take(params)?;
        add(node, graph, after, count, kernel_of(params.base, params.kernel, params.context))
    }

    fn cuGraphAddMemcpyNode(
        node: *mut u64,
        graph: u64,
        after: *const u64,
        count: usize,
        params: *const Memcpy3d,
        _context: u64,
    ) {
        add(node, graph, after, count, copy_of(take(params)?))
    }

    fn cuGraphAddMemsetNode(
        node: *mut u64,
        graph: u64,
        after: *const u64,
        count: usize,
        params: *const MemsetNodeParams,
        _context: u64,
    ) {
        add(node, graph, after, count, fill_of(take(params)?))
    }

    fn cuGraphAddHostNode(
        node: *mut u64,
        graph: u64,
        after: *const u64,
        count: usize,
        params: *const HostNodeParams,
    ) {
        add(node, graph, after, count, host_of(take(params)?))
    }

    fn cuGraphAddChildGraphNode(
        node: *mut u64,
        graph: u64,
        after: *const u64,
        count: usize,
        embedded: u64,
    ) {
        if graph == embedded {
            return Err(INVALID_VALUE);
        }
        add(node, graph, after, count, child(embedded))
    }

    fn cuGraphAddEmptyNode(node: *mut u64, graph: u64, after: *const u64, count: usize) {
        add(node, graph, after, count, Ok(Work::Empty))
    }

    fn cuGraphAddEventRecordNode(
        node: *mut u64,
        graph: u64,
        after: *const u64,
        count: usize,
        recorded: u64,
    ) {
        add(node, graph, after, count, event(recorded).map(Work::RecordEvent))
    }

    fn cuGraphAddEventWaitNode(
        node: *mut u64,
        graph: u64,
        after: *const u64,
        count: usize,
        awaited: u64,
    ) {
        add(node, graph, after, count, event(awaited).map(Work::WaitEvent))
    }

    fn cuGraphAddNode(
        node: *mut u64,
        graph: u64,
        after: *const u64,
        count: usize,
        params: *mut GraphNodeParams,
    ) {
        add_general(node, graph, after, count, params)
    }

    fn cuGraphAddNode_v2(
        node: *mut u64,
        graph: u64,
        after: *const u64,
        _data: *const EdgeData,
        count: usize,
        params: *mut GraphNodeParams,
    ) {
        add_general(node, graph, after, count, params)
    }

    fn cuGraphNodeSetParams(node: u64, params: *const GraphNodeParams) {
        replace(node, changed_work(&take(params)?)?)
    }

    fn cuGraphKernelNodeGetParams(node: u64, params: *mut KernelNodeParams) {
        put(params, kernel_params(&*kernel(node)?))
    }

    fn cuGraphKernelNodeGetParams_v2(node: u64, params: *mut KernelNodeParams2) {
        let work = kernel(node)?;
        let base = kernel_params(&work);
        put(params, KernelNodeParams2 { base, kernel: 0, context: work.function.context })
    }

    fn cuGraphKernelNodeSetParams(node: u64, params: *const KernelNodeParams) {
        replace(node, kernel_of(take(params)?, 0, 0)?)
    }

    fn cuGraphKernelNodeSetParams_v2(node: u64, params: *const KernelNodeParams2) {
        let params = take(params)?;
        replace(node, kernel_of(params.base, params.kernel, params.context)?)
    }

    fn cuGraphKernelNodeGetAttribute(node: u64, attribute: u32, value: *mut [u32; 16]) {
        let work = kernel(node)?;
        let mut words = [0; 16];
        match attribute {
            COOPERATIVE => words[0] = u32::from(work.cooperative),
            CLUSTER => words[..3].copy_from_slice(&work.cluster),
            PRIORITY => words[0] = work.priority as u32,
            1 | 3 | 5 | 9 | 10 | 14 => {}
            _ => return Err(INVALID_VALUE),
        }
        put(value, words)
    }

    fn cuGraphKernelNodeSetAttribute(node: u64, attribute: u32, value: *const [u32; 16]) {
        let value = take(value)?;
        let work = kernel(node)?;
        let mut shape = work.shape();
        shape.apply(&[crate::abi::LaunchAttribute { id: attribute, pad: 0, value }])?;
        let changed = KernelWork::new(work.function.clone(), shape, work.params.clone())?;
        replace(node, Work::Kernel(changed))
    }

    fn cuGraphKernelNodeCopyAttributes(to: u64, from: u64) {
        let (from, work) = (kernel(from)?, kernel(to)?);
        let mut shape = work.shape();
        shape.cooperative = from.cooperative;
        shape.cluster = from.cluster;
        shape.priority = from.priority;
        let changed = KernelWork::new(work.function.clone(), shape, work.params.clone())?;
        replace(to, Work::Kernel(changed))
    }

    fn cuGraphMemcpyNodeGetParams(node: u64, params: *mut Memcpy3d) {
        match read(node)?.work {
            Work::Copy(copy) => put(params, copy.described),
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuGraphMemcpyNodeSetParams(node: u64, params: *const Memcpy3d) {
        replace(node, copy_of(take(params)?)?)
    }

    fn cuGraphMemsetNodeGetParams(node: u64, params: *mut MemsetNodeParams) {
        match read(node)?.work {
            Work::Fill(fill) => put(params, put_fill(&fill)),
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuGraphMemsetNodeSetParams(node: u64, params: *const MemsetNodeParams) {
        replace(node, fill_of(take(params)?)?)
    }

    fn cuGraphHostNodeGetParams(node: u64, params: *mut HostNodeParams) {
        match read(node)?.work {
            Work::Host(call) => put(params, put_host(&call)),
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuGraphHostNodeSetParams(node: u64, params: *const HostNodeParams) {
        replace(node, host_of(take(params)?)?)
    }

    fn cuGraphEventRecordNodeGetEvent(node: u64, place: *mut u64) {
        match read(node)?.work {
            Work::RecordEvent(event) => put(place, event.handle),
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuGraphEventRecordNodeSetEvent(node: u64, recorded: u64) {
        replace(node, Work::RecordEvent(event(recorded)?))
    }

    fn cuGraphEventWaitNodeGetEvent(node: u64, place: *mut u64) {
        match read(node)?.work {
            Work::WaitEvent(event) => put(place, event.handle),
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuGraphEventWaitNodeSetEvent(node: u64, awaited: u64) {
        replace(node, Work::WaitEvent(event(awaited)?))
    }
}
