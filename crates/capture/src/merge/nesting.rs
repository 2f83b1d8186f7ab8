//! Ids that are unique across sources, and which call lies inside which.

use event::{Event, Extent, Kind, Layer, Meaning, Record};
use std::collections::HashMap;

/// Threads with calls under way that are remembered; processes that were killed leave some behind.
const MOST_THREADS: usize = 16_384;
/// Calls under way on one thread: deeper ones are recorded without a parent.
const MOST_OPEN: usize = 4_096;
/// Calls whose caller seemed to end before them: clocks of two sources differ a little.
const MOST_OUTLIVING: usize = 16;

/// Gives records their final ids, parents and depths.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    /// How many sources there are: ids of source n are n + 1, n + 1 + stride, …
    stride: u64,
    /// The source whose calls GPU work names as its cause.
    calls: usize,
    threads: HashMap<(u32, u32), Thread>,
    /// Counts the records, to tell threads that were forgotten by their program.
    clock: u64,
}

#[derive(Debug, Default)]
struct Thread {
    open: Vec<OpenSpan>,
    outliving: Vec<OpenSpan>,
    seen: u64,
}

/// Where an open span lies.
#[derive(Debug, Clone, Copy)]
struct OpenSpan {
    id: u64,
    parent: Option<u64>,
    depth: u32,
    correlation: Option<u64>,
    is_call: bool,
}

impl Nesting {
    pub fn new(sources: usize, calls: usize) -> Self {
        Nesting {
            stride: sources.max(1) as u64,
            calls,
            ..Nesting::default()
        }
    }

    /// The id that a source's id has in the trace.
    pub fn id(&self, source: usize, id: u64) -> u64 {
        id.saturating_sub(1)
            .saturating_mul(self.stride)
            .saturating_add(source as u64 + 1)
    }

    pub fn place(&mut self, source: usize, record: &mut Record) {
        self.clock += 1;
        match record {
            Record::Event(event) => {
                // A call that stands for itself; GPU work names its call by the id that the call's source gave.
                let own = event.layer != Layer::Gpu && event.correlation == Some(event.id);
                event.id = self.id(source, event.id);
                if own {
                    event.correlation = Some(event.id);
                }
                if event.layer == Layer::Gpu {
                    let cause = event.correlation.map(|cause| self.id(self.calls, cause));
                    event.correlation = cause;
                }
                if on_a_thread(event) {
                    self.place_event(event);
                } else {
                    event.parent = event.parent.map(|parent| self.id(source, parent));
                }
            }
            Record::Meaning(Meaning { op, .. }) => *op = self.id(source, *op),
            Record::Lost(_) => {}
        }
    }

    fn place_event(&mut self, event: &mut Event) {
        let key = (event.pid, event.tid);
        let under_way = self.threads.contains_key(&key);
        if !under_way && event.extent != Extent::Open {
            (event.parent, event.depth) = (None, 0);
            return;
        }
        if !under_way && self.threads.len() >= MOST_THREADS {
            self.forget();
        }
        let thread = self.threads.entry(key).or_default();
        thread.seen = self.clock;
        match event.extent {
            Extent::Open => {
                let place = thread.inside(event);
                place.give(event);
                if thread.open.len() < MOST_OPEN {
                    thread.open.push(place);
                }
            }
            Extent::Instant => thread.inside(event).give(event),
            Extent::Closed(_) => match thread.close(event.id) {
                Some(place) => place.give(event),
                None => thread.inside(event).give(event),
            },
        }
        if thread.open.is_empty() && thread.outliving.is_empty() {
            self.threads.remove(&key);
        }
    }

    #[cfg(test)]
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// The half that was quiet for longest.
    fn forget(&mut self) {
        let mut seen: Vec<u64> = self.threads.values().map(|thread| thread.seen).collect();
        let middle = seen.len() / 2;
        let (_, middle, _) = seen.select_nth_unstable(middle);
        let middle = *middle;
        self.threads.retain(|_, thread| thread.seen >= middle);
    }
}

impl Thread {
    /// The place of something that begins now.
    fn inside(&self, event: &Event) -> OpenSpan {
        let is_call = is_call(event);
        let around = self.open.last();
        let below_calls = matches!(event.layer, Layer::Syscall | Layer::Kernel);
        let call = self.open.iter().find(|open| open.is_call);
        OpenSpan {
            id: event.id,
            parent: around.map(|open| open.id),
            depth: around.map_or(0, |open| open.depth.saturating_add(1)),
            correlation: if below_calls {
                call.map(|call| call.id)
            } else {
                event.correlation
            },
            is_call,
        }
    }

    /// Takes out the span that has ended. What seems to be still open inside of it will end in a
    /// moment, or was left without an end.
    fn close(&mut self, id: u64) -> Option<OpenSpan> {
        if let Some(at) = self.open.iter().rposition(|open| open.id == id) {
            let mut inside = self.open.split_off(at).into_iter();
            let place = inside.next();
            self.outliving.extend(inside);
            let surplus = self.outliving.len().saturating_sub(MOST_OUTLIVING);
            self.outliving.drain(..surplus);
            return place;
        }
        let at = self.outliving.iter().position(|open| open.id == id)?;
        Some(self.outliving.remove(at))
    }
}

impl OpenSpan {
    fn give(&self, event: &mut Event) {
        (event.parent, event.depth) = (self.parent, self.depth);
        // What only the end knows stays.
        event.correlation = self.correlation.or(event.correlation);
    }
}

/// The GPU has no threads of the host, and an interrupt lies in no call: it only comes then.
fn on_a_thread(event: &Event) -> bool {
    !matches!(event.layer, Layer::Gpu | Layer::Device)
        && event.kind != Kind::Interrupt
        && event.kind.nests()
}

/// A range lies around calls, and is none.
fn is_call(event: &Event) -> bool {
    matches!(event.layer, Layer::Runtime | Layer::Driver | Layer::Library)
        && event.kind != Kind::Range
}
