//! Virtual memory management: reserve, create, map, give access.

use std::{ffi::c_void, sync::Arc};

use crate::{
    abi::Location,
    entry::{api, put, take, take_array},
    result::{Answer, INVALID_DEVICE, INVALID_VALUE, NOT_SUPPORTED},
    state::driver,
    thread,
    virtual_memory::{GRANULARITY, Physical, READ_WRITE, check_properties},
};

const POSIX_DESCRIPTOR: u32 = 1;

fn find(handle: u64) -> Answer<Arc<Physical>> {
    driver().physical.get(handle).ok_or(INVALID_VALUE)
}

api! {
    fn cuMemGetAllocationGranularity(
        granularity: *mut usize,
        properties: *const [u32; 8],
        option: u32,
    ) {
        take(properties)?;
        if option > 1 {
            return Err(INVALID_VALUE);
        }
        put(granularity, GRANULARITY as usize)
    }

    fn cuMemAddressReserve(
        address: *mut u64,
        size: usize,
        alignment: usize,
        _wanted: u64,
        flags: u64,
    ) {
        if address.is_null() || flags != 0 {
            return Err(INVALID_VALUE);
        }
        // The wanted address is a hint.
        put(address, driver().virtual_memory.reserve(size as u64, alignment as u64)?)
    }

    fn cuMemAddressFree(address: u64, size: usize) {
        driver().virtual_memory.free(address, size as u64)
    }

    fn cuMemCreate(handle: *mut u64, size: usize, properties: *const [u32; 8], flags: u64) {
        if handle.is_null() || flags != 0 {
            return Err(INVALID_VALUE);
        }
        let handle_types = check_properties(take(properties)?)?;
        put(handle, Physical::create(size as u64, handle_types)?.handle)
    }

    fn cuMemRelease(handle: u64) {
        find(handle)?.release();
        Ok(())
    }

    fn cuMemRetainAllocationHandle(handle: *mut u64, address: *mut c_void) {
        if handle.is_null() {
            return Err(INVALID_VALUE);
        }
        let (physical, _) = driver().virtual_memory.at(address as u64)?;
        physical.retain();
        // Released before, but still mapped: it has a handle again.
        driver().physical.insert(physical.handle, physical.clone());
        put(handle, physical.handle)
    }

    fn cuMemGetAllocationPropertiesFromHandle(properties: *mut [u32; 8], handle: u64) {
        put(properties, [1, find(handle)?.handle_types, 1, 0, 0, 0, 0, 0])
    }

    fn cuMemMap(address: u64, size: usize, offset: usize, handle: u64, flags: u64) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        driver().virtual_memory.map(address, size as u64, offset as u64, find(handle)?)
    }

    fn cuMemUnmap(address: u64, size: usize) {
        let context = thread::usable()?;
        context.drain();
        driver().virtual_memory.unmap(address, size as u64)
    }

    fn cuMemSetAccess(address: u64, size: usize, access: *const [u32; 3], count: usize) {
        let context = thread::usable()?;
        if count == 0 {
            return Err(INVALID_VALUE);
        }
        for [location, device, flags] in take_array(access, count)? {
            if location != 1 || !matches!(flags, 0 | 1 | READ_WRITE) {
                return Err(INVALID_VALUE);
            }
            if device != 0 {
                return Err(INVALID_DEVICE);
            }
            context.drain();
            driver().virtual_memory.set_access(&context, address, size as u64, flags)?;
        }
        Ok(())
    }

    fn cuMemGetAccess(flags: *mut u64, location: *const Location, address: u64) {
        let location = take(location)?;
        let (_, accessible) = driver().virtual_memory.at(address)?;
        let own = location == Location { kind: 1, id: 0 };
        put(flags, if own && accessible { u64::from(READ_WRITE) } else { 0 })
    }

    fn cuMemExportToShareableHandle(shared: *mut c_void, handle: u64, kind: u32, flags: u64) {
        if shared.is_null() || flags != 0 {
            return Err(INVALID_VALUE);
        }
        if kind != POSIX_DESCRIPTOR {
            return Err(NOT_SUPPORTED);
        }
        put(shared.cast::<i32>(), find(handle)?.export()?)
    }

    fn cuMemImportFromShareableHandle(handle: *mut u64, shared: *mut c_void, kind: u32) {
        if handle.is_null() {
            return Err(INVALID_VALUE);
        }
        if kind != POSIX_DESCRIPTOR {
            return Err(NOT_SUPPORTED);
        }
        // The descriptor is passed as the pointer itself.
        put(handle, Physical::import(shared as usize as i32)?.handle)
    }
}
