//! Functions of the kernel and of NVIDIA's driver, and tracepoints: a source of its own, with its own
//! ring, so that it goes with any other back end.

mod shape;

pub use shape::{Shape, ShapeError};
