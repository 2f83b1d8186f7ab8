//! Edges and dependencies as CUDA 13 has them: every edge may carry data.

use std::ffi::{c_int, c_uint, c_void};

use crate::api::graph_params::{NodeParams, with_driver_params};
use crate::call::given;
use crate::types::Handle;

cuda! {
    context fn cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz(
        stream: Handle, status: *mut c_int, id: *mut u64, graph: *mut Handle,
        dependencies: *mut *mut c_void, edges: *mut *mut c_void, count: *mut usize,
    ) |cu| {
        given(status)?;
        cu.cuStreamGetCaptureInfo(stream, status, id, graph, dependencies, edges, count)
    };
    context fn cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_ptsz(
        stream: Handle, dependencies: *mut Handle, edges: *const c_void, count: usize,
        flags: c_uint,
    ) |cu| cu.cuStreamUpdateCaptureDependencies(stream, dependencies, edges, count, flags);

    plain fn cudaGraphGetEdges(
        graph: Handle, from: *mut Handle, to: *mut Handle, edges: *mut c_void, count: *mut usize,
    ) |cu| cu.cuGraphGetEdges(graph, from, to, edges, count);
    plain fn cudaGraphNodeGetDependencies(
        node: Handle, dependencies: *mut Handle, edges: *mut c_void, count: *mut usize,
    ) |cu| cu.cuGraphNodeGetDependencies(node, dependencies, edges, count);
    plain fn cudaGraphNodeGetDependentNodes(
        node: Handle, dependents: *mut Handle, edges: *mut c_void, count: *mut usize,
    ) |cu| cu.cuGraphNodeGetDependentNodes(node, dependents, edges, count);
    plain fn cudaGraphAddDependencies(
        graph: Handle, from: *const Handle, to: *const Handle, edges: *const c_void, count: usize,
    ) |cu| cu.cuGraphAddDependencies(graph, from, to, edges, count);
    plain fn cudaGraphRemoveDependencies(
        graph: Handle, from: *const Handle, to: *const Handle, edges: *const c_void, count: usize,
    ) |cu| cu.cuGraphRemoveDependencies(graph, from, to, edges, count);

    context fn cudaGraphAddNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, edges: *const c_void,
        count: usize, params: *mut NodeParams,
    ) |cu| with_driver_params(cu, params, |driver| {
        cu.cuGraphAddNode(node, graph, dependencies, edges, count, driver)
    });
}
