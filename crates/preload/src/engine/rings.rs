//! Rings: one for each thread, made at its first hooked call. Runs on any thread, perhaps in a
//! signal handler: no allocation, no locks that wait for ever.

use super::report::{self, Line};
use super::{cost, generation, quiet};
use crate::layout::{MARGIN, Stage, Thread};
use crate::sys::{self, File};
use core::arch::asm;
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use event::ring::{RING_HEADER_SIZE, RING_MAGIC, RingHeader};

/// Where there is plenty of room: more than a busy thread fills between two looks of the tracer.
const USUAL_SLOTS: u32 = 65_536;
/// Where there is not.
const MODEST_SLOTS: u32 = 8192;
const PLENTY: u64 = 1 << 30;
/// Slots that get their memory at once: few threads use more.
const PORTION: u64 = 8192;
/// Which of a header's reserved words says that all of its slots have memory.
pub const BACKED: usize = 0;
pub const LEAST_SLOTS: u32 = 256;
const MOST_SLOTS: u32 = 1 << 22;
const SLOT_BYTES: usize = 64;
const MOST_NAMES: u32 = 10_000;

/// A thread's ring could not be made; its calls go unrecorded.
pub const WITHOUT_RING: u32 = 2;
/// The ring is being made: a signal handler that interrupts this goes unrecorded.
const MAKING: u32 = 1;

static CAPACITY: AtomicU32 = AtomicU32::new(MODEST_SLOTS);
/// Calls that went unrecorded for want of a ring, until one is made that can say so.
static MISSED: AtomicU64 = AtomicU64::new(0);
static NUMBER: AtomicU32 = AtomicU32::new(0);
/// Threads that are making rings or waiting for room.
pub static AT_WORK: AtomicU32 = AtomicU32::new(0);

/// Rings of this process, so that those of ended threads can be given back. 0: free; odd: taken.
const KNOWN: usize = 1024;
static RINGS: [AtomicUsize; KNOWN] = [const { AtomicUsize::new(0) }; KNOWN];

/// How long a call waits for room before it is let through unrecorded.
const PATIENCE: u32 = 400;
const NAP_NS: u64 = 50_000;
/// Calls dropped between two attempts to get memory for a ring.
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
    CAPACITY.store(slots.next_power_of_two(), Ordering::Relaxed);
}

/// The thread has no ring, or the ring no room. True: try again.
extern "C" fn refill(thread: *mut Thread) -> bool {
    // SAFETY: the calling thread's own; signal handlers only see it between whole steps.
    let thread = unsafe { &mut *thread };
    AT_WORK.fetch_add(1, Ordering::SeqCst);
    let again = if sys::is_quiet() {
        quiet::refill(thread)
    } else {
        find_room(thread)
    };
    AT_WORK.fetch_sub(1, Ordering::SeqCst);
    again
}

fn find_room(thread: &mut Thread) -> bool {
    let Some(pid) = generation::current(begin_child) else {
        MISSED.fetch_add(1, Ordering::Relaxed);
        return false;
    };
    if thread.pid == pid && thread.header != 0 {
        return wait_for_room(thread, (1 + cuda::capture::MAX_PAYLOAD_SLOTS) as u64);
    }
    if cost::adopt(thread, pid) {
        return true;
    }
    let inherited = thread.pid != pid && thread.pid != u32::MAX;
    if inherited {
        // A forked child: what is there is the parent's.
        thread.header = 0;
        thread.state = 0;
        thread.pid = u32::MAX;
    }
    if thread.state != 0 {
        MISSED.fetch_add(1, Ordering::Relaxed);
        return false;
    }
    thread.state = MAKING;
    if make(thread, pid) {
        thread.state = 0;
        return true;
    }
    thread.state = WITHOUT_RING;
    MISSED.fetch_add(1, Ordering::Relaxed);
    let mut line = Line::<160>::new();
    let _ = writeln!(
        line,
        "note no ring for thread {}: the session's folder is full or gone; its calls are not recorded",
        sys::thread_id()
    );
    report::note(line.bytes());
    false
}

/// The process ends: says what no ring has said.
pub fn finish() {
    let missed = MISSED.swap(0, Ordering::Relaxed);
    if missed > 0 {
        let mut line = Line::<100>::new();
        let _ = writeln!(
            line,
            "note {missed} calls were not recorded: no ring could be made for them"
        );
        report::note(line.bytes());
    }
}

/// Sets up a forked child before its first record.
fn begin_child() -> bool {
    MISSED.store(0, Ordering::Relaxed);
    NUMBER.store(0, Ordering::Relaxed);
    for known in &RINGS {
        let at = known.swap(0, Ordering::Relaxed);
        if at & 1 == 0 && at != 0 {
            // SAFETY: a mapping of the parent's ring; no thread of this process writes to it.
            unsafe { sys::unmap(at, bytes_of(at)) };
        }
    }
    report::begin_process()
}

fn bytes_of(header: usize) -> usize {
    // SAFETY: a mapped ring.
    let header = unsafe { &*(header as *const RingHeader) };
    RING_HEADER_SIZE + header.capacity as usize * SLOT_BYTES
}

/// Reserves slots for something that a call brings along, if there is room for the call as well.
/// The sequence number of the first.
pub fn reserve(thread: &mut Thread, slots: u64) -> Option<u64> {
    let most = slots + (1 + cuda::capture::MAX_PAYLOAD_SLOTS) as u64;
    let is_ready = generation::settled().is_some_and(|pid| pid == thread.pid);
    if !is_ready || thread.header == 0 {
        // A new thread, or a forked child's first call.
        if sys::is_quiet() {
            return None;
        }
        if !refill(thread) {
            // The call itself is about to be counted as lost.
            let less = |missed: u64| missed.checked_sub(1);
            let _ = MISSED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
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
        if !wait_for_room(thread, most) {
            let dropped = header.dropped.load(Ordering::Relaxed);
            header
                .dropped
                .store(dropped.saturating_sub(1), Ordering::Relaxed);
            return None;
        }
    }
    Some(take_slots(&header.head, slots))
}

/// As the hot path does: one instruction, so that a signal handler comes before it or after it; not
/// locked, for no other thread takes slots of this ring.
fn take_slots(head: &AtomicU64, slots: u64) -> u64 {
    let mut taken = slots;
    // SAFETY: a word of the thread's own ring.
    unsafe { asm!("xadd [{}], {}", in(reg) head.as_ptr(), inout(reg) taken, options(nostack)) };
    taken
}

/// The thread's ring has room for so many slots, or gets it within a bounded time.
fn wait_for_room(thread: &mut Thread, most: u64) -> bool {
    // SAFETY: the thread's own ring.
    let header = unsafe { &*(thread.header as *const RingHeader) };
    let capacity = thread.mask + 1;
    let dropped = &header.dropped;
    for attempt in 0..PATIENCE {
        let tail = header.tail.load(Ordering::Acquire);
        let wanted = header.head.load(Ordering::Relaxed).wrapping_add(most);
        let short_of_memory = thread.backed < capacity && wanted > thread.backed - MARGIN;
        // Asking for memory takes a while: not for each of many calls that are dropped.
        if short_of_memory && dropped.load(Ordering::Relaxed) % RETRY == 0 {
            extend(thread);
        }
        let free = tail.wrapping_add(capacity - MARGIN);
        let limit = if thread.backed < capacity {
            // Never to the very end of the memory: the tracer looks one slot ahead.
            free.min(thread.backed - MARGIN)
        } else {
            free
        };
        thread.limit = limit;
        if wanted <= limit {
            report::pair_clocks_from_time_to_time();
            return true;
        }
        // Nobody has taken anything since the last loss, or nobody can help: do not hold up the
        // program.
        if thread.stalled_tail == tail.wrapping_add(1) || wanted <= free {
            break;
        }
        if attempt < YIELDS {
            sys::give_way();
        } else {
            sys::sleep_ns(NAP_NS);
        }
    }
    thread.stalled_tail = header.tail.load(Ordering::Relaxed).wrapping_add(1);
    dropped.fetch_add(1, Ordering::Relaxed);
    false
}

fn make(thread: &mut Thread, pid: u32) -> bool {
    give_back_ended(pid);
    let capacity = CAPACITY.load(Ordering::Relaxed);
    let id = sys::thread_id();
    let Some((at, backed)) = map_new(pid, id, capacity) else {
        return false;
    };
    publish(at, id);
    // SAFETY: as above; nothing else writes to it yet.
    unsafe { &*(at as *const RingHeader) }
        .dropped
        .store(MISSED.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    remember(at);
    adopt(thread, pid, at, backed);
    true
}

/// A new ring that no thread has yet, and how many of its slots have memory.
pub fn map_new(pid: u32, name: u32, capacity: u32) -> Option<(usize, u64)> {
    let bytes = RING_HEADER_SIZE + capacity as usize * SLOT_BYTES;
    if sys::file_size_limit() < bytes as u64 {
        return None;
    }
    let (path, file) = create_file(pid, name)?;
    // Reserved before it is used: a write to a mapping that finds no space would be a SIGBUS.
    let backed = if can_extend() {
        PORTION.min(capacity.into())
    } else {
        capacity.into()
    };
    let first = RING_HEADER_SIZE as u64 + backed * SLOT_BYTES as u64;
    if !file.set_size(bytes as u64) || !file.reserve(0, first) {
        sys::unlink(path.bytes());
        return None;
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED;
    // SAFETY: a fresh mapping.
    let Some(at) = (unsafe { sys::map(0, bytes, protection, flags, Some((&file, 0))) }) else {
        sys::unlink(path.bytes());
        return None;
    };
    // SAFETY: the file is all zeros and as long as the header at least.
    unsafe {
        let header = at as *mut RingHeader;
        (&raw mut (*header).capacity).write(capacity);
        (&raw mut (*header).pid).write(pid);
    }
    Some((at, backed))
}

/// Lets the tracer find a ring: it is this thread's.
pub fn publish(ring: usize, thread: u32) {
    // SAFETY: a ring that no one else has yet.
    unsafe {
        let header = ring as *mut RingHeader;
        (&raw mut (*header).tid).write(thread);
        (*header).magic.store(RING_MAGIC, Ordering::Release);
    }
}

/// The calling thread writes to this ring from now on.
pub fn adopt(thread: &mut Thread, pid: u32, at: usize, backed: u64) {
    // SAFETY: a mapped ring.
    let capacity = unsafe { &*(at as *const RingHeader) }.capacity;
    thread.slots = at + RING_HEADER_SIZE;
    thread.mask = u64::from(capacity) - 1;
    thread.limit = backed - MARGIN;
    thread.backed = backed;
    thread.stalled_tail = 0;
    thread.header = at;
    // Last: from here on the hot path uses it.
    // SAFETY: an aligned word of the thread's own.
    unsafe { AtomicU32::from_ptr(&raw mut thread.pid) }.store(pid, Ordering::Release);
}

/// Gets all of their memory for the rings there are: later none can be asked for.
pub fn back_all() {
    for known in &RINGS {
        let at = known.load(Ordering::Acquire);
        if at != 0 && at & 1 == 0 {
            let bytes = bytes_of(at);
            if sys::advise(at, bytes, libc::MADV_POPULATE_WRITE) {
                // SAFETY: mapped until its place is freed, which only a thread's first call does.
                let header = unsafe { &mut *(at as *mut RingHeader) };
                header.reserved[BACKED] = 1;
            }
        }
    }
}

/// The next free name: what this process ran before an exec, or an earlier process with its number,
/// has left files too.
fn create_file(pid: u32, thread: u32) -> Option<(Line<1200>, File)> {
    for _ in 0..MOST_NAMES {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = path_of(pid, thread, number);
        match File::create_new(path.bytes()) {
            Ok(file) => return Some((path, file)),
            Err(libc::EEXIST) => {}
            Err(_) => return None,
        }
    }
    None
}

fn path_of(pid: u32, thread: u32, number: u32) -> Line<1200> {
    let mut path = Line::new();
    path.push(report::folder());
    let _ = write!(path, "/ring.{pid}.{thread}.{number}\0");
    path
}

/// Gets memory for the next slots; without it the ring stays full there, and calls are dropped.
/// Through the mapping, for the file's name is gone once the tracer has taken the ring up.
fn extend(thread: &mut Thread) {
    let at = thread.slots + thread.backed as usize * SLOT_BYTES;
    let more = PORTION.min(thread.mask + 1 - thread.backed);
    if sys::advise(at, more as usize * SLOT_BYTES, libc::MADV_POPULATE_WRITE) {
        thread.backed += more;
    }
}

/// Kernels before 5.14 cannot be asked for a mapping's memory.
fn can_extend() -> bool {
    sys::advise(0, 0, libc::MADV_POPULATE_WRITE)
}

fn remember(ring: usize) {
    for known in &RINGS {
        if known
            .compare_exchange(0, ring, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            return;
        }
    }
}

/// Closes and unmaps the rings of threads that have ended.
fn give_back_ended(pid: u32) {
    let own = sys::thread_id();
    for known in &RINGS {
        let at = known.load(Ordering::Acquire);
        if at == 0 || at & 1 == 1 {
            continue;
        }
        // Taken first, so that two threads never look at the same ring.
        if known
            .compare_exchange(at, at | 1, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            continue;
        }
        // SAFETY: mapped until its place is freed.
        let header = unsafe { &*(at as *const RingHeader) };
        // A ring under this thread's number is that of an earlier thread: this one has none yet.
        if header.tid != own && sys::thread_lives(pid, header.tid) {
            known.store(at, Ordering::Release);
            continue;
        }
        header.closed.store(1, Ordering::Release);
        let bytes = bytes_of(at);
        // SAFETY: its thread is gone.
        unsafe { sys::unmap(at, bytes) };
        known.store(0, Ordering::Release);
    }
}

// The hot path addresses these by number.
const _: () = {
    assert!(core::mem::offset_of!(RingHeader, head) == 64);
    assert!(core::mem::offset_of!(RingHeader, tail) == 128);
    assert!(size_of::<AtomicU64>() == 8);
};
