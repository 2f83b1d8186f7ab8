//! The file that this process's threads have their rings in (`event::ring`): made once, mapped once,
//! handed out piece by piece with atomic operations. After that a new thread needs no rights and no
//! descriptor: it may have changed its user, its root or its limits since.
//!
//! A forked child makes a file of its own if it can, and goes on in its parent's if it cannot.

use super::report::{self, Line};
use crate::sys::{self, File};
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use event::ring::{
    ARENA_HEADER_SIZE, ARENA_MAGIC, ARENA_TEXT, ArenaHeader, MOST_RINGS, RING_HEADER_SIZE,
    RING_MAGIC, RingHeader, RingState, SLOT_BYTES, TEXT_WORD, ring_stride,
};

pub const LEAST_SLOTS: u32 = 256;
const PAGE: usize = 4096;
/// Address space for a process's rings. Nothing of it is memory before it is used.
const MOST_BYTES: u64 = 32 << 30;
/// Of a limited address space the program keeps nearly all.
const PART_OF_LIMIT: u64 = 32;
const TEXT_BYTES: u64 = 8 << 20;
/// Rather smaller rings than fewer.
const ENOUGH_RINGS: u64 = 64;
const MOST_NAMES: u32 = 10_000;
/// Files that a process makes one after the other, when one is used up.
const MOST_ARENAS: usize = 4;
/// Slots that a new ring has memory for: few threads of many use more.
const FIRST_SLOTS: u64 = 192;
/// The rest of a file may not be touched, so that mlockall does not give it memory. It is opened in
/// portions of this.
const OPENED_AT_ONCE: usize = 16 << 20;
/// How far a thread looks for a ring that is free, and how many threads it asks after.
const LOOKED_AT: u32 = 64;
const ASKED_AFTER: u32 = 6;

struct Arena {
    /// 0: none.
    at: AtomicUsize,
    /// Bytes from the start on that may be touched.
    opened: AtomicUsize,
    /// Where to look next for a ring that is free, and whose thread to ask after next.
    look: AtomicU32,
    ask: AtomicU32,
}

static ARENAS: [Arena; MOST_ARENAS] = [const {
    Arena {
        at: AtomicUsize::new(0),
        opened: AtomicUsize::new(0),
        look: AtomicU32::new(0),
        ask: AtomicU32::new(0),
    }
}; MOST_ARENAS];
/// One thread at a time makes another file.
static MAKING: AtomicU32 = AtomicU32::new(0);
static NUMBER: AtomicU32 = AtomicU32::new(0);
static CAPACITY: AtomicU32 = AtomicU32::new(LEAST_SLOTS);
/// This process's number and the PID namespace it is of.
static PID: AtomicU32 = AtomicU32::new(0);
static NAMESPACE: AtomicU64 = AtomicU64::new(0);
/// Sessions whose rings still have memory in their place.
const KEPT_SESSIONS: usize = 32;
/// Where rings were in the last sessions, and how long they are.
static RETIRED: [(AtomicUsize, AtomicUsize); KEPT_SESSIONS * MOST_ARENAS] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; KEPT_SESSIONS * MOST_ARENAS];
static RETIRED_NEXT: AtomicUsize = AtomicUsize::new(0);
static OWN: AtomicBool = AtomicBool::new(false);

/// The process begins, or a forked child does: its own number, and its own file if that can be had.
pub fn begin_process() {
    let pid = sys::pid();
    PID.store(pid, Ordering::Relaxed);
    let unknown = match sys::parent_pid() {
        // Its parent is outside of its namespace, which is a new one then.
        0 => 0,
        _ => NAMESPACE.load(Ordering::Relaxed),
    };
    let namespace = sys::pid_namespace().unwrap_or(unknown);
    NAMESPACE.store(namespace, Ordering::Relaxed);
    NUMBER.store(0, Ordering::Relaxed);
    MAKING.store(0, Ordering::Relaxed);
    let made = create();
    OWN.store(made.is_some(), Ordering::Relaxed);
    let Some(at) = made else {
        return;
    };
    for arena in &ARENAS {
        let old = arena.at.swap(0, Ordering::Relaxed);
        if old != 0 {
            // SAFETY: the parent's; no thread of this process writes to it.
            unsafe { sys::unmap(old, header(old).bytes as usize) };
        }
    }
    publish(&ARENAS[0], at);
}

/// The session is over. A thread that was interrupted in the middle of a record, by a signal handler perhaps, may still
/// finish it: for many sessions to come there is memory in the place of the rings, which nobody reads and which takes
/// address space only.
pub fn retire() {
    for arena in &ARENAS {
        let at = arena.at.swap(0, Ordering::AcqRel);
        if at == 0 {
            continue;
        }
        let (bytes, opened) = (
            header(at).bytes as usize,
            arena.opened.load(Ordering::Acquire),
        );
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: in the place of our own mapping; what is behind was never opened.
        let covered = unsafe { sys::map(at, opened, protection, flags, None) };
        if covered.is_none() {
            continue;
        }
        // SAFETY: as above.
        unsafe { sys::unmap(at + opened, bytes.saturating_sub(opened)) };
        let place = RETIRED_NEXT.fetch_add(1, Ordering::Relaxed) % RETIRED.len();
        let (old, length) = &RETIRED[place];
        let (old_at, old_bytes) = (
            old.swap(at, Ordering::Relaxed),
            length.swap(opened, Ordering::Relaxed),
        );
        if old_at != 0 {
            // SAFETY: of a session of long ago.
            unsafe { sys::unmap(old_at, old_bytes) };
        }
    }
}

pub fn pid() -> u32 {
    PID.load(Ordering::Relaxed)
}

pub fn namespace() -> u64 {
    NAMESPACE.load(Ordering::Relaxed)
}

/// Whether this process has a file of its own.
pub fn is_own() -> bool {
    OWN.load(Ordering::Relaxed)
}

pub fn set_capacity(slots: u32) {
    CAPACITY.store(slots, Ordering::Relaxed);
}

fn header(at: usize) -> &'static ArenaHeader {
    // SAFETY: mapped; unmapped only in a child, before it uses it.
    unsafe { &*(at as *const ArenaHeader) }
}

fn publish(arena: &Arena, at: usize) {
    let first = ARENA_TEXT + header(at).text as usize;
    arena.opened.store(first, Ordering::Relaxed);
    arena.look.store(0, Ordering::Relaxed);
    arena.at.store(at, Ordering::Release);
}

/// A ring for the calling thread, which has none: its header. `capacity`: fewer slots than usual.
/// Nobody sees it before [`show`].
pub fn take(thread: u32, capacity: Option<u32>) -> Option<usize> {
    let taken = || {
        let known = ARENAS.iter().rev();
        let mut known = known.filter(|arena| arena.at.load(Ordering::Acquire) != 0);
        known.find_map(|arena| arena.take(thread, capacity))
    };
    taken().or_else(|| {
        if !make_another() {
            return None;
        }
        taken()
    })
}

/// All rings of the latest file are in use.
fn make_another() -> bool {
    let Some(free) = (ARENAS.iter()).find(|arena| arena.at.load(Ordering::Acquire) == 0) else {
        return false;
    };
    if MAKING.swap(1, Ordering::Acquire) == 1 {
        return false;
    }
    let made = (free.at.load(Ordering::Acquire) == 0)
        .then(create)
        .flatten();
    if let Some(at) = made {
        publish(free, at);
    }
    MAKING.store(0, Ordering::Release);
    made.is_some()
}

impl Arena {
    fn take(&self, thread: u32, capacity: Option<u32>) -> Option<usize> {
        let at = self.at.load(Ordering::Acquire);
        let head = header(at);
        if let Some(ring) = self.take_old(at, thread, capacity) {
            return Some(ring);
        }
        loop {
            let next = head.taken.load(Ordering::Acquire);
            if next >= u64::from(head.most) {
                return None;
            }
            let taken = &head.taken;
            if taken
                .compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                continue;
            }
            let ring = self.prepare(at, next as u32, RingState::Unused, capacity);
            // Unused: without memory for one there is none for the next. Else somebody was quicker.
            let is_unused = state(at, next as u32).load(Ordering::Acquire) == 0;
            if ring.is_some() || is_unused {
                return ring;
            }
        }
    }

    /// One that another thread has had. Looks at a few only: every thread that comes looks at others.
    fn take_old(&self, at: usize, thread: u32, capacity: Option<u32>) -> Option<usize> {
        let head = header(at);
        let count = head.taken.load(Ordering::Acquire).min(head.most.into()) as u32;
        let few = LOOKED_AT.min(count);
        let mut asked = 0;
        for _ in 0..few {
            let index = self.ask.fetch_add(1, Ordering::Relaxed) % count;
            let word = state(at, index).load(Ordering::Acquire);
            if RingState::from_word(word) == Some(RingState::Live) {
                self.end_if_gone(at, index, word, thread);
                asked += 1;
                if asked == ASKED_AFTER {
                    break;
                }
            }
        }
        (0..few).find_map(|_| {
            let index = self.look.fetch_add(1, Ordering::Relaxed) % count;
            match RingState::from_word(state(at, index).load(Ordering::Acquire)) {
                Some(old @ (RingState::Free | RingState::Unused)) => {
                    self.prepare(at, index, old, capacity)
                }
                _ => None,
            }
        })
    }

    /// `word`: the ring's state, and whose it is.
    fn end_if_gone(&self, at: usize, index: u32, word: u32, thread: u32) {
        let own = NAMESPACE.load(Ordering::Relaxed);
        if ring_end(at, index) > self.opened.load(Ordering::Acquire) {
            return;
        }
        // SAFETY: a ring that lives has memory, and its pages may be touched.
        let ring = unsafe { &*(ring_at(at, index) as *const RingHeader) };
        if own == 0 || ring.namespace != own {
            return;
        }
        // A ring under this thread's number is that of an earlier thread: this one has none yet.
        let owner = RingState::thread(word);
        let earlier = owner == thread && ring.pid == pid();
        if earlier || !sys::thread_lives(ring.pid, owner) {
            let _ = state(at, index).compare_exchange(
                word,
                RingState::Ended as u32,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    /// Makes a ring of the directory the calling thread's.
    fn prepare(
        &self,
        at: usize,
        index: u32,
        old: RingState,
        capacity: Option<u32>,
    ) -> Option<usize> {
        let word = state(at, index);
        let taken = RingState::Taken as u32;
        word.compare_exchange(old as u32, taken, Ordering::AcqRel, Ordering::Relaxed)
            .ok()?;
        let ring = ring_at(at, index);
        let whole = header(at).capacity;
        let slots = capacity.map_or(whole, |wanted| wanted.min(whole));
        let ready = self.open(at, ring_end(at, index))
            && match old {
                // SAFETY: a ring that somebody has had has its header's page.
                RingState::Free => unsafe { (*(ring as *const RingHeader)).capacity == slots },
                _ => sys::populate(ring, RING_HEADER_SIZE + FIRST_SLOTS as usize * SLOT_BYTES),
            };
        if !ready {
            word.store(old as u32, Ordering::Release);
            return None;
        }
        if old != RingState::Free {
            // SAFETY: it has memory, and nobody else has it.
            unsafe {
                let header = ring as *mut RingHeader;
                (&raw mut (*header).capacity).write(slots);
                (*header).backed.store(FIRST_SLOTS, Ordering::Relaxed);
                (*header).magic.store(RING_MAGIC, Ordering::Release);
            }
        }
        Some(ring)
    }

    /// Lets everything before `end` be touched.
    fn open(&self, at: usize, end: usize) -> bool {
        let opened = self.opened.load(Ordering::Acquire);
        if end <= opened {
            return true;
        }
        let until = end.next_multiple_of(OPENED_AT_ONCE);
        let until = until.min(header(at).bytes as usize);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: our own mapping, which nothing uses there yet.
        if !unsafe { sys::protect(at + opened, until - opened, protection) } {
            return false;
        }
        self.opened.fetch_max(until, Ordering::AcqRel);
        true
    }
}

/// Lets the tracer find a ring: it is this thread's.
pub fn show(ring: usize, thread: u32) {
    // SAFETY: a ring that no one else has.
    unsafe {
        let header = ring as *mut RingHeader;
        (&raw mut (*header).pid).write(pid());
        (&raw mut (*header).tid).write(thread);
        (&raw mut (*header).namespace).write(NAMESPACE.load(Ordering::Relaxed));
    }
    for arena in &ARENAS {
        let at = arena.at.load(Ordering::Acquire);
        if at != 0 && (at..at + header(at).bytes as usize).contains(&ring) {
            let first = at + ARENA_TEXT + header(at).text as usize;
            let index = (ring - first) / ring_stride(header(at).capacity);
            state(at, index as u32).store(RingState::live(thread), Ordering::Release);
        }
    }
}

/// The rings that threads of this process write to.
pub fn each_live(mut work: impl FnMut(usize)) {
    for arena in &ARENAS {
        let at = arena.at.load(Ordering::Acquire);
        if at == 0 {
            continue;
        }
        let count = header(at).taken.load(Ordering::Acquire);
        for index in 0..count.min(header(at).most.into()) as u32 {
            let word = state(at, index).load(Ordering::Acquire);
            let is_live = RingState::from_word(word) == Some(RingState::Live);
            if is_live && ring_end(at, index) <= arena.opened.load(Ordering::Acquire) {
                let ring = ring_at(at, index);
                // SAFETY: a ring that lives has memory.
                if unsafe { (*(ring as *const RingHeader)).pid } == pid() {
                    work(ring);
                }
            }
        }
    }
}

/// Words for the tracer where the process's file cannot be written. False: no room.
pub fn say(bytes: &[u8]) -> bool {
    let mut known = ARENAS.iter().map(|arena| arena.at.load(Ordering::Acquire));
    let Some(at) = known.rfind(|at| *at != 0) else {
        return false;
    };
    let head = header(at);
    let Ok(length) = u32::try_from(bytes.len()) else {
        return false;
    };
    let whole = (TEXT_WORD + bytes.len()).next_multiple_of(TEXT_WORD) as u64;
    let text = at + ARENA_TEXT;
    loop {
        let used = head.said.load(Ordering::Acquire);
        let end = used + whole;
        let backed = head.text_backed.load(Ordering::Acquire);
        if end > head.text {
            return false;
        }
        if end > backed {
            let until = end.next_multiple_of(PAGE as u64);
            if !sys::populate(text + backed as usize, (until - backed) as usize) {
                return false;
            }
            head.text_backed.fetch_max(until, Ordering::AcqRel);
        }
        if head
            .said
            .compare_exchange(used, end, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            continue;
        }
        let place = text + used as usize;
        // SAFETY: ours alone by the exchange above, and it has memory.
        unsafe {
            let to = (place + TEXT_WORD) as *mut u8;
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            let word = u64::from(length) | u64::from(pid()) << 32;
            (*(place as *const AtomicU64)).store(word, Ordering::Release);
        }
        return true;
    }
}

fn state(at: usize, index: u32) -> &'static AtomicU32 {
    debug_assert!((index as usize) < MOST_RINGS);
    // SAFETY: the directory has memory from the start on.
    unsafe { &*((at + ARENA_HEADER_SIZE + 4 * index as usize) as *const AtomicU32) }
}

fn ring_at(at: usize, index: u32) -> usize {
    let head = header(at);
    at + ARENA_TEXT + head.text as usize + index as usize * ring_stride(head.capacity)
}

/// How far the file has to be opened for it.
fn ring_end(at: usize, index: u32) -> usize {
    ring_at(at, index) + ring_stride(header(at).capacity) - at
}

struct Size {
    text: u64,
    capacity: u32,
    most: u64,
}

impl Size {
    /// Within so many bytes; None: there is no use in so few.
    fn within(limit: u64) -> Option<Size> {
        let text = TEXT_BYTES.min(limit / 8) / PAGE as u64 * PAGE as u64;
        let room = limit.checked_sub(ARENA_TEXT as u64 + text)?;
        let mut capacity = CAPACITY.load(Ordering::Relaxed);
        loop {
            let most = (room / ring_stride(capacity) as u64).min(MOST_RINGS as u64);
            if most >= ENOUGH_RINGS || capacity <= LEAST_SLOTS {
                return (most > 0).then_some(Size {
                    text,
                    capacity,
                    most,
                });
            }
            capacity /= 2;
        }
    }

    fn bytes(&self) -> u64 {
        ARENA_TEXT as u64 + self.text + self.most * ring_stride(self.capacity) as u64
    }
}

/// A new file and its mapping, as long as the file system and the limits let it be.
fn create() -> Option<usize> {
    let space = match sys::limit(libc::RLIMIT_AS) {
        u64::MAX => u64::MAX,
        limit => limit / PART_OF_LIMIT,
    };
    let mut limit = MOST_BYTES.min(sys::file_size_limit()).min(space);
    Size::within(limit)?;
    let (path, file) = create_file()?;
    let made = loop {
        let Some(size) = Size::within(limit) else {
            break None;
        };
        if let Some(at) = map(&file, &size) {
            break Some(at);
        }
        limit /= 2;
    };
    if made.is_none() {
        sys::unlink(path.bytes());
    }
    made
}

fn map(file: &File, size: &Size) -> Option<usize> {
    let bytes = size.bytes() as usize;
    if !file.set_size(bytes as u64) {
        return None;
    }
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping.
    let at = unsafe { sys::map(0, bytes, libc::PROT_NONE, flags, Some((file, 0))) }?;
    let first = ARENA_TEXT + size.text as usize;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: just mapped.
    let opened = unsafe { sys::protect(at, first, protection) };
    if !opened || !sys::populate(at, ARENA_TEXT) {
        // SAFETY: nobody has seen it.
        unsafe { sys::unmap(at, bytes) };
        return None;
    }
    // It would make core dumps long; and where shared memory comes in huge pages, each ring would have one.
    sys::advise(at, bytes, libc::MADV_DONTDUMP);
    sys::advise(at, bytes, libc::MADV_NOHUGEPAGE);
    // SAFETY: the file is all zeros there.
    unsafe {
        let header = at as *mut ArenaHeader;
        (&raw mut (*header).bytes).write(bytes as u64);
        (&raw mut (*header).text).write(size.text);
        (&raw mut (*header).capacity).write(size.capacity);
        (&raw mut (*header).most).write(size.most as u32);
        (&raw mut (*header).pid).write(pid());
        (&raw mut (*header).namespace).write(NAMESPACE.load(Ordering::Relaxed));
        (*header).magic.store(ARENA_MAGIC, Ordering::Release);
    }
    Some(at)
}

/// The next free name: what this process ran before an exec, or an earlier process with its number,
/// has left files too.
fn create_file() -> Option<(Line<1200>, File)> {
    for _ in 0..MOST_NAMES {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut path = Line::new();
        path.push(report::folder());
        let _ = write!(path, "/rings.{}.{number}\0", pid());
        match File::create_new(path.bytes()) {
            Ok(file) => return Some((path, file)),
            Err(libc::EEXIST) => {}
            Err(_) => return None,
        }
    }
    None
}
