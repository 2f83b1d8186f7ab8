//! Waiting for a process that is not ours: until it ends, the user has seen enough, or time is up.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static ENOUGH: AtomicBool = AtomicBool::new(false);

extern "C" fn enough(_: libc::c_int) {
    ENOUGH.store(true, Ordering::Relaxed);
}

/// How often to look for a signal that came between looking and waiting.
const LOOK: Duration = Duration::from_millis(50);

/// Returns when the process has ended, on Ctrl-C or SIGTERM, or after `limit`.
pub fn outlast(pid: u32, limit: Option<Duration>) -> io::Result<()> {
    let process = open(pid)?;
    wait(process.as_raw_fd(), limit);
    Ok(())
}

/// Returns on Ctrl-C or SIGTERM, or after `limit`.
pub fn until_enough(limit: Option<Duration>) {
    // No descriptor: nothing but time and signals.
    wait(-1, limit);
}

fn wait(process: libc::c_int, limit: Option<Duration>) {
    let began = Instant::now();
    ENOUGH.store(false, Ordering::Relaxed);
    let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    // SAFETY: the handler only stores into an atomic; what was there is put back below.
    let before =
        signals.map(|signal| unsafe { libc::signal(signal, enough as *const () as usize) });
    let mut poll = libc::pollfd {
        fd: process,
        events: libc::POLLIN,
        revents: 0,
    };
    while !ENOUGH.load(Ordering::Relaxed) && limit.is_none_or(|limit| began.elapsed() < limit) {
        // SAFETY: one live pollfd.
        if unsafe { libc::poll(&mut poll, 1, LOOK.as_millis() as libc::c_int) } > 0 {
            break;
        }
    }
    for (signal, before) in signals.into_iter().zip(before) {
        // SAFETY: as above.
        unsafe { libc::signal(signal, before) };
    }
}

fn open(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: a new descriptor, nobody else's.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd as libc::c_int))
    }
}
