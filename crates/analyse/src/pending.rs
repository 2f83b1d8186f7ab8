//! Which streams may have work on the GPU, as far as calls alone say it.
//!
//! Events are handles that programs use again and again, and may be waited for in any order: only
//! where there is no doubt which stream one stands for does waiting for it say that the stream is
//! done.

use crate::Role;
use event::Event;
use std::collections::HashMap;

/// Streams with work given and not waited for.
#[derive(Default)]
pub(crate) struct Pending {
    streams: HashMap<Stream, State, ahash::RandomState>,
    /// Streams whose last work an event was recorded after.
    recorded: Vec<Stream>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Stream {
    pid: u32,
    device: Option<u32>,
    /// The default stream is 0 to those that say it and nothing to those that do not.
    handle: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    has_work: bool,
    /// Calls that give it work and have not returned.
    giving: u32,
    /// When the last of those that returned did.
    given: u64,
    /// When an event was recorded in it, if it was given nothing since.
    recorded: Option<u64>,
}

impl State {
    /// Whether waiting from that moment on waits for all its work.
    fn waited_for(&self, since: u64) -> bool {
        self.giving == 0 && self.given <= since
    }
}

/// All of them are looked at when a device is waited for; programs have some dozens.
const MOST_STREAMS: usize = 2_048;
/// With so many candidates there is doubt in any case.
const MOST_RECORDED: usize = 64;

impl Pending {
    /// A call gives its stream work. The device, if the stream had none before.
    pub fn start(&mut self, event: &Event) -> Option<Option<u32>> {
        let stream = stream_of(event);
        if self.streams.len() >= MOST_STREAMS && !self.streams.contains_key(&stream) {
            return None;
        }
        let state = self.streams.entry(stream).or_default();
        state.giving = state.giving.saturating_add(1);
        if state.recorded.take().is_some() {
            self.recorded.retain(|other| *other != stream);
        }
        let had_work = std::mem::replace(&mut state.has_work, true);
        (!had_work).then_some(stream.device)
    }

    /// A call has returned: tells the device of each stream that has no more work.
    pub fn done(&mut self, event: &Event, role: Role, mut tell: impl FnMut(Option<u32>)) {
        let stream = stream_of(event);
        let since = event.start;
        let end = event.end().unwrap_or(event.start);
        if role.starts_work()
            && let Some(state) = self.streams.get_mut(&stream)
        {
            state.giving = state.giving.saturating_sub(1);
            // A copy that has returned is over, and all that was before it in its stream.
            if role != Role::Copy || !succeeded(event) || !state.waited_for(since) {
                state.given = state.given.max(end);
                return;
            }
        }
        if !succeeded(event) {
            return;
        }
        match role {
            Role::SyncStream | Role::QueryStream | Role::Copy => {
                self.clear(stream, since, &mut tell);
                // Work that was given before its device was known.
                let device = None;
                self.clear(Stream { device, ..stream }, since, &mut tell);
            }
            Role::SyncDevice | Role::EndContext => {
                let over = |other: &Stream, state: &State| {
                    same_device(other, &stream)
                        && (role == Role::EndContext || state.waited_for(since))
                };
                self.streams.retain(|other, state| {
                    let over = over(other, state);
                    if over && state.has_work {
                        tell(other.device);
                    }
                    !over
                });
                let streams = &self.streams;
                self.recorded.retain(|other| streams.contains_key(other));
            }
            Role::RecordEvent => self.record(stream, end),
            Role::SyncEvent => {
                let mut candidates =
                    (self.recorded.iter()).filter(|other| same_device(other, &stream));
                if self.recorded.len() < MOST_RECORDED
                    && let (Some(&only), None) = (candidates.next(), candidates.next())
                    && let Some(state) = self.streams.get(&only)
                    && state.recorded.is_some_and(|at| at <= since)
                {
                    self.clear(only, since, &mut tell);
                }
            }
            Role::Launch | Role::QueueCopy | Role::Fill => {}
            Role::Alloc | Role::Free | Role::Other => {}
        }
    }

    fn record(&mut self, stream: Stream, at: u64) {
        if let Some(state) = self.streams.get_mut(&stream)
            && state.has_work
            && state.waited_for(at)
            && self.recorded.len() < MOST_RECORDED
            && state.recorded.replace(at).is_none()
        {
            self.recorded.push(stream);
        }
    }

    /// A wait for the stream, since that moment, is over.
    fn clear(&mut self, stream: Stream, since: u64, tell: &mut impl FnMut(Option<u32>)) {
        let Some(state) = self.streams.get_mut(&stream) else {
            return;
        };
        if !state.waited_for(since) {
            return;
        }
        if state.recorded.take().is_some() {
            self.recorded.retain(|other| *other != stream);
        }
        if std::mem::take(&mut state.has_work) {
            tell(stream.device);
        }
    }
}

fn succeeded(event: &Event) -> bool {
    event.status.as_ref().is_none_or(|status| status.code == 0)
}

fn stream_of(event: &Event) -> Stream {
    Stream {
        pid: event.pid,
        device: event.device,
        handle: event.stream.unwrap_or(0),
    }
}

/// Whether waiting for one's device waits for the other; of an unknown device it does.
fn same_device(a: &Stream, b: &Stream) -> bool {
    a.pid == b.pid && (a.device == b.device || a.device.is_none() || b.device.is_none())
}
