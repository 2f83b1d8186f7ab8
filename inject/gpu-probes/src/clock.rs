//! %globaltimer beside the host's clock: a kernel writes one down, the host looks at the other before
//! and after.

use crate::driver;
use crate::shared::Shared;
use ptx::device;
use std::ffi::{CString, c_void};
use std::ptr::null;

pub struct Clock {
    function: usize,
    place: Shared,
}

/// One reading of both clocks, and how far they may be apart.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    pub device: u64,
    pub host: u64,
    pub error: u64,
}

const READINGS: usize = 12;

impl Clock {
    /// In the current context.
    pub fn create(place: Shared) -> Option<Clock> {
        let text = CString::new(device::CLOCK).ok()?;
        let name = CString::new(device::CLOCK_KERNEL).ok()?;
        let (mut module, mut function) = (0, 0);
        // SAFETY: both texts end with a NUL.
        unsafe {
            (driver::cuModuleLoadData(&mut module, text.as_ptr().cast()) == driver::SUCCESS
                && driver::cuModuleGetFunction(&mut function, module, name.as_ptr())
                    == driver::SUCCESS)
                .then_some(Clock { function, place })
        }
    }

    /// The tightest of a few readings.
    pub fn read(&self, stream: usize) -> Option<Pair> {
        let mut best: Option<Pair> = None;
        for _ in 0..READINGS {
            let mut place = self.place.device;
            let parameters = [(&raw mut place).cast::<c_void>()];
            let word = self.place.start as *const u64;
            let before = monotonic();
            // SAFETY: a kernel of ours that writes one word.
            let (done, device) = unsafe {
                let launched = driver::cuLaunchKernel(
                    self.function,
                    1,
                    1,
                    1,
                    1,
                    1,
                    1,
                    0,
                    stream,
                    parameters.as_ptr(),
                    null(),
                );
                let done = launched == driver::SUCCESS
                    && driver::cuStreamSynchronize(stream) == driver::SUCCESS;
                (done, word.read_volatile())
            };
            let after = monotonic();
            if !done {
                break;
            }
            let width = after.saturating_sub(before);
            let pair = Pair {
                device,
                host: before + width / 2,
                error: width / 2,
            };
            if best.is_none_or(|best| pair.error < best.error) {
                best = Some(pair);
            }
        }
        best
    }
}

pub fn monotonic() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes the timespec and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
