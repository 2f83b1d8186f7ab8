//! A thread block, and the cluster it is part of: state that can be left and taken up again.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::barrier::{BarrierState, settle};
use super::execute::{Core, Executor};
use super::seats::Seat;
use super::trouble::{Outcome, Trouble};
use super::warp::{State, Warp};
use crate::alu::WARP;
use crate::fault::FaultKind;

/// Instructions a warp runs before the next one's turn.
const WARP_SLICE: u32 = 16 << 10;
/// Instructions a block runs before another block's turn, unless it waits.
const BLOCK_SLICE: u64 = 1 << 20;

/// Bytes that lanes reach through checked pointers: shared memory, parameters.
pub struct Bytes {
    data: Box<[UnsafeCell<u128>]>,
    size: u64,
}

// SAFETY: the bytes are read and written through pointers only: parameters are never written, and
// shared memory belongs to blocks of one cluster, which stay on one thread.
unsafe impl Sync for Bytes {}

impl Bytes {
    pub fn zeroed(size: usize) -> Bytes {
        Bytes {
            data: (0..size.div_ceil(16)).map(|_| UnsafeCell::new(0)).collect(),
            size: size as u64,
        }
    }

    pub fn copied(bytes: &[u8]) -> Bytes {
        let copy = Bytes::zeroed(bytes.len());
        // SAFETY: just allocated with that length.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.start() as *mut u8, bytes.len());
        }
        copy
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn start(&self) -> u64 {
        self.data.as_ptr() as u64
    }
}

/// What a block has besides its warps.
pub struct BlockState {
    pub index: [u32; 3],
    /// Number in the grid.
    pub linear: u64,
    pub cluster_rank: u32,
    /// While it runs.
    pub seat: Option<Seat>,
    pub shared: Arc<Bytes>,
    /// Shared memory of the cluster's blocks, by rank.
    pub peers: Vec<Arc<Bytes>>,
    pub barriers: Vec<BarrierState>,
    /// A lane arrived at a barrier or exited: barriers may be complete.
    pub has_news: bool,
}

pub struct Block {
    pub state: BlockState,
    pub warps: Vec<Warp>,
}

/// What the blocks of a cluster share.
pub struct Cluster {
    pub live: u64,
    pub arrived: u64,
    pub phase: u64,
}

/// Blocks that run on one worker together.
pub struct Unit {
    pub blocks: Vec<Block>,
    pub cluster: Cluster,
}

/// How far a unit got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Done,
    /// Others should run; `idle` if it seems to wait for them.
    Yield {
        idle: bool,
    },
}

impl Block {
    pub fn is_done(&self) -> bool {
        self.warps.iter().all(|warp| warp.live == 0)
    }

    /// Every warp in turn, once; whether any ran, and whether those that ran all polled.
    fn pass(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        spent: &mut u64,
    ) -> Outcome<(bool, bool)> {
        let (mut ran, mut polled) = (false, true);
        for index in 0..self.warps.len() {
            let warp = &mut self.warps[index];
            if warp.live == 0 || !warp.is_runnable() {
                continue;
            }
            ran = true;
            let function = &core.program.functions[core.kernel.function];
            let mut executor = Executor {
                core,
                block: &mut self.state,
                cluster,
                warp,
                function,
                frame: 0,
                budget: WARP_SLICE,
                polls: 0,
                forfeited: 0,
            };
            let before = executor.warp.clock;
            executor.run()?;
            let has_polled = executor.polls > 0 && executor.budget == 0;
            *spent += self.warps[index].clock - before;
            polled &= has_polled;
            if std::mem::take(&mut self.state.has_news) {
                settle(&mut self.state, &mut self.warps);
            }
        }
        Ok((ran, polled))
    }

    /// Where a block's waiting lanes are, for the message about a deadlock.
    fn waiting(&self) -> Box<Trouble> {
        for warp in &self.warps {
            for group in &warp.groups {
                let (what, line) = match group.state {
                    State::Barrier { id, line, .. } => (format!("barrier {id}"), line),
                    State::Cluster => ("the cluster barrier".to_string(), 0),
                    State::Members(mask) | State::WarpBarrier(mask) => {
                        (format!("a warp operation of lanes {mask:#x}"), 0)
                    }
                    State::Ready => continue,
                };
                let text = format!("deadlock: lanes wait at {what} for others that never arrive");
                let lane = Some(group.mask.trailing_zeros() as usize % WARP);
                let mut trouble = Trouble::new(FaultKind::LaunchFailed, lane, text);
                trouble.warp = warp.index;
                trouble.line = line;
                return trouble;
            }
        }
        Trouble::new(FaultKind::LaunchFailed, None, "deadlock")
    }
}

impl Unit {
    /// Runs the blocks for a while. The error names the block by its place in the unit.
    pub fn run(&mut self, core: &mut Core) -> Result<Progress, (usize, Box<Trouble>)> {
        let mut spent = 0;
        loop {
            let (mut ran, mut polled) = (false, true);
            for (place, block) in self.blocks.iter_mut().enumerate() {
                let (block_ran, block_polled) = block
                    .pass(core, &mut self.cluster, &mut spent)
                    .map_err(|trouble| (place, trouble))?;
                ran |= block_ran;
                polled &= !block_ran || block_polled;
            }
            let released = self.settle_cluster();
            if self.blocks.iter().all(Block::is_done) {
                return Ok(Progress::Done);
            }
            if !ran && !released {
                let place = self.blocks.iter().position(|block| !block.is_done());
                let place = place.unwrap_or(0);
                return Err((place, self.blocks[place].waiting()));
            }
            if core.env.cancelled.load(Ordering::Relaxed) {
                return Ok(Progress::Yield { idle: false });
            }
            core.regions.refresh();
            if polled && ran {
                return Ok(Progress::Yield { idle: true });
            }
            if spent > BLOCK_SLICE {
                return Ok(Progress::Yield { idle: false });
            }
        }
    }

    /// Completes the cluster's barrier when all its live threads have arrived.
    fn settle_cluster(&mut self) -> bool {
        let cluster = &mut self.cluster;
        if cluster.arrived == 0 || cluster.arrived < cluster.live {
            return false;
        }
        cluster.arrived = 0;
        cluster.phase += 1;
        for block in &mut self.blocks {
            for warp in &mut block.warps {
                for group in &mut warp.groups {
                    if group.state == State::Cluster {
                        group.state = State::Ready;
                        group.pc += 1;
                    }
                }
            }
        }
        true
    }
}
