//! Kernel launches in all forms, and host functions in streams.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::RUNTIME_VERSION;
use crate::call::given;
use crate::context::{self, Runtime};
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

/// What the runtime makes of the driver's invalid value: up to CUDA 12, dimensions outside the
/// device's limits are an invalid configuration; CUDA 13 hands the driver's answer through.
fn explain(cu: &Api, outcome: Outcome, grid: Dim3, block: Dim3) -> Outcome {
    let explains = RUNTIME_VERSION < 13000 && outcome == Err(Error::INVALID_VALUE);
    if explains && is_outside_limits(cu, grid, block)? {
        return Err(Error::INVALID_CONFIGURATION);
    }
    outcome
}

fn is_outside_limits(cu: &Api, grid: Dim3, block: Dim3) -> Result<bool, Error> {
    let limits = Runtime::get()?.properties(context::device(cu)?)?;
    let outside = |dim: Dim3, most: [c_int; 3]| {
        let sizes = [dim.x, dim.y, dim.z].into_iter().zip(most);
        sizes
            .into_iter()
            .any(|(size, most)| size == 0 || i64::from(size) > i64::from(most))
    };
    let threads = u64::from(block.x) * u64::from(block.y) * u64::from(block.z);
    Ok(outside(grid, limits.max_grid_size)
        || outside(block, limits.max_threads_dim)
        || threads > u64::try_from(limits.max_threads_per_block).unwrap_or(0))
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
    ) |cu| {
        let kernel = registry::kernel(cu, function)?;
        let outcome = launch(cu, kernel, grid, block, arguments, shared, stream);
        explain(cu, outcome, grid, block)
    };

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
        let driver = to_driver(&*config)?;
        let outcome =
            cu.cuLaunchKernelEx((&raw const driver).cast(), kernel, arguments, null_mut());
        explain(cu, outcome, driver.grid, driver.block)
    };

    context fn cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz(
        function: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void,
        shared: usize, stream: Handle,
    ) |cu| {
        let kernel = registry::kernel(cu, function)?;
        let outcome = cu.cuLaunchCooperativeKernel(
            kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes(shared)?,
            stream, arguments,
        );
        explain(cu, outcome, grid, block)
    };

    context fn cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz(
        stream: Handle, function: *mut c_void, data: *mut c_void,
    ) |cu| {
        given(function)?;
        cu.cuLaunchHostFunc(stream, function, data)
    };
}
