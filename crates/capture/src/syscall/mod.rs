//! System calls on the driver's files, by ptrace: without root, without touching the program.
//!
//! A seccomp filter lets only a few calls stop ([`filter`]); a process of its own traces
//! ([`tracer`]), because the tracer must not share a process with the thread that waits for the command,
//! and because it stays when the rest of us dies: with the filter in place and no tracer, the
//! program's calls would fail. A second process does nothing but wait, and takes over if the first is
//! killed ([`process`]). What is seen comes through a pipe ([`frame`]); here the frames become events.

mod error;
mod events;
mod filter;
mod frame;
mod inject;
mod lasting;
mod process;
mod ranges;
mod read_back;
mod reading;
mod session;
mod source;
mod traced;
mod tracer;
mod watched;

pub use error::SyscallError;
pub(crate) use events::Events;
pub use frame::Malformed;
pub(crate) use frame::{Frame, SystemCall};
pub use read_back::records_of;
pub use session::{Options, Recording, Session, SyscallReport};
pub use source::SYSCALL;

/// Whether commands can be traced here: the same is not known of other users' processes.
pub fn available() -> Result<(), SyscallError> {
    match error::ptrace_scope() {
        // SAFETY: a question without side effects.
        Some(2) if unsafe { libc::geteuid() } != 0 => Err(SyscallError::Forbidden(2)),
        Some(3) => Err(SyscallError::Forbidden(3)),
        _ => Ok(()),
    }
}
