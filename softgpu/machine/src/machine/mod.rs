//! Executing kernels: blocks over worker threads, warps of 32 lanes in lock-step.
//!
//! A block is a resumable state machine, so that blocks which wait for each other all progress on
//! few workers. Within a warp, lanes that took different ways are kept as groups which split at
//! divergent branches and merge again where they meet.

mod access;
mod address;
mod atomic;
mod barrier;
mod block;
mod builtin;
mod call;
mod execute;
mod heap;
mod mbarrier;
mod place;
mod print;
mod registers;
mod schedule;
mod seats;
mod special;
mod trouble;
mod warp;
mod warp_ops;
mod wide;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::fault::Fault;
use crate::memory::Memory;
use crate::program::Program;

pub use place::Loaded;
pub use seats::Seats;

/// One kernel launch.
pub struct Launch<'a> {
    pub loaded: &'a Loaded,
    /// Index in [`Program::kernels`].
    pub kernel: usize,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Blocks in a cluster, by axis; all 1 (or 0) for none.
    pub cluster: [u32; 3],
    pub dynamic_shared: usize,
    /// Laid out as [`crate::program::Kernel::params`] says.
    pub params: &'a [u8],
    /// All blocks are resident at once.
    pub cooperative: bool,
    pub grid_id: u64,
}

/// What a launch runs on.
pub struct Environment<'a> {
    pub memory: &'a Memory,
    /// OS threads to use, this one included.
    pub workers: usize,
    /// Its multiprocessors; launches at the same time share them.
    pub seats: &'a Arc<Seats>,
    /// Takes device printf's text, already formatted.
    pub print: &'a (dyn Fn(&[u8]) + Sync),
    /// Set to stop the kernel.
    pub cancelled: &'a AtomicBool,
}

/// Runs a kernel to its end, or to its first fault.
pub fn run(launch: &Launch, env: &Environment) -> Result<(), Fault> {
    schedule::run(launch, env)
}

impl Loaded {
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }
}
