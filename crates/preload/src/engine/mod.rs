//! The engine: finds CUDA's functions among what the loader has mapped, patches their entries,
//! and tells the tracer what it did.
//!
//! Runs under the loader's lock, so on one thread at a time; only [`rings`] runs on any thread.

mod clock;
mod code;
mod cost;
mod entry;
pub mod first;
mod forward;
mod generation;
pub mod guard;
mod hooks;
mod nvtx;
pub mod prologue;
pub mod python;
mod quiet;
mod redirect;
mod report;
mod rings;
pub mod select;
pub mod stack;
mod stand_ins;
mod thunks;
mod watch;

use crate::layout::{Engine, Stage};
use core::cell::UnsafeCell;

/// What the engine keeps between scans.
struct Kept {
    hooks: Option<hooks::Hooks>,
}

struct Shared(UnsafeCell<Kept>);
// SAFETY: scans are serialised by the loader's lock.
unsafe impl Sync for Shared {}

static KEPT: Shared = Shared(UnsafeCell::new(Kept { hooks: None }));

/// The entry point.
///
/// # Safety
/// Called once, by stage one.
#[cfg_attr(cutrace_engine, unsafe(no_mangle))]
pub unsafe extern "C" fn cutrace_engine(stage: *const Stage, engine: *mut Engine) -> bool {
    // SAFETY: by contract.
    let (stage, engine) = unsafe { (&*stage, &mut *engine) };
    let mut ready = false;
    guard::guarded(&mut || {
        // SAFETY: the stage's string lives as long as the stage.
        let session = unsafe { core::slice::from_raw_parts(stage.session, stage.session_bytes) };
        report::open(session);
        let options = select::Options::read(session);
        clock::start(stage, options.host_clock);
        if !generation::start(stage) || !report::begin_process() {
            return;
        }
        thunks::start(stage.common);
        rings::start(stage);
        rings::set_capacity(options.ring_slots);
        report::say_cost(cost::measure(stage));
        quiet::prepare(stage, options.spare_rings);
        // After the cost is measured: what a stack costs depends on its depth.
        if options.has_stacks() {
            stack::start(stage);
            thunks::start(stage.stack_entry);
        }
        if stage.late {
            report::say(b"note injected after CUDA was loaded: earlier calls were not seen\n");
        }
        nvtx::start(stage, &options);
        // SAFETY: one thread at a time.
        unsafe { (*KEPT.0.get()).hooks = Some(hooks::Hooks::new(stage, options)) };
        ready = true;
    });
    engine.scan = Some(scan);
    engine.finish = Some(finish);
    engine.nvtx = Some(nvtx::inject);
    ready
}

extern "C" fn scan() {
    let whole = guard::guarded(&mut || {
        // SAFETY: one thread at a time.
        if let Some(hooks) = unsafe { &mut (*KEPT.0.get()).hooks } {
            hooks.scan();
        }
    });
    if !whole {
        // What was patched stays; nothing more is.
        // SAFETY: one thread at a time. Leaked, for it may be half changed.
        unsafe { core::mem::forget((*KEPT.0.get()).hooks.take()) };
        report::say(
            b"note the injected library failed while hooking; later libraries are not traced\n",
        );
    }
}

extern "C" fn finish() {
    rings::finish();
    report::pair_clocks();
}
