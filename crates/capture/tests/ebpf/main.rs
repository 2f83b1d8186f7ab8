//! The kernel's view of real programs: needs root, and a kernel that attaches uprobes.

mod attached;
mod calls;
mod common;
mod containers;
mod short;
mod system;
mod whose;
