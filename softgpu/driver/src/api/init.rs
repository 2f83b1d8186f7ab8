//! cuInit and what works before it.

use std::ffi::c_void;

use crate::{
    abi::Uuid,
    activity,
    device::{DRIVER_VERSION, Device},
    entry::{api, early_api, put, take},
    foreign_runtime, injection, resource,
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
        injection::load_once();
        Ok(())
    }

    fn cuDriverGetVersion(version: *mut i32) {
        put(version, DRIVER_VERSION)
    }
}

api! {
    /// Private tables of functions between NVIDIA's own libraries: there are none of those here,
    /// but one for softgpu's own libcupti.
    fn cuGetExportTable(table: *mut *const c_void, id: *const Uuid) {
        if take(id).is_ok_and(|id| id.0 == activity::TABLE_ID) {
            return put(table, (&raw const activity::TABLE).cast());
        }
        put(table, std::ptr::null())?;
        foreign_runtime::asked();
        Err(NOT_FOUND)
    }
}
