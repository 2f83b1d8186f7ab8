//! What happens in the program's calls: an event before the work and one behind it, both in its
//! stream, and a note of them for a later reader.

use super::{
    driver::{self, Relaxed, SUCCESS},
    read,
};
use crate::clock::monotonic;
use event::gpu_times::Timed;
use std::{
    cell::Cell,
    collections::{HashMap, VecDeque},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Handles that mean a default stream: the device's, and the thread's.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// Events that one context gets at most: work beyond them goes untimed, and is counted.
const MOST_EVENTS: usize = 1 << 14;

/// What a call gives the GPU.
#[derive(Debug, Clone, Copy, Default)]
pub struct Work {
    /// [`Timed::KERNEL`] …
    pub kind: u64,
    pub bytes: u64,
    pub value: u64,
    pub grid: [u64; 3],
    pub block: [u64; 3],
    pub shared: u64,
    /// It has ended when the call returns.
    pub ends_inside: bool,
}

/// That, and the stream as the call names it.
pub struct Gives {
    pub stream: usize,
    /// Of the functions for whom no stream is the thread's own default one.
    pub per_thread: bool,
    pub work: Work,
}

/// Work whose events have been recorded.
#[derive(Debug, Clone, Copy)]
pub struct Pending {
    pub work: Work,
    pub stream: usize,
    pub thread: u32,
    pub every: u64,
    pub before: usize,
    pub behind: usize,
    /// Host times: before the first event, before the call, after it, after the second event.
    pub marked: u64,
    pub given: u64,
    pub taken: u64,
    pub done: u64,
}

/// What the program's threads know of a context.
#[derive(Debug, Default)]
pub struct ContextEvents {
    pub spare: Vec<usize>,
    made: usize,
    /// By stream: events of one stream are reached in their order.
    pub pending: HashMap<usize, VecDeque<Pending>>,
}

/// The gates before [`super::instead`]'s functions read it.
pub static ACTIVE: AtomicBool = AtomicBool::new(false);
static SEEN: Mutex<Option<HashMap<usize, ContextEvents>>> = Mutex::new(None);
/// Pieces of work that came by, and those that events were put around.
static CAME: AtomicU64 = AtomicU64::new(0);
static TIMED: AtomicU64 = AtomicU64::new(0);
/// One piece of so many is timed.
static EVERY: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

pub fn set_active(active: bool) {
    ACTIVE.store(active, Ordering::Release);
}

pub fn is_active() -> bool {
    ACTIVE.load(Ordering::Acquire)
}

/// A forked child has none of its parent's contexts, and its threads may hold the lock.
pub extern "C" fn forked() {
    ACTIVE.store(false, Ordering::Release);
}

pub fn counts() -> (u64, u64) {
    (CAME.load(Ordering::Relaxed), TIMED.load(Ordering::Relaxed))
}

pub fn set_every(every: u64) {
    EVERY.store(every.max(1), Ordering::Relaxed);
}

pub fn seen() -> MutexGuard<'static, Option<HashMap<usize, ContextEvents>>> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program's call, with events around what it gives if they can be put there unnoticed.
pub fn around(gives: impl Fn() -> Gives, call: impl Fn() -> i32) -> i32 {
    if !ACTIVE.load(Ordering::Relaxed) || INSIDE.try_with(Cell::get).unwrap_or(true) {
        return call();
    }
    let came = CAME.fetch_add(1, Ordering::Relaxed);
    let every = EVERY.load(Ordering::Relaxed);
    if !came.is_multiple_of(every) {
        return call();
    }
    INSIDE.set(true);
    let result = match begin(gives(), every) {
        Some((context, mut pending)) => {
            pending.given = monotonic();
            let result = call();
            pending.taken = monotonic();
            end(context, pending, result == SUCCESS);
            result
        }
        None => call(),
    };
    INSIDE.set(false);
    result
}

/// Records the first event. None: not in this stream, or not now.
fn begin(gives: Gives, every: u64) -> Option<(usize, Pending)> {
    let stream = match gives.stream {
        0 if gives.per_thread => PER_THREAD,
        0 => LEGACY,
        stream => stream,
    };
    let context = usable_context(stream)?;
    let (before, behind) = pair(context)?;
    let marked = monotonic();
    // SAFETY: an event of this context, a stream of this context that is not being captured.
    if unsafe { driver::cuEventRecord(before, stream) } != SUCCESS {
        give_back(context, [before, behind]);
        return None;
    }
    let pending = Pending {
        work: gives.work,
        stream,
        thread: thread(),
        every,
        before,
        behind,
        marked,
        given: 0,
        taken: 0,
        done: 0,
    };
    Some((context, pending))
}

fn end(context: usize, mut pending: Pending, succeeded: bool) {
    // SAFETY: as the first one; a call that failed gave nothing to time.
    let recorded =
        succeeded && unsafe { driver::cuEventRecord(pending.behind, pending.stream) } == SUCCESS;
    if !recorded {
        give_back(context, [pending.before, pending.behind]);
        return;
    }
    pending.done = monotonic();
    TIMED.fetch_add(1, Ordering::Relaxed);
    if let Some(seen) = seen().as_mut().and_then(|all| all.get_mut(&context)) {
        let of_stream = seen.pending.entry(pending.stream).or_default();
        of_stream.push_back(pending);
    }
}

/// The current context, if the stream is one of its own and nobody captures it.
fn usable_context(stream: usize) -> Option<usize> {
    let (mut context, mut of_stream, mut capturing) = (0, 0, 1);
    // SAFETY: questions about the stream that the program is about to use.
    unsafe {
        if driver::cuCtxGetCurrent(&mut context) != SUCCESS || context == 0 {
            return None;
        }
        // Refused for the default stream while others are captured, which this does not spoil.
        if driver::cuStreamIsCapturing(stream, &mut capturing) != SUCCESS || capturing != 0 {
            return None;
        }
        if stream > PER_THREAD
            && (driver::cuStreamGetCtx(stream, &mut of_stream) != SUCCESS || of_stream != context)
        {
            return None;
        }
    }
    Some(context)
}

/// Two events of the context.
fn pair(context: usize) -> Option<(usize, usize)> {
    {
        let mut all = seen();
        let all = all.get_or_insert_default();
        if let Some(seen) = all.get_mut(&context) {
            if seen.spare.len() >= 2 {
                return Some((seen.spare.pop()?, seen.spare.pop()?));
            }
            if seen.made >= MOST_EVENTS {
                return None;
            }
            seen.made += 2;
        } else {
            all.insert(
                context,
                ContextEvents {
                    made: 2,
                    ..ContextEvents::default()
                },
            );
        }
    }
    let _relaxed = Relaxed::new();
    // Times are told from a moment before the first work.
    if !read::knows(context) {
        // Others may be using what is known of it: they were luckier.
        seen().as_mut()?.get_mut(&context)?.made -= 2;
        return None;
    }
    let made = [event(), event()];
    match made {
        [Some(before), Some(behind)] => Some((before, behind)),
        _ => {
            give_back(context, made.into_iter().flatten());
            None
        }
    }
}

/// A new event of the current context.
pub fn event() -> Option<usize> {
    let mut event = 0;
    // SAFETY: writes the one word.
    (unsafe { driver::cuEventCreate(&mut event, 0) } == SUCCESS).then_some(event)
}

pub fn give_back(context: usize, events: impl IntoIterator<Item = usize>) {
    if let Some(seen) = seen().as_mut().and_then(|all| all.get_mut(&context)) {
        seen.spare.extend(events);
    }
}

fn thread() -> u32 {
    let known = THREAD.get();
    if known != 0 {
        return known;
    }
    // SAFETY: a question without side effects.
    let id = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    THREAD.set(id);
    id
}

impl Pending {
    /// As it is handed over, once its times are known.
    pub fn timed(&self, start: u64, end: u64, error: u64) -> Timed {
        Timed {
            kind: self.work.kind,
            thread: self.thread.into(),
            given: self.given,
            taken: self.taken,
            start,
            end,
            error,
            stream: if self.stream == LEGACY {
                0
            } else {
                self.stream as u64
            },
            every: self.every,
            bytes: self.work.bytes,
            value: self.work.value,
            grid: self.work.grid,
            block: self.work.block,
            shared: self.work.shared,
            ..Timed::default()
        }
    }
}
