//! Signals that are about to end the program: held back until its maps have been read.
//!
//! A handler of ours stands before the program's own action, whatever that is, for the first signal of
//! each sort. It only wakes a thread; when that has read the maps, the program's action is put back and
//! the signal is sent again. A second one is not held back, unless it comes so soon that it is the same
//! one: who signals a whole group reaches the tracer, too, which sends it on to the program.

use crate::clock::monotonic;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The signal that came; 0: none. What the waiting thread sleeps on.
static CAME: AtomicU32 = AtomicU32::new(0);
/// When, by the host's clock in ns.
static CAME_AT: AtomicU64 = AtomicU64::new(0);
/// Within so many ns it is the same signal.
const SAME: u64 = 500_000_000;
/// Whose handlers they are: a forked child has them without the threads.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// The program's own actions. Written before the handlers are there.
static BEFORE: OnceLock<Vec<(i32, libc::sigaction)>> = OnceLock::new();

pub fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGINT => "SIGINT",
        libc::SIGTERM => "SIGTERM",
        libc::SIGHUP => "SIGHUP",
        _ => "a signal",
    }
}

/// Puts the handlers in place. What the program ignores stays ignored.
pub fn begin() {
    OWNER.store(std::process::id(), Ordering::SeqCst);
    let own = SIGNALS.into_iter().filter_map(|signal| {
        let action = action(signal)?;
        (action.sa_sigaction != libc::SIG_IGN).then_some((signal, action))
    });
    let own: Vec<_> = own.collect();
    if BEFORE.set(own).is_err() {
        return;
    }
    for (signal, _) in BEFORE.get().into_iter().flatten() {
        // SAFETY: the handler has the signature that SA_SIGINFO asks for and does only what it may.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = came as *const () as usize;
            // Some runtimes have stacks that are too small for a handler.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(*signal, &action, ptr::null_mut());
        }
    }
}

extern "C" fn came(signal: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: system calls that are allowed in handlers; errno is put back for whoever was interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        let is_ours = libc::getpid() as u32 == OWNER.load(Ordering::SeqCst);
        let now = monotonic();
        // Before it is known that one came: another thread may have the next one at the same time.
        if CAME.load(Ordering::SeqCst) == 0 {
            CAME_AT.store(now, Ordering::SeqCst);
        }
        let first = CAME.compare_exchange(0, signal as u32, Ordering::SeqCst, Ordering::SeqCst);
        if is_ours && first.is_ok() {
            libc::syscall(
                libc::SYS_futex,
                CAME.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            );
        } else if !is_ours
            || first != Err(signal as u32)
            || now.saturating_sub(CAME_AT.load(Ordering::SeqCst)) > SAME
        {
            // A second one, or a child's: nobody is kept waiting.
            again(signal);
        }
        *libc::__errno_location() = errno;
    }
}

/// Sleeps until a signal comes.
pub fn wait() -> i32 {
    loop {
        match CAME.load(Ordering::SeqCst) {
            // SAFETY: the word is a static; the kernel compares it and sleeps.
            0 => unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    CAME.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    0,
                    ptr::null::<libc::timespec>(),
                );
            },
            signal => return signal as i32,
        }
    }
}

/// The program gets its signal.
pub fn pass_on(signal: i32) {
    // SAFETY: plain system calls.
    unsafe { again(signal) };
    CAME.store(0, Ordering::SeqCst);
}

/// Puts the program's own action back and sends the signal once more. If the program has put another
/// handler in the place of ours, that has had the signal already.
///
/// # Safety
/// For handlers, too.
unsafe fn again(signal: i32) {
    let before = BEFORE.get().into_iter().flatten();
    let Some((_, before)) = before.into_iter().find(|(own, _)| *own == signal) else {
        return;
    };
    let is_there =
        action(signal).is_some_and(|action| action.sa_sigaction == came as *const () as usize);
    if is_there {
        // SAFETY: the action is one that sigaction gave us.
        unsafe {
            libc::sigaction(signal, before, ptr::null_mut());
            libc::kill(libc::getpid(), signal);
        }
    }
}

fn action(signal: i32) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: on success the call has written the whole structure.
    unsafe {
        (libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0)
            .then(|| action.assume_init())
    }
}

/// Threads that are started meanwhile get none of the program's signals.
pub fn without_signals<T>(body: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both sets are written before they are used.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigemptyset(before.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let done = body();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        done
    }
}
