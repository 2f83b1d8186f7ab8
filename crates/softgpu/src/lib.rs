//! softgpu: a software CUDA device.
//!
//! Data flows one way: PTX text → [`program`] (decoded code) → [`machine`] (warps in lock-step over
//! [`memory`]), using the arithmetic of [`alu`]; [`driver`] is libcuda's API over these.

pub mod alu;
pub mod driver;
pub mod fault;
pub mod machine;
pub mod memory;
pub mod program;
pub mod resman;
