//! Buffers of the client: asked for where records are made, given back by a thread of our own.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// `(buffer, size, most records)`
pub type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// `(context, stream, buffer, size, valid)`
pub type Complete = extern "C" fn(*mut libc::c_void, u32, *mut u8, usize, usize);

#[derive(Default)]
struct State {
    callbacks: Option<(Request, Complete)>,
    current: Option<Buffer>,
    full: VecDeque<(Buffer, Complete)>,
    /// Buffers that the thread has taken and not given back yet.
    under_way: usize,
    period: Option<Duration>,
    has_thread: bool,
    dropped: usize,
}

struct Buffer {
    start: *mut u8,
    size: usize,
    used: usize,
}

// SAFETY: the memory is the client's, given to us until it is completed.
unsafe impl Send for Buffer {}

static STATE: Mutex<State> = Mutex::new(State {
    callbacks: None,
    current: None,
    full: VecDeque::new(),
    under_way: 0,
    period: None,
    has_thread: false,
    dropped: 0,
});
static CHANGED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn register(request: Request, complete: Complete) {
    state().callbacks = Some((request, complete));
}

/// Records that found no room since the last question.
pub fn take_dropped() -> usize {
    std::mem::take(&mut state().dropped)
}

pub fn add(record: &[u8]) {
    let mut state = state();
    let Some((request, complete)) = state.callbacks else {
        state.dropped += 1;
        return;
    };
    if (state.current.as_ref()).is_some_and(|buffer| buffer.size - buffer.used < record.len())
        && let Some(full) = state.current.take()
    {
        // Whoever is registered when a buffer is full gets it, as with NVIDIA's.
        state.hand_over(full, complete);
    }
    if state.current.is_none() {
        let (mut start, mut size, mut most) = (std::ptr::null_mut(), 0, 0);
        request(&mut start, &mut size, &mut most);
        if start.is_null() || size < record.len() {
            state.dropped += 1;
            return;
        }
        state.current = Some(Buffer {
            start,
            size,
            used: 0,
        });
    }
    if let Some(buffer) = &mut state.current {
        // SAFETY: the client gave us `size` bytes, and there is room.
        unsafe {
            let at = buffer.start.add(buffer.used);
            std::ptr::copy_nonoverlapping(record.as_ptr(), at, record.len());
        }
        buffer.used += record.len();
    }
}

impl State {
    fn hand_over(&mut self, buffer: Buffer, complete: Complete) {
        self.full.push_back((buffer, complete));
        self.start_thread();
        CHANGED.notify_all();
    }

    fn hand_over_current(&mut self) {
        if let Some((_, complete)) = self.callbacks
            && let Some(buffer) = self.current.take_if(|buffer| buffer.used > 0)
        {
            self.hand_over(buffer, complete);
        }
    }

    fn start_thread(&mut self) {
        if !self.has_thread {
            let named = std::thread::Builder::new().name("softgpu-cupti".into());
            self.has_thread = named.spawn(deliver).is_ok();
        }
    }
}

/// Gives back what there is, and waits until the client has taken it.
pub fn flush() {
    let mut state = state();
    state.hand_over_current();
    // Where no thread can be had (a process whose children go to another PID namespace), the caller's serves.
    while !state.has_thread
        && let Some((buffer, complete)) = state.full.pop_front()
    {
        drop(state);
        let context = std::ptr::null_mut();
        complete(context, 0, buffer.start, buffer.size, buffer.used);
        state = self::state();
    }
    while !state.full.is_empty() || state.under_way > 0 {
        state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// From now on buffers are given back that often also when they are not full; 0: no more.
pub fn set_period(milliseconds: u32) {
    let mut state = state();
    state.period = (milliseconds > 0).then(|| Duration::from_millis(milliseconds.into()));
    state.start_thread();
    CHANGED.notify_all();
}

fn deliver() {
    // Signals belong to the program's threads.
    // SAFETY: the set is initialised before it is used.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
    }
    let mut state = state();
    loop {
        if let Some((buffer, complete)) = state.full.pop_front() {
            state.under_way += 1;
            drop(state);
            let context = std::ptr::null_mut();
            complete(context, 0, buffer.start, buffer.size, buffer.used);
            state = self::state();
            state.under_way -= 1;
            CHANGED.notify_all();
            continue;
        }
        state = match state.period {
            None => CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(period) => {
                let (mut state, waited) = CHANGED
                    .wait_timeout(state, period)
                    .unwrap_or_else(PoisonError::into_inner);
                if waited.timed_out() {
                    state.hand_over_current();
                }
                state
            }
        };
    }
}
