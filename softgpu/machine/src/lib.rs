//! The machine that runs PTX on the CPU.
//!
//! Data flows one way: PTX text → [`program`] (decoded code) → [`machine`] (warps in lock-step over
//! [`memory`]), using the arithmetic of [`alu`].

pub mod alu;
pub mod fault;
pub mod machine;
pub mod memory;
pub mod program;
