//! Kernel launches in all forms, and host functions in streams.

use std::ffi::{c_uint, c_void};
use std::ptr::null_mut;

use crate::call::given;
use crate::driver::Api;
use crate::error::{Error, Outcome};
use crate::registry;
use crate::types::{Dim3, DriverLaunchConfig, Handle, LaunchConfig};

/// The driver counts dynamic shared memory in 32 bits.
pub(crate) fn shared_bytes(size: usize) -> Result<c_uint, Error> {
    c_uint::try_from(size).map_err(|_| Error::INVALID_VALUE)
}

unsafe fn launch(
    cu: &Api,
    kernel: Handle,
    grid: Dim3,
    block: Dim3,
    arguments: *mut *mut c_void,
    shared: usize,
    stream: Handle,
) -> Outcome {
    unsafe {
        cu.cuLaunchKernel(
            kernel,
            grid.x,
            grid.y,
            grid.z,
            block.x,
            block.y,
            block.z,
            shared_bytes(shared)?,
            stream,
            arguments,
            null_mut(),
        )
    }
}

/// The driver's form of a launch configuration.
pub(crate) fn to_driver(config: &LaunchConfig) -> Result<DriverLaunchConfig, Error> {
    Ok(DriverLaunchConfig {
        grid: config.grid,
        block: config.block,
        shared_bytes: shared_bytes(config.shared_bytes)?,
        stream: config.stream,
        attributes: config.attributes,
        attribute_count: config.attribute_count,
    })
}

cuda! {
    context fn cudaLaunchKernel, cudaLaunchKernel_ptsz(
        function: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void,
        shared: usize, stream: Handle,
    ) |cu| launch(cu, registry::kernel(cu, function)?, grid, block, arguments, shared, stream);

    context fn __cudaLaunchKernel, __cudaLaunchKernel_ptsz(
        kernel: Handle, grid: Dim3, block: Dim3, arguments: *mut *mut c_void,
        shared: usize, stream: Handle,
    ) |cu| {
        if kernel.is_null() {
            return Err(Error::INVALID_FUNCTION);
        }
        launch(cu, kernel, grid, block, arguments, shared, stream)
    };

    context fn cudaLaunchKernelExC, cudaLaunchKernelExC_ptsz(
        config: *const LaunchConfig, function: *const c_void, arguments: *mut *mut c_void,
    ) |cu| {
        given(config)?;
        let kernel = registry::kernel(cu, function)?;
        let config = to_driver(&*config)?;
        cu.cuLaunchKernelEx((&raw const config).cast(), kernel, arguments, null_mut())
    };

    context fn cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz(
        function: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void,
        shared: usize, stream: Handle,
    ) |cu| {
        let kernel = registry::kernel(cu, function)?;
        cu.cuLaunchCooperativeKernel(
            kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes(shared)?,
            stream, arguments,
        )
    };

    context fn cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz(
        stream: Handle, function: *mut c_void, data: *mut c_void,
    ) |cu| {
        given(function)?;
        cu.cuLaunchHostFunc(stream, function, data)
    };
}
