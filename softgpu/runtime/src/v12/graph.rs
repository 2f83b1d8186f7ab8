//! Edges and dependencies as CUDA 12 has them: plain, and with data under names of their own.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null;

use crate::api::graph_params::{NodeParams, with_driver_params};
use crate::call::given;
use crate::types::Handle;

cuda! {
    context fn cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz(
        stream: Handle, status: *mut c_int, id: *mut u64,
    ) |cu| {
        given(status)?;
        cu.cuStreamGetCaptureInfo_v10010(stream, status, id)
    };
    context fn cudaStreamGetCaptureInfo_v2, cudaStreamGetCaptureInfo_v2_ptsz(
        stream: Handle, status: *mut c_int, id: *mut u64, graph: *mut Handle,
        dependencies: *mut *mut c_void, count: *mut usize,
    ) |cu| {
        given(status)?;
        cu.cuStreamGetCaptureInfo_v11030(stream, status, id, graph, dependencies, count)
    };
    context fn cudaStreamGetCaptureInfo_v3, cudaStreamGetCaptureInfo_v3_ptsz(
        stream: Handle, status: *mut c_int, id: *mut u64, graph: *mut Handle,
        dependencies: *mut *mut c_void, edges: *mut *mut c_void, count: *mut usize,
    ) |cu| {
        given(status)?;
        cu.cuStreamGetCaptureInfo(stream, status, id, graph, dependencies, edges, count)
    };
    context fn cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_ptsz(
        stream: Handle, dependencies: *mut Handle, count: usize, flags: c_uint,
    ) |cu| cu.cuStreamUpdateCaptureDependencies_v11030(stream, dependencies, count, flags);
    context fn cudaStreamUpdateCaptureDependencies_v2, cudaStreamUpdateCaptureDependencies_v2_ptsz(
        stream: Handle, dependencies: *mut Handle, edges: *const c_void, count: usize,
        flags: c_uint,
    ) |cu| cu.cuStreamUpdateCaptureDependencies(stream, dependencies, edges, count, flags);

    plain fn cudaGraphGetEdges(
        graph: Handle, from: *mut Handle, to: *mut Handle, count: *mut usize,
    ) |cu| cu.cuGraphGetEdges_v10000(graph, from, to, count);
    plain fn cudaGraphGetEdges_v2(
        graph: Handle, from: *mut Handle, to: *mut Handle, edges: *mut c_void, count: *mut usize,
    ) |cu| cu.cuGraphGetEdges(graph, from, to, edges, count);
    plain fn cudaGraphNodeGetDependencies(
        node: Handle, dependencies: *mut Handle, count: *mut usize,
    ) |cu| cu.cuGraphNodeGetDependencies_v10000(node, dependencies, count);
    plain fn cudaGraphNodeGetDependencies_v2(
        node: Handle, dependencies: *mut Handle, edges: *mut c_void, count: *mut usize,
    ) |cu| cu.cuGraphNodeGetDependencies(node, dependencies, edges, count);
    plain fn cudaGraphNodeGetDependentNodes(
        node: Handle, dependents: *mut Handle, count: *mut usize,
    ) |cu| cu.cuGraphNodeGetDependentNodes_v10000(node, dependents, count);
    plain fn cudaGraphNodeGetDependentNodes_v2(
        node: Handle, dependents: *mut Handle, edges: *mut c_void, count: *mut usize,
    ) |cu| cu.cuGraphNodeGetDependentNodes(node, dependents, edges, count);
    plain fn cudaGraphAddDependencies(
        graph: Handle, from: *const Handle, to: *const Handle, count: usize,
    ) |cu| cu.cuGraphAddDependencies_v10000(graph, from, to, count);
    plain fn cudaGraphAddDependencies_v2(
        graph: Handle, from: *const Handle, to: *const Handle, edges: *const c_void, count: usize,
    ) |cu| cu.cuGraphAddDependencies(graph, from, to, edges, count);
    plain fn cudaGraphRemoveDependencies(
        graph: Handle, from: *const Handle, to: *const Handle, count: usize,
    ) |cu| cu.cuGraphRemoveDependencies_v10000(graph, from, to, count);
    plain fn cudaGraphRemoveDependencies_v2(
        graph: Handle, from: *const Handle, to: *const Handle, edges: *const c_void, count: usize,
    ) |cu| cu.cuGraphRemoveDependencies(graph, from, to, edges, count);

    context fn cudaGraphAddNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize,
        params: *mut NodeParams,
    ) |cu| with_driver_params(cu, params, |driver| {
        cu.cuGraphAddNode(node, graph, dependencies, null(), count, driver)
    });
    context fn cudaGraphAddNode_v2(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, edges: *const c_void,
        count: usize, params: *mut NodeParams,
    ) |cu| with_driver_params(cu, params, |driver| {
        cu.cuGraphAddNode(node, graph, dependencies, edges, count, driver)
    });
}
