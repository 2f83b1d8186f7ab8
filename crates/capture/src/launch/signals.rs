//! Signals while a command runs.
//!
//! The terminal sends Ctrl-C, Ctrl-\ and Ctrl-Z to the whole foreground group, so the command has
//! them already; what a process sends, it sends to us alone, and means the command. The kernel says
//! which it was. We stop only when the command stops, so that one that ignores Ctrl-Z runs on.

use crate::live::flight::is_request;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

const FORWARDED: [libc::c_int; 9] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// Handlers belong to the process: one command at a time.
static RUNNING: Mutex<()> = Mutex::new(());
/// Where signals go; 0 while there is no child.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// Signals, a bit each, that came before there was a child.
static EARLY: AtomicU64 = AtomicU64::new(0);

/// While it lives, signals sent to us go to the command.
pub(super) struct Forwarding {
    before: Vec<(libc::c_int, libc::sigaction)>,
    _alone: MutexGuard<'static, ()>,
}

impl Forwarding {
    pub(super) fn start() -> Self {
        let alone = RUNNING
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        EARLY.store(0, Ordering::SeqCst);
        // A signal we were told to ignore (nohup) stays ignored, in the command as well.
        let before = FORWARDED
            .into_iter()
            .filter_map(|signal| Some((signal, action(signal)?)))
            .filter(|(_, action)| action.sa_sigaction != libc::SIG_IGN)
            .collect::<Vec<_>>();
        for (signal, _) in &before {
            handle(*signal);
        }
        Self {
            before,
            _alone: alone,
        }
    }

    /// In the child: its signals are its own.
    pub(super) fn reset(&self) {
        for (signal, _) in &self.before {
            // SAFETY: an async-signal-safe call.
            unsafe { libc::signal(*signal, libc::SIG_DFL) };
        }
    }

    /// Names the child, and gives it what came before it was there.
    pub(super) fn to(&self, child: libc::pid_t) {
        CHILD.store(child, Ordering::SeqCst);
        let early = EARLY.swap(0, Ordering::SeqCst);
        for signal in FORWARDED
            .into_iter()
            .filter(|signal| early >> signal & 1 == 1)
        {
            // SAFETY: the child has not been waited for, so the process id is its own.
            unsafe { libc::kill(child, signal) };
        }
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        CHILD.store(0, Ordering::SeqCst);
        for (signal, action) in &self.before {
            // SAFETY: the action is one that sigaction gave us.
            unsafe { libc::sigaction(*signal, action, ptr::null_mut()) };
        }
        // No child ever came: what was sent to us was for us after all.
        let early = EARLY.swap(0, Ordering::SeqCst);
        for signal in FORWARDED
            .into_iter()
            .filter(|signal| early >> signal & 1 == 1)
        {
            // SAFETY: a plain system call.
            unsafe { libc::kill(libc::getpid(), signal) };
        }
    }
}

fn action(signal: libc::c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: on success the call has written the whole structure.
    unsafe {
        (libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0)
            .then(|| action.assume_init())
    }
}

fn handle(signal: libc::c_int) {
    // SAFETY: the handler has the signature that SA_SIGINFO asks for and is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = forward as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

extern "C" fn forward(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo; kill and the atomics are async-signal-safe, and
    // errno is put back for whoever was interrupted.
    unsafe {
        let sent_by_a_process = (*info).si_code <= 0;
        // A terminal that is closed tells the leader of its session only, which the command would be without us.
        let is_ours_alone = signal == libc::SIGHUP && libc::getsid(0) == libc::getpid();
        if !sent_by_a_process && !is_ours_alone {
            return;
        }
        if is_request(signal) {
            return;
        }
        let errno = *libc::__errno_location();
        match CHILD.load(Ordering::SeqCst) {
            0 => {
                EARLY.fetch_or(1 << signal, Ordering::SeqCst);
            }
            child => {
                libc::kill(child, signal);
            }
        }
        *libc::__errno_location() = errno;
    }
}

/// Stops this process, for the shell to see, until someone continues it; then continues the child.
pub(super) fn stop_with(child: libc::pid_t) {
    // SAFETY: plain system calls; the child has not been waited for.
    unsafe {
        libc::raise(libc::SIGSTOP);
        libc::kill(child, libc::SIGCONT);
    }
}

/// Ends this process by a signal; returns if the signal does not do that.
pub(super) fn die_of(signal: libc::c_int) {
    // SAFETY: plain system calls.
    unsafe {
        // The command has left its core dump already; ours would only take its place.
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::signal(signal, libc::SIG_DFL);
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut());
        libc::kill(libc::getpid(), signal);
    }
}

/// Signals belong to the thread that runs the program: call this in every other one.
pub fn block_signals() {
    // SAFETY: the set is initialised before it is used.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, ptr::null_mut());
    }
}

/// This thread's signal mask.
pub(super) fn mask() -> libc::sigset_t {
    let mut mask = MaybeUninit::uninit();
    // SAFETY: the set is initialised before it is read, whatever the second call does.
    unsafe {
        libc::sigemptyset(mask.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
        mask.assume_init()
    }
}

pub(super) fn set_mask(mask: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set came from mask().
    match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}
