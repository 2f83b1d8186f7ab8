//! Executable graphs: instantiating, launching, updating. Instantiation parameters and update
//! results have the driver's layout.

use std::ffi::{c_uint, c_void};

use crate::call::given;
use crate::types::Handle;

cuda! {
    context fn cudaGraphInstantiate(exec: *mut Handle, graph: Handle, flags: u64) |cu| {
        given(exec)?;
        cu.cuGraphInstantiateWithFlags(exec, graph, flags)
    };
    context fn cudaGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, flags: u64) |cu| {
        given(exec)?;
        cu.cuGraphInstantiateWithFlags(exec, graph, flags)
    };
    context fn cudaGraphInstantiateWithParams, cudaGraphInstantiateWithParams_ptsz(
        exec: *mut Handle, graph: Handle, params: *mut c_void,
    ) |cu| {
        given(exec)?;
        given(params)?;
        cu.cuGraphInstantiateWithParams(exec, graph, params)
    };
    plain fn cudaGraphExecGetFlags(exec: Handle, flags: *mut u64) |cu| {
        given(flags)?;
        cu.cuGraphExecGetFlags(exec, flags)
    };
    context fn cudaGraphUpload, cudaGraphUpload_ptsz(
        exec: Handle, stream: Handle,
    ) |cu| cu.cuGraphUpload(exec, stream);
    context fn cudaGraphLaunch, cudaGraphLaunch_ptsz(
        exec: Handle, stream: Handle,
    ) |cu| cu.cuGraphLaunch(exec, stream);
    context fn cudaGraphExecDestroy(exec: Handle) |cu| cu.cuGraphExecDestroy(exec);

    context fn cudaGraphExecUpdate(exec: Handle, graph: Handle, result: *mut c_void) |cu| {
        given(result)?;
        cu.cuGraphExecUpdate(exec, graph, result)
    };
    context fn cudaGraphExecHostNodeSetParams(
        exec: Handle, node: Handle, params: *const c_void,
    ) |cu| {
        given(params)?;
        cu.cuGraphExecHostNodeSetParams(exec, node, params)
    };
    context fn cudaGraphExecChildGraphNodeSetParams(
        exec: Handle, node: Handle, child: Handle,
    ) |cu| cu.cuGraphExecChildGraphNodeSetParams(exec, node, child);
    context fn cudaGraphExecEventRecordNodeSetEvent(
        exec: Handle, node: Handle, event: Handle,
    ) |cu| cu.cuGraphExecEventRecordNodeSetEvent(exec, node, event);
    context fn cudaGraphExecEventWaitNodeSetEvent(
        exec: Handle, node: Handle, event: Handle,
    ) |cu| cu.cuGraphExecEventWaitNodeSetEvent(exec, node, event);
    context fn cudaGraphNodeSetEnabled(
        exec: Handle, node: Handle, enabled: c_uint,
    ) |cu| cu.cuGraphNodeSetEnabled(exec, node, enabled);
    context fn cudaGraphNodeGetEnabled(exec: Handle, node: Handle, enabled: *mut c_uint) |cu| {
        given(enabled)?;
        cu.cuGraphNodeGetEnabled(exec, node, enabled)
    };
}
