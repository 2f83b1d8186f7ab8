//! Executable graphs: instantiation, launch, update.

use std::{ffi::c_char, sync::Arc};

use super::{
    graph_node::event,
    graph_node_params::{changed_work, copy_of, fill_of, host_of, kernel_of},
};
use crate::{
    abi::{
        GraphNodeParams, HostNodeParams, InstantiateParams, KernelNodeParams, KernelNodeParams2,
        Memcpy3d, MemsetNodeParams, UpdateResult,
    },
    entry::{api, put, put_optional, stream_api, take},
    graph,
    plan::{GraphExec, Launched, UPDATE_REFUSED},
    result::{Answer, INVALID_VALUE},
    state::driver,
    stream::resolve,
    thread,
    work::Work,
};

const FLAGS: u64 = 0xf;
const DEVICE_LAUNCH: u64 = 4;

fn instantiate(graph: u64, flags: u64) -> Answer<u64> {
    thread::usable()?;
    if flags & !FLAGS != 0 {
        return Err(INVALID_VALUE);
    }
    if flags & DEVICE_LAUNCH != 0 {
        crate::notice::say("softgpu does not implement graphs launched by kernels");
        return Err(crate::result::NOT_SUPPORTED);
    }
    Ok(GraphExec::instantiate(&*graph::by_handle(graph)?, flags)?.handle)
}

unsafe fn instantiate_with_log(
    exec: *mut u64,
    graph: u64,
    node: *mut u64,
    log: *mut c_char,
    size: usize,
) -> Answer {
    if exec.is_null() {
        return Err(INVALID_VALUE);
    }
    unsafe {
        put_optional(node, 0);
        if !log.is_null() && size > 0 {
            log.write(0);
        }
        put(exec, instantiate(graph, 0)?)
    }
}

fn find(handle: u64) -> Answer<Arc<GraphExec>> {
    driver().executables.get(handle).ok_or(INVALID_VALUE)
}

api! {
    fn cuGraphInstantiate(
        exec: *mut u64,
        graph: u64,
        node: *mut u64,
        log: *mut c_char,
        size: usize,
    ) {
        instantiate_with_log(exec, graph, node, log, size)
    }

    fn cuGraphInstantiate_v2(
        exec: *mut u64,
        graph: u64,
        node: *mut u64,
        log: *mut c_char,
        size: usize,
    ) {
        instantiate_with_log(exec, graph, node, log, size)
    }

    fn cuGraphInstantiateWithFlags(exec: *mut u64, graph: u64, flags: u64) {
        if exec.is_null() {
            return Err(INVALID_VALUE);
        }
        put(exec, instantiate(graph, flags)?)
    }

    fn cuGraphExecDestroy(exec: u64) {
        // A launch in progress keeps its plan.
        driver().executables.remove(exec).map(|_| ()).ok_or(INVALID_VALUE)
    }

    fn cuGraphExecGetFlags(exec: u64, flags: *mut u64) {
        put(flags, find(exec)?.flags)
    }

    fn cuGraphNodeGetEnabled(exec: u64, node: u64, enabled: *mut u32) {
        put(enabled, u32::from(find(exec)?.is_enabled(node)?))
    }

    fn cuGraphNodeSetEnabled(exec: u64, node: u64, enabled: u32) {
        let exec = find(exec)?;
        if !matches!(exec.work(node)?, Work::Kernel(_) | Work::Copy(_) | Work::Fill(_)) {
            return Err(INVALID_VALUE);
        }
        exec.set_enabled(node, enabled != 0)
    }

    fn cuGraphExecKernelNodeSetParams(exec: u64, node: u64, params: *const KernelNodeParams) {
        find(exec)?.set_work(node, kernel_of(take(params)?, 0, 0)?)
    }

    fn cuGraphExecKernelNodeSetParams_v2(exec: u64, node: u64, params: *const KernelNodeParams2) {
        let params = take(params)?;
        find(exec)?.set_work(node, kernel_of(params.base, params.kernel, params.context)?)
    }

    fn cuGraphExecMemcpyNodeSetParams(exec: u64, node: u64, params: *const Memcpy3d, _context: u64) {
        find(exec)?.set_work(node, copy_of(take(params)?)?)
    }

    fn cuGraphExecMemsetNodeSetParams(
        exec: u64,
        node: u64,
        params: *const MemsetNodeParams,
        _context: u64,
    ) {
        find(exec)?.set_work(node, fill_of(take(params)?)?)
    }

    fn cuGraphExecHostNodeSetParams(exec: u64, node: u64, params: *const HostNodeParams) {
        find(exec)?.set_work(node, host_of(take(params)?)?)
    }

    fn cuGraphExecChildGraphNodeSetParams(exec: u64, node: u64, embedded: u64) {
        find(exec)?.set_work(node, Work::Child(graph::by_handle(embedded)?))
    }

    fn cuGraphExecEventRecordNodeSetEvent(exec: u64, node: u64, recorded: u64) {
        find(exec)?.set_work(node, Work::RecordEvent(event(recorded)?))
    }

    fn cuGraphExecEventWaitNodeSetEvent(exec: u64, node: u64, awaited: u64) {
        find(exec)?.set_work(node, Work::WaitEvent(event(awaited)?))
    }

    fn cuGraphExecNodeSetParams(exec: u64, node: u64, params: *const GraphNodeParams) {
        find(exec)?.set_work(node, changed_work(&take(params)?)?)
    }

    fn cuGraphExecUpdate(exec: u64, graph: u64, node: *mut u64, result: *mut u32) {
        let (exec, graph) = (find(exec)?, graph::by_handle(graph)?);
        match exec.update(&graph) {
            Ok(()) => {
                put_optional(node, 0);
                put_optional(result, 0);
                Ok(())
            }
            Err(refused) => {
                put_optional(node, refused.node);
                put_optional(result, refused.result);
                Err(UPDATE_REFUSED)
            }
        }
    }

    fn cuGraphExecUpdate_v2(exec: u64, graph: u64, result: *mut UpdateResult) {
        let (exec, graph) = (find(exec)?, graph::by_handle(graph)?);
        let (result_code, error_node, done) = match exec.update(&graph) {
            Ok(()) => (0, 0, Ok(())),
            Err(refused) => (refused.result, refused.node, Err(UPDATE_REFUSED)),
        };
        put(result, UpdateResult { result: result_code, error_node, error_from_node: 0 })?;
        done
    }
}

stream_api! {
    fn cuGraphInstantiateWithParams / cuGraphInstantiateWithParams_ptsz(null;
        exec: *mut u64,
        graph: u64,
        params: *mut InstantiateParams,
    ) {
        const ERROR: u32 = 1;
        if exec.is_null() {
            return Err(INVALID_VALUE);
        }
        let mut given = take(params)?;
        if given.upload_stream != 0 {
            resolve(null, given.upload_stream)?;
        }
        let made = instantiate(graph, given.flags);
        given.error_node = 0;
        given.result = if made.is_ok() { 0 } else { ERROR };
        put(params, given)?;
        put(exec, made?)
    }

    fn cuGraphUpload / cuGraphUpload_ptsz(null; exec: u64, stream: u64) {
        find(exec)?;
        resolve(null, stream).map(|_| ())
    }

    fn cuGraphLaunch / cuGraphLaunch_ptsz(null; exec: u64, stream: u64) {
        let (context, stream) = resolve(null, stream)?;
        let exec = find(exec)?;
        // Launched again while it runs: in order, whatever the stream.
        exec.launch(&context, &stream, |plan| Work::Graph(Launched::prepare(plan)))
    }
}
