//! The verifier: walks every path of a program with what is known of registers and stack, and refuses
//! what could read or write where it must not, or not end.
//!
//! What it lets pass cannot fault, hang or change anything but the stack of its own thread and the
//! values of its maps. It knows about warps: a loop whose exit waits for memory that another thread
//! writes is refused, because lanes that run in lock-step may wait for each other forever.

mod arithmetic;
mod backwards;
mod bits;
mod branch;
mod budget;
mod call;
mod explore;
pub mod facts;
pub mod liveness;
mod memory;
mod refused;
mod relevance;
mod scalar;
#[cfg(test)]
mod scalar_tests;
mod stack;
mod state;
mod text;
mod value;

pub use explore::{verify, verify_or_budget, verify_or_budget_within, verify_within};
pub use refused::{Reason, Refused};

use crate::object::{Object, Program};
use facts::Facts;

/// A program that may run, with what was learnt about it.
#[derive(Debug, Clone)]
pub struct Verified<'a> {
    pub object: &'a Object,
    pub program: &'a Program,
    /// Bytes of the context it may read: a kernel with fewer bytes of parameters must not be probed.
    pub context_bytes: u32,
    /// How often its loops go round is not known: the caller stops it after a number of rounds.
    pub is_budgeted: bool,
    /// The most instructions a thread executes; nothing of that is known of what is budgeted.
    pub longest_path: u64,
    /// Instructions the verifier looked at, over all paths.
    pub looked_at: u64,
    /// Formats and texts it prints, by number.
    pub texts: Vec<String>,
    /// What it writes into rings.
    pub outputs: Vec<Output>,
    pub(crate) facts: Facts,
}

/// A call that writes a record into a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// The instruction's number.
    pub instruction: u32,
    pub map: usize,
    pub least_bytes: u32,
    pub most_bytes: u32,
}
