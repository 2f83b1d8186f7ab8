//! What the tracer and the injected library share when the library comes into a process that runs already: the
//! order that a thread of the library's gets, and the table of everything that was changed in the process's code.
//!
//! The tracer writes all changes itself, while the process's threads are stopped, and takes them back the same way:
//! the library only prepares them.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// `CUTATCH1`, little-endian: another number with every change of what is below.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CUTATCH1");
/// Bytes of a session's path, at most.
pub const PATH_BYTES: usize = 1024;

/// What a thread of the library's is to do, and how far it is. In memory that the tracer has had mapped.
#[repr(C)]
pub struct Order {
    pub magic: u64,
    /// One of [`step`].
    pub step: AtomicU32,
    /// Bytes of `text`.
    pub text_bytes: u32,
    /// Where [`Control`] is; the library's answer.
    pub control: u64,
    /// The session's folder; for GPU times what there is to know, as lines.
    pub text: [u8; PATH_BYTES],
}

/// How far an order is. Who has to act next is in brackets.
pub mod step {
    /// [library] It has not been begun.
    pub const NEW: u32 = 0;
    /// [tracer] Everything is ready that can be while the program runs.
    pub const READY: u32 = 1;
    /// [library] Every other thread is stopped.
    pub const STOPPED: u32 = 2;
    /// [tracer] The changes are in the table.
    pub const PREPARED: u32 = 3;
    /// [tracer] A thread was stopped in the middle of the loader's work or of ours: let it run on.
    pub const BUSY: u32 = 4;
    /// [library] The changes are made, and every thread runs again.
    pub const RUNNING: u32 = 5;
    /// [tracer] It is done.
    pub const DONE: u32 = 6;
    /// [tracer] It cannot be done.
    pub const FAILED: u32 = 7;
    /// [library] Nobody looks at the order any more: its memory may go.
    pub const RELEASED: u32 = 8;
}

/// What the tracer must know of the library in a process.
#[repr(C)]
pub struct Control {
    pub magic: u64,
    /// [`Change`]s: where the first is, and how many there are.
    pub changes: AtomicU64,
    pub count: AtomicU64,
    /// Where the loader tells of libraries that it loads; `at` is 0 where it cannot be changed.
    pub trigger: Change,
    /// The word by which calls know whose their ring is: [`NO_SESSION`] there stops all recording.
    pub generation: AtomicU64,
    /// 1 while the library's hooks belong to a session.
    pub attached: AtomicU32,
    pub reserved: u32,
    /// The session's folder, without a NUL.
    pub session_bytes: u64,
    pub session: [u8; PATH_BYTES],
}

/// In the word that [`Control::generation`] names: nothing is recorded.
pub const NO_SESSION: u32 = u32::MAX - 1;

/// Bytes of code that a jump takes.
pub const JUMP_BYTES: usize = 5;

/// One change of code. `at` is 0 where the code is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Change {
    pub at: u64,
    pub before: [u8; JUMP_BYTES],
    pub jump: [u8; JUMP_BYTES],
    /// 1: it belongs to no selection of functions, and stays when another is chosen.
    pub lasting: u8,
    pub reserved: [u8; 5],
}

impl Change {
    pub const NONE: Change = Change {
        at: 0,
        before: [0; JUMP_BYTES],
        jump: [0; JUMP_BYTES],
        lasting: 0,
        reserved: [0; 5],
    };
}

/// Changes that the table has room for.
pub const MOST_CHANGES: usize = (1 << 16) + 64;
