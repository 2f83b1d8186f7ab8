//! What had passed up to a moment of the trace: two of these say all about the stretch between them,
//! which is known to matter only when it is over.

use crate::{
    HostTime, SymbolId, functions::FunctionsSweep, gpu::GpuSweep, host::HostSweep, idle::IdleSweep,
    memory::MemorySweep, pace::PaceSweep,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Sums since the beginning of the trace.
#[derive(Debug)]
pub(crate) struct Passed {
    pub at: u64,
    pub idle: IdlePassed,
    /// How long GPUs with nothing to do waited for launches.
    pub waited_ns: u64,
    /// How long kernels ran, and copies: unions.
    pub kernels_ns: u64,
    pub copies_ns: u64,
    pub memory: MemoryPassed,
    pub launches: u64,
    pub graph_launches: u64,
    /// By symbol.
    pub functions: Vec<FunctionPassed>,
    room: Arc<AtomicU64>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IdlePassed {
    pub idle_ns: u64,
    pub gaps: u64,
    /// Of the idle time, in gaps worth having.
    pub worth_having_ns: u64,
    /// What the host did in idle time.
    pub host: HostTime,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MemoryPassed {
    /// Device memory that is held.
    pub live_bytes: u64,
    pub allocations: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FunctionPassed {
    pub calls: u64,
    pub total_ns: u64,
    pub self_ns: u64,
}

impl Passed {
    pub fn function(&self, symbol: SymbolId) -> FunctionPassed {
        let known = self.functions.get(symbol as usize);
        known.copied().unwrap_or_default()
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        let freed = self.functions.len() as u64;
        self.room.fetch_add(freed, Ordering::Relaxed);
    }
}

/// Entries kept in all, of 24 bytes each.
const MOST_KEPT: u64 = 1 << 20;
/// Entries that may be copied at first, and with each step: marks that nobody needs in the end must not
/// cost more than reading the trace.
const FIRST_CREDIT: u64 = 1 << 22;
const CREDIT_PER_STEP: u64 = 64;

/// How many more may be taken.
#[derive(Debug)]
pub(crate) struct Allowance {
    room: Arc<AtomicU64>,
    credit: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Allowance {
            room: Arc::new(AtomicU64::new(MOST_KEPT)),
            credit: FIRST_CREDIT,
        }
    }
}

impl Allowance {
    pub fn step(&mut self) {
        self.credit = (self.credit + CREDIT_PER_STEP).min(FIRST_CREDIT);
    }
}

/// The sweeps that know.
pub(crate) struct Sums<'a> {
    pub origin: u64,
    pub launches: u64,
    pub graph_launches: u64,
    pub functions: &'a FunctionsSweep,
    pub gpu: &'a GpuSweep,
    pub pace: &'a PaceSweep,
    pub host: &'a HostSweep,
    pub idle: &'a IdleSweep,
    pub memory: &'a MemorySweep,
}

impl Sums<'_> {
    /// What has passed by now; None if too much is kept already.
    pub fn at(&self, now: u64, allowance: &mut Allowance) -> Option<Arc<Passed>> {
        let entries = self.functions.passed_len() as u64;
        let room = allowance.room.load(Ordering::Relaxed);
        allowance.credit = allowance.credit.checked_sub(entries)?;
        allowance
            .room
            .store(room.checked_sub(entries)?, Ordering::Relaxed);
        let (kernels_ns, copies_ns) = self.gpu.passed(now);
        Some(Arc::new(Passed {
            at: now,
            idle: self.idle.passed(self.origin, now, self.host),
            waited_ns: self.pace.waited_ns(),
            kernels_ns,
            copies_ns,
            memory: self.memory.passed(),
            launches: self.launches,
            graph_launches: self.graph_launches,
            functions: self.functions.passed().collect(),
            room: Arc::clone(&allowance.room),
        }))
    }
}
