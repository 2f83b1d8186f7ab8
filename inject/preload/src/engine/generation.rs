//! Which process this is, as a number that no ancestor has had. The number is in a page of stage
//! one's that the kernel wipes in forked children, so that a child notices on its first call that
//! its parent's rings are not its own.
//!
//! Not the process's id: in a new PID namespace a child may have the very id of its parent (1).

use crate::layout::Stage;
use crate::sys;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

const PAGE: usize = 4096;
/// What the kernel leaves in a child.
const WIPED: u32 = 0;
/// A child that is being set up, by one of its threads. Generations are counted from 1 and never
/// come near these.
const STARTING: u32 = u32::MAX - 2;
const STOPPED: u32 = event::attach::NO_SESSION;

static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// The generation of this process, or, in a child that is not set up, of its parent.
static LATEST: AtomicU32 = AtomicU32::new(0);

/// False: the kernel cannot tell children apart (before Linux 4.14).
pub fn start(stage: &Stage) -> bool {
    let word = stage.generation;
    if !sys::advise(word as usize, PAGE, libc::MADV_WIPEONFORK) {
        return false;
    }
    WORD.store(word, Ordering::Relaxed);
    LATEST.store(1, Ordering::Relaxed);
    // SAFETY: the stage's page lives as long as the process.
    unsafe { (*word).store(1, Ordering::Release) };
    true
}

/// This process's generation, if it is set up already.
pub fn settled() -> Option<u32> {
    // SAFETY: set before any function was hooked.
    let word = unsafe { &*WORD.load(Ordering::Relaxed) };
    let generation = word.load(Ordering::Acquire);
    let is_one = generation != WIPED && generation < STARTING;
    is_one.then_some(generation)
}

/// This process's generation, or what it will be once it is set up.
pub fn expected() -> u32 {
    settled().unwrap_or_else(|| LATEST.load(Ordering::Relaxed).wrapping_add(1))
}

/// Nothing more is recorded in this process.
pub fn stop() {
    // SAFETY: as above.
    unsafe { &*WORD.load(Ordering::Relaxed) }.store(STOPPED, Ordering::Release);
}

/// Recording begins again, with rings that no thread has yet.
pub fn begin_again() {
    let next = LATEST.load(Ordering::Relaxed).wrapping_add(1);
    LATEST.store(next, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { &*WORD.load(Ordering::Relaxed) }.store(next, Ordering::Release);
}

/// This process's generation; sets up a forked child first, by `begin`. None: another thread is at
/// it and does not come to an end (it may be this one, interrupted by a signal), or nothing is
/// recorded any more.
pub fn current(begin: impl FnOnce()) -> Option<u32> {
    // SAFETY: set before any function was hooked.
    let word = unsafe { &*WORD.load(Ordering::Relaxed) };
    match word.compare_exchange(WIPED, STARTING, Ordering::Acquire, Ordering::Acquire) {
        Ok(_) => {
            begin();
            let generation = LATEST.load(Ordering::Relaxed).wrapping_add(1);
            LATEST.store(generation, Ordering::Relaxed);
            word.store(generation, Ordering::Release);
            Some(generation)
        }
        Err(STARTING) => {
            for _ in 0..200 {
                sys::sleep_ns(100_000);
                let now = word.load(Ordering::Acquire);
                if now != STARTING {
                    return (now != STOPPED).then_some(now);
                }
            }
            None
        }
        Err(STOPPED) => None,
        Err(generation) => Some(generation),
    }
}
