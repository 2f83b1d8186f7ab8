//! Which process this is. The number lies in a page of stage one's that the kernel wipes in forked
//! children, so that a child notices on its first call that its parent's rings are not its own.

use crate::layout::Stage;
use crate::sys;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

const PAGE: usize = 4096;
/// A child that is being set up, by one of its threads.
const STARTING: u32 = 1;
/// No process has this id.
const STOPPED: u32 = u32::MAX - 1;

static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

/// False: the kernel cannot tell children apart (before Linux 4.14).
pub fn start(stage: &Stage) -> bool {
    let word = stage.generation;
    if !sys::advise(word as usize, PAGE, libc::MADV_WIPEONFORK) {
        return false;
    }
    WORD.store(word, Ordering::Relaxed);
    // SAFETY: the stage's page lives as long as the process.
    unsafe { (*word).store(sys::pid(), Ordering::Release) };
    true
}

/// This process's id, if it is set up already.
pub fn settled() -> Option<u32> {
    // SAFETY: set before any function was hooked.
    let word = unsafe { &*WORD.load(Ordering::Relaxed) };
    let pid = word.load(Ordering::Acquire);
    (pid > STARTING && pid != STOPPED).then_some(pid)
}

/// Nothing more is recorded in this process.
pub fn stop() {
    // SAFETY: as above.
    unsafe { &*WORD.load(Ordering::Relaxed) }.store(STOPPED, Ordering::Release);
}

/// This process's id; sets up a forked child first, by `begin`. None: another thread is at it and
/// does not come to an end (it may be this one, interrupted by a signal).
pub fn current(begin: impl FnOnce() -> bool) -> Option<u32> {
    // SAFETY: set before any function was hooked.
    let word = unsafe { &*WORD.load(Ordering::Relaxed) };
    match word.compare_exchange(0, STARTING, Ordering::Acquire, Ordering::Acquire) {
        Ok(_) => {
            begin();
            let pid = sys::pid();
            word.store(pid, Ordering::Release);
            Some(pid)
        }
        Err(STARTING) => {
            for _ in 0..200 {
                sys::sleep_ns(100_000);
                let now = word.load(Ordering::Acquire);
                if now != STARTING {
                    return Some(now);
                }
            }
            None
        }
        Err(pid) => Some(pid),
    }
}
