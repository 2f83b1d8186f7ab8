//! The engine: finds CUDA's functions among what the loader has mapped, patches their entries,
//! and tells the tracer what it did.
//!
//! Runs under the loader's lock, so on one thread at a time; only [`rings`] runs on any thread.

mod arena;
mod changes;
mod clock;
mod code;
mod cost;
mod counters;
mod driver;
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
mod runaway;
pub mod select;
pub mod stack;
mod stand_ins;
mod thunks;
mod torch;
mod watch;
pub mod window;

use crate::layout::{Engine, Stage};
use crate::sys;
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering;

/// What the engine keeps between scans.
struct EngineState {
    hooks: Option<hooks::Hooks>,
    stage: Option<Stage>,
}

struct Shared(UnsafeCell<EngineState>);
// SAFETY: scans are serialised by the loader's lock.
unsafe impl Sync for Shared {}

static KEPT: Shared = Shared(UnsafeCell::new(EngineState {
    hooks: None,
    stage: None,
}));

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
        changes::start(stage);
        report::open(session);
        let options = select::Options::read(session);
        clock::start(stage, options.host_clock);
        sys::TOUCHES.store(options.touches, Ordering::Relaxed);
        counters::start(stage);
        rings::set_capacity(options.ring_slots);
        if !generation::start(stage) {
            return;
        }
        // Without it calls are counted, not recorded.
        arena::begin_process();
        if !report::begin_process() {
            return;
        }
        report::say_command();
        thunks::start(stage.common);
        rings::start(stage);
        cost::measure(stage);
        report::say_cost(cost::known().recorded);
        counters::tell_costs(cost::known());
        quiet::prepare(stage, options.spare_rings);
        // After the cost is measured: what a stack costs depends on its depth.
        if options.has_stacks() {
            stack::start(stage);
            thunks::start(stage.stack_entry);
        } else if options.has_lines() {
            stack::start(stage);
        }
        if stage.late {
            report::say(b"note injected after CUDA was loaded: earlier calls were not recorded\n");
        }
        window::start(options.window.as_ref());
        nvtx::start(stage, &options);
        torch::start(stage, &options);
        report::end_of_process();
        // SAFETY: one thread at a time.
        unsafe {
            let hooks = (*KEPT.0.get())
                .hooks
                .insert(hooks::Hooks::new(stage, options));
            if stage.attached {
                hooks.survey();
            }
            (*KEPT.0.get()).stage = Some(*stage);
        }
        ready = true;
    });
    counters::spent_since(stage.began);
    engine.scan = Some(scan);
    engine.finish = Some(finish);
    engine.missed = Some(missed);
    engine.nvtx = Some(nvtx::inject);
    engine.attach = Some(attach);
    engine.prepare = Some(prepare);
    engine.detach = Some(detach);
    ready
}

extern "C" fn scan() {
    let begin = sys::ticks();
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
            b"note the injected library failed while hooking; libraries loaded later are not traced\n",
        );
    }
    counters::spent_since(begin);
}

/// As a forked child begins, in the folder of another session.
unsafe extern "C" fn attach(session: *const u8, bytes: usize) -> bool {
    let begin = sys::ticks();
    let mut ready = false;
    guard::guarded(&mut || {
        // SAFETY: one thread at a time.
        let EngineState { hooks, stage } = unsafe { &mut *KEPT.0.get() };
        let (Some(hooks), Some(stage)) = (hooks, stage) else {
            return;
        };
        end_session();
        // SAFETY: the stage's string lives as long as the stage.
        let session = unsafe { core::slice::from_raw_parts(session, bytes) };
        report::reopen(session);
        let options = select::Options::read(session);
        changes::only_code();
        counters::start(stage);
        counters::tell_costs(cost::known());
        rings::set_capacity(options.ring_slots);
        rings::begin_again();
        if options.has_stacks() {
            stack::start(stage);
            thunks::start(stage.stack_entry);
        } else if options.has_lines() {
            stack::start(stage);
        }
        window::start(options.window.as_ref());
        hooks.begin_again(options);
        hooks.survey();
        arena::begin_process();
        ready = report::begin_process();
        generation::begin_again();
    });
    counters::spent_since(begin);
    ready
}

extern "C" fn prepare() {
    changes::deferred(|| scan());
}

extern "C" fn detach() {
    guard::guarded(&mut || {
        report::pair_clocks();
        end_session();
    });
}

/// Nothing is recorded from here on, and nothing is kept that costs.
fn end_session() {
    generation::stop();
    rings::settle();
    arena::retire();
    counters::end();
}

extern "C" fn missed() {
    guard::guarded(&mut || {
        // SAFETY: one thread at a time.
        if let Some(hooks) = unsafe { &(*KEPT.0.get()).hooks } {
            hooks.tell_missed();
        }
    });
}

extern "C" fn finish() {
    report::pair_clocks();
}
