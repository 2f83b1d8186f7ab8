//! The tables of `cutrace report` and `cutrace gpu`, one a file: from a report to lines of text.

mod calls;
mod categories;
mod contexts;
mod coverage;
mod diff;
mod driver_objects;
mod findings;
mod gpu;
mod idle;
mod ioctls;
mod managed;
mod memory;
mod operators;
mod probes;
mod ranges;
mod section;
mod summary;
mod top;
mod transfers;
mod working;

pub use calls::calls;
pub use categories::categories;
pub use contexts::contexts;
pub use coverage::coverage;
pub use diff::{diff, outcomes};
pub use findings::{findings, top_findings};
pub use gpu::gpu;
pub use idle::idle;
pub use ioctls::ioctls;
pub use memory::memory;
pub use operators::operators;
pub use probes::{ProbeStyle, probe_answer, probes};
pub use summary::{failed_calls, gpu_in_short, layers_in_short, summary};
pub use top::top;
pub use transfers::transfers;
