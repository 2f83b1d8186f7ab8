//! System calls on the driver's files, by ptrace: without root, without touching the program.
//!
//! A seccomp filter lets only a few calls stop ([`filter`]); a process of its own traces
//! ([`tracer`]), because the tracer must not share a process with whoever waits for the command,
//! and because it stays when the rest of us dies: with the filter in place and no tracer, the
//! program's calls would fail. It tells what it sees through a pipe ([`frame`]); here the frames
//! become events.

mod error;
mod events;
mod filter;
mod frame;
mod process;
mod ptrace;
mod reading;
mod session;
mod tracer;

pub use error::SyscallError;
pub use session::{Options, Recording, Report, Session};
