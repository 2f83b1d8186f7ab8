//! Programs with NVIDIA's CUDA runtime linked in (nvcc's default) on softgpu: each function of that runtime
//! gets a jump to the function of the same name in softgpu's libcudart.so.12 or .13.
//!
//! The library is preloaded into every process that runs on softgpu and does nothing where there is no such
//! runtime. It looks at objects before their constructors run, because those register the program's kernels.

mod code;
mod file;
mod objects;
mod serve;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
};

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static WHEN_LOADED: extern "C" fn() = look;

/// Where there is such a function, the start-up code of every object (crti.o) calls it before the object's
/// own constructors: the one chance to come first in a library that is loaded later.
#[cfg(not(test))]
#[unsafe(no_mangle)]
pub extern "C" fn __gmon_start__() {
    look();
}

/// AddressSanitizer as a library refuses to start where any other comes before it; asked by this function, it
/// does without that check. The injected library has the same, for the same reason.
#[cfg(not(test))]
#[unsafe(no_mangle)]
pub extern "C" fn __asan_default_options() -> *const std::ffi::c_char {
    c"verify_asan_link_order=0".as_ptr()
}

/// Looks at the objects that were not there the last time. The loader runs one constructor at a time, so what
/// comes in between is loaded by ourselves.
#[cfg_attr(test, allow(dead_code))]
extern "C" fn look() {
    static LOOKING: AtomicBool = AtomicBool::new(false);
    if LOOKING.swap(true, Ordering::Acquire) {
        return;
    }
    let all = || objects::new().iter().for_each(serve::serve);
    if catch_unwind(AssertUnwindSafe(all)).is_err() {
        serve::say(
            "softgpu: internal error while looking for linked-in CUDA runtimes; please report it",
        );
    }
    LOOKING.store(false, Ordering::Release);
}
