//! The injected back end, seen from the tracer: the session's folder, the rings that traced threads
//! write, and how they are drained.
//!
//! Two threads: one copies out of the rings, the other puts the copies in the order of time and
//! decodes them (`crate::call`). What is injected lives in the crate `preload`; the two share the layout of the
//! rings (`event::ring`) and what is captured of each function (`cuda::capture`).

mod arena;
mod backlog;
mod clock;
pub(crate) mod counters;
mod drain;
mod drain_thread;
mod error;
pub(crate) mod folder;
mod namespace;
mod nothing;
mod nvtx;
mod origin;
mod process;
mod report;
mod ring;
mod session;
mod shedding;
mod source;
#[cfg(test)]
mod tests;
mod untraced;

pub use crate::call::Filter;
pub(crate) use drain_thread::be_prompt;
pub use error::PreloadError;
pub(crate) use folder::Folder;
pub(crate) use namespace::Namespaces;
pub use process::Library;
pub use report::{PreloadReport, Process, missing};
pub use session::{Options, Recording, Session};
pub use source::PRELOAD;
