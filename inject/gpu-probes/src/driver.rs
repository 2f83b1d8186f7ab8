//! The driver's own functions, unrecorded: the injected library says where each continues.

use std::ffi::{c_char, c_void};

pub const SUCCESS: i32 = 0;
/// CUDA_ERROR_NOT_READY
pub const NOT_READY: i32 = 600;

cuda::originals! {
    cuModuleLoad(module: *mut usize, path: *const c_char);
    cuModuleLoadData(module: *mut usize, image: *const c_void);
    cuModuleLoadDataEx(module: *mut usize, image: *const c_void, count: u32, options: *const u32, values: *const *mut c_void);
    cuModuleLoadFatBinary(module: *mut usize, image: *const c_void);
    cuModuleUnload(module: usize);
    cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char);
    cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: usize, name: *const c_char);
    cuLibraryLoadData(library: *mut usize, code: *const c_void, options: *const u32, values: *const *mut c_void, count: u32, library_options: *const u32, library_values: *const *mut c_void, library_count: u32);
    cuLibraryLoadFromFile(library: *mut usize, path: *const c_char, options: *const u32, values: *const *mut c_void, count: u32, library_options: *const u32, library_values: *const *mut c_void, library_count: u32);
    cuLibraryUnload(library: usize);
    cuLibraryGetKernel(kernel: *mut usize, library: usize, name: *const c_char);
    cuLibraryGetGlobal(address: *mut u64, bytes: *mut usize, library: usize, name: *const c_char);
    cuKernelGetAttribute(value: *mut i32, attribute: u32, kernel: usize, device: i32);
    cuFuncGetAttribute(value: *mut i32, attribute: u32, function: usize);
    cuKernelGetFunction(function: *mut usize, kernel: usize);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut i32, function: usize, threads: i32, shared: usize);
    cuLinkAddData(state: usize, kind: u32, data: *const c_void, bytes: usize, name: *const c_char, count: u32, options: *const u32, values: *const *mut c_void);
    cuLinkAddData_v2(state: usize, kind: u32, data: *const c_void, bytes: usize, name: *const c_char, count: u32, options: *const u32, values: *const *mut c_void);
    cuLinkAddFile(state: usize, kind: u32, path: *const c_char, count: u32, options: *const u32, values: *const *mut c_void);
    cuLinkAddFile_v2(state: usize, kind: u32, path: *const c_char, count: u32, options: *const u32, values: *const *mut c_void);
    cuLaunchKernel(function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize, parameters: *const *mut c_void, extra: *const *mut c_void);
    cuLaunchKernel_ptsz(function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize, parameters: *const *mut c_void, extra: *const *mut c_void);
    cuLaunchKernelEx(config: *const c_void, function: usize, parameters: *const *mut c_void, extra: *const *mut c_void);
    cuLaunchKernelEx_ptsz(config: *const c_void, function: usize, parameters: *const *mut c_void, extra: *const *mut c_void);
    cuLaunchCooperativeKernel(function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize, parameters: *const *mut c_void);
    cuLaunchCooperativeKernel_ptsz(function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize, parameters: *const *mut c_void);
    cuGraphLaunch(graph: usize, stream: usize);
    cuGraphLaunch_ptsz(graph: usize, stream: usize);
    cuCtxDestroy_v2(context: usize);
    cuDevicePrimaryCtxRelease_v2(device: i32);
    cuDevicePrimaryCtxReset_v2(device: i32);
    cuDevicePrimaryCtxRetain(context: *mut usize, device: i32);
    cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, active: *mut i32);
    cuCtxGetCurrent(context: *mut usize);
    cuCtxPushCurrent_v2(context: usize);
    cuCtxPopCurrent_v2(context: *mut usize);
    cuCtxGetDevice(device: *mut i32);
    cuDeviceGetAttribute(value: *mut i32, attribute: u32, device: i32);
    cuDeviceGetName(name: *mut c_char, length: i32, device: i32);
    cuMemAlloc_v2(address: *mut u64, bytes: usize);
    cuMemHostRegister_v2(start: *mut c_void, bytes: usize, flags: u32);
    cuMemHostGetDevicePointer_v2(address: *mut u64, start: *mut c_void, flags: u32);
    cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: usize);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: usize);
    cuMemsetD8Async(to: u64, byte: u8, bytes: usize, stream: usize);
    cuStreamCreate(stream: *mut usize, flags: u32);
    cuStreamQuery(stream: usize);
    cuStreamSynchronize(stream: usize);
    cuEventCreate(event: *mut usize, flags: u32);
    cuEventRecord(event: usize, stream: usize);
    cuEventQuery(event: usize);
    cuThreadExchangeStreamCaptureMode(mode: *mut u32);
    cuGetErrorName(error: i32, name: *mut *const c_char);
}

/// The context that calls of this thread go to; 0: none.
pub fn current_context() -> usize {
    let mut context = 0;
    // SAFETY: it writes one word.
    if unsafe { cuCtxGetCurrent(&mut context) } == SUCCESS {
        context
    } else {
        0
    }
}

pub fn error_name(error: i32) -> String {
    let mut name = std::ptr::null();
    // SAFETY: names are constants of the driver.
    unsafe {
        if cuGetErrorName(error, &mut name) == SUCCESS && !name.is_null() {
            return std::ffi::CStr::from_ptr(name)
                .to_string_lossy()
                .into_owned();
        }
    }
    format!("error {error}")
}

pub fn device_attribute(attribute: u32, device: i32) -> i32 {
    let mut value = 0;
    // SAFETY: it writes one word.
    unsafe { cuDeviceGetAttribute(&mut value, attribute, device) };
    value
}

/// What is done meanwhile is no part of a stream capture of the program's.
pub struct OutsideCapture(u32);

impl OutsideCapture {
    pub fn begin() -> OutsideCapture {
        // CU_STREAM_CAPTURE_MODE_RELAXED
        let mut mode = 2;
        // SAFETY: it swaps one word.
        unsafe { cuThreadExchangeStreamCaptureMode(&mut mode) };
        OutsideCapture(mode)
    }
}

impl Drop for OutsideCapture {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { cuThreadExchangeStreamCaptureMode(&mut self.0) };
    }
}

/// A context made current, and the one before again afterwards.
pub struct Within;

impl Within {
    pub fn enter(context: usize) -> Option<Within> {
        // SAFETY: the driver checks the context.
        (unsafe { cuCtxPushCurrent_v2(context) } == SUCCESS).then_some(Within)
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        let mut context = 0;
        // SAFETY: what was pushed is popped.
        unsafe { cuCtxPopCurrent_v2(&mut context) };
    }
}
