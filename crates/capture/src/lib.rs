//! Capture: starting the program to be traced, and the back ends that watch it.

pub mod ebpf;
pub mod launch;
pub mod preload;
