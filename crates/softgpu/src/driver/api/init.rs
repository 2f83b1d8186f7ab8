//! cuInit and what works before it.

use std::ffi::c_void;

use crate::driver::{
    abi::Uuid,
    device::{DRIVER_VERSION, Device},
    entry::{api, early_api, put},
    resource,
    result::{INVALID_VALUE, NO_DEVICE, NOT_FOUND},
    state,
};

early_api! {
    fn cuInit(flags: u32) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        if !Device::is_visible() {
            return Err(NO_DEVICE);
        }
        resource::start();
        state::initialise();
        Ok(())
    }

    fn cuDriverGetVersion(version: *mut i32) {
        put(version, DRIVER_VERSION)
    }
}

api! {
    /// Private tables of functions between NVIDIA's own libraries: there are none here.
    fn cuGetExportTable(table: *mut *const c_void, _id: *const Uuid) {
        put(table, std::ptr::null())?;
        Err(NOT_FOUND)
    }
}
