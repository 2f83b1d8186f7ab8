//! AddressSanitizer as a library refuses to start where any other comes before it, as we do. It asks
//! the program for options by this function, and finds ours unless the program has its own: with the
//! check off it works as before, because nothing here has a name that it intercepts.

/// # Safety
/// The text ends in NUL and is never written to.
#[cfg_attr(cutrace_stage, unsafe(no_mangle))]
pub extern "C" fn __asan_default_options() -> *const core::ffi::c_char {
    c"verify_asan_link_order=0".as_ptr()
}
