//! Memory pools. Properties, access descriptions and attributes have the driver's layout.

use std::ffi::{c_int, c_uint, c_void};

use crate::call::given;
use crate::types::{DevicePtr, Handle, MemLocation};

cuda! {
    plain fn cudaMemPoolCreate(pool: *mut Handle, properties: *const c_void) |cu| {
        given(pool)?;
        given(properties)?;
        cu.cuMemPoolCreate(pool, properties)
    };
    plain fn cudaMemPoolDestroy(pool: Handle) |cu| cu.cuMemPoolDestroy(pool);
    plain fn cudaMemPoolTrimTo(pool: Handle, keep: usize) |cu| cu.cuMemPoolTrimTo(pool, keep);
    plain fn cudaMemPoolSetAttribute(
        pool: Handle, attribute: c_int, value: *mut c_void,
    ) |cu| cu.cuMemPoolSetAttribute(pool, attribute, value);
    plain fn cudaMemPoolGetAttribute(
        pool: Handle, attribute: c_int, value: *mut c_void,
    ) |cu| cu.cuMemPoolGetAttribute(pool, attribute, value);
    plain fn cudaMemPoolSetAccess(
        pool: Handle, descriptions: *const c_void, count: usize,
    ) |cu| cu.cuMemPoolSetAccess(pool, descriptions, count);
    plain fn cudaMemPoolGetAccess(
        flags: *mut c_int, pool: Handle, location: *mut MemLocation,
    ) |cu| cu.cuMemPoolGetAccess(flags, pool, location.cast());
    plain fn cudaMemPoolExportToShareableHandle(
        out: *mut c_void, pool: Handle, kind: c_int, flags: c_uint,
    ) |cu| cu.cuMemPoolExportToShareableHandle(out, pool, kind, flags.into());
    plain fn cudaMemPoolImportFromShareableHandle(
        pool: *mut Handle, handle: *mut c_void, kind: c_int, flags: c_uint,
    ) |cu| cu.cuMemPoolImportFromShareableHandle(pool, handle, kind, flags.into());
    plain fn cudaMemPoolExportPointer(
        out: *mut c_void, pointer: *mut c_void,
    ) |cu| cu.cuMemPoolExportPointer(out, pointer as DevicePtr);
    plain fn cudaMemPoolImportPointer(
        pointer: *mut *mut c_void, pool: Handle, data: *mut c_void,
    ) |cu| {
        given(pointer)?;
        cu.cuMemPoolImportPointer(pointer.cast(), pool, data)
    };
}
