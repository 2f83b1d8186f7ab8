//! Waiting for a command as a shell does.

use super::{Exit, signals};
use std::io;

/// Returns when the child has ended, without taking its status, so that its process id stays its
/// own. When it stops, we stop.
pub(super) fn until_ended(child: libc::pid_t) -> io::Result<()> {
    loop {
        // SAFETY: all zeroes is a siginfo_t, and the call writes nowhere else.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT;
        let status = unsafe { libc::waitid(libc::P_PID, child as libc::id_t, &mut info, flags) };
        if status != 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        match info.si_code {
            libc::CLD_STOPPED => signals::stop_with(child),
            // One of our own threads has stopped it for a moment.
            libc::CLD_TRAPPED => std::thread::sleep(std::time::Duration::from_millis(1)),
            _ => return Ok(()),
        }
    }
}

/// How a child ended, and no more of it: its process id may become someone else's.
pub(super) fn reap(child: libc::pid_t) -> io::Result<Exit> {
    loop {
        let mut status = 0;
        // SAFETY: the call writes the status and nothing else.
        if unsafe { libc::waitpid(child, &mut status, 0) } == child {
            return Ok(if libc::WIFSIGNALED(status) {
                Exit::Signal(libc::WTERMSIG(status))
            } else {
                Exit::Code(libc::WEXITSTATUS(status))
            });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
