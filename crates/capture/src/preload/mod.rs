//! The injected back end, seen from the tracer: the session's folder, the rings that traced threads
//! write, and how their raw records become events.
//!
//! Two threads: one copies out of the rings, the other puts the copies in the order of time and
//! decodes them. What is injected lives in the crate `preload`; the two share the layout of the
//! rings (`event::ring`) and what is captured of each function (`cuda::capture`).

mod assemble;
mod clock;
mod demangle;
mod drain;
mod drain_thread;
mod error;
mod filter;
mod folder;
mod item;
mod loaded;
mod meaning;
mod order;
mod parameter;
mod process;
mod remote;
mod report;
mod ring;
mod role;
mod session;
mod signature;
mod stacks;
mod state;
mod symbols;
#[cfg(test)]
mod tests;
mod value;

pub use error::PreloadError;
pub use filter::Filter;
pub use process::Library;
pub use report::{Process, Report, missing};
pub use session::{Options, Recording, Session};
