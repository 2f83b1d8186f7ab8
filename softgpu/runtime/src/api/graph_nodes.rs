//! Kernel and memset nodes, and nodes of any type by their common parameters.

use std::ffi::{c_int, c_void};

use crate::api::graph_params::{
    EMPTY_KERNEL, NodeParams, kernel_from_driver, kernel_to_driver, with_driver_params,
};
use crate::call::given;
use crate::context;
use crate::types::{Handle, KernelNodeParams, MemsetParams};

cuda! {
    context fn cudaGraphAddKernelNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize,
        params: *const KernelNodeParams,
    ) |cu| {
        given(params)?;
        let params = kernel_to_driver(cu, &*params)?;
        cu.cuGraphAddKernelNode(node, graph, dependencies, count, (&raw const params).cast())
    };

    context fn cudaGraphKernelNodeGetParams(node: Handle, params: *mut KernelNodeParams) |cu| {
        given(params)?;
        let mut found = EMPTY_KERNEL;
        cu.cuGraphKernelNodeGetParams(node, (&raw mut found).cast())?;
        params.write(kernel_from_driver(&found));
        Ok(())
    };

    context fn cudaGraphKernelNodeSetParams(node: Handle, params: *const KernelNodeParams) |cu| {
        given(params)?;
        let params = kernel_to_driver(cu, &*params)?;
        cu.cuGraphKernelNodeSetParams(node, (&raw const params).cast())
    };

    context fn cudaGraphExecKernelNodeSetParams(
        exec: Handle, node: Handle, params: *const KernelNodeParams,
    ) |cu| {
        given(params)?;
        let params = kernel_to_driver(cu, &*params)?;
        cu.cuGraphExecKernelNodeSetParams(exec, node, (&raw const params).cast())
    };

    plain fn cudaGraphKernelNodeCopyAttributes(
        dst: Handle, src: Handle,
    ) |cu| cu.cuGraphKernelNodeCopyAttributes(dst, src);
    plain fn cudaGraphKernelNodeGetAttribute(
        node: Handle, attribute: c_int, value: *mut c_void,
    ) |cu| cu.cuGraphKernelNodeGetAttribute(node, attribute, value);
    plain fn cudaGraphKernelNodeSetAttribute(
        node: Handle, attribute: c_int, value: *const c_void,
    ) |cu| cu.cuGraphKernelNodeSetAttribute(node, attribute, value);

    context fn cudaGraphAddMemsetNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize,
        params: *const MemsetParams,
    ) |cu| {
        given(params)?;
        let context = context::current(cu)?;
        cu.cuGraphAddMemsetNode(node, graph, dependencies, count, params.cast(), context)
    };
    plain fn cudaGraphMemsetNodeGetParams(node: Handle, params: *mut MemsetParams) |cu| {
        given(params)?;
        cu.cuGraphMemsetNodeGetParams(node, params.cast())
    };
    context fn cudaGraphMemsetNodeSetParams(node: Handle, params: *const MemsetParams) |cu| {
        given(params)?;
        cu.cuGraphMemsetNodeSetParams(node, params.cast())
    };
    context fn cudaGraphExecMemsetNodeSetParams(
        exec: Handle, node: Handle, params: *const MemsetParams,
    ) |cu| {
        given(params)?;
        let context = context::current(cu)?;
        cu.cuGraphExecMemsetNodeSetParams(exec, node, params.cast(), context)
    };

    context fn cudaGraphNodeSetParams(node: Handle, params: *mut NodeParams) |cu| {
        with_driver_params(cu, params, |driver| cu.cuGraphNodeSetParams(node, driver))
    };
    context fn cudaGraphExecNodeSetParams(
        exec: Handle, node: Handle, params: *mut NodeParams,
    ) |cu| {
        with_driver_params(cu, params, |driver| cu.cuGraphExecNodeSetParams(exec, node, driver))
    };
}
