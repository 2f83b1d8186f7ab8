//! Everything that was changed in the process's code, in a table that the tracer reads (`event::attach`): it takes
//! the changes back when it leaves the process, and makes them where the process was running already.

use super::code::Patch;
use crate::layout::Stage;
use crate::sys;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use event::attach::{Change, Control, MOST_CHANGES};

static CONTROL: AtomicPtr<Control> = AtomicPtr::new(core::ptr::null_mut());
/// Rows of code that is gone.
static FREE: AtomicUsize = AtomicUsize::new(0);
/// Changes are left to the tracer.
static DEFERRED: AtomicBool = AtomicBool::new(false);
/// Nothing but code may be changed: nobody could take it back.
static ONLY_CODE: AtomicBool = AtomicBool::new(false);

pub fn start(stage: &Stage) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let bytes = MOST_CHANGES * size_of::<Change>();
    // SAFETY: a fresh mapping.
    let table = unsafe { sys::map(0, bytes, protection, flags, None) }.unwrap_or(0);
    // SAFETY: the stage's, which lives as long as the process.
    let control = unsafe { &*stage.control };
    control.changes.store(table as u64, Ordering::Release);
    control
        .generation
        .store(stage.generation as u64, Ordering::Release);
    ONLY_CODE.store(stage.attached, Ordering::Relaxed);
    CONTROL.store(stage.control, Ordering::Release);
}

/// From a session on that began in a running process.
pub fn only_code() {
    ONLY_CODE.store(true, Ordering::Relaxed);
}

pub fn is_only_code() -> bool {
    ONLY_CODE.load(Ordering::Relaxed)
}

pub fn are_deferred() -> bool {
    DEFERRED.load(Ordering::Relaxed)
}

/// What `work` changes is left to the tracer.
pub fn deferred(work: impl FnOnce()) {
    DEFERRED.store(true, Ordering::Relaxed);
    work();
    DEFERRED.store(false, Ordering::Relaxed);
}

fn control() -> Option<&'static Control> {
    // SAFETY: the stage's, which lives as long as the process.
    unsafe { CONTROL.load(Ordering::Acquire).as_ref() }
}

/// The rows that are in use.
fn rows(control: &Control) -> &'static mut [Change] {
    let table = control.changes.load(Ordering::Relaxed) as *mut Change;
    let count = control.count.load(Ordering::Relaxed) as usize;
    if table.is_null() {
        return &mut [];
    }
    // SAFETY: within the mapping; one thread at a time changes it.
    unsafe { core::slice::from_raw_parts_mut(table, count) }
}

/// Says of a change before it is made. `lasting`: whatever functions are selected.
pub fn add(patch: &Patch, lasting: bool) {
    let Some(control) = control() else {
        return;
    };
    let row = Change {
        at: patch.at as u64,
        before: patch.before,
        jump: patch.jump,
        lasting: lasting.into(),
        ..Change::NONE
    };
    if FREE.load(Ordering::Relaxed) > 0
        && let Some(free) = rows(control).iter_mut().find(|row| row.at == 0)
    {
        *free = row;
        FREE.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let table = control.changes.load(Ordering::Relaxed) as *mut Change;
    let count = control.count.load(Ordering::Relaxed);
    if !table.is_null() && (count as usize) < MOST_CHANGES {
        // SAFETY: within the mapping.
        unsafe { table.add(count as usize).write(row) };
        control.count.store(count + 1, Ordering::Release);
    }
}

/// Code that is gone, or is not to be changed any more.
pub fn forget(is_gone: impl Fn(&Change) -> bool) {
    let Some(control) = control() else {
        return;
    };
    let gone = rows(control)
        .iter_mut()
        .filter(|row| row.at != 0 && is_gone(row));
    for row in gone {
        *row = Change::NONE;
        FREE.fetch_add(1, Ordering::Relaxed);
    }
}
