//! Going on without system calls, once the program has given them up (seccomp). Threads that have a
//! ring keep it; those that come later take one of a few that were made ready; what finds none is
//! counted as lost. Libraries and children that come later are not traced.

use super::report::{self, Line};
use super::rings::{self, AT_WORK};
use super::{arena, clock, counters, generation};
use crate::layout::{MARGIN, Stage, Thread};
use crate::sys;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use event::ring::RingHeader;

const USUAL_SPARE: usize = 16;
const MOST_SPARE: usize = 64;
/// Slots of a spare ring: all of its memory is taken at once.
const SPARE_SLOTS: u32 = 8192;
/// How long a call waits for room before it is let through unrecorded, by the processor's counter:
/// some 20 ms.
const PATIENCE: u64 = 60_000_000;

static SPARE: [AtomicUsize; MOST_SPARE] = [const { AtomicUsize::new(0) }; MOST_SPARE];
static SPARE_COUNT: AtomicUsize = AtomicUsize::new(USUAL_SPARE);
static STAGE_QUIET: AtomicPtr<AtomicBool> = AtomicPtr::new(core::ptr::null_mut());
/// Where the C library keeps a thread's id; 0: not known.
static ID_PLACE: AtomicUsize = AtomicUsize::new(0);
static BEGUN: AtomicBool = AtomicBool::new(false);

pub fn prepare(stage: &Stage, spare: Option<usize>) {
    STAGE_QUIET.store(stage.quiet.cast_mut(), Ordering::Relaxed);
    ID_PLACE.store(sys::thread_id_place().unwrap_or(0), Ordering::Relaxed);
    if let Some(spare) = spare {
        SPARE_COUNT.store(spare.min(MOST_SPARE), Ordering::Relaxed);
    }
}

/// The program is about to give up system calls: the last moment to make any. `counter`: it may still
/// read the processor's counter, which strict seccomp and PR_SET_TSC forbid on pain of a signal.
pub extern "C" fn go_quiet(counter: bool) {
    if BEGUN.swap(true, Ordering::SeqCst) {
        if !counter {
            generation::stop();
        }
        return;
    }
    if generation::settled().is_none() {
        return hush();
    }
    let mut line = Line::<400>::new();
    if clock::is_hosts() || !counter {
        generation::stop();
        line.push(b"note the program installed a strict seccomp filter, so the clock cannot be read: later calls are not recorded\n");
        report::note(line.bytes());
        return hush();
    }
    let mut made = 0;
    let wanted = SPARE_COUNT.load(Ordering::Relaxed);
    for place in SPARE.iter().take(wanted) {
        // No thread has this number.
        let Some(ring) = arena::take(0, Some(SPARE_SLOTS)) else {
            break;
        };
        rings::back(ring);
        place.store(ring, Ordering::Release);
        made += 1;
    }
    rings::back_all();
    let _ = writeln!(
        line,
        "note the program installed a strict seccomp filter: from then on, {made} new threads and no new libraries or child processes could be traced"
    );
    report::note(line.bytes());
    report::pair_clocks();
    hush();
}

fn hush() {
    let stage = STAGE_QUIET.load(Ordering::Relaxed);
    sys::QUIET.store(true, Ordering::SeqCst);
    if !stage.is_null() {
        // SAFETY: the stage's variable lives as long as the process.
        unsafe { &*stage }.store(true, Ordering::SeqCst);
    }
    // Threads that were about to make a call have made it when they are done.
    let mut looks = 0u32;
    while AT_WORK.load(Ordering::SeqCst) > 0 && looks < 10_000_000 {
        core::hint::spin_loop();
        looks += 1;
    }
}

/// As `rings::refill`, without a system call.
pub fn refill(thread: &mut Thread) -> bool {
    // A child has nothing of its own, and cannot get it.
    let Some(generation) = generation::settled() else {
        return lose();
    };
    if thread.pid == generation && thread.header != 0 {
        return wait_for_room(thread);
    }
    let place = ID_PLACE.load(Ordering::Relaxed);
    let is_new = thread.pid == u32::MAX && thread.state == 0;
    if !is_new || place == 0 {
        return lose();
    }
    for spare in &SPARE {
        let ring = spare.swap(0, Ordering::AcqRel);
        if ring != 0 {
            arena::show(ring, sys::read_thread_word(place));
            rings::adopt(thread, generation, ring);
            return true;
        }
    }
    // Not looked for again.
    thread.state = rings::WITHOUT_RING;
    lose()
}

fn lose() -> bool {
    counters::lost(1);
    false
}

fn wait_for_room(thread: &mut Thread) -> bool {
    // SAFETY: the thread's own ring.
    let header = unsafe { &*(thread.header as *const RingHeader) };
    let capacity = thread.mask + 1;
    thread.backed = header.backed.load(Ordering::Acquire);
    let most = (1 + cuda::capture::MAX_PAYLOAD_SLOTS) as u64;
    let begin = sys::ticks();
    while sys::ticks().wrapping_sub(begin) < PATIENCE {
        let tail = header.tail.load(Ordering::Acquire);
        let wanted = header.head.load(Ordering::Relaxed).wrapping_add(most);
        let free = tail.wrapping_add(capacity - MARGIN);
        thread.limit = rings::limit(thread, tail);
        if wanted <= thread.limit {
            return true;
        }
        if thread.stalled_tail == tail.wrapping_add(1) || wanted <= free {
            break;
        }
        core::hint::spin_loop();
    }
    thread.stalled_tail = header.tail.load(Ordering::Relaxed).wrapping_add(1);
    header.dropped.fetch_add(1, Ordering::Relaxed);
    false
}
