//! Functions of the kernel and of NVIDIA's driver, and tracepoints: a source of its own, with its own
//! ring, so that it goes with any other back end.

mod aggregated;
mod attach;
mod choose;
mod choose_libraries;
mod choose_markers;
mod events;
mod marks;
mod names;
mod refusal;
mod shape;
mod source;
mod tries;
mod watch;

pub use attach::Means;
pub use shape::{Shape, ShapeError};
pub use source::KERNEL;
pub use tries::{Tries, TryError, first_line};
pub use watch::{KernelReport, KernelWatch, Options, UnknownGroup, Watching, driver_hooks};
