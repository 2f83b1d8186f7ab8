//! Which parts of its events a reader fills in, and of which events: what nobody looks at need not be decoded.

/// The parts of an event that cost most to read. All else is always there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// `args` and `outputs`: `details` in files.
    pub args: bool,
    /// What an ioctl was decoded to. Its command word is always there.
    pub decoded: bool,
    pub stack: bool,
    /// Only what is said of this event; the reader may leave out all else.
    pub only: Option<u64>,
}

impl Parts {
    pub const ALL: Parts = Parts {
        args: true,
        decoded: true,
        stack: true,
        only: None,
    };
    pub const NONE: Parts = Parts {
        args: false,
        decoded: false,
        stack: false,
        only: None,
    };
}
