//! Rings: one for each thread, taken at its first hooked call. Runs on any thread, perhaps in a
//! signal handler: no allocation, no locks that wait forever.

use super::arena::{self, LEAST_SLOTS};
use super::report::{self, Line};
use super::{cost, counters, generation, quiet, runaway};
use crate::layout::{MARGIN, Stage, Thread};
use crate::sys;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use event::ring::{RING_HEADER_SIZE, RingHeader, SLOT_BYTES};

/// Where there is plenty of room: more than a busy thread fills between two looks of the tracer.
const USUAL_SLOTS: u32 = 65_536;
/// Where there is not.
const MODEST_SLOTS: u32 = 8192;
const PLENTY: u64 = 1 << 30;
/// Slots that get their memory at once, at most.
const PORTION: u64 = 8192;
/// A page of slots.
const LEAST_PORTION: u64 = 64;
const MOST_SLOTS: u32 = 1 << 22;

/// A thread's ring could not be had; its calls go unrecorded for a while.
pub const WITHOUT_RING: u32 = 2;
/// The ring is being made: a signal handler that interrupts this goes unrecorded.
const MAKING: u32 = 1;

/// Threads that are making rings or waiting for room.
pub static AT_WORK: AtomicU32 = AtomicU32::new(0);
/// It was said that there are calls without a ring.
static SAID: AtomicBool = AtomicBool::new(false);

/// How long a call waits for room before it is let through unrecorded.
const PATIENCE: u32 = 400;
const NAP_NS: u64 = 50_000;
/// Calls dropped between two attempts to get memory for a ring, or a ring.
const RETRY: u64 = 1024;
const YIELDS: u32 = 50;

pub fn start(stage: &Stage) {
    let refill: extern "C" fn(*mut Thread) -> bool = refill;
    // SAFETY: the stage's variable lives as long as the process.
    unsafe { (*stage.refill).store(refill as *mut (), Ordering::Release) };
}

/// None: as the session's folder has room.
pub fn set_capacity(slots: Option<u32>) {
    let slots = slots.unwrap_or_else(|| {
        let mut folder = Line::<1200>::new();
        folder.push(report::folder()).push(b"\0");
        if sys::free_space(folder.bytes()) >= PLENTY {
            USUAL_SLOTS
        } else {
            MODEST_SLOTS
        }
    });
    let slots = slots.clamp(LEAST_SLOTS, MOST_SLOTS);
    arena::set_capacity(slots.next_power_of_two());
}

/// The thread has no ring, or the ring no room. True: try again.
extern "C" fn refill(thread: *mut Thread) -> bool {
    // SAFETY: the calling thread's own; signal handlers only see it between whole steps.
    let thread = unsafe { &mut *thread };
    // Whoever has given up system calls may have given up the processor's counter as well.
    if sys::is_quiet() {
        return has_room(thread, true);
    }
    let begin = sys::ticks();
    let again = has_room(thread, true);
    counters::spent_since(begin);
    again
}

/// Gets the thread a ring, or its ring room for a call. Otherwise the call is lost, and counted if
/// nobody else will.
fn has_room(thread: &mut Thread, counts: bool) -> bool {
    AT_WORK.fetch_add(1, Ordering::SeqCst);
    let again = if sys::is_quiet() {
        quiet::refill(thread)
    } else {
        find_room(thread, counts)
    };
    AT_WORK.fetch_sub(1, Ordering::SeqCst);
    again
}

fn find_room(thread: &mut Thread, counts: bool) -> bool {
    let lose = || {
        counters::lost(counts.into());
        false
    };
    let Some(generation) = generation::current(begin_child) else {
        return lose();
    };
    if thread.pid == generation && thread.header != 0 {
        return wait_for_room(thread, MOST_OF_CALL, counts);
    }
    if cost::adopt(thread, generation) {
        return true;
    }
    let inherited = thread.pid != generation && thread.pid != u32::MAX;
    if inherited {
        // A forked child: what is there is the parent's.
        thread.header = 0;
        thread.state = 0;
        thread.pid = u32::MAX;
    }
    if thread.state != 0 {
        // Looking for one takes a while: not for each of many calls. And a signal handler may have jumped
        // out of the looking.
        thread.stalled_tail = thread.stalled_tail.wrapping_add(1);
        if thread.stalled_tail.is_multiple_of(RETRY) {
            thread.state = 0;
        }
    }
    if thread.state != 0 {
        return lose();
    }
    thread.state = MAKING;
    let id = sys::thread_id();
    if let Some(ring) = arena::take(id, None) {
        arena::show(ring, id);
        adopt(thread, generation, ring);
        thread.state = 0;
        return true;
    }
    thread.stalled_tail = 0;
    thread.state = WITHOUT_RING;
    if !SAID.swap(true, Ordering::Relaxed) {
        report::note(
            b"note calls were not recorded: the session folder is full, deleted or not writable by the program\n",
        );
    }
    lose()
}

/// What a call takes at most.
const MOST_OF_CALL: u64 = (1 + cuda::capture::MAX_PAYLOAD_SLOTS) as u64;

/// Another session: what was said in the last is said again.
pub fn begin_again() {
    SAID.store(false, Ordering::Relaxed);
}

/// Waits until no thread looks for a ring any more, for a bounded time.
pub fn settle() {
    for _ in 0..1000 {
        if AT_WORK.load(Ordering::SeqCst) == 0 {
            return;
        }
        sys::sleep_ns(NAP_NS);
    }
}

/// Sets up a forked child before its first record.
fn begin_child() {
    SAID.store(false, Ordering::Relaxed);
    arena::begin_process();
    report::begin_process();
}

/// Reserves slots for something that a call brings along, if there is room for the call as well.
/// The sequence number of the first. What finds no room is counted by the call itself.
pub fn reserve(thread: &mut Thread, slots: u64) -> Option<u64> {
    let most = slots + MOST_OF_CALL;
    let is_ready = generation::settled().is_some_and(|generation| generation == thread.pid);
    if !is_ready || thread.header == 0 {
        // A new thread, or a forked child's first call.
        if sys::is_quiet() {
            return None;
        }
        let begin = sys::ticks();
        let again = has_room(thread, false);
        counters::spent_since(begin);
        if !again {
            return None;
        }
    }
    // SAFETY: the thread's own ring.
    let header = unsafe { &*(thread.header as *const RingHeader) };
    if header.head.load(Ordering::Relaxed).wrapping_add(most) > thread.limit {
        // Without system calls it is left to the call itself to wait.
        if sys::is_quiet() {
            return None;
        }
        let begin = sys::ticks();
        let again = wait_for_room(thread, most, false);
        counters::spent_since(begin);
        if !again {
            return None;
        }
    }
    Some(take_slots(&header.head, slots))
}

/// From `begin` on until now, by the processor's counter, the thread was busy for us beside recording calls.
pub fn spent_since(thread: &Thread, begin: u64) {
    let is_ready = generation::settled().is_some_and(|generation| generation == thread.pid);
    if is_ready && thread.header != 0 {
        // SAFETY: the thread's own ring; nobody else adds to this.
        let header = unsafe { &*(thread.header as *const RingHeader) };
        let spent = sys::ticks().wrapping_sub(begin);
        if spent < 1 << 60 {
            let sum = header.spent.load(Ordering::Relaxed).wrapping_add(spent);
            header.spent.store(sum, Ordering::Relaxed);
        }
    }
}

/// As the hot path does: one instruction, so that a signal handler comes before it or after it; not
/// locked, for no other thread takes slots of this ring.
fn take_slots(head: &AtomicU64, slots: u64) -> u64 {
    let mut taken = slots;
    // SAFETY: a word of the thread's own ring.
    unsafe { asm!("xadd [{}], {}", in(reg) head.as_ptr(), inout(reg) taken, options(nostack)) };
    taken
}

/// A thread comes by at least this often: a runaway is found before the stack ends.
const STRIDE: u64 = 4096;

/// The thread's ring has room for so many slots, or gets it within a bounded time.
fn wait_for_room(thread: &mut Thread, most: u64, counts: bool) -> bool {
    // SAFETY: the thread's own ring.
    let header = unsafe { &*(thread.header as *const RingHeader) };
    let capacity = thread.mask + 1;
    let dropped = &header.dropped;
    let around = thread.waiting;
    let here = (&raw const around) as u64;
    // A signal handler that interrupts a wait is deeper in the stack. If this is not, one has jumped out
    // of the wait, and may do so again and again: the program must get on.
    let jumped = around != 0 && here >= around;
    for attempt in 0..PATIENCE {
        let tail = header.tail.load(Ordering::Acquire);
        let wanted = header.head.load(Ordering::Relaxed).wrapping_add(most);
        let short_of_memory = thread.backed < capacity && wanted > thread.backed - MARGIN;
        // Asking for memory takes a while: not for each of many calls that are dropped.
        if short_of_memory && dropped.load(Ordering::Relaxed).is_multiple_of(RETRY) {
            extend(thread);
        }
        runaway::look(thread);
        let free = tail.wrapping_add(capacity - MARGIN);
        thread.limit = limit(thread, tail).min(wanted.wrapping_add(STRIDE));
        if wanted <= thread.limit {
            thread.waiting = if jumped { 0 } else { around };
            report::pair_clocks_from_time_to_time();
            return true;
        }
        // Nobody has taken anything since the last loss, or nobody can help: do not hold up the
        // program.
        if jumped || thread.stalled_tail == tail.wrapping_add(1) || wanted <= free {
            break;
        }
        thread.waiting = here;
        if attempt < YIELDS {
            sys::give_way();
        } else {
            sys::sleep_ns(NAP_NS);
        }
    }
    thread.waiting = if jumped { 0 } else { around };
    thread.stalled_tail = header.tail.load(Ordering::Relaxed).wrapping_add(1);
    dropped.fetch_add(counts.into(), Ordering::Relaxed);
    false
}

/// Up to where the thread may go, by how far the tracer is.
pub fn limit(thread: &Thread, tail: u64) -> u64 {
    let capacity = thread.mask + 1;
    let free = tail.wrapping_add(capacity - MARGIN);
    if thread.backed < capacity {
        // Never to the very end of the memory: the tracer looks one slot ahead.
        free.min(thread.backed - MARGIN)
    } else {
        free
    }
}

/// The calling thread writes to this ring from now on.
pub fn adopt(thread: &mut Thread, generation: u32, at: usize) {
    // SAFETY: a mapped ring.
    let header = unsafe { &*(at as *const RingHeader) };
    thread.slots = at + RING_HEADER_SIZE;
    thread.mask = u64::from(header.capacity) - 1;
    thread.backed = header.backed.load(Ordering::Relaxed);
    thread.limit = limit(thread, header.tail.load(Ordering::Acquire));
    thread.stalled_tail = 0;
    thread.waiting = 0;
    thread.header = at;
    // Last: from here on the hot path uses it.
    // SAFETY: an aligned word of the thread's own.
    unsafe { AtomicU32::from_ptr(&raw mut thread.pid) }.store(generation, Ordering::Release);
}

/// Gets all of their memory for the rings there are: later none can be asked for.
pub fn back_all() {
    arena::each_live(back);
}

/// Gets a ring all of its memory.
pub fn back(ring: usize) {
    // SAFETY: a ring of this process.
    let header = unsafe { &*(ring as *const RingHeader) };
    let bytes = header.capacity as usize * SLOT_BYTES;
    if sys::populate(ring + RING_HEADER_SIZE, bytes) {
        let capacity = header.capacity.into();
        header.backed.store(capacity, Ordering::Release);
    }
}

/// Gets memory for the next slots; without it the ring stays full there, and calls are dropped. As
/// much again as there is: most threads need little, those that need much get it soon.
fn extend(thread: &mut Thread) {
    let at = thread.slots + thread.backed as usize * SLOT_BYTES;
    let rest = thread.mask + 1 - thread.backed;
    let mut more = thread.backed.next_power_of_two().min(PORTION).min(rest);
    loop {
        if sys::populate(at, more as usize * SLOT_BYTES) {
            thread.backed += more;
            // SAFETY: the thread's own ring.
            let header = unsafe { &*(thread.header as *const RingHeader) };
            // Whoever has the ring next need not ask again.
            header.backed.store(thread.backed, Ordering::Relaxed);
            return;
        }
        if more <= LEAST_PORTION {
            return;
        }
        // The last bit of room is room, too.
        more = (more / 2).max(LEAST_PORTION);
    }
}
