//! Fatbins and PTX: reading both, and (later) rewriting PTX and compiling eBPF to it.
//!
//! Everything here reads hostile input: no panic, no unbounded memory or recursion.

pub mod ast;
