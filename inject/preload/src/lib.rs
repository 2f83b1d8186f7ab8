//! The library that is injected into traced programs.
//!
//! Two stages, linked apart from this one crate. Stage one is loaded by `LD_PRELOAD` into every
//! process: small, without dependencies, inert without `CUTRACE_SESSION`. It watches the dynamic
//! loader, and holds the code that runs on every call of a hooked function. Once CUDA appears it
//! maps the engine, which patches the entries of exported functions and describes the process to
//! the tracer through files in the session's folder.
//!
//! Nothing here calls the C library: the program may use any, and may be in the middle of it.
#![no_std]
// Set by the link script, which builds the two stages: `--cfg cutrace_stage`, `--cfg cutrace_engine`.
#![allow(unexpected_cfgs)]

#[cfg(not(cutrace_stage))]
extern crate alloc;

pub mod layout;
pub mod objects;
pub mod sys;
pub mod text;

#[cfg(not(cutrace_stage))]
pub mod engine;
#[cfg(not(cutrace_engine))]
pub mod stage;

#[cfg(any(cutrace_stage, cutrace_engine))]
mod freestanding;
