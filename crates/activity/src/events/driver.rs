//! The driver's own functions, unrecorded: where each continues is told by the injected library if
//! it has hooked it, else by the loader.

use std::{
    ffi::{CStr, c_void},
    sync::atomic::{AtomicUsize, Ordering},
};

pub const SUCCESS: i32 = 0;
pub const NOT_READY: i32 = 600;

macro_rules! functions {
    ($($name:ident $arguments:tt;)*) => {
        cuda::originals! { $($name $arguments;)* }

        /// Finds those that nobody has told of. Err: one that is missing, or that would be recorded.
        pub fn find() -> Result<(), &'static str> {
            // SAFETY: the driver has loaded this library: it is there.
            let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
            $(look_up(library, &words::$name, concat!(stringify!($name), "\0"))?;)*
            Ok(())
        }
    };
}

functions! {
    cuCtxGetCurrent(context: *mut usize);
    cuCtxSetCurrent(context: usize);
    cuCtxGetDevice(device: *mut i32);
    cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, active: *mut i32);
    cuDevicePrimaryCtxRetain(context: *mut usize, device: i32);
    cuStreamGetCtx(stream: usize, context: *mut usize);
    cuStreamIsCapturing(stream: usize, status: *mut u32);
    cuThreadExchangeStreamCaptureMode(mode: *mut u32);
    cuStreamCreate(stream: *mut usize, flags: u32);
    cuStreamDestroy_v2(stream: usize);
    cuEventCreate(event: *mut usize, flags: u32);
    cuEventDestroy_v2(event: usize);
    cuEventRecord(event: usize, stream: usize);
    cuEventQuery(event: usize);
    cuEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize);
}

fn look_up(
    library: *mut c_void,
    word: &AtomicUsize,
    name: &'static str,
) -> Result<(), &'static str> {
    let plain = &name[..name.len() - 1];
    if word.load(Ordering::Acquire) != 0 {
        return Ok(());
    }
    let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else {
        return Err(plain);
    };
    if library.is_null() {
        return Err(plain);
    }
    // SAFETY: a library that is loaded and stays.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    // A jump: hooked under another name, so that calls of ours would be in the trace.
    if found.is_null() || unsafe { found.cast::<u8>().read() } == 0xe9 {
        return Err(plain);
    }
    word.store(found as usize, Ordering::Release);
    Ok(())
}

/// While it lives, calls of this thread that a capture under way forbids are allowed, and do not
/// spoil it.
pub struct Relaxed(u32);

impl Relaxed {
    pub fn new() -> Self {
        const RELAXED: u32 = 2;
        let mut mode = RELAXED;
        // SAFETY: exchanges the one word.
        unsafe { cuThreadExchangeStreamCaptureMode(&mut mode) };
        Relaxed(mode)
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { cuThreadExchangeStreamCaptureMode(&mut self.0) };
    }
}
