//! Stopping one thread for a moment, in a way that nobody else notices: neither its parent nor the
//! other threads of its process.

use std::io;
use std::ptr;

/// A thread that has been asked to stop when it next comes back from the kernel.
pub struct Stopping {
    thread: libc::pid_t,
}

/// A thread that has stopped; it goes on when this is dropped.
pub struct Stopped {
    thread: libc::pid_t,
    signal: libc::c_int,
}

impl Stopping {
    /// None where it cannot be: another tracer traces it, or it is gone.
    pub fn begin(thread: u32) -> Option<Self> {
        let thread = libc::pid_t::try_from(thread).ok()?;
        // SAFETY: neither request reads or writes memory of ours.
        unsafe {
            let nothing = ptr::null_mut::<libc::c_void>();
            if libc::ptrace(libc::PTRACE_SEIZE, thread, nothing, nothing) != 0 {
                return None;
            }
            libc::ptrace(libc::PTRACE_INTERRUPT, thread, nothing, nothing);
        }
        Some(Stopping { thread })
    }

    /// Waits until it has stopped. None: it has ended instead, and others want to know how.
    pub fn wait(self) -> Option<Stopped> {
        let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
        // SAFETY: all zeroes is a siginfo_t, and the call writes nowhere else.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let id = self.thread as libc::id_t;
        while unsafe { libc::waitid(libc::P_PID, id, &mut info, flags) } != 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return None;
            }
        }
        if info.si_code != libc::CLD_TRAPPED && info.si_code != libc::CLD_STOPPED {
            return None;
        }
        let mut status = 0;
        // SAFETY: the call writes the status and nothing else.
        let found = unsafe { libc::waitpid(self.thread, &mut status, libc::__WALL) };
        let is_stopped = found == self.thread && libc::WIFSTOPPED(status);
        is_stopped.then(|| Stopped {
            thread: self.thread,
            // A signal may have come first; it is delivered when the thread goes on.
            signal: match status >> 16 {
                libc::PTRACE_EVENT_STOP => 0,
                _ => libc::WSTOPSIG(status),
            },
        })
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: as above. A thread that is gone by now needs no letting go.
        unsafe {
            let nothing = ptr::null_mut::<libc::c_void>();
            let signal = self.signal as usize as *mut libc::c_void;
            libc::ptrace(libc::PTRACE_DETACH, self.thread, nothing, signal);
        }
    }
}
