//! Properties, atomic capabilities, event times and log messages as CUDA 13 has them.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::api::properties::{self, DeviceProp, FILLED};
use crate::call::given;
use crate::types::Handle;

cuda! {
    plain fn cudaGetDeviceProperties(prop: *mut DeviceProp, device: c_int) |_| {
        properties::write(prop, FILLED, device)
    };

    plain fn cudaDeviceGetHostAtomicCapabilities(
        capabilities: *mut c_uint, operations: *const c_int, count: c_uint, device: c_int,
    ) |cu| cu.cuDeviceGetHostAtomicCapabilities(capabilities, operations, count, device);

    plain fn cudaDeviceGetP2PAtomicCapabilities(
        capabilities: *mut c_uint, operations: *const c_int, count: c_uint, src: c_int,
        dst: c_int,
    ) |cu| cu.cuDeviceGetP2PAtomicCapabilities(capabilities, operations, count, src, dst);

    context fn cudaEventElapsedTime(ms: *mut f32, start: Handle, end: Handle) |cu| {
        given(ms)?;
        cu.cuEventElapsedTime(ms, start, end)
    };

    plain fn cudaLogsRegisterCallback(
        callback: *mut c_void, data: *mut c_void, handle: *mut Handle,
    ) |cu| cu.cuLogsRegisterCallback(callback, data, handle);
    plain fn cudaLogsUnregisterCallback(handle: Handle) |cu| cu.cuLogsUnregisterCallback(handle);
    plain fn cudaLogsCurrent(
        iterator: *mut c_uint, flags: c_uint,
    ) |cu| cu.cuLogsCurrent(iterator, flags);
    plain fn cudaLogsDumpToFile(
        iterator: *mut c_uint, path: *const c_char, flags: c_uint,
    ) |cu| cu.cuLogsDumpToFile(iterator, path, flags);
    plain fn cudaLogsDumpToMemory(
        iterator: *mut c_uint, buffer: *mut c_char, size: *mut usize, flags: c_uint,
    ) |cu| cu.cuLogsDumpToMemory(iterator, buffer, size, flags);
}
