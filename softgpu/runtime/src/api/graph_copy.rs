//! Memcpy nodes in all forms: three-dimensional, plain, and to or from a symbol.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::api::copy3d;
use crate::api::symbol;
use crate::call::given;
use crate::context;
use crate::driver::Api;
use crate::error::{Error, Outcome};
use crate::types::{DriverCopy3D, Extent, Handle, Memcpy3DParms, PitchedPtr, Pos, Side3D};

/// A copy of bytes in a row, as a copy of three dimensions.
fn row(dst: *mut c_void, src: *const c_void, count: usize, kind: c_int) -> Memcpy3DParms {
    let start = Pos { x: 0, y: 0, z: 0 };
    let pitched = |ptr| PitchedPtr {
        ptr,
        pitch: count,
        xsize: count,
        ysize: 1,
    };
    Memcpy3DParms {
        src_array: null_mut(),
        src_pos: start,
        src_ptr: pitched(src.cast_mut()),
        dst_array: null_mut(),
        dst_pos: start,
        dst_ptr: pitched(dst),
        extent: Extent {
            width: count,
            height: 1,
            depth: 1,
        },
        kind,
    }
}

fn row_to_symbol(
    cu: &Api,
    to: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: c_int,
) -> Result<Memcpy3DParms, Error> {
    symbol::check_to(kind)?;
    Ok(row(symbol::place(cu, to, offset, count)?, src, count, kind))
}

fn row_from_symbol(
    cu: &Api,
    dst: *mut c_void,
    from: *const c_void,
    count: usize,
    offset: usize,
    kind: c_int,
) -> Result<Memcpy3DParms, Error> {
    symbol::check_from(kind)?;
    Ok(row(
        dst,
        symbol::place(cu, from, offset, count)?,
        count,
        kind,
    ))
}

unsafe fn add(
    cu: &Api,
    node: *mut Handle,
    graph: Handle,
    dependencies: *const Handle,
    count: usize,
    parms: &Memcpy3DParms,
) -> Outcome {
    let copy = copy3d::to_driver(cu, parms)?;
    let context = context::current(cu)?;
    unsafe {
        let copy = (&raw const copy).cast();
        cu.cuGraphAddMemcpyNode(node, graph, dependencies, count, copy, context)
    }
}

unsafe fn set(cu: &Api, node: Handle, parms: &Memcpy3DParms) -> Outcome {
    let copy = copy3d::to_driver(cu, parms)?;
    unsafe { cu.cuGraphMemcpyNodeSetParams(node, (&raw const copy).cast()) }
}

unsafe fn set_exec(cu: &Api, exec: Handle, node: Handle, parms: &Memcpy3DParms) -> Outcome {
    let copy = copy3d::to_driver(cu, parms)?;
    let context = context::current(cu)?;
    unsafe { cu.cuGraphExecMemcpyNodeSetParams(exec, node, (&raw const copy).cast(), context) }
}

cuda! {
    context fn cudaGraphAddMemcpyNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, number: usize,
        parms: *const Memcpy3DParms,
    ) |cu| {
        given(parms)?;
        add(cu, node, graph, dependencies, number, &*parms)
    };
    context fn cudaGraphAddMemcpyNode1D(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, number: usize,
        dst: *mut c_void, src: *const c_void, count: usize, kind: c_int,
    ) |cu| add(cu, node, graph, dependencies, number, &row(dst, src, count, kind));
    context fn cudaGraphAddMemcpyNodeToSymbol(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, number: usize,
        symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: c_int,
    ) |cu| {
        let parms = row_to_symbol(cu, symbol, src, count, offset, kind)?;
        add(cu, node, graph, dependencies, number, &parms)
    };
    context fn cudaGraphAddMemcpyNodeFromSymbol(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, number: usize,
        dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: c_int,
    ) |cu| {
        let parms = row_from_symbol(cu, dst, symbol, count, offset, kind)?;
        add(cu, node, graph, dependencies, number, &parms)
    };

    context fn cudaGraphMemcpyNodeGetParams(node: Handle, parms: *mut Memcpy3DParms) |cu| {
        given(parms)?;
        let mut copy =
            DriverCopy3D { src: Side3D::NONE, dst: Side3D::NONE, width: 0, height: 0, depth: 0 };
        cu.cuGraphMemcpyNodeGetParams(node, (&raw mut copy).cast())?;
        parms.write(copy3d::from_driver(cu, &copy)?);
        Ok(())
    };
    context fn cudaGraphMemcpyNodeSetParams(node: Handle, parms: *const Memcpy3DParms) |cu| {
        given(parms)?;
        set(cu, node, &*parms)
    };
    context fn cudaGraphMemcpyNodeSetParams1D(
        node: Handle, dst: *mut c_void, src: *const c_void, count: usize, kind: c_int,
    ) |cu| set(cu, node, &row(dst, src, count, kind));
    context fn cudaGraphMemcpyNodeSetParamsToSymbol(
        node: Handle, symbol: *const c_void, src: *const c_void, count: usize, offset: usize,
        kind: c_int,
    ) |cu| set(cu, node, &row_to_symbol(cu, symbol, src, count, offset, kind)?);
    context fn cudaGraphMemcpyNodeSetParamsFromSymbol(
        node: Handle, dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize,
        kind: c_int,
    ) |cu| set(cu, node, &row_from_symbol(cu, dst, symbol, count, offset, kind)?);

    context fn cudaGraphExecMemcpyNodeSetParams(
        exec: Handle, node: Handle, parms: *const Memcpy3DParms,
    ) |cu| {
        given(parms)?;
        set_exec(cu, exec, node, &*parms)
    };
    context fn cudaGraphExecMemcpyNodeSetParams1D(
        exec: Handle, node: Handle, dst: *mut c_void, src: *const c_void, count: usize,
        kind: c_int,
    ) |cu| set_exec(cu, exec, node, &row(dst, src, count, kind));
    context fn cudaGraphExecMemcpyNodeSetParamsToSymbol(
        exec: Handle, node: Handle, symbol: *const c_void, src: *const c_void, count: usize,
        offset: usize, kind: c_int,
    ) |cu| set_exec(cu, exec, node, &row_to_symbol(cu, symbol, src, count, offset, kind)?);
    context fn cudaGraphExecMemcpyNodeSetParamsFromSymbol(
        exec: Handle, node: Handle, dst: *mut c_void, symbol: *const c_void, count: usize,
        offset: usize, kind: c_int,
    ) |cu| set_exec(cu, exec, node, &row_from_symbol(cu, dst, symbol, count, offset, kind)?);
}
