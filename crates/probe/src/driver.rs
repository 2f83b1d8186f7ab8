//! The driver's own functions, unrecorded: the injected library says where each continues.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

pub const SUCCESS: i32 = 0;
pub const NOT_FOUND: i32 = 500;

macro_rules! originals {
    ($($name:ident $symbol:literal ($($arg:ident: $kind:ty),*);)*) => {
        $(
            /// The driver's function; not found where this driver has none of that name.
            ///
            /// # Safety
            /// As the function itself.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub unsafe fn $name($($arg: $kind),*) -> i32 {
                let at = words::$name.load(Ordering::Acquire);
                if at == 0 {
                    return NOT_FOUND;
                }
                // SAFETY: set by the injected library, to a function of this signature.
                unsafe {
                    let function: unsafe extern "C" fn($($kind),*) -> i32 = std::mem::transmute(at);
                    function($($arg),*)
                }
            }
        )*
        #[allow(non_upper_case_globals)]
        mod words {
            use super::*;
            $(
                #[unsafe(export_name = $symbol)]
                pub static $name: AtomicUsize = AtomicUsize::new(0);
            )*
        }
    };
}

originals! {
    cuModuleLoad "cutrace_original_cuModuleLoad" (module: *mut usize, path: *const c_char);
    cuModuleLoadData "cutrace_original_cuModuleLoadData" (module: *mut usize, image: *const c_void);
    cuModuleLoadDataEx "cutrace_original_cuModuleLoadDataEx" (module: *mut usize, image: *const c_void, count: u32, options: *const u32, values: *const *mut c_void);
    cuModuleLoadFatBinary "cutrace_original_cuModuleLoadFatBinary" (module: *mut usize, image: *const c_void);
    cuModuleUnload "cutrace_original_cuModuleUnload" (module: usize);
    cuModuleGetFunction "cutrace_original_cuModuleGetFunction" (function: *mut usize, module: usize, name: *const c_char);
    cuModuleGetGlobal_v2 "cutrace_original_cuModuleGetGlobal_v2" (address: *mut u64, bytes: *mut usize, module: usize, name: *const c_char);
    cuLibraryLoadData "cutrace_original_cuLibraryLoadData" (library: *mut usize, code: *const c_void, options: *const u32, values: *const *mut c_void, count: u32, library_options: *const u32, library_values: *const *mut c_void, library_count: u32);
    cuLibraryLoadFromFile "cutrace_original_cuLibraryLoadFromFile" (library: *mut usize, path: *const c_char, options: *const u32, values: *const *mut c_void, count: u32, library_options: *const u32, library_values: *const *mut c_void, library_count: u32);
    cuLibraryUnload "cutrace_original_cuLibraryUnload" (library: usize);
    cuLibraryGetKernel "cutrace_original_cuLibraryGetKernel" (kernel: *mut usize, library: usize, name: *const c_char);
    cuLibraryGetGlobal "cutrace_original_cuLibraryGetGlobal" (address: *mut u64, bytes: *mut usize, library: usize, name: *const c_char);
    cuKernelGetAttribute "cutrace_original_cuKernelGetAttribute" (value: *mut i32, attribute: u32, kernel: usize, device: i32);
    cuFuncGetAttribute "cutrace_original_cuFuncGetAttribute" (value: *mut i32, attribute: u32, function: usize);
    cuKernelGetFunction "cutrace_original_cuKernelGetFunction" (function: *mut usize, kernel: usize);
    cuOccupancyMaxActiveBlocksPerMultiprocessor "cutrace_original_cuOccupancyMaxActiveBlocksPerMultiprocessor" (blocks: *mut i32, function: usize, threads: i32, shared: usize);
    cuLinkAddData "cutrace_original_cuLinkAddData" (state: usize, kind: u32, data: *const c_void, bytes: usize, name: *const c_char, count: u32, options: *const u32, values: *const *mut c_void);
    cuLinkAddData_v2 "cutrace_original_cuLinkAddData_v2" (state: usize, kind: u32, data: *const c_void, bytes: usize, name: *const c_char, count: u32, options: *const u32, values: *const *mut c_void);
    cuLinkAddFile "cutrace_original_cuLinkAddFile" (state: usize, kind: u32, path: *const c_char, count: u32, options: *const u32, values: *const *mut c_void);
    cuLinkAddFile_v2 "cutrace_original_cuLinkAddFile_v2" (state: usize, kind: u32, path: *const c_char, count: u32, options: *const u32, values: *const *mut c_void);
    cuLaunchKernel "cutrace_original_cuLaunchKernel" (function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize, parameters: *const *mut c_void, extra: *const *mut c_void);
    cuLaunchKernel_ptsz "cutrace_original_cuLaunchKernel_ptsz" (function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize, parameters: *const *mut c_void, extra: *const *mut c_void);
    cuLaunchKernelEx "cutrace_original_cuLaunchKernelEx" (config: *const c_void, function: usize, parameters: *const *mut c_void, extra: *const *mut c_void);
    cuLaunchKernelEx_ptsz "cutrace_original_cuLaunchKernelEx_ptsz" (config: *const c_void, function: usize, parameters: *const *mut c_void, extra: *const *mut c_void);
    cuLaunchCooperativeKernel "cutrace_original_cuLaunchCooperativeKernel" (function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize, parameters: *const *mut c_void);
    cuLaunchCooperativeKernel_ptsz "cutrace_original_cuLaunchCooperativeKernel_ptsz" (function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize, parameters: *const *mut c_void);
    cuGraphLaunch "cutrace_original_cuGraphLaunch" (graph: usize, stream: usize);
    cuGraphLaunch_ptsz "cutrace_original_cuGraphLaunch_ptsz" (graph: usize, stream: usize);
    cuCtxDestroy_v2 "cutrace_original_cuCtxDestroy_v2" (context: usize);
    cuDevicePrimaryCtxRelease_v2 "cutrace_original_cuDevicePrimaryCtxRelease_v2" (device: i32);
    cuDevicePrimaryCtxReset_v2 "cutrace_original_cuDevicePrimaryCtxReset_v2" (device: i32);
    cuDevicePrimaryCtxRetain "cutrace_original_cuDevicePrimaryCtxRetain" (context: *mut usize, device: i32);
    cuDevicePrimaryCtxGetState "cutrace_original_cuDevicePrimaryCtxGetState" (device: i32, flags: *mut u32, active: *mut i32);
    cuCtxGetCurrent "cutrace_original_cuCtxGetCurrent" (context: *mut usize);
    cuCtxPushCurrent_v2 "cutrace_original_cuCtxPushCurrent_v2" (context: usize);
    cuCtxPopCurrent_v2 "cutrace_original_cuCtxPopCurrent_v2" (context: *mut usize);
    cuCtxGetDevice "cutrace_original_cuCtxGetDevice" (device: *mut i32);
    cuDeviceGetAttribute "cutrace_original_cuDeviceGetAttribute" (value: *mut i32, attribute: u32, device: i32);
    cuDeviceGetName "cutrace_original_cuDeviceGetName" (name: *mut c_char, length: i32, device: i32);
    cuMemAlloc_v2 "cutrace_original_cuMemAlloc_v2" (address: *mut u64, bytes: usize);
    cuMemHostRegister_v2 "cutrace_original_cuMemHostRegister_v2" (start: *mut c_void, bytes: usize, flags: u32);
    cuMemHostGetDevicePointer_v2 "cutrace_original_cuMemHostGetDevicePointer_v2" (address: *mut u64, start: *mut c_void, flags: u32);
    cuMemcpyHtoDAsync_v2 "cutrace_original_cuMemcpyHtoDAsync_v2" (to: u64, from: *const c_void, bytes: usize, stream: usize);
    cuMemcpyDtoHAsync_v2 "cutrace_original_cuMemcpyDtoHAsync_v2" (to: *mut c_void, from: u64, bytes: usize, stream: usize);
    cuMemsetD8Async "cutrace_original_cuMemsetD8Async" (to: u64, byte: u8, bytes: usize, stream: usize);
    cuStreamCreate "cutrace_original_cuStreamCreate" (stream: *mut usize, flags: u32);
    cuStreamQuery "cutrace_original_cuStreamQuery" (stream: usize);
    cuStreamSynchronize "cutrace_original_cuStreamSynchronize" (stream: usize);
    cuEventCreate "cutrace_original_cuEventCreate" (event: *mut usize, flags: u32);
    cuEventRecord "cutrace_original_cuEventRecord" (event: usize, stream: usize);
    cuEventQuery "cutrace_original_cuEventQuery" (event: usize);
    cuThreadExchangeStreamCaptureMode "cutrace_original_cuThreadExchangeStreamCaptureMode" (mode: *mut u32);
    cuGetErrorName "cutrace_original_cuGetErrorName" (error: i32, name: *mut *const c_char);
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
