//! How many blocks of a kernel fit on one SM, by the limits of sm_90.

use super::{
    device::{
        MAX_BLOCKS_PER_SM, MAX_THREADS_PER_BLOCK, MAX_THREADS_PER_SM, REGISTERS_PER_SM,
        SHARED_PER_SM, SHARED_RESERVED_PER_BLOCK,
    },
    launch::{max_threads, registers},
};
use softgpu_machine::program::Kernel;

const WARP: u32 = 32;
/// Registers are handed out to warps in units of this many.
const REGISTER_UNIT: u32 = 256;
/// Each SM has four parts with a quarter of the registers; a warp lives in one of them.
const PARTS: u32 = 4;
/// Shared memory is handed out in units of this many bytes.
const SHARED_UNIT: u64 = 128;

/// Resident blocks of `threads` threads with so much dynamic shared memory; 0 if none fits.
pub fn blocks_per_sm(kernel: &Kernel, threads: u32, dynamic_shared: u64) -> u32 {
    // A kernel's own bound on threads does not count, as it does not in a real driver.
    if threads == 0 || threads > MAX_THREADS_PER_BLOCK {
        return 0;
    }
    let warps = threads.div_ceil(WARP);
    let by_warps = MAX_THREADS_PER_SM / WARP / warps;
    let a_warp = (registers(kernel) * WARP).next_multiple_of(REGISTER_UNIT);
    let by_registers = REGISTERS_PER_SM / PARTS / a_warp * PARTS / warps;
    let a_block = (kernel.static_shared as u64 + dynamic_shared + SHARED_RESERVED_PER_BLOCK)
        .next_multiple_of(SHARED_UNIT);
    let by_shared = u32::try_from(SHARED_PER_SM / a_block).unwrap_or(u32::MAX);
    by_warps
        .min(by_registers)
        .min(by_shared)
        .min(MAX_BLOCKS_PER_SM)
}

/// (grid, block) that reach the highest occupancy, the larger block where several do.
pub fn best_block(
    kernel: &Kernel,
    sm_count: u32,
    limit: u32,
    mut shared_for: impl FnMut(u32) -> u64,
) -> (u32, u32) {
    let most = match limit {
        0 => max_threads(kernel),
        limit => limit.min(max_threads(kernel)),
    };
    let mut best = (0, 0, 0);
    let mut threads = most.next_multiple_of(WARP);
    while threads > 0 {
        let tried = threads.min(most);
        let blocks = blocks_per_sm(kernel, tried, shared_for(tried));
        if blocks * tried > best.0 {
            best = (blocks * tried, tried, blocks);
        }
        threads = threads.saturating_sub(WARP);
    }
    (best.2 * sm_count, best.1)
}

/// Dynamic shared memory a block may take, of at most `limit`, so that `blocks` fit on an SM.
pub fn available_shared(kernel: &Kernel, blocks: u32, limit: u64) -> Option<u64> {
    let share = SHARED_PER_SM.checked_div(u64::from(blocks))?;
    let share = share - share % SHARED_UNIT;
    let left = share.checked_sub(SHARED_RESERVED_PER_BLOCK + kernel.static_shared as u64)?;
    Some(left.min(limit))
}
