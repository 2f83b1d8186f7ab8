//! The device's primary context.

use crate::{
    device::Device,
    entry::{api, put},
    result::{INVALID_CONTEXT, INVALID_VALUE},
    state::driver,
};

api! {
    fn cuDevicePrimaryCtxRetain(context: *mut u64, device: i32) {
        if context.is_null() {
            return Err(INVALID_VALUE);
        }
        Device::check(device)?;
        put(context, driver().device.primary.retain())
    }

    fn cuDevicePrimaryCtxRelease(device: i32) {
        Device::check(device)?;
        driver().device.primary.release().ok_or(INVALID_CONTEXT)
    }

    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        Device::check(device)?;
        driver().device.primary.release().ok_or(INVALID_CONTEXT)
    }

    fn cuDevicePrimaryCtxReset(device: i32) {
        Device::check(device)?;
        driver().device.primary.reset();
        Ok(())
    }

    fn cuDevicePrimaryCtxReset_v2(device: i32) {
        Device::check(device)?;
        driver().device.primary.reset();
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, active: *mut i32) {
        Device::check(device)?;
        let (value, is_active) = driver().device.primary.state();
        put(flags, value)?;
        put(active, i32::from(is_active))
    }

    fn cuDevicePrimaryCtxSetFlags(device: i32, flags: u32) {
        Device::check(device)?;
        driver().device.primary.set_flags(flags)
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) {
        Device::check(device)?;
        driver().device.primary.set_flags(flags)
    }
}
