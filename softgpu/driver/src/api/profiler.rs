//! cuProfilerStart and Stop: marks for a profiler, nothing to do without one.

use std::ffi::c_char;

use crate::{entry::api, result::NOT_SUPPORTED, thread};

api! {
    /// Deprecated, and refused by real drivers of today as well.
    fn cuProfilerInitialize(_config: *const c_char, _output: *const c_char, _mode: u32) {
        Err(NOT_SUPPORTED)
    }

    fn cuProfilerStart() {
        thread::current().map(|_| ())
    }

    fn cuProfilerStop() {
        thread::current().map(|_| ())
    }
}
