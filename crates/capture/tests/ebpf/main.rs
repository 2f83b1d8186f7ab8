//! The kernel's view of real programs: needs root, and a kernel that attaches uprobes.

mod calls;
mod common;
mod system;
