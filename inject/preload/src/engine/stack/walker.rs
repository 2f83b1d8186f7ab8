//! What a thread keeps for walking its stack: rules and stacks it has met, and room to work in.
//! Mapped at the thread's first call, taken over by another when the thread has ended.

use super::inputs::Inputs;
use super::loaded;
use super::memo::Memos;
use super::memory::{Bounds, CHUNK, own_stack};
use super::unwind::CachedRule;
use crate::engine::python;
use crate::engine::rings::AT_WORK;
use crate::sys;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use event::note::{MOST_NATIVE, MOST_PYTHON};

const RULES: usize = 2048;
const STACKS: usize = 8192;
const CODES: usize = 4096;
/// Places looked at before one is taken from another.
const PROBES: usize = 8;
/// Threads that can have stacks at a time.
const MOST_WALKERS: usize = 4096;

/// All zeros is a fresh one.
#[repr(C)]
pub struct Walker {
    /// Whose it is.
    tid: AtomicU32,
    process: u32,
    /// Walks under way: one, and one more in a signal handler that interrupts it.
    pub depth: u32,
    /// What was loaded when the rules were found.
    generation: u32,
    /// What was loaded when the remembered walks were made.
    changes: u32,
    /// Remembered walks with any other number are not valid.
    pub epoch: u32,
    /// Where the outer walk began.
    pub began: u64,
    pub next_stack: u32,
    pub next_code: u32,
    pub own_stack: Bounds,
    /// Times the thread's stack was looked for in vain.
    missed: u32,
    pub rooms: [Room; 2],
    pub rules: [CachedRule; RULES],
    pub stacks: [KnownStack; STACKS],
    pub codes: [KnownCode; CODES],
    pub inputs: Inputs,
    pub memos: Memos,
    pub trail: python::Trail,
    pub python_memos: python::PythonMemos,
}

/// Where one walk leaves what it finds.
#[repr(C)]
pub struct Room {
    pub native: [u64; MOST_NATIVE],
    pub python: [python::CodeFrame; MOST_PYTHON],
    pub words: [u64; MOST_PYTHON],
    pub chunk: [u64; CHUNK],
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct KnownStack {
    /// 0: free.
    hash: u64,
    number: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct KnownCode {
    /// 0: free.
    code: u64,
    check: u64,
    number: u32,
}

static WALKERS: [AtomicUsize; MOST_WALKERS] = [const { AtomicUsize::new(0) }; MOST_WALKERS];

/// The calling thread's; `kept` is its word in thread-local storage.
pub fn of_thread(kept: &mut usize, process: u32) -> Option<&'static mut Walker> {
    if *kept == 0 {
        if sys::is_quiet() {
            return None;
        }
        AT_WORK.fetch_add(1, Ordering::SeqCst);
        let taken = take(process);
        AT_WORK.fetch_sub(1, Ordering::SeqCst);
        *kept = taken?;
    }
    // SAFETY: the thread's own; a signal handler that comes in between is told by `depth`.
    let walker = unsafe { &mut *(*kept as *mut Walker) };
    if walker.process != process {
        // A forked child: the ring that its numbers were for is its parent's.
        walker.tid.store(sys::thread_id(), Ordering::Relaxed);
        walker.renew(process);
    }
    Some(walker)
}

fn take(process: u32) -> Option<usize> {
    let (pid, tid) = (sys::pid(), sys::thread_id());
    for known in &WALKERS {
        let at = known.load(Ordering::Acquire);
        if at == 0 {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let bytes = size_of::<Walker>();
            // SAFETY: a fresh mapping.
            let at = unsafe { sys::map(0, bytes, protection, flags, None) }?;
            // SAFETY: all zeros is a walker.
            let walker = unsafe { &mut *(at as *mut Walker) };
            walker.tid.store(tid, Ordering::Relaxed);
            walker.renew(process);
            if known
                .compare_exchange(0, at, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return Some(at);
            }
            // SAFETY: nobody else has seen it.
            unsafe { sys::unmap(at, bytes) };
            continue;
        }
        // SAFETY: never unmapped once it is here.
        let owner = unsafe { &(*(at as *const Walker)).tid };
        let old = owner.load(Ordering::Relaxed);
        // One under this thread's number is that of an earlier thread: this one has none yet.
        if old != tid && sys::thread_lives(pid, old) {
            continue;
        }
        if owner
            .compare_exchange(old, tid, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            // SAFETY: now this thread's.
            unsafe { (*(at as *mut Walker)).renew(process) };
            return Some(at);
        }
    }
    None
}

impl Walker {
    fn renew(&mut self, process: u32) {
        self.process = process;
        self.depth = 0;
        self.next_stack = 1;
        self.next_code = 1;
        self.own_stack = Bounds::default();
        self.missed = 0;
        self.forget_rules();
        self.forget_walks();
        // SAFETY: plain numbers, of which zeros mean that nothing is known.
        unsafe {
            core::ptr::write_bytes(&raw mut self.stacks, 0, 1);
            core::ptr::write_bytes(&raw mut self.codes, 0, 1);
        }
    }

    /// Forgets what no longer holds when objects have been loaded or unloaded.
    #[inline]
    pub fn keep_up(&mut self) {
        let changes = loaded::changes();
        if self.changes == changes {
            return;
        }
        self.changes = changes;
        self.forget_walks();
        let generation = loaded::generation();
        if self.generation != generation {
            self.forget_rules();
            self.generation = generation;
        }
    }

    fn forget_walks(&mut self) {
        self.epoch = self.epoch.wrapping_add(1).max(1);
    }

    fn forget_rules(&mut self) {
        // SAFETY: plain numbers, of which zeros mean that nothing is known.
        unsafe { core::ptr::write_bytes(&raw mut self.rules, 0, 1) };
    }

    /// Looks for the thread's stack until it is known, a few times at most.
    pub fn find_stack(&mut self, stack_pointer: u64) {
        if self.own_stack.high != 0 || self.missed > 8 {
            return;
        }
        AT_WORK.fetch_add(1, Ordering::SeqCst);
        let found = own_stack(stack_pointer);
        AT_WORK.fetch_sub(1, Ordering::SeqCst);
        match found {
            Some(bounds) => self.own_stack = bounds,
            None => self.missed += 1,
        }
    }
}

/// The number of a stack by its hash, if it is known.
pub fn stack(stacks: &mut [KnownStack], hash: u64) -> Option<u32> {
    let place = place_of_stack(stacks, hash);
    let known = stacks.get(place)?;
    (known.hash == hash.max(1)).then_some(known.number)
}

pub fn keep_stack(stacks: &mut [KnownStack], hash: u64, number: u32) {
    let place = place_of_stack(stacks, hash);
    if let Some(slot) = stacks.get_mut(place) {
        slot.number = number;
        slot.hash = hash.max(1);
    }
}

/// Where it is or may be put; the first place of all where there is no room.
fn place_of_stack(stacks: &[KnownStack], hash: u64) -> usize {
    let (hash, first) = (hash.max(1), (hash >> 40) as usize);
    let places = (first..first + PROBES).map(|place| place % STACKS);
    let fits = |place: &usize| {
        stacks
            .get(*place)
            .is_some_and(|known| known.hash == hash || known.hash == 0)
    };
    places.into_iter().find(fits).unwrap_or(first % STACKS)
}

/// The number of a code object, if it is known.
pub fn code(codes: &mut [KnownCode], code: u64, check: u64) -> Option<u32> {
    let place = place_of_code(codes, code);
    let known = codes.get(place)?;
    (known.code == code && known.check == check).then_some(known.number)
}

/// Another object where an old one was takes its place.
pub fn keep_code(codes: &mut [KnownCode], code: u64, check: u64, number: u32) {
    let place = place_of_code(codes, code);
    if let Some(slot) = codes.get_mut(place) {
        *slot = KnownCode {
            code,
            check,
            number,
        };
    }
}

fn place_of_code(codes: &[KnownCode], code: u64) -> usize {
    let first = (code.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    let places = (first..first + PROBES).map(|place| place % CODES);
    let fits = |place: &usize| {
        codes
            .get(*place)
            .is_some_and(|known| known.code == code || known.code == 0)
    };
    places.into_iter().find(fits).unwrap_or(first % CODES)
}

const _: () = assert!(RULES.is_power_of_two());
