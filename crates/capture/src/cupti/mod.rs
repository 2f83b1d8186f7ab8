//! What the GPU did, by CUPTI's activity interface, seen from the tracer.
//!
//! Inside the program `inject/gpu-times` collects CUPTI's records and appends them to a file of
//! this back end's folder. Here one thread reads these files, puts the times onto the host's clock
//! and gives each piece of work the call that caused it: CUPTI tells which thread made that call and
//! when, and the calls themselves are seen by the injected library ([`Calls`]).

mod frames;
mod link;
mod process;
mod source;
mod tap;
#[cfg(test)]
mod tests;
mod timed;
mod watch;
mod work;

pub use link::Calls;
pub use source::{CUPTI, EVENTS};
pub use tap::Tap;
pub use watch::{CuptiError, CuptiReport, Recording, Session};
