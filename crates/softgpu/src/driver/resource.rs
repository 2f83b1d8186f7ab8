//! The kernel side of resources: the ioctls a real libcuda makes for them, on stand-in devices.

use super::{allocation::Allocation, context::Context};

/// Called by cuInit.
pub fn start() {}

/// What the kernel side holds for a context.
pub struct ContextResource;

impl ContextResource {
    pub fn create() -> Self {
        Self
    }

    pub fn destroy(&self) {}
}

/// Called after memory was allocated.
pub fn allocated(_context: &Context, _allocation: &Allocation) {}

/// Called before memory is given back.
pub fn freed(_allocation: &Allocation) {}
