//! The page in which all processes of a session count what could not be handed over. The tracer made it before
//! the program began, so that counting needs no room on a full disk.

use event::ring::{COUNTERS_FILE, COUNTERS_SIZE, Counters};
use std::{
    ffi::OsStr,
    fs::File,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
    ptr::null_mut,
    sync::atomic::Ordering,
};

/// None: the page cannot be mapped, and only the file can say what is missing.
pub struct Losses(Option<&'static Counters>);

impl Losses {
    pub fn open(session: &OsStr) -> Self {
        Losses(map(&Path::new(session).join(COUNTERS_FILE)))
    }

    /// So many records are missing; false if nobody will hear of it this way.
    pub fn add(&self, count: u64) -> bool {
        let Some(page) = self.0 else {
            return false;
        };
        page.lost.fetch_add(count, Ordering::Relaxed);
        true
    }

    /// So many of them could be handed over after all.
    pub fn take_back(&self, count: u64) -> bool {
        let Some(page) = self.0 else {
            return false;
        };
        page.lost.fetch_sub(count, Ordering::Relaxed);
        true
    }
}

impl Drop for Losses {
    fn drop(&mut self) {
        if let Some(page) = self.0.take() {
            let at = page as *const Counters as *mut libc::c_void;
            // SAFETY: our own mapping, and nobody else has the page.
            unsafe { libc::munmap(at, COUNTERS_SIZE) };
        }
    }
}

fn map(path: &Path) -> Option<&'static Counters> {
    let mut options = File::options();
    options.read(true).write(true);
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = options.custom_flags(flags).open(path).ok()?;
    // A page that is not in the file would be a SIGBUS.
    if file.metadata().ok()?.len() < COUNTERS_SIZE as u64 {
        return None;
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let fd = file.as_raw_fd();
    // SAFETY: a fresh mapping of a file that is as long, kept for the process's life.
    unsafe {
        let at = libc::mmap(
            null_mut(),
            COUNTERS_SIZE,
            protection,
            libc::MAP_SHARED,
            fd,
            0,
        );
        (at != libc::MAP_FAILED).then(|| &*at.cast::<Counters>())
    }
}
