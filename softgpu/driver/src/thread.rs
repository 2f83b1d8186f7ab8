//! What is kept for each host thread: its stack of current contexts and its own default streams.
//!
//! A program may call from destructors that run when its main thread's variables are gone already,
//! so the state is not freed by them there.

use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    context::Context,
    result::{Answer, CONTEXT_IS_DESTROYED, INVALID_CONTEXT},
    state::driver,
};

#[derive(Default)]
struct Thread {
    id: u64,
    stack: RefCell<Vec<u64>>,
    /// Contexts in which the thread has a default stream.
    contexts: RefCell<Vec<Weak<Context>>>,
    capture_mode: Cell<u32>,
    in_callback: Cell<bool>,
}

/// Frees the state when its thread ends.
struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        let thread = THREAD.get();
        if thread.is_null() {
            return;
        }
        let state = unsafe { &*thread };
        for context in state.contexts.borrow().iter().filter_map(Weak::upgrade) {
            context.forget_thread(state.id);
        }
        // Not libc::gettid: glibc has it since 2.30.
        let is_main = unsafe { libc::syscall(libc::SYS_gettid) == libc::getpid().into() };
        if !is_main {
            THREAD.set(std::ptr::null_mut());
            drop(unsafe { Box::from_raw(thread) });
        }
    }
}

thread_local! {
    static THREAD: Cell<*mut Thread> = const { Cell::new(std::ptr::null_mut()) };
    static AT_END: AtEnd = const { AtEnd };
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

fn with<T>(act: impl FnOnce(&Thread) -> T) -> T {
    let mut thread = THREAD.get();
    if thread.is_null() {
        thread = Box::into_raw(Box::new(Thread {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            ..Thread::default()
        }));
        THREAD.set(thread);
        // Refused once the thread is ending: then the state stays, a few bytes.
        let _ = AT_END.try_with(|_| ());
    }
    act(unsafe { &*thread })
}

/// Unique in the process, unlike a tid.
pub fn id() -> u64 {
    with(|thread| thread.id)
}

/// Notes that the thread has a default stream in `context`.
pub fn has_stream_in(context: &Arc<Context>) {
    with(|thread| thread.contexts.borrow_mut().push(Arc::downgrade(context)));
}

/// Sets the thread's capture interaction mode; returns the one before.
pub fn exchange_capture_mode(mode: u32) -> u32 {
    with(|thread| thread.capture_mode.replace(mode))
}

pub fn capture_mode() -> u32 {
    with(|thread| thread.capture_mode.get())
}

/// Runs a program's host function; what it calls here meanwhile is refused, for it could wait for
/// the very stream that runs it.
pub fn call_back(function: impl FnOnce()) {
    with(|thread| thread.in_callback.set(true));
    function();
    with(|thread| thread.in_callback.set(false));
}

pub fn is_in_callback() -> bool {
    let thread = THREAD.get();
    !thread.is_null() && unsafe { &*thread }.in_callback.get()
}

/// Handle of the thread's current context; 0 if there is none.
pub fn current_handle() -> u64 {
    with(|thread| thread.stack.borrow().last().copied().unwrap_or(0))
}

pub fn push(handle: u64) {
    with(|thread| thread.stack.borrow_mut().push(handle));
}

pub fn pop() -> Answer<u64> {
    with(|thread| thread.stack.borrow_mut().pop().ok_or(INVALID_CONTEXT))
}

/// Replaces the top of the stack; 0 takes it away.
pub fn set_current(handle: u64) {
    with(|thread| {
        let mut stack = thread.stack.borrow_mut();
        stack.pop();
        if handle != 0 {
            stack.push(handle);
        }
    });
}

/// The current context, whether or not a kernel faulted in it.
pub fn current() -> Answer<Arc<Context>> {
    match current_handle() {
        0 => Err(INVALID_CONTEXT),
        handle => driver().contexts.get(handle).ok_or(CONTEXT_IS_DESTROYED),
    }
}

/// The current context, if it can still work.
pub fn usable() -> Answer<Arc<Context>> {
    let context = current()?;
    context.healthy()?;
    Ok(context)
}
