//! Turning what is queued in a stream into a graph.

use std::ffi::{c_int, c_void};

use crate::call::given;
use crate::types::Handle;

cuda! {
    context fn cudaStreamBeginCapture, cudaStreamBeginCapture_ptsz(
        stream: Handle, mode: c_int,
    ) |cu| cu.cuStreamBeginCapture(stream, mode);

    context fn cudaStreamBeginCaptureToGraph, cudaStreamBeginCaptureToGraph_ptsz(
        stream: Handle, graph: Handle, dependencies: *const Handle, edges: *const c_void,
        count: usize, mode: c_int,
    ) |cu| cu.cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, count, mode);

    context fn cudaThreadExchangeStreamCaptureMode(mode: *mut c_int) |cu| {
        given(mode)?;
        cu.cuThreadExchangeStreamCaptureMode(mode)
    };

    context fn cudaStreamEndCapture, cudaStreamEndCapture_ptsz(
        stream: Handle, graph: *mut Handle,
    ) |cu| {
        given(graph)?;
        cu.cuStreamEndCapture(stream, graph)
    };

    context fn cudaStreamIsCapturing, cudaStreamIsCapturing_ptsz(
        stream: Handle, status: *mut c_int,
    ) |cu| {
        given(status)?;
        cu.cuStreamIsCapturing(stream, status)
    };
}
