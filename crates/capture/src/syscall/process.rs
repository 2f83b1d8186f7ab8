//! The tracer's own process: made by fork, told which process to trace, told to let go.

use super::tracer::{LET_GO, Mode, Tracer};
use cuda::nvidia::Version;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;

/// The tracer's process, and the pipes to and from it.
pub struct TracerProcess {
    pub pid: libc::pid_t,
    /// A process id to trace, four bytes.
    pub orders: File,
    pub frames: File,
}

/// So much may wait in the pipe before the tracer, and with it the program, has to.
const PIPE_SIZE: libc::c_int = 1 << 20;

pub fn start(mode: Mode, version: Option<Version>) -> io::Result<TracerProcess> {
    let (orders_out, orders_in) = pipe()?;
    let (frames_out, frames_in) = pipe()?;
    // SAFETY: asks for a larger pipe; it stays as it is where that is refused.
    unsafe { libc::fcntl(frames_in.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_SIZE) };
    // SAFETY: the child leaves by _exit and touches nothing that other threads may have locked:
    // malloc is made ready for this by the C library.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid == 0 {
        keep_only(orders_out.as_raw_fd(), frames_in.as_raw_fd());
        become_quiet();
        let traced = std::panic::catch_unwind(|| {
            trace(mode, version, File::from(orders_out), File::from(frames_in));
        });
        // SAFETY: ends the child without running what is its parent's.
        unsafe { libc::_exit(i32::from(traced.is_err())) };
    }
    Ok(TracerProcess {
        pid,
        orders: File::from(orders_in),
        frames: File::from(frames_out),
    })
}

fn trace(mode: Mode, version: Option<Version>, mut orders: File, frames: File) {
    let mut pid = [0; 4];
    if orders.read_exact(&mut pid).is_err() {
        return;
    }
    drop(orders);
    let mut tracer = Tracer::new(mode, version, frames);
    tracer.attach(u32::from_ne_bytes(pid));
    tracer.run();
}

/// The trace, the terminal and the pipes of others are not for the tracer: it may outlive us.
fn keep_only(first: RawFd, second: RawFd) {
    let (low, high) = (first.min(second), first.max(second));
    // SAFETY: closes descriptors that only copies of this process use.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for standard in 0..=2 {
            libc::dup2(null, standard);
        }
        for (from, to) in [
            (3, low - 1),
            (low + 1, high - 1),
            (high + 1, libc::c_int::MAX),
        ] {
            if from <= to {
                libc::syscall(libc::SYS_close_range, from as u32, to as u32, 0);
            }
        }
    }
}

/// What is typed at the terminal, or sent to the program's group, is not for the tracer.
fn become_quiet() {
    // SAFETY: plain system calls; the handler only stores into an atomic.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"cutrace-ptrace".as_ptr());
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigdelset(&mut all, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        // A pipe that nobody reads is noticed by the write.
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = let_go as *const () as usize;
        libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut());
    }
}

extern "C" fn let_go(_: libc::c_int) {
    LET_GO.store(true, Ordering::Relaxed);
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the call fills the two places; the descriptors are new and nobody else's.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}
