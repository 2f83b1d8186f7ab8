//! Copies of three dimensions, and their translation to and from the driver's structure.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::api::copy::memory_types;
use crate::call::given;
use crate::context::Runtime;
use crate::driver::Api;
use crate::error::Error;
use crate::types::{
    DevicePtr, DriverCopy3D, Extent, Handle, Memcpy3DParms, Memcpy3DPeerParms, PitchedPtr, Pos,
    Side3D, copy_kind, memory_type,
};

/// Bytes of one element of an array, by which positions and widths in arrays are counted.
fn element_size(cu: &Api, array: Handle) -> Result<usize, Error> {
    let info = crate::api::array::describe(cu, array)?;
    Ok(info.element_size())
}

struct Side {
    array: Handle,
    pos: Pos,
    ptr: PitchedPtr,
    memory: c_int,
}

impl Side {
    fn to_driver(&self, element: usize) -> Side3D {
        let mut side = Side3D {
            y: self.pos.y,
            z: self.pos.z,
            ..Side3D::NONE
        };
        if !self.array.is_null() {
            side.memory = memory_type::ARRAY;
            side.array = self.array;
            side.x = self.pos.x * element;
            return side;
        }
        side.x = self.pos.x;
        side.memory = self.memory;
        if self.memory == memory_type::HOST {
            side.host = self.ptr.ptr;
        } else {
            side.device = self.ptr.ptr as DevicePtr;
        }
        side.pitch = self.ptr.pitch;
        side.height = self.ptr.ysize;
        side
    }
}

/// Widths count elements as soon as an array takes part, bytes otherwise.
fn unit(cu: &Api, src: Handle, dst: Handle) -> Result<usize, Error> {
    match (src.is_null(), dst.is_null()) {
        (true, true) => Ok(1),
        (false, _) => element_size(cu, src),
        (true, false) => element_size(cu, dst),
    }
}

pub(crate) fn to_driver(cu: &Api, parms: &Memcpy3DParms) -> Result<DriverCopy3D, Error> {
    let (from, to) = memory_types(parms.kind)?;
    let element = unit(cu, parms.src_array, parms.dst_array)?;
    let src = Side {
        array: parms.src_array,
        pos: parms.src_pos,
        ptr: parms.src_ptr,
        memory: from,
    };
    let dst = Side {
        array: parms.dst_array,
        pos: parms.dst_pos,
        ptr: parms.dst_ptr,
        memory: to,
    };
    assemble(&src, &dst, parms.extent, element)
}

fn assemble(src: &Side, dst: &Side, extent: Extent, element: usize) -> Result<DriverCopy3D, Error> {
    for side in [src, dst] {
        if side.array.is_null() && side.ptr.ptr.is_null() {
            return Err(Error::INVALID_VALUE);
        }
    }
    Ok(DriverCopy3D {
        src: src.to_driver(element),
        dst: dst.to_driver(element),
        width: extent
            .width
            .checked_mul(element)
            .ok_or(Error::INVALID_VALUE)?,
        height: extent.height,
        depth: extent.depth,
    })
}

/// The runtime's description of a copy the driver described.
pub(crate) fn from_driver(cu: &Api, copy: &DriverCopy3D) -> Result<Memcpy3DParms, Error> {
    let element = unit(cu, copy.src.array, copy.dst.array)?.max(1);
    let (src_array, src_pos, src_ptr) = side_from_driver(&copy.src, copy.width, element);
    let (dst_array, dst_pos, dst_ptr) = side_from_driver(&copy.dst, copy.width, element);
    let on_device = |side: &Side3D| side.memory != memory_type::HOST;
    let unified = |side: &Side3D| side.memory == memory_type::UNIFIED;
    let kind = match (on_device(&copy.src), on_device(&copy.dst)) {
        _ if unified(&copy.src) || unified(&copy.dst) => copy_kind::DEFAULT,
        (false, false) => copy_kind::HOST_TO_HOST,
        (false, true) => copy_kind::HOST_TO_DEVICE,
        (true, false) => copy_kind::DEVICE_TO_HOST,
        (true, true) => copy_kind::DEVICE_TO_DEVICE,
    };
    let extent = Extent {
        width: copy.width / element,
        height: copy.height,
        depth: copy.depth,
    };
    Ok(Memcpy3DParms {
        src_array,
        src_pos,
        src_ptr,
        dst_array,
        dst_pos,
        dst_ptr,
        extent,
        kind,
    })
}

fn side_from_driver(side: &Side3D, width: usize, element: usize) -> (Handle, Pos, PitchedPtr) {
    let pos = |x| Pos {
        x,
        y: side.y,
        z: side.z,
    };
    let none = PitchedPtr {
        ptr: null_mut(),
        pitch: 0,
        xsize: 0,
        ysize: 0,
    };
    if side.memory == memory_type::ARRAY {
        return (side.array, pos(side.x / element), none);
    }
    let host = side.memory == memory_type::HOST;
    let ptr = if host {
        side.host
    } else {
        side.device as *mut c_void
    };
    (
        null_mut(),
        pos(side.x),
        PitchedPtr {
            ptr,
            pitch: side.pitch,
            xsize: width,
            ysize: side.height,
        },
    )
}

fn is_empty(extent: Extent) -> bool {
    extent.width == 0 || extent.height == 0 || extent.depth == 0
}

fn peer_to_driver(cu: &Api, parms: &Memcpy3DPeerParms) -> Result<DriverCopy3D, Error> {
    let runtime = Runtime::get()?;
    let element = unit(cu, parms.src_array, parms.dst_array)?;
    let memory = memory_type::DEVICE;
    let src = Side {
        array: parms.src_array,
        pos: parms.src_pos,
        ptr: parms.src_ptr,
        memory,
    };
    let dst = Side {
        array: parms.dst_array,
        pos: parms.dst_pos,
        ptr: parms.dst_ptr,
        memory,
    };
    let mut copy = assemble(&src, &dst, parms.extent, element)?;
    copy.src.context = runtime.primary(parms.src_device)?;
    copy.dst.context = runtime.primary(parms.dst_device)?;
    Ok(copy)
}

cuda! {
    context fn cudaMemcpy3D, cudaMemcpy3D_ptds(parms: *const Memcpy3DParms) |cu| {
        given(parms)?;
        let copy = to_driver(cu, &*parms)?;
        if is_empty((*parms).extent) {
            return Ok(());
        }
        cu.cuMemcpy3D((&raw const copy).cast())
    };

    context fn cudaMemcpy3DAsync, cudaMemcpy3DAsync_ptsz(
        parms: *const Memcpy3DParms, stream: Handle,
    ) |cu| {
        given(parms)?;
        let copy = to_driver(cu, &*parms)?;
        if is_empty((*parms).extent) {
            return Ok(());
        }
        cu.cuMemcpy3DAsync((&raw const copy).cast(), stream)
    };

    context fn cudaMemcpy3DPeer, cudaMemcpy3DPeer_ptds(parms: *const Memcpy3DPeerParms) |cu| {
        given(parms)?;
        let copy = peer_to_driver(cu, &*parms)?;
        if is_empty((*parms).extent) {
            return Ok(());
        }
        cu.cuMemcpy3DPeer((&raw const copy).cast())
    };

    context fn cudaMemcpy3DPeerAsync, cudaMemcpy3DPeerAsync_ptsz(
        parms: *const Memcpy3DPeerParms, stream: Handle,
    ) |cu| {
        given(parms)?;
        let copy = peer_to_driver(cu, &*parms)?;
        if is_empty((*parms).extent) {
            return Ok(());
        }
        cu.cuMemcpy3DPeerAsync((&raw const copy).cast(), stream)
    };
}
