//! Capture: starting the program to be traced, and the back ends that watch it.

mod attach;
mod call;
pub mod clock;
pub mod cupti;
mod deadline;
pub mod doctor;
pub mod ebpf;
pub mod fecs;
pub mod files;
pub mod gpu_probe;
pub mod hooks;
pub mod identity;
pub mod ioctl;
pub mod kernel;
pub mod launch;
pub mod library;
pub mod live;
mod merge;
pub mod notes;
pub mod nvml;
mod ordered_writer;
pub mod preload;
pub mod process_name;
mod ptrace;
mod sink;
pub mod sought;
pub mod source;
pub mod syscall;
pub mod torch;
pub mod trace_file;
pub mod uvm;

pub use call::demangled;
pub use deadline::Deadline;
pub use merge::{Inlet, Merge, Merged, Nested};
pub use sink::{Sink, SinkError};
