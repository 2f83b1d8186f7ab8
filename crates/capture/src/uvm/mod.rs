//! Managed memory as the driver sees it: page faults of CPUs and GPUs, migrations with their bytes,
//! thrashing, evictions, from the event queue of /dev/nvidia-uvm-tools. Needs no privileges beyond
//! the right to trace the process.

mod draining;
mod entry;
mod gpu_clock;
mod queue;
mod raw_clock;
mod source;
#[cfg(test)]
mod tests;
mod tracker;
mod tree;
mod watch;
mod words;

pub use entry::{Layout, UvmEntry, What, decode};
pub use source::UVM;
pub use watch::{UvmReport, UvmWatch, available};
pub use words::{Processors, event};
