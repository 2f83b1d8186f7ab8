//! Collects GPU times inside a traced program, by CUPTI.
//!
//! The driver loads this library in cuInit (CUDA_INJECTION64_PATH). It finds the libcupti that fits
//! the program, asks it for kernels, copies and fills and for the calls that caused them, and
//! appends what it gets to a file of the session's folder ([`event::gpu_times`]), which the tracer
//! decodes. Inert without CUTRACE_GPU_TIMES; prints nothing; whatever goes wrong is a note for the
//! tracer and never the program's concern.
//!
//! Nothing here runs on the program's path but [`buffers::request`]: CUPTI hands full buffers over
//! on a thread of its own. Where there is no CUPTI, times come from [`events`] instead.

mod attach;
mod buffers;
mod clock;
mod collect;
mod events;
mod file;
mod find;
mod functions;
mod guard;
mod losses;
mod mps;
mod nodes;
mod threads;
mod wanted;

pub use attach::{cutrace_gpu_times_attach, cutrace_gpu_times_detach};
pub use collect::InitializeInjection;
