//! Threads of ours inside the program: no signal of the program's is ever handled on one, and none
//! keeps a program alive whose own threads have all ended.

use std::{
    fs, io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// How often a thread that has nothing to do looks whether the program's main thread has ended, and,
/// once it has, whether the others have.
const LOOK: Duration = Duration::from_millis(20);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The kernel's set of signals.
type Mask = u64;

const fn bit(signal: i32) -> Mask {
    1 << (signal - 1)
}

/// Every signal but three. 32 and 33 are glibc's own: setuid() waits until each thread has handled
/// 33. SIGSYS answers a thread's own system call where a seccomp filter says so; blocked, the kernel
/// would kill the program instead.
const BLOCKED: Mask = !(bit(32) | bit(33) | bit(libc::SIGSYS));

/// Threads of ours that run, by the kernel's numbers.
static OURS: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// A system call of its own: programs and sanitizers replace libc's functions for this.
fn set_mask(mask: Mask) -> Option<Mask> {
    let mut before: Mask = 0;
    // SAFETY: reads the one mask, writes the other.
    let done = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            &raw mut before,
            size_of::<Mask>(),
        )
    };
    (done == 0).then_some(before)
}

/// Signals of what the thread itself does. A program may answer them.
const FAULTS: Mask = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP);

/// Does something while nobody's signals reach this thread; they come afterwards. Threads that
/// other code creates meanwhile never take any.
pub fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    blocking(BLOCKED & !FAULTS, |_| work())
}

fn blocking<T>(mask: Mask, work: impl FnOnce(Option<Mask>) -> T) -> T {
    struct Restored(Option<Mask>);
    impl Drop for Restored {
        fn drop(&mut self) {
            self.0.map(set_mask);
        }
    }
    let before = Restored(set_mask(mask));
    work(before.0)
}

/// Starts a thread. It has every signal blocked from its first instruction on.
pub fn start(name: &str, body: impl FnOnce(&Alone) + Send + 'static) -> io::Result<()> {
    blocking(BLOCKED, |mask| {
        let thread = std::thread::Builder::new().name(name.into());
        thread.spawn(move || {
            // SAFETY: takes nothing.
            let own = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
            ours().push(own);
            let alone = Alone::default();
            body(&alone);
            ours().retain(|thread| *thread != own);
            // As the program's last thread it runs the program's exit handlers.
            if alone.0.load(Ordering::Relaxed) {
                mask.map(set_mask);
            }
        })
    })
    .map(drop)
}

fn ours() -> std::sync::MutexGuard<'static, Vec<i32>> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether only threads of ours are left.
#[derive(Default)]
pub struct Alone(AtomicBool);

impl Alone {
    /// Sleeps. True: the program's threads have all ended, and so must the caller's, for a process
    /// ends with its last thread.
    pub fn sleep(&self, period: Duration) -> bool {
        let until = Instant::now() + period;
        loop {
            let main_ended = main_has_ended();
            if main_ended && no_others() {
                self.0.store(true, Ordering::Relaxed);
                return true;
            }
            let step = if main_ended { LOOK_AGAIN } else { LOOK };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(step.min(left));
        }
    }
}

/// A main thread that has ended stays as a zombie until all others have.
fn main_has_ended() -> bool {
    fs::read("/proc/self/stat").is_ok_and(|stat| is_zombie(&stat))
}

/// `1234 (name) Z 1 ...`; the name may have brackets and spaces in it.
fn is_zombie(stat: &[u8]) -> bool {
    let close = stat.iter().rposition(|byte| *byte == b')');
    let state = close.and_then(|close| stat.get(close + 2));
    matches!(state, Some(b'Z' | b'X'))
}

fn no_others() -> bool {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return false;
    };
    let main = std::process::id();
    let ours = ours();
    let mut others = threads.map(|thread| {
        let number = thread.ok()?.file_name().to_str()?.parse::<i32>().ok()?;
        Some(number.cast_unsigned() == main || ours.contains(&number))
    });
    // One that cannot be read counts as another.
    others.all(|own| own == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn blocked() -> Mask {
        let status = fs::read_to_string("/proc/thread-self/status").expect("readable");
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        Mask::from_str_radix(line.expect("there").trim(), 16).expect("a mask")
    }

    #[test]
    fn a_thread_is_born_with_its_signals_blocked_and_its_creator_gets_them_back() {
        let before = blocked();
        assert_eq!(before & BLOCKED, 0, "this test needs signals");
        let (sender, receiver) = mpsc::channel();
        start("test", move |_| sender.send(blocked()).expect("heard")).expect("started");
        assert_eq!(blocked(), before);
        let inside = receiver.recv().expect("told");
        // glibc keeps its own signals open for every thread, and the kernel these two.
        let never = bit(libc::SIGKILL) | bit(libc::SIGSTOP);
        assert_eq!(inside, BLOCKED & !never, "{inside:x}");
    }

    #[test]
    fn whose_threads_are_left() {
        assert!(!main_has_ended());
        assert!(!no_others(), "the test's own threads");
        assert!(is_zombie(b"12 (a ) b) Z 1 12"));
        assert!(!is_zombie(b"12 (a) Z) S 1 12"));
        assert!(!is_zombie(b"") && !is_zombie(b"12 (x)"));
        assert!(!Alone::default().sleep(Duration::from_millis(1)));
    }
}
