//! softgpu: a software CUDA device.
//!
//! Data flows one way: PTX text → [`program`] (decoded code) → [`machine`] (warps in lock-step over
//! [`memory`]), using the arithmetic of [`alu`]; [`driver`] is libcuda's API over these.

pub mod alu;
pub mod fault;
pub mod memory;
