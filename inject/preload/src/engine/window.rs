//! Windows that the program opens itself: while an NVTX range of a certain name is open, or between cuProfilerStart and
//! cuProfilerStop, calls are recorded, otherwise the gates are closed. Who asks the tracer to open them would miss the
//! first calls.
//!
//! Runs on the program's threads: no locks, no allocation. Which calls are in a window, the tracer decides by their
//! times: gates that are open a little too long do no harm.

use super::counters;
use crate::sys;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use event::matches_glob;

/// What opens the gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Window {
    /// Ranges whose name matches this.
    Range(Vec<u8>),
    Profiler,
}

/// Names that are compared.
static NAME: AtomicPtr<Vec<u8>> = AtomicPtr::new(core::ptr::null_mut());
static PROFILER: AtomicBool = AtomicBool::new(false);

/// Ranges under way that opened the gates, and how many others each has inside it. A range that finds no room here opens
/// the gates for good.
static OPEN: [OpenRange; 64] = [const { OpenRange::none() }; 64];
/// Handles of registered names that match.
static HANDLES: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

struct OpenRange {
    /// Whose it is; 0: nobody's.
    key: AtomicU64,
    depth: AtomicU64,
}

impl OpenRange {
    const fn none() -> OpenRange {
        OpenRange {
            key: AtomicU64::new(0),
            depth: AtomicU64::new(0),
        }
    }
}

pub fn start(window: Option<&Window>) {
    match window {
        Some(Window::Range(name)) => {
            let name = alloc::boxed::Box::new(name.clone());
            NAME.store(alloc::boxed::Box::leak(name), Ordering::Release);
        }
        Some(Window::Profiler) => PROFILER.store(true, Ordering::Relaxed),
        None => {}
    }
}

fn name() -> Option<&'static [u8]> {
    // SAFETY: null, or leaked above.
    unsafe { NAME.load(Ordering::Acquire).as_ref() }.map(Vec::as_slice)
}

fn matches(text: &[u8]) -> bool {
    name().is_some_and(|name| matches_glob(name, text))
}

/// A name got a handle.
pub fn registered(handle: u64, text: &[u8]) {
    if matches(text) {
        let free = HANDLES.iter().find(|slot| {
            let taken = slot.compare_exchange(0, handle, Ordering::AcqRel, Ordering::Relaxed);
            taken.is_ok()
        });
        if free.is_none() {
            counters::open_range();
        }
    }
}

/// What a range is called.
pub enum Called<'a> {
    Text(&'a [u8]),
    Handle(u64),
    Nothing,
}

impl Called<'_> {
    fn is_wanted(&self) -> bool {
        match self {
            Called::Text(text) => matches(text),
            Called::Handle(handle) => HANDLES
                .iter()
                .any(|slot| slot.load(Ordering::Acquire) == *handle),
            Called::Nothing => false,
        }
    }
}

/// Ranges of a thread nest by domain.
fn of_thread(domain: u64) -> u64 {
    let thread = u64::from(sys::thread_id());
    (thread << 32 | (domain & 0x7fff_ffff)) | 1 << 31
}

fn find(key: u64) -> Option<&'static OpenRange> {
    OPEN.iter()
        .find(|range| range.key.load(Ordering::Acquire) == key)
}

fn begin(key: u64) {
    counters::open_range();
    let free = OPEN.iter().find(|range| {
        let taken = (range.key).compare_exchange(0, key, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    });
    if let Some(range) = free {
        range.depth.store(0, Ordering::Release);
    }
}

fn end(range: &OpenRange) {
    range.key.store(0, Ordering::Release);
    counters::close_range();
}

/// Before a range is pushed.
pub fn pushed(domain: u64, called: &Called<'_>) {
    if name().is_none() || sys::is_quiet() {
        return;
    }
    let key = of_thread(domain);
    match find(key) {
        Some(range) => {
            range.depth.fetch_add(1, Ordering::Relaxed);
        }
        None if called.is_wanted() => begin(key),
        None => {}
    }
}

/// After one is popped.
pub fn popped(domain: u64) {
    if name().is_none() || sys::is_quiet() {
        return;
    }
    if let Some(range) = find(of_thread(domain)) {
        match range.depth.load(Ordering::Relaxed) {
            0 => end(range),
            depth => range.depth.store(depth - 1, Ordering::Relaxed),
        }
    }
}

/// Before a range of the process begins, which has a number.
pub fn started(number: u64, called: &Called<'_>) {
    if name().is_some() && called.is_wanted() {
        begin(number & 0x7fff_ffff);
    }
}

/// After it has ended.
pub fn ended(number: u64) {
    if name().is_some()
        && let Some(range) = find(number & 0x7fff_ffff)
    {
        end(range);
    }
}

static START: AtomicUsize = AtomicUsize::new(0);
static STOP: AtomicUsize = AtomicUsize::new(0);
static PROFILES: AtomicBool = AtomicBool::new(false);

/// What a function of the driver goes on to: ours, if it opens or closes the gates.
pub fn turn(name: &[u8], target: usize) -> usize {
    if !PROFILER.load(Ordering::Relaxed) {
        return target;
    }
    match name {
        b"cuProfilerStart" => {
            START.store(target, Ordering::Release);
            profiler_start as *const () as usize
        }
        b"cuProfilerStop" => {
            STOP.store(target, Ordering::Release);
            profiler_stop as *const () as usize
        }
        _ => target,
    }
}

fn go_on(target: &AtomicUsize) -> u32 {
    let target = target.load(Ordering::Acquire);
    // SAFETY: the driver's function of the same name, which takes nothing.
    let target = unsafe { core::mem::transmute::<usize, extern "C" fn() -> u32>(target) };
    target()
}

extern "C" fn profiler_start() -> u32 {
    if !PROFILES.swap(true, Ordering::AcqRel) {
        counters::open_range();
    }
    go_on(&START)
}

extern "C" fn profiler_stop() -> u32 {
    let result = go_on(&STOP);
    if PROFILES.swap(false, Ordering::AcqRel) {
        counters::close_range();
    }
    result
}
