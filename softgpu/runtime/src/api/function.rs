//! What kernels are: attributes, names, parameters, occupancy.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::api::launch;
use crate::call::given;
use crate::context;
use crate::driver::Api;
use crate::error::Error;
use crate::registry;
use crate::types::{Handle, LaunchConfig};

/// cudaFuncAttributes.
#[repr(C)]
pub struct FuncAttributes {
    shared_bytes: usize,
    const_bytes: usize,
    local_bytes: usize,
    max_threads_per_block: c_int,
    registers: c_int,
    ptx_version: c_int,
    binary_version: c_int,
    cache_mode_ca: c_int,
    max_dynamic_shared_bytes: c_int,
    preferred_carveout: c_int,
    cluster_must_be_set: c_int,
    cluster_width: c_int,
    cluster_height: c_int,
    cluster_depth: c_int,
    cluster_scheduling: c_int,
    non_portable_cluster: c_int,
    reserved: [c_int; 16],
}

/// The attributes that may be set: 8 to 15, less the read-only 10.
fn is_settable(attribute: c_int) -> bool {
    (8..=15).contains(&attribute) && attribute != 10
}

/// The kernel and the device it would run on; makes sure that it is loaded there.
fn loaded(cu: &Api, function: *const c_void) -> Result<(Handle, c_int), Error> {
    let kernel = registry::kernel(cu, function)?;
    let device = context::device(cu)?;
    let mut loaded = null_mut();
    unsafe { cu.cuKernelGetFunction(&mut loaded, kernel)? };
    Ok((kernel, device))
}

/// A registered host function as the driver's function in the current context.
pub(crate) fn driver_function(cu: &Api, host: *const c_void) -> Result<Handle, Error> {
    let kernel = registry::kernel(cu, host)?;
    let mut function = null_mut();
    unsafe { cu.cuKernelGetFunction(&mut function, kernel)? };
    if kernel.cast_const() != host {
        registry::remember_host(function, host);
    }
    Ok(function)
}

cuda! {
    context fn cudaFuncGetAttributes(out: *mut FuncAttributes, function: *const c_void) |cu| {
        given(out)?;
        let (kernel, device) = loaded(cu, function)?;
        let get = |attribute| {
            let mut value = 0;
            cu.cuKernelGetAttribute(&mut value, attribute, kernel, device).map(|()| value)
        };
        let size = |attribute| get(attribute).map(|value| usize::try_from(value).unwrap_or(0));
        out.write(FuncAttributes {
            max_threads_per_block: get(0)?,
            shared_bytes: size(1)?,
            const_bytes: size(2)?,
            local_bytes: size(3)?,
            registers: get(4)?,
            ptx_version: get(5)?,
            binary_version: get(6)?,
            cache_mode_ca: get(7)?,
            max_dynamic_shared_bytes: get(8)?,
            preferred_carveout: get(9)?,
            cluster_must_be_set: get(10)?,
            cluster_width: get(11)?,
            cluster_height: get(12)?,
            cluster_depth: get(13)?,
            non_portable_cluster: get(14)?,
            cluster_scheduling: get(15)?,
            reserved: [0; 16],
        });
        Ok(())
    };

    context fn cudaFuncSetAttribute(
        function: *const c_void, attribute: c_int, value: c_int,
    ) |cu| {
        if !is_settable(attribute) {
            return Err(Error::INVALID_VALUE);
        }
        let (kernel, device) = loaded(cu, function)?;
        cu.cuKernelSetAttribute(attribute, value, kernel, device)
    };

    context fn cudaFuncSetCacheConfig(function: *const c_void, config: c_int) |cu| {
        let (kernel, device) = loaded(cu, function)?;
        cu.cuKernelSetCacheConfig(kernel, config, device)
    };

    /// Banks have one size on every device since compute capability 5.0.
    context fn cudaFuncSetSharedMemConfig(function: *const c_void, _config: c_int) |cu| {
        loaded(cu, function).map(drop)
    };

    context fn cudaFuncGetName(name: *mut *const c_char, function: *const c_void) |cu| {
        given(name)?;
        if let Some(registered) = registry::kernel_name(function) {
            name.write(registered);
            return Ok(());
        }
        cu.cuKernelGetName(name, registry::kernel(cu, function)?)
    };

    context fn cudaFuncGetParamInfo(
        function: *const c_void, index: usize, offset: *mut usize, size: *mut usize,
    ) |cu| {
        given(offset)?;
        cu.cuKernelGetParamInfo(registry::kernel(cu, function)?, index, offset, size)
    };

    context fn cudaGetFuncBySymbol(function: *mut Handle, symbol: *const c_void) |cu| {
        given(function)?;
        registry::registered_kernel(cu, symbol).ok_or(Error::INVALID_FUNCTION)??;
        function.write(driver_function(cu, symbol)?);
        Ok(())
    };

    context fn cudaGetKernel(kernel: *mut Handle, symbol: *const c_void) |cu| {
        given(kernel)?;
        let found = registry::registered_kernel(cu, symbol).ok_or(Error::INVALID_FUNCTION)?;
        kernel.write(found?);
        Ok(())
    };

    context fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: *const c_void, block_size: c_int, dynamic_shared: usize,
    ) |cu| {
        given(blocks)?;
        let kernel = registry::kernel(cu, function)?;
        cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            blocks, kernel, block_size, dynamic_shared, 0,
        )
    };

    context fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int, function: *const c_void, block_size: c_int, dynamic_shared: usize,
        flags: c_uint,
    ) |cu| {
        given(blocks)?;
        let kernel = registry::kernel(cu, function)?;
        cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            blocks, kernel, block_size, dynamic_shared, flags,
        )
    };

    context fn cudaOccupancyAvailableDynamicSMemPerBlock(
        size: *mut usize, function: *const c_void, blocks: c_int, block_size: c_int,
    ) |cu| {
        given(size)?;
        let kernel = registry::kernel(cu, function)?;
        cu.cuOccupancyAvailableDynamicSMemPerBlock(size, kernel, blocks, block_size)
    };

    context fn cudaOccupancyMaxPotentialClusterSize(
        size: *mut c_int, function: *const c_void, config: *const LaunchConfig,
    ) |cu| {
        given(size)?;
        given(config)?;
        let (kernel, config) = (registry::kernel(cu, function)?, launch::to_driver(&*config)?);
        cu.cuOccupancyMaxPotentialClusterSize(size, kernel, (&raw const config).cast())
    };

    context fn cudaOccupancyMaxActiveClusters(
        clusters: *mut c_int, function: *const c_void, config: *const LaunchConfig,
    ) |cu| {
        given(clusters)?;
        given(config)?;
        let (kernel, config) = (registry::kernel(cu, function)?, launch::to_driver(&*config)?);
        cu.cuOccupancyMaxActiveClusters(clusters, kernel, (&raw const config).cast())
    };
}
