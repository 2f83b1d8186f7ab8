//! Properties in two layouts, event times, and the thread functions that CUDA 13 dropped.

use std::ffi::{c_int, c_void};
use std::mem::offset_of;

use crate::api::properties::{self, DeviceProp, FILLED};
use crate::call::{given, guard};
use crate::context::{self, Runtime};
use crate::types::Handle;

/// What programs built before CUDA 12 have room for: the structure ended here.
const OLD_PROP_SIZE: usize = offset_of!(DeviceProp, host_register_supported);

cuda! {
    plain fn cudaGetDeviceProperties(prop: *mut DeviceProp, device: c_int) |_| {
        properties::write(prop, OLD_PROP_SIZE, device)
    };
    plain fn cudaGetDeviceProperties_v2(prop: *mut DeviceProp, device: c_int) |_| {
        properties::write(prop, FILLED, device)
    };

    context fn cudaEventElapsedTime(ms: *mut f32, start: Handle, end: Handle) |cu| {
        given(ms)?;
        cu.cuEventElapsedTime_v2000(ms, start, end)
    };
    context fn cudaEventElapsedTime_v2(ms: *mut f32, start: Handle, end: Handle) |cu| {
        given(ms)?;
        cu.cuEventElapsedTime(ms, start, end)
    };

    plain fn cudaThreadExit() |cu| {
        let device = context::device(cu)?;
        Runtime::get()?.reset(device)
    };
    context fn cudaThreadSynchronize() |cu| cu.cuCtxSynchronize_v2000();
    context fn cudaThreadSetLimit(limit: c_int, value: usize) |cu| cu.cuCtxSetLimit(limit, value);
    context fn cudaThreadGetLimit(value: *mut usize, limit: c_int) |cu| {
        given(value)?;
        cu.cuCtxGetLimit(value, limit)
    };
    context fn cudaThreadGetCacheConfig(config: *mut c_int) |cu| {
        given(config)?;
        cu.cuCtxGetCacheConfig(config)
    };
    context fn cudaThreadSetCacheConfig(config: c_int) |cu| cu.cuCtxSetCacheConfig(config);
}

/// Every device has doubles, so there is nothing to convert.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaSetDoubleForDevice(value: *mut c_void) -> c_int {
    guard(|| given(value))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaSetDoubleForHost(value: *mut c_void) -> c_int {
    guard(|| given(value))
}
