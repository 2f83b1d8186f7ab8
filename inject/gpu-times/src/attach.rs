//! Beginning and ending in a program that runs already: called by a thread that the tracer has had started.

use crate::{collect, wanted::Wanted};
use event::attach::{MAGIC, Order, step};
use std::{panic::catch_unwind, sync::atomic::Ordering};

/// # Safety
/// `order` is the tracer's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cutrace_gpu_times_attach(order: *mut Order) {
    // SAFETY: by contract.
    let order = unsafe { &*order };
    answer(order, || {
        let bytes = (order.text_bytes as usize).min(order.text.len());
        collect::attach(Wanted::from_lines(&order.text[..bytes]));
    });
}

/// # Safety
/// `order` is the tracer's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cutrace_gpu_times_detach(order: *mut Order) {
    // SAFETY: by contract.
    answer(unsafe { &*order }, collect::detach);
}

fn answer(order: &Order, work: impl FnOnce() + std::panic::UnwindSafe) {
    let done = order.magic == MAGIC && catch_unwind(work).is_ok();
    let step = if done { step::DONE } else { step::FAILED };
    order.step.store(step, Ordering::Release);
}
