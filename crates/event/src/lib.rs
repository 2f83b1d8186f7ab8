//! The event model: what a trace says, whatever file it is in and whichever back end saw it.
//!
//! Nothing here reads, writes or captures. Without the feature `alloc` only what injected code
//! needs remains: layers, categories, clocks, globs, selections and the ring's records.
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

pub mod attach;
mod category;
mod clock;
mod glob;
pub mod gpu_times;
mod kind;
mod layer;
mod named;
pub mod note;
pub mod ring;
mod select;

#[cfg(feature = "alloc")]
mod aggregate;
#[cfg(feature = "alloc")]
mod by_stack;
#[cfg(feature = "alloc")]
mod counted;
#[cfg(feature = "alloc")]
mod frame;
#[cfg(feature = "alloc")]
mod identity;
#[cfg(feature = "alloc")]
mod meaning;
#[cfg(feature = "alloc")]
mod meta;
#[cfg(feature = "alloc")]
pub mod probed;
#[cfg(feature = "alloc")]
mod record;
#[cfg(feature = "alloc")]
mod reorder;
#[cfg(feature = "alloc")]
mod summary;
#[cfg(feature = "alloc")]
mod value;

/// No descriptor. Closed, it is a question: did the tracer of system calls put a filter into this process? It
/// answers with success; the kernel would not.
pub const FILTER_IS_OURS: i32 = -0x6375_7472;

pub use category::Category;
pub use clock::ClockPair;
#[cfg(feature = "alloc")]
pub use clock::{ClockLine, ClockMap, ClockRules, ClockStretch};
pub use glob::matches_glob;
pub use kind::Kind;
pub use layer::{Layer, StatusDomain};
pub use named::UnknownName;
pub use select::{Candidate, Item, Selection};

#[cfg(feature = "alloc")]
pub use aggregate::{Aggregate, Bucket};
#[cfg(feature = "alloc")]
pub use by_stack::ByStack;
#[cfg(feature = "alloc")]
pub use counted::counted;
#[cfg(feature = "alloc")]
pub use frame::{Frame, FrameKind, Stack};
#[cfg(feature = "alloc")]
pub use identity::Identity;
#[cfg(feature = "alloc")]
pub use meaning::{Direction, Launch, Meaning, Memory, MemoryOp, MemorySpace, Transfer, What};
#[cfg(feature = "alloc")]
pub use meta::{Backend, ClockError, Gpu, Hooks, Host, Meta, VERSION};
#[cfg(feature = "alloc")]
pub use record::{Event, Extent, Ioctl, Lost, Record, Status};
#[cfg(feature = "alloc")]
pub use reorder::Reorder;
#[cfg(feature = "alloc")]
pub use summary::{Overhead, ProcessName, ProcessOrigin, Sampled, Shed, Summary, Tally, Watched};
#[cfg(feature = "alloc")]
pub use value::{Arg, Name, Value};
