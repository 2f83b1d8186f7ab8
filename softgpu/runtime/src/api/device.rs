//! Choosing devices, their attributes, flags, limits and identity; reset and synchronise.

use std::ffi::{c_char, c_int, c_uint};
use std::ptr::null_mut;

use crate::api::properties;
use crate::call::{given, guard};
use crate::context::{self, Runtime};
use crate::error::Error;
use crate::types::Handle;

/// cudaDeviceMapHost, which every context has.
const MAP_HOST: c_uint = 0x08;
/// cudaDeviceMask.
const FLAGS: c_uint = 0xff;
/// cudaInitDeviceFlagsAreValid.
const INIT_FLAGS_VALID: c_uint = 1;

/// Where there is no driver or no device the count is 0 beside the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceCount(count: *mut c_int) -> c_int {
    guard(|| {
        given(count)?;
        unsafe { count.write(0) };
        let found = Runtime::get()?.device_count();
        unsafe { count.write(found) };
        Ok(())
    })
}

fn known_device(device: c_int) -> Result<&'static Runtime, Error> {
    let runtime = Runtime::get()?;
    if (0..runtime.device_count()).contains(&device) {
        Ok(runtime)
    } else {
        Err(Error::INVALID_DEVICE)
    }
}

cuda! {
    plain fn cudaSetDevice(device: c_int) |_| {
        context::choose_device(known_device(device)?, device)
    };

    plain fn cudaGetDevice(device: *mut c_int) |cu| {
        given(device)?;
        device.write(context::device(cu)?);
        Ok(())
    };

    plain fn cudaDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) |cu| {
        given(value)?;
        cu.cuDeviceGetAttribute(value, attribute, device)
    };

    plain fn cudaSetDeviceFlags(flags: c_uint) |cu| {
        if flags & !FLAGS != 0 {
            return Err(Error::INVALID_VALUE);
        }
        cu.cuDevicePrimaryCtxSetFlags(context::device(cu)?, flags & !MAP_HOST)
    };

    plain fn cudaGetDeviceFlags(flags: *mut c_uint) |cu| {
        given(flags)?;
        let (mut value, mut active) = (0, 0);
        if context::current(cu)?.is_null() {
            cu.cuDevicePrimaryCtxGetState(context::chosen_device(), &mut value, &mut active)?;
        } else {
            cu.cuCtxGetFlags(&mut value)?;
        }
        flags.write(value | MAP_HOST);
        Ok(())
    };

    plain fn cudaInitDevice(device: c_int, device_flags: c_uint, flags: c_uint) |cu| {
        let runtime = known_device(device)?;
        if flags & INIT_FLAGS_VALID != 0 {
            if device_flags & !FLAGS != 0 {
                return Err(Error::INVALID_VALUE);
            }
            cu.cuDevicePrimaryCtxSetFlags(device, device_flags & !MAP_HOST)?;
        }
        context::on_device(runtime, device, |_| Ok(()))
    };

    /// The list is advice about which device to take when none is chosen; the first valid one
    /// is the default here already, so only the list itself is checked.
    plain fn cudaSetValidDevices(devices: *mut c_int, length: c_int) |_| {
        if length < 0 || (length > 0 && devices.is_null()) {
            return Err(Error::INVALID_VALUE);
        }
        for at in 0..length as usize {
            known_device(devices.add(at).read())?;
        }
        Ok(())
    };

    plain fn cudaChooseDevice(device: *mut c_int, wanted: *const properties::DeviceProp) |_| {
        given(device)?;
        given(wanted)?;
        device.write(properties::choose(&*wanted)?);
        Ok(())
    };

    plain fn cudaDeviceReset() |cu| {
        let device = context::device(cu)?;
        Runtime::get()?.reset(device)
    };

    context fn cudaDeviceSynchronize() |cu| cu.cuCtxSynchronize_v2000();
    context fn cudaDeviceSetLimit(limit: c_int, value: usize) |cu| cu.cuCtxSetLimit(limit, value);

    context fn cudaDeviceGetLimit(value: *mut usize, limit: c_int) |cu| {
        given(value)?;
        cu.cuCtxGetLimit(value, limit)
    };

    context fn cudaDeviceGetCacheConfig(config: *mut c_int) |cu| {
        given(config)?;
        cu.cuCtxGetCacheConfig(config)
    };
    context fn cudaDeviceSetCacheConfig(config: c_int) |cu| cu.cuCtxSetCacheConfig(config);

    context fn cudaDeviceGetSharedMemConfig(config: *mut c_int) |cu| {
        given(config)?;
        cu.cuCtxGetSharedMemConfig(config)
    };
    context fn cudaDeviceSetSharedMemConfig(config: c_int) |cu| cu.cuCtxSetSharedMemConfig(config);

    context fn cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) |cu| {
        cu.cuCtxGetStreamPriorityRange(least, greatest)
    };

    context fn cudaCtxResetPersistingL2Cache() |cu| cu.cuCtxResetPersistingL2Cache();

    plain fn cudaDeviceGetByPCIBusId(device: *mut c_int, id: *const c_char) |cu| {
        given(device)?;
        given(id)?;
        cu.cuDeviceGetByPCIBusId(device, id)
    };

    plain fn cudaDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: c_int) |cu| {
        given(id)?;
        known_device(device)?;
        cu.cuDeviceGetPCIBusId(id, length, device)
    };

    plain fn cudaDeviceGetTexture1DLinearMaxWidth(
        width: *mut usize, desc: *const crate::types::ChannelFormatDesc, device: c_int,
    ) |cu| {
        given(width)?;
        given(desc)?;
        let (format, channels) = crate::api::array::format(&*desc)?;
        cu.cuDeviceGetTexture1DLinearMaxWidth(width, format, channels, device)
    };

    context fn cudaDeviceFlushGPUDirectRDMAWrites(target: c_int, scope: c_int) |cu| {
        cu.cuFlushGPUDirectRDMAWrites(target, scope)
    };

    plain fn cudaDeviceGetDefaultMemPool(pool: *mut Handle, device: c_int) |cu| {
        given(pool)?;
        pool.write(null_mut());
        cu.cuDeviceGetDefaultMemPool(pool, device)
    };

    plain fn cudaDeviceSetMemPool(device: c_int, pool: Handle) |cu| {
        cu.cuDeviceSetMemPool(device, pool)
    };

    plain fn cudaDeviceGetMemPool(pool: *mut Handle, device: c_int) |cu| {
        given(pool)?;
        cu.cuDeviceGetMemPool(pool, device)
    };
}
