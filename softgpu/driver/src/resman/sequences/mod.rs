//! What libcuda asks of the driver at start-up, for a context, and at a context's end: recorded on
//! an H200 with driver 580.159.04. The files are generated: see `recording/condense.py`.

mod context;
mod destruction;
mod slots;
mod start_up;

pub use context::CONTEXT;
pub use destruction::DESTROY;
pub use slots::*;
pub use start_up::{FIRST_CONTEXT, INIT};
