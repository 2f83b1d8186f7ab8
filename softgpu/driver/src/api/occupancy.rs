//! Occupancy: how many blocks fit.

use std::sync::Arc;

use crate::{
    abi::{BlockToShared, LaunchConfig},
    device::MAX_CLUSTER,
    entry::{api, put, take, take_array},
    launch::{self, Function, Shape},
    occupancy::{available_shared, best_block, blocks_per_sm},
    result::{Answer, INVALID_VALUE},
    state::driver,
    thread,
};

fn find(handle: u64) -> Answer<Arc<Function>> {
    launch::resolve(&thread::usable()?, handle)
}

fn active_blocks(function: u64, threads: i32, shared: usize) -> Answer<i32> {
    let function = find(function)?;
    let threads = u32::try_from(threads).map_err(|_| INVALID_VALUE)?;
    if threads == 0 {
        return Err(INVALID_VALUE);
    }
    Ok(blocks_per_sm(function.kernel(), threads, shared as u64) as i32)
}

unsafe fn potential(
    grid: *mut i32,
    block: *mut i32,
    function: u64,
    shared_for: BlockToShared,
    shared: usize,
    limit: i32,
) -> Answer {
    let function = find(function)?;
    if grid.is_null() || block.is_null() {
        return Err(INVALID_VALUE);
    }
    let limit = u32::try_from(limit).map_err(|_| INVALID_VALUE)?;
    let sm_count = driver().device.sm_count;
    let best = best_block(
        function.kernel(),
        sm_count,
        limit,
        |threads| match shared_for {
            Some(ask) => unsafe { ask(threads as i32) as u64 },
            None => shared as u64,
        },
    );
    unsafe {
        put(grid, best.0 as i32)?;
        put(block, best.1 as i32)
    }
}

/// (shape, blocks of it on an SM) of a launch configuration.
unsafe fn configured(function: &Function, config: *const LaunchConfig) -> Answer<(Shape, u32)> {
    let config = unsafe { take(config)? };
    let mut shape = Shape::new(config.grid, config.block, config.shared);
    shape.apply(&unsafe { take_array(config.attributes, config.attribute_count as usize)? })?;
    let threads = shape
        .block
        .iter()
        .fold(1u32, |all, n| all.saturating_mul(*n));
    let blocks = blocks_per_sm(function.kernel(), threads, u64::from(shape.shared));
    Ok((shape, blocks))
}

api! {
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut i32,
        function: u64,
        threads: i32,
        shared: usize,
    ) {
        put(blocks, active_blocks(function, threads, shared)?)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut i32,
        function: u64,
        threads: i32,
        shared: usize,
        flags: u32,
    ) {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        put(blocks, active_blocks(function, threads, shared)?)
    }

    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut i32,
        block: *mut i32,
        function: u64,
        shared_for: BlockToShared,
        shared: usize,
        limit: i32,
    ) {
        potential(grid, block, function, shared_for, shared, limit)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: *mut i32,
        block: *mut i32,
        function: u64,
        shared_for: BlockToShared,
        shared: usize,
        limit: i32,
        flags: u32,
    ) {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        potential(grid, block, function, shared_for, shared, limit)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize,
        function: u64,
        blocks: i32,
        threads: i32,
    ) {
        let function = find(function)?;
        let blocks = u32::try_from(blocks).map_err(|_| INVALID_VALUE)?;
        if threads <= 0 {
            return Err(INVALID_VALUE);
        }
        let limit = function.settings().max_dynamic_shared;
        let available = available_shared(function.kernel(), blocks, limit).ok_or(INVALID_VALUE)?;
        put(bytes, available as usize)
    }

    fn cuOccupancyMaxPotentialClusterSize(
        size: *mut i32,
        function: u64,
        config: *const LaunchConfig,
    ) {
        let function = find(function)?;
        let (_, blocks) = configured(&function, config)?;
        put(size, if blocks == 0 { 0 } else { MAX_CLUSTER as i32 })
    }

    fn cuOccupancyMaxActiveClusters(
        count: *mut i32,
        function: u64,
        config: *const LaunchConfig,
    ) {
        let function = find(function)?;
        let (shape, blocks) = configured(&function, config)?;
        let size = shape.cluster.iter().map(|n| (*n).max(1)).product::<u32>();
        put(count, (blocks * driver().device.sm_count / size) as i32)
    }
}
