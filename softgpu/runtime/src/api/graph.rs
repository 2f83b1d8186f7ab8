//! Graphs: creating, cloning, asking, user objects, and the plain kinds of nodes.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::call::given;
use crate::types::{DevicePtr, Handle};

cuda! {
    plain fn cudaGraphCreate(graph: *mut Handle, flags: c_uint) |cu| {
        given(graph)?;
        cu.cuGraphCreate(graph, flags)
    };
    plain fn cudaGraphDestroy(graph: Handle) |cu| cu.cuGraphDestroy(graph);
    plain fn cudaGraphClone(clone: *mut Handle, original: Handle) |cu| {
        given(clone)?;
        cu.cuGraphClone(clone, original)
    };
    plain fn cudaGraphNodeFindInClone(node: *mut Handle, original: Handle, clone: Handle) |cu| {
        given(node)?;
        cu.cuGraphNodeFindInClone(node, original, clone)
    };
    plain fn cudaGraphNodeGetType(node: Handle, kind: *mut c_int) |cu| {
        given(kind)?;
        cu.cuGraphNodeGetType(node, kind)
    };
    plain fn cudaGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) |cu| {
        given(count)?;
        cu.cuGraphGetNodes(graph, nodes, count)
    };
    plain fn cudaGraphGetRootNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) |cu| {
        given(count)?;
        cu.cuGraphGetRootNodes(graph, nodes, count)
    };
    plain fn cudaGraphDestroyNode(node: Handle) |cu| cu.cuGraphDestroyNode(node);
    plain fn cudaGraphDebugDotPrint(
        graph: Handle, path: *const c_char, flags: c_uint,
    ) |cu| cu.cuGraphDebugDotPrint(graph, path, flags);

    context fn cudaGraphAddEmptyNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize,
    ) |cu| cu.cuGraphAddEmptyNode(node, graph, dependencies, count);

    context fn cudaGraphAddChildGraphNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, child: Handle,
    ) |cu| cu.cuGraphAddChildGraphNode(node, graph, dependencies, count, child);
    plain fn cudaGraphChildGraphNodeGetGraph(node: Handle, graph: *mut Handle) |cu| {
        given(graph)?;
        cu.cuGraphChildGraphNodeGetGraph(node, graph)
    };

    context fn cudaGraphAddHostNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize,
        params: *const c_void,
    ) |cu| {
        given(params)?;
        cu.cuGraphAddHostNode(node, graph, dependencies, count, params)
    };
    plain fn cudaGraphHostNodeGetParams(node: Handle, params: *mut c_void) |cu| {
        given(params)?;
        cu.cuGraphHostNodeGetParams(node, params)
    };
    plain fn cudaGraphHostNodeSetParams(node: Handle, params: *const c_void) |cu| {
        given(params)?;
        cu.cuGraphHostNodeSetParams(node, params)
    };

    context fn cudaGraphAddEventRecordNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, event: Handle,
    ) |cu| cu.cuGraphAddEventRecordNode(node, graph, dependencies, count, event);
    plain fn cudaGraphEventRecordNodeGetEvent(
        node: Handle, event: *mut Handle,
    ) |cu| cu.cuGraphEventRecordNodeGetEvent(node, event);
    plain fn cudaGraphEventRecordNodeSetEvent(
        node: Handle, event: Handle,
    ) |cu| cu.cuGraphEventRecordNodeSetEvent(node, event);
    context fn cudaGraphAddEventWaitNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, event: Handle,
    ) |cu| cu.cuGraphAddEventWaitNode(node, graph, dependencies, count, event);
    plain fn cudaGraphEventWaitNodeGetEvent(
        node: Handle, event: *mut Handle,
    ) |cu| cu.cuGraphEventWaitNodeGetEvent(node, event);
    plain fn cudaGraphEventWaitNodeSetEvent(
        node: Handle, event: Handle,
    ) |cu| cu.cuGraphEventWaitNodeSetEvent(node, event);

    /// The parameters have the driver's layout, the address it fills in included.
    context fn cudaGraphAddMemAllocNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize,
        params: *mut c_void,
    ) |cu| {
        given(params)?;
        cu.cuGraphAddMemAllocNode(node, graph, dependencies, count, params)
    };
    plain fn cudaGraphMemAllocNodeGetParams(node: Handle, params: *mut c_void) |cu| {
        given(params)?;
        cu.cuGraphMemAllocNodeGetParams(node, params)
    };
    context fn cudaGraphAddMemFreeNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize,
        pointer: *mut c_void,
    ) |cu| cu.cuGraphAddMemFreeNode(node, graph, dependencies, count, pointer as DevicePtr);
    plain fn cudaGraphMemFreeNodeGetParams(node: Handle, pointer: *mut c_void) |cu| {
        given(pointer)?;
        cu.cuGraphMemFreeNodeGetParams(node, pointer.cast())
    };
    plain fn cudaDeviceGraphMemTrim(device: c_int) |cu| cu.cuDeviceGraphMemTrim(device);
    plain fn cudaDeviceGetGraphMemAttribute(
        device: c_int, attribute: c_int, value: *mut c_void,
    ) |cu| cu.cuDeviceGetGraphMemAttribute(device, attribute, value);
    plain fn cudaDeviceSetGraphMemAttribute(
        device: c_int, attribute: c_int, value: *mut c_void,
    ) |cu| cu.cuDeviceSetGraphMemAttribute(device, attribute, value);

    plain fn cudaUserObjectCreate(
        object: *mut Handle, pointer: *mut c_void, destroy: *mut c_void, references: c_uint,
        flags: c_uint,
    ) |cu| {
        given(object)?;
        cu.cuUserObjectCreate(object, pointer, destroy, references, flags)
    };
    plain fn cudaUserObjectRetain(
        object: Handle, count: c_uint,
    ) |cu| cu.cuUserObjectRetain(object, count);
    plain fn cudaUserObjectRelease(
        object: Handle, count: c_uint,
    ) |cu| cu.cuUserObjectRelease(object, count);
    plain fn cudaGraphRetainUserObject(
        graph: Handle, object: Handle, count: c_uint, flags: c_uint,
    ) |cu| cu.cuGraphRetainUserObject(graph, object, count, flags);
    plain fn cudaGraphReleaseUserObject(
        graph: Handle, object: Handle, count: c_uint,
    ) |cu| cu.cuGraphReleaseUserObject(graph, object, count);

    context fn cudaGraphConditionalHandleCreate(
        handle: *mut u64, graph: Handle, default: c_uint, flags: c_uint,
    ) |cu| {
        given(handle)?;
        let context = crate::context::current(cu)?;
        cu.cuGraphConditionalHandleCreate(handle, graph, context, default, flags)
    };
}
