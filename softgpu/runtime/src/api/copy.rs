//! Copies of one and two dimensions between host and device memory.

use std::ffi::{c_int, c_void};

use crate::api::array::in_memory;
use crate::context::Runtime;
use crate::driver::Api;
use crate::error::{Error, Outcome};
use crate::types::{DevicePtr, DriverCopy2D, Handle, Side2D, copy_kind, memory_type};

/// Whether a copy returns when it is done or when it is queued.
#[derive(Clone, Copy)]
pub(crate) enum When {
    Now,
    In(Handle),
}

/// The driver's memory types of source and destination for a cudaMemcpyKind.
pub(crate) fn memory_types(kind: c_int) -> Result<(c_int, c_int), Error> {
    match kind {
        copy_kind::HOST_TO_HOST => Ok((memory_type::HOST, memory_type::HOST)),
        copy_kind::HOST_TO_DEVICE => Ok((memory_type::HOST, memory_type::DEVICE)),
        copy_kind::DEVICE_TO_HOST => Ok((memory_type::DEVICE, memory_type::HOST)),
        copy_kind::DEVICE_TO_DEVICE => Ok((memory_type::DEVICE, memory_type::DEVICE)),
        copy_kind::DEFAULT => Ok((memory_type::UNIFIED, memory_type::UNIFIED)),
        _ => Err(Error::INVALID_DIRECTION),
    }
}

/// Queues or makes a copy that is described already.
pub(crate) unsafe fn copy_2d(cu: &Api, copy: &DriverCopy2D, when: When) -> Outcome {
    let copy = (&raw const *copy).cast();
    match when {
        When::Now => unsafe { cu.cuMemcpy2DUnaligned(copy) },
        When::In(stream) => unsafe { cu.cuMemcpy2DAsync(copy, stream) },
    }
}

/// Where there is nothing to copy the driver is not asked.
pub(crate) unsafe fn copy_between(
    cu: &Api,
    src: Side2D,
    dst: Side2D,
    width: usize,
    height: usize,
    when: When,
) -> Outcome {
    if width == 0 || height == 0 {
        return Ok(());
    }
    unsafe {
        copy_2d(
            cu,
            &DriverCopy2D {
                src,
                dst,
                width,
                height,
            },
            when,
        )
    }
}

pub(crate) unsafe fn copy_1d(
    cu: &Api,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: c_int,
    when: When,
) -> Outcome {
    let (from, to) = memory_types(kind)?;
    if count == 0 {
        return Ok(());
    }
    let (dst_device, src_device) = (dst as DevicePtr, src as DevicePtr);
    unsafe {
        match (kind, when) {
            (copy_kind::HOST_TO_DEVICE, When::Now) => cu.cuMemcpyHtoD(dst_device, src, count),
            (copy_kind::HOST_TO_DEVICE, When::In(s)) => {
                cu.cuMemcpyHtoDAsync(dst_device, src, count, s)
            }
            (copy_kind::DEVICE_TO_HOST, When::Now) => cu.cuMemcpyDtoH(dst, src_device, count),
            (copy_kind::DEVICE_TO_HOST, When::In(s)) => {
                cu.cuMemcpyDtoHAsync(dst, src_device, count, s)
            }
            (copy_kind::DEVICE_TO_DEVICE, When::Now) => {
                cu.cuMemcpyDtoD(dst_device, src_device, count)
            }
            (copy_kind::DEVICE_TO_DEVICE, When::In(s)) => {
                cu.cuMemcpyDtoDAsync(dst_device, src_device, count, s)
            }
            (copy_kind::DEFAULT, When::Now) => cu.cuMemcpy(dst_device, src_device, count),
            (copy_kind::DEFAULT, When::In(s)) => cu.cuMemcpyAsync(dst_device, src_device, count, s),
            // The driver has no copy from host to host of its own.
            _ => {
                let (src, dst) = (in_memory(from, src, count), in_memory(to, dst, count));
                copy_2d(
                    cu,
                    &DriverCopy2D {
                        src,
                        dst,
                        width: count,
                        height: 1,
                    },
                    when,
                )
            }
        }
    }
}

#[allow(clippy::too_many_arguments)]
unsafe fn copy_rows(
    cu: &Api,
    dst: *mut c_void,
    dst_pitch: usize,
    src: *const c_void,
    src_pitch: usize,
    width: usize,
    height: usize,
    kind: c_int,
    when: When,
) -> Outcome {
    let (from, to) = memory_types(kind)?;
    if width > dst_pitch || width > src_pitch {
        return Err(Error::INVALID_PITCH);
    }
    let (src, dst) = (
        in_memory(from, src, src_pitch),
        in_memory(to, dst, dst_pitch),
    );
    unsafe { copy_between(cu, src, dst, width, height, when) }
}

cuda! {
    context fn cudaMemcpy, cudaMemcpy_ptds(
        dst: *mut c_void, src: *const c_void, count: usize, kind: c_int,
    ) |cu| copy_1d(cu, dst, src, count, kind, When::Now);

    context fn cudaMemcpyAsync, cudaMemcpyAsync_ptsz(
        dst: *mut c_void, src: *const c_void, count: usize, kind: c_int, stream: Handle,
    ) |cu| copy_1d(cu, dst, src, count, kind, When::In(stream));

    context fn cudaMemcpy2D, cudaMemcpy2D_ptds(
        dst: *mut c_void, dst_pitch: usize, src: *const c_void, src_pitch: usize, width: usize,
        height: usize, kind: c_int,
    ) |cu| copy_rows(cu, dst, dst_pitch, src, src_pitch, width, height, kind, When::Now);

    context fn cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz(
        dst: *mut c_void, dst_pitch: usize, src: *const c_void, src_pitch: usize, width: usize,
        height: usize, kind: c_int, stream: Handle,
    ) |cu| copy_rows(cu, dst, dst_pitch, src, src_pitch, width, height, kind, When::In(stream));

    context fn cudaMemcpyPeer(
        dst: *mut c_void, dst_device: c_int, src: *const c_void, src_device: c_int, count: usize,
    ) |cu| {
        let runtime = Runtime::get()?;
        let (to, from) = (runtime.primary(dst_device)?, runtime.primary(src_device)?);
        if count == 0 {
            return Ok(());
        }
        cu.cuMemcpyPeer(dst as DevicePtr, to, src as DevicePtr, from, count)
    };

    context fn cudaMemcpyPeerAsync(
        dst: *mut c_void, dst_device: c_int, src: *const c_void, src_device: c_int, count: usize,
        stream: Handle,
    ) |cu| {
        let runtime = Runtime::get()?;
        let (to, from) = (runtime.primary(dst_device)?, runtime.primary(src_device)?);
        if count == 0 {
            return Ok(());
        }
        cu.cuMemcpyPeerAsync(dst as DevicePtr, to, src as DevicePtr, from, count, stream)
    };
}
