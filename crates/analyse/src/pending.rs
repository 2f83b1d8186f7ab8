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
    recorded: bool,
}

const MOST_STREAMS: usize = 65_536;
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
        if std::mem::take(&mut state.recorded) {
            self.recorded.retain(|other| *other != stream);
        }
        let had_work = std::mem::replace(&mut state.has_work, true);
        (!had_work).then_some(stream.device)
    }

    /// A call has returned: tells the device of each stream that has no more work.
    pub fn done(&mut self, event: &Event, role: Role, mut tell: impl FnMut(Option<u32>)) {
        let succeeded = event.status.as_ref().is_none_or(|status| status.code == 0);
        if !succeeded {
            return;
        }
        let stream = stream_of(event);
        match role {
            Role::SyncStream | Role::QueryStream | Role::Copy => {
                self.clear(stream, &mut tell);
                // Work that was given before its device was known.
                let device = None;
                self.clear(Stream { device, ..stream }, &mut tell);
            }
            Role::SyncDevice | Role::EndContext => {
                let of_device = |other: &Stream| same_device(other, &stream);
                self.recorded.retain(|other| !of_device(other));
                self.streams.retain(|other, state| {
                    let done = of_device(other);
                    if done && state.has_work {
                        tell(other.device);
                    }
                    !done
                });
            }
            Role::RecordEvent => self.record(stream),
            Role::SyncEvent => {
                let mut candidates =
                    (self.recorded.iter()).filter(|other| same_device(other, &stream));
                if self.recorded.len() < MOST_RECORDED
                    && let (Some(&only), None) = (candidates.next(), candidates.next())
                {
                    self.clear(only, &mut tell);
                }
            }
            Role::Launch | Role::QueueCopy | Role::Alloc | Role::Free | Role::Other => {}
        }
    }

    fn record(&mut self, stream: Stream) {
        if let Some(state) = self.streams.get_mut(&stream)
            && state.has_work
            && !state.recorded
            && self.recorded.len() < MOST_RECORDED
        {
            state.recorded = true;
            self.recorded.push(stream);
        }
    }

    fn clear(&mut self, stream: Stream, tell: &mut impl FnMut(Option<u32>)) {
        let Some(state) = self.streams.get_mut(&stream) else {
            return;
        };
        if std::mem::take(&mut state.recorded) {
            self.recorded.retain(|other| *other != stream);
        }
        if std::mem::take(&mut state.has_work) {
            tell(stream.device);
        }
    }
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
