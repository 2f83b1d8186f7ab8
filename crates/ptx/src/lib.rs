//! Fatbins and PTX: reading both, and (later) rewriting PTX and compiling eBPF to it.
//!
//! Everything here reads hostile input: no panic, no unbounded memory or recursion.

pub mod ast;
pub mod device;
mod error;
pub mod fatbin;
pub mod image;
mod number;
mod parse;
mod print;
pub mod rewrite;
pub mod token;
mod types;

pub use error::ParseError;
pub use parse::parse;
