//! The driver's own functions, unrecorded: the injected library says where each continues.

use std::sync::atomic::Ordering;

pub const SUCCESS: i32 = 0;
pub const NOT_READY: i32 = 600;

macro_rules! functions {
    ($($name:ident $arguments:tt;)*) => {
        cuda::originals! { $($name $arguments;)* }

        /// Whether the injected library has said where all of them are. Err: one that this driver lacks.
        pub fn find() -> Result<(), &'static str> {
            $(if words::$name.load(Ordering::Acquire) == 0 {
                return Err(stringify!($name));
            })*
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
