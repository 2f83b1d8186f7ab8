//! %globaltimer beside the host's clock: a kernel writes one down, the host looks at the other before
//! and after.

use crate::driver;
use crate::shared::Shared;
use event::ClockPair;
use ptx::device;
use std::ffi::{CString, c_void};
use std::ptr::null;

pub struct Clock {
    function: usize,
    place: Shared,
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
    pub fn read(&self, stream: usize) -> Option<ClockPair> {
        ClockPair::tightest((0..READINGS).map_while(|_| self.read_once(stream)))
    }

    fn read_once(&self, stream: usize) -> Option<ClockPair> {
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
        done.then(|| ClockPair::around(before, device, after))?
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
