//! Sums at one moment. The difference of two is what happened in between.

use super::Process;
use crate::SymbolId;
use event::Direction;
use std::collections::HashMap;

/// Whose numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    #[default]
    All,
    Process(u32),
    Thread(u32, u32),
}

impl Scope {
    pub fn is_of(self, pid: u32) -> bool {
        match self {
            Scope::All => true,
            Scope::Process(wanted) | Scope::Thread(wanted, _) => wanted == pid,
        }
    }

    pub fn has(self, (pid, tid): (u32, u32)) -> bool {
        match self {
            Scope::Thread(_, wanted) => self.is_of(pid) && wanted == tid,
            _ => self.is_of(pid),
        }
    }
}

/// Of one function or kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Calls that have ended, or kernels that have run.
    pub count: u64,
    pub total_ns: u64,
    /// Without the calls inside.
    pub self_ns: u64,
    pub failed: u64,
    /// How often it was launched, if it is a kernel.
    pub launches: u64,
}

impl Sums {
    pub fn add(&mut self, other: &Sums) {
        self.count += other.count;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.self_ns = self.self_ns.saturating_add(other.self_ns);
        self.failed += other.failed;
        self.launches += other.launches;
    }

    fn since(&self, before: &Sums) -> Sums {
        Sums {
            count: self.count.saturating_sub(before.count),
            total_ns: self.total_ns.saturating_sub(before.total_ns),
            self_ns: self.self_ns.saturating_sub(before.self_ns),
            failed: self.failed.saturating_sub(before.failed),
            launches: self.launches.saturating_sub(before.launches),
        }
    }
}

/// All sums of a scope.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// The latest record's time.
    pub at_ns: u64,
    pub events: u64,
    pub lost: u64,
    pub functions: HashMap<SymbolId, Sums, ahash::RandomState>,
    /// Calls of the program's own, without those inside them.
    pub calls: u64,
    pub launches: u64,
    pub errors: u64,
    pub held_bytes: u64,
    pub peak_bytes: u64,
    pub allocations: u64,
    pub frees: u64,
    pub copies: u64,
    pub copied_bytes: [u64; Direction::ALL.len()],
    pub gpu_busy_ns: u64,
}

impl Totals {
    pub(super) fn add(&mut self, process: &Process) {
        self.calls += process.calls;
        self.launches += process.launches;
        self.errors += process.errors;
        self.held_bytes = self.held_bytes.saturating_add(process.held_bytes);
        self.peak_bytes = self.peak_bytes.saturating_add(process.peak_bytes);
        self.allocations += process.allocations;
        self.frees += process.frees;
        for (sum, (count, bytes)) in self.copied_bytes.iter_mut().zip(process.copies) {
            self.copies += count;
            *sum = sum.saturating_add(bytes);
        }
    }

    /// What happened after `before`. What is held is held now.
    pub fn since(&self, before: &Totals) -> Totals {
        let functions = self.functions.iter().filter_map(|(symbol, sums)| {
            let new = match before.functions.get(symbol) {
                Some(known) => sums.since(known),
                None => *sums,
            };
            (new != Sums::default()).then_some((*symbol, new))
        });
        let mut copied_bytes = self.copied_bytes;
        for (bytes, old) in copied_bytes.iter_mut().zip(before.copied_bytes) {
            *bytes = bytes.saturating_sub(old);
        }
        Totals {
            at_ns: self.at_ns,
            events: self.events.saturating_sub(before.events),
            lost: self.lost.saturating_sub(before.lost),
            functions: functions.collect(),
            calls: self.calls.saturating_sub(before.calls),
            launches: self.launches.saturating_sub(before.launches),
            errors: self.errors.saturating_sub(before.errors),
            held_bytes: self.held_bytes,
            peak_bytes: self.peak_bytes,
            allocations: self.allocations.saturating_sub(before.allocations),
            frees: self.frees.saturating_sub(before.frees),
            copies: self.copies.saturating_sub(before.copies),
            copied_bytes,
            gpu_busy_ns: self.gpu_busy_ns.saturating_sub(before.gpu_busy_ns),
        }
    }
}
