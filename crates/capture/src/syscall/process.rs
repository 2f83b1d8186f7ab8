//! The tracer's own process, and one that watches over it: made by fork, given the process to trace,
//! asked to let go.
//!
//! With the filter in place and no tracer, calls fail. So the one that watches takes the threads over
//! when the tracer is killed; calls that are made in the moment between still fail.

use super::traced::{Board, Traced};
use super::tracer::{LET_GO, Mode, Tracer};
use nvidia_ioctl::Version;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// The processes, and the pipes to and from them.
pub struct TracerProcess {
    /// The one that watches: it ends with the tracer, and hands signals on to it.
    pub pid: libc::pid_t,
    /// A process id to trace, four bytes.
    pub orders: File,
    pub frames: File,
    /// What the one tells that took over; it begins with how that went.
    pub later: File,
    pub board: Board,
}

/// So much may wait in a pipe before the tracer, and with it the program, has to.
const PIPE_SIZE: libc::c_int = 1 << 20;

pub fn start(mode: Mode, version: Option<Version>) -> io::Result<TracerProcess> {
    let (orders_out, orders_in) = pipe()?;
    let (frames_out, frames_in) = pipe()?;
    let (later_out, later_in) = pipe()?;
    for pipe in [&frames_in, &later_in] {
        // SAFETY: asks for a larger pipe; it stays as it is where that is refused.
        unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_SIZE) };
    }
    let board = Board::new()?;
    // SAFETY: the child leaves by _exit and touches nothing that other threads may have locked:
    // malloc is made ready for this by the C library.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid == 0 {
        let own = [&orders_out, &frames_in, &later_in];
        keep_only(own.map(|end| end.as_raw_fd()));
        become_quiet(c"cutrace-guard", hand_on);
        let watched = std::panic::catch_unwind(|| {
            let ends = [orders_out, frames_in, later_in].map(File::from);
            watch(mode, version, board, ends)
        });
        // SAFETY: ends the child without running what is its parent's.
        unsafe { libc::_exit(watched.unwrap_or(1)) };
    }
    Ok(TracerProcess {
        pid,
        orders: File::from(orders_in),
        frames: File::from(frames_out),
        later: File::from(later_out),
        board,
    })
}

/// Makes the tracer, and waits for its end. Returns an exit status.
fn watch(
    mode: Mode,
    version: Option<Version>,
    board: Board,
    [orders, frames, later]: [File; 3],
) -> i32 {
    // SAFETY: as above; there is one thread here.
    let tracer = unsafe { libc::fork() };
    match tracer {
        -1 => return 1,
        0 => {
            drop(later);
            become_quiet(c"cutrace-ptrace", let_go);
            trace(mode, version, board, orders, frames);
            return 0;
        }
        _ => TRACER.store(tracer, Ordering::Relaxed),
    }
    // The other side is to see it when the tracer is gone.
    drop((orders, frames));
    let mut status = 0;
    // SAFETY: the call writes the status and nothing else.
    while unsafe { libc::waitpid(tracer, &mut status, 0) } != tracer {}
    TRACER.store(0, Ordering::Relaxed);
    let well = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
    if !well && mode == Mode::Filtered {
        // Read before our own takes its place.
        let threads: Vec<libc::pid_t> = board.threads().collect();
        become_quiet(c"cutrace-ptrace", let_go);
        let mut tracer = Tracer::new(mode, version, later, Traced::new(board));
        tracer.take_over(&threads);
        tracer.run();
    }
    0
}

fn trace(mode: Mode, version: Option<Version>, board: Board, mut orders: File, frames: File) {
    let mut pid = [0; 4];
    if orders.read_exact(&mut pid).is_err() {
        return;
    }
    drop(orders);
    let mut tracer = Tracer::new(mode, version, frames, Traced::new(board));
    tracer.attach(u32::from_ne_bytes(pid));
    tracer.run();
}

/// The trace, the terminal and the pipes of others are not for the tracer: it may outlive us.
fn keep_only(mut own: [RawFd; 3]) {
    own.sort_unstable();
    // SAFETY: closes descriptors that only copies of this process use.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for standard in 0..=2 {
            libc::dup2(null, standard);
        }
        let mut from = 3;
        for (next, last) in own
            .map(|fd| (fd + 1, fd - 1))
            .into_iter()
            .chain([(0, libc::c_int::MAX)])
        {
            if from <= last {
                libc::syscall(libc::SYS_close_range, from as u32, last as u32, 0);
            }
            from = next;
        }
    }
}

/// What is typed at the terminal, or sent to the program's group, is not for the tracer.
fn become_quiet(name: &CStr, told: extern "C" fn(libc::c_int)) {
    // SAFETY: plain system calls; the handlers are async-signal-safe.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigdelset(&mut all, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        // A pipe that nobody reads is noticed by the write.
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = told as *const () as usize;
        libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut());
    }
}

extern "C" fn let_go(_: libc::c_int) {
    LET_GO.store(true, Ordering::Relaxed);
}

/// Whom the one that watches hands signals on to; 0 before it is there.
static TRACER: AtomicI32 = AtomicI32::new(0);

extern "C" fn hand_on(signal: libc::c_int) {
    let tracer = TRACER.load(Ordering::Relaxed);
    if tracer > 0 {
        // SAFETY: an async-signal-safe call; our child has not been waited for while this is set.
        unsafe { libc::kill(tracer, signal) };
    }
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
