//! Events: points in a stream's order, with the time they were reached.

use std::{
    sync::{
        Arc, Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use super::{
    capture::Capture,
    context::Context,
    result::{Answer, CAPTURED_EVENT, INVALID_HANDLE, INVALID_VALUE, NOT_READY},
    stream::{Dependency, Stream},
    work::Work,
};

pub const BLOCKING_SYNC: u32 = 1;
pub const DISABLE_TIMING: u32 = 2;
pub const INTERPROCESS: u32 = 4;

/// One recording of an event: reached once.
#[derive(Default)]
pub struct EventRecording {
    /// Work in a stream: the recording is reached when that work is done, at the same instant for
    /// all who ask the stream or the event. Recordings by graph nodes have none.
    place: OnceLock<(Arc<Stream>, u64)>,
    reached: AtomicBool,
    at: AtomicU64,
    lock: Mutex<()>,
    changed: Condvar,
}

impl EventRecording {
    /// Queues a recording behind all of `stream` and `after`; the event stands for it from now on.
    pub fn enqueue(
        event: &Event,
        context: &Arc<Context>,
        stream: &Arc<Stream>,
        after: Vec<Dependency>,
    ) {
        let record = Arc::new(Self::default());
        let ticket = stream.enqueue(context, after, Work::Record(record.clone()));
        let _ = record.place.set((stream.clone(), ticket));
        event.set(EventState::Recorded(record));
    }

    pub fn reach(&self) {
        self.at.store(now(), Ordering::Relaxed);
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.reached.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    pub fn is_reached(&self) -> bool {
        match self.place.get() {
            Some((stream, ticket)) => stream.has_completed(*ticket),
            None => self.reached.load(Ordering::Acquire),
        }
    }

    pub fn wait(&self) {
        if let Some((stream, ticket)) = self.place.get() {
            return stream.wait_for(*ticket);
        }
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_reached() {
            guard = self
                .changed
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Nanoseconds of a clock that never goes back.
fn now() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[derive(Clone, Default)]
pub enum EventState {
    #[default]
    Never,
    Recorded(Arc<EventRecording>),
    /// Last recorded in a capturing stream, after these nodes.
    Captured(Arc<Capture>, Vec<u64>),
}

pub struct Event {
    pub handle: u64,
    pub context: u64,
    pub flags: u32,
    state: Mutex<EventState>,
}

impl Event {
    pub fn new(handle: u64, context: u64, flags: u32) -> Self {
        Self {
            handle,
            context,
            flags,
            state: Mutex::default(),
        }
    }

    pub fn state(&self) -> EventState {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn set(&self, state: EventState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// The recording to wait for; None if the event was never recorded.
    pub fn record(&self) -> Answer<Option<Arc<EventRecording>>> {
        match self.state() {
            EventState::Never => Ok(None),
            EventState::Recorded(record) => Ok(Some(record)),
            // Asking spoils the capture; asking again is merely wrong.
            EventState::Captured(capture, _) if capture.is_invalid() => Err(INVALID_VALUE),
            EventState::Captured(capture, _) => {
                capture.invalidate();
                Err(CAPTURED_EVENT)
            }
        }
    }

    /// Milliseconds from this event to `end`.
    pub fn until(&self, end: &Event) -> Answer<f32> {
        if (self.flags | end.flags) & DISABLE_TIMING != 0 {
            return Err(INVALID_HANDLE);
        }
        let from = self.record()?.ok_or(INVALID_HANDLE)?;
        let to = end.record()?.ok_or(INVALID_HANDLE)?;
        if !from.is_reached() || !to.is_reached() {
            return Err(NOT_READY);
        }
        let from = from.at.load(Ordering::Relaxed);
        let to = to.at.load(Ordering::Relaxed);
        Ok((to as f64 - from as f64) as f32 / 1e6)
    }
}
