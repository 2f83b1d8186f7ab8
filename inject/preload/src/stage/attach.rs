//! Coming into a process that runs already, and leaving it again: what a thread does that the tracer has had
//! started (`event::attach` says how the two take turns).
//!
//! While the others run, everything is prepared that needs no look at the loader's list. Then the tracer stops all
//! other threads: the list cannot change any more, and no lock has to be taken to read it. The tracer writes the jumps.

use super::start::{self, State, Turn};
use super::trigger;
use crate::objects::CONSISTENT;
use crate::sys;
use core::sync::atomic::Ordering;
use event::attach::{MAGIC, Order, step};

const LOOK_NS: u64 = 50_000;
/// Some 20 s: a tracer that does not answer was killed.
const LOOKS: u32 = 400_000;

/// A session begins.
///
/// # Safety
/// `order` is the tracer's.
#[cfg_attr(cutrace_stage, unsafe(no_mangle))]
pub unsafe extern "C" fn cutrace_attach(order: *mut Order) {
    // SAFETY: by contract.
    let order = unsafe { &mut *order };
    if order.magic != MAGIC || !begin(order) {
        return answer(order, step::FAILED);
    }
    answer(order, step::READY);
    loop {
        match wait(order) {
            Some(step::STOPPED) => {
                let prepared = prepare();
                answer(order, if prepared { step::PREPARED } else { step::BUSY });
            }
            Some(step::RUNNING) => return answer(order, step::DONE),
            // The tracer has given up, or was killed.
            _ => {
                end();
                return answer(order, step::FAILED);
            }
        }
    }
}

/// The session is over, and every change of code has been taken back.
///
/// # Safety
/// `order` is the tracer's.
#[cfg_attr(cutrace_stage, unsafe(no_mangle))]
pub unsafe extern "C" fn cutrace_detach(order: *mut Order) {
    // SAFETY: by contract.
    let order = unsafe { &mut *order };
    let ended = order.magic == MAGIC && end();
    answer(order, if ended { step::DONE } else { step::FAILED });
}

fn answer(order: &Order, step: u32) {
    order.step.store(step, Ordering::Release);
}

/// What the tracer says next; None: nothing.
fn wait(order: &Order) -> Option<u32> {
    let said = order.step.load(Ordering::Acquire);
    for _ in 0..LOOKS {
        let now = order.step.load(Ordering::Acquire);
        let is_ours = matches!(now, step::STOPPED | step::RUNNING | step::RELEASED);
        if now != said || is_ours {
            return Some(now);
        }
        sys::sleep_ns(LOOK_NS);
    }
    None
}

/// Opens the session.
fn begin(order: &mut Order) -> bool {
    let bytes = order.text_bytes as usize;
    let Some(session) = order.text.get(..bytes) else {
        return false;
    };
    let Some(turn) = Turn::take() else {
        return false;
    };
    // SAFETY: our turn.
    let state = unsafe { State::get(&turn) };
    if state.loader.is_null() {
        let Some(loader) = start::find_loader() else {
            return false;
        };
        state.loader = loader;
    }
    state.session[..bytes].copy_from_slice(session);
    state.session_bytes = bytes;
    state.hooks_more = start::names_libraries(state);
    state.filters = start::filters();
    let begun = match state.engine.attach {
        // SAFETY: the path lives as long as the library.
        Some(attach) => unsafe { attach(state.session.as_ptr(), bytes) },
        None => {
            start::load_engine(state, sys::ticks(), true);
            state.engine.scan.is_some()
        }
    };
    if begun {
        state.announce();
        order.control = start::control() as u64;
    } else {
        state.session_bytes = 0;
    }
    begun
}

/// Prepares every change, with all other threads stopped. False: one of them is where it must not be.
fn prepare() -> bool {
    let Some(turn) = Turn::take_now() else {
        return false;
    };
    // SAFETY: our turn.
    let state = unsafe { State::get(&turn) };
    // SAFETY: the loader's own word.
    if unsafe { (*state.loader).state } != CONSISTENT {
        return false;
    }
    // SAFETY: nobody else runs, and the list is complete.
    unsafe { trigger::install(state.loader, false) };
    if let Some(prepare) = state.engine.prepare {
        prepare();
    }
    true
}

fn end() -> bool {
    let Some(turn) = Turn::take() else {
        return false;
    };
    // SAFETY: our turn.
    let state = unsafe { State::get(&turn) };
    if let Some(detach) = state.engine.detach {
        detach();
    }
    state.session_bytes = 0;
    state.announce();
    true
}
