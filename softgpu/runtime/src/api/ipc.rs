//! Sharing memory and events with other processes.

use std::ffi::{c_uint, c_void};

use crate::call::given;
use crate::types::{DevicePtr, Handle, IpcHandle};

cuda! {
    context fn cudaIpcGetEventHandle(out: *mut IpcHandle, event: Handle) |cu| {
        given(out)?;
        cu.cuIpcGetEventHandle(out.cast(), event)
    };
    context fn cudaIpcOpenEventHandle(event: *mut Handle, handle: IpcHandle) |cu| {
        given(event)?;
        cu.cuIpcOpenEventHandle(event, handle)
    };
    context fn cudaIpcGetMemHandle(out: *mut IpcHandle, pointer: *mut c_void) |cu| {
        given(out)?;
        cu.cuIpcGetMemHandle(out.cast(), pointer as DevicePtr)
    };
    context fn cudaIpcOpenMemHandle(
        pointer: *mut *mut c_void, handle: IpcHandle, flags: c_uint,
    ) |cu| {
        given(pointer)?;
        cu.cuIpcOpenMemHandle(pointer.cast(), handle, flags)
    };
    context fn cudaIpcCloseMemHandle(
        pointer: *mut c_void,
    ) |cu| cu.cuIpcCloseMemHandle(pointer as DevicePtr);
}
