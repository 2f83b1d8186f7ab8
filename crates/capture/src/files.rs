//! How many files we may have open: as many as we are allowed to, and the command as many as it would
//! have without us.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// What the command is to find.
static ORIGINAL: OnceLock<libc::rlimit> = OnceLock::new();

/// From now on this process may have as many as the hard limit lets it.
pub fn raise_limit() {
    ORIGINAL.get_or_init(|| {
        let mut found = MaybeUninit::<libc::rlimit>::zeroed();
        // SAFETY: the call fills the struct, which is all zeros otherwise.
        let original = unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, found.as_mut_ptr());
            found.assume_init()
        };
        let most = libc::rlimit {
            rlim_cur: original.rlim_max,
            ..original
        };
        // SAFETY: a plain system call; if it is refused, all is as before.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &most) };
        original
    });
}

/// In the command's process, before it begins. Async-signal-safe.
pub fn restore_limit() {
    if let Some(original) = ORIGINAL.get() {
        // SAFETY: a plain system call.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, original) };
    }
}
