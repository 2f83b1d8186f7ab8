//! Streams: creating, asking, waiting, callbacks, attributes.

use std::ffi::{c_int, c_uint, c_void};

use crate::call::given;
use crate::types::{DevicePtr, Handle};

cuda! {
    context fn cudaStreamCreate(stream: *mut Handle) |cu| {
        given(stream)?;
        cu.cuStreamCreate(stream, 0)
    };
    context fn cudaStreamCreateWithFlags(stream: *mut Handle, flags: c_uint) |cu| {
        given(stream)?;
        cu.cuStreamCreate(stream, flags)
    };
    context fn cudaStreamCreateWithPriority(
        stream: *mut Handle, flags: c_uint, priority: c_int,
    ) |cu| {
        given(stream)?;
        cu.cuStreamCreateWithPriority(stream, flags, priority)
    };
    context fn cudaStreamDestroy(stream: Handle) |cu| cu.cuStreamDestroy(stream);

    context fn cudaStreamGetPriority, cudaStreamGetPriority_ptsz(
        stream: Handle, priority: *mut c_int,
    ) |cu| {
        given(priority)?;
        cu.cuStreamGetPriority(stream, priority)
    };
    context fn cudaStreamGetFlags, cudaStreamGetFlags_ptsz(stream: Handle, flags: *mut c_uint) |cu| {
        given(flags)?;
        cu.cuStreamGetFlags(stream, flags)
    };
    context fn cudaStreamGetId, cudaStreamGetId_ptsz(stream: Handle, id: *mut u64) |cu| {
        given(id)?;
        cu.cuStreamGetId(stream, id)
    };
    context fn cudaStreamGetDevice, cudaStreamGetDevice_ptsz(
        stream: Handle, device: *mut c_int,
    ) |cu| {
        given(device)?;
        cu.cuStreamGetDevice(stream, device)
    };

    context fn cudaStreamCopyAttributes, cudaStreamCopyAttributes_ptsz(
        dst: Handle, src: Handle,
    ) |cu| cu.cuStreamCopyAttributes(dst, src);
    context fn cudaStreamGetAttribute, cudaStreamGetAttribute_ptsz(
        stream: Handle, attribute: c_int, value: *mut c_void,
    ) |cu| cu.cuStreamGetAttribute(stream, attribute, value);
    context fn cudaStreamSetAttribute, cudaStreamSetAttribute_ptsz(
        stream: Handle, attribute: c_int, value: *const c_void,
    ) |cu| cu.cuStreamSetAttribute(stream, attribute, value);

    context fn cudaStreamWaitEvent, cudaStreamWaitEvent_ptsz(
        stream: Handle, event: Handle, flags: c_uint,
    ) |cu| cu.cuStreamWaitEvent(stream, event, flags);
    context fn cudaStreamSynchronize, cudaStreamSynchronize_ptsz(
        stream: Handle,
    ) |cu| cu.cuStreamSynchronize(stream);
    context fn cudaStreamQuery, cudaStreamQuery_ptsz(stream: Handle) |cu| cu.cuStreamQuery(stream);

    /// The driver passes its CUresult where the runtime promises a cudaError; the numbers agree.
    context fn cudaStreamAddCallback, cudaStreamAddCallback_ptsz(
        stream: Handle, callback: *mut c_void, data: *mut c_void, flags: c_uint,
    ) |cu| {
        given(callback)?;
        cu.cuStreamAddCallback(stream, callback, data, flags)
    };

    context fn cudaStreamAttachMemAsync, cudaStreamAttachMemAsync_ptsz(
        stream: Handle, pointer: *mut c_void, length: usize, flags: c_uint,
    ) |cu| cu.cuStreamAttachMemAsync(stream, pointer as DevicePtr, length, flags);
}
