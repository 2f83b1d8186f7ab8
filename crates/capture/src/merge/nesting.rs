//! Which span is inside which: the one place where records get their parents and depths, whatever the source.
//!
//! It is the last stage before the trace, behind the merge where there is one: records come in the order of time, with
//! ids that are final, and without parents.

use super::graph_origins::GraphOrigins;
use crate::{Sink, SinkError};
use ahash::RandomState;
use event::{Backend, Category, Event, Extent, Kind, Layer, Record};
use std::collections::HashMap;

/// Threads that are remembered; processes that were killed leave calls behind that never end.
const MOST_THREADS: usize = 1 << 16;
/// Calls under way on one thread: nothing is inside deeper ones.
const MOST_OPEN: usize = 4_096;
/// Calls whose caller seemed to end before them: clocks of two sources differ a little.
const MOST_OUTLIVING: usize = 16;

/// Passes records on with their parents and depths, and work of graphs with its origin.
pub struct Nested<S> {
    sink: S,
    nesting: Nesting,
    origins: GraphOrigins,
}

impl<S: Sink> Nested<S> {
    pub fn new(sink: S) -> Self {
        Nested {
            sink,
            nesting: Nesting::default(),
            origins: GraphOrigins::default(),
        }
    }

    pub fn into_inner(self) -> S {
        self.sink
    }
}

impl<S: Sink> Sink for Nested<S> {
    fn begin(&mut self, backend: Backend) -> Result<(), SinkError> {
        self.sink.begin(backend)
    }

    fn begin_all(&mut self, backends: Vec<Backend>) -> Result<(), SinkError> {
        self.sink.begin_all(backends)
    }

    fn write(&mut self, record: &mut Record) -> Result<(), SinkError> {
        if let Record::Event(event) = record {
            if self.origins.takes(event) {
                return Ok(());
            }
            self.nesting.place(event);
            self.origins.see(event);
        }
        self.sink.write(record)
    }

    fn write_whole(&mut self, record: &mut Record) -> Result<(), SinkError> {
        if let Record::Event(event) = record {
            // Graphs are followed by how these begin and end.
            if event.layer == Layer::Framework || event.category == Category::Graph {
                return record.in_two(|record| self.write(record));
            }
            self.nesting.place_whole(event);
            self.origins.see(event);
        }
        self.sink.write_whole(record)
    }

    fn thread_begins(&mut self, pid: u32, tid: u32, _: u64) -> Result<(), SinkError> {
        self.nesting.thread_begins(pid, tid);
        Ok(())
    }

    fn until(&mut self, ns: u64) {
        self.sink.until(ns);
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.sink.flush()
    }
}

/// The spans that are open, by thread.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    threads: Vec<Thread>,
    /// Their places in the list.
    places: HashMap<ThreadKey, usize, RandomState>,
    /// The thread of the last event: the next is often of the same.
    latest: usize,
    /// Counts the events, to tell threads that were forgotten by their program.
    clock: u64,
}

type ThreadKey = (u32, u32);

#[derive(Debug)]
struct Thread {
    key: ThreadKey,
    /// Outermost first.
    open: Vec<OpenSpan>,
    outliving: Vec<OpenSpan>,
    seen: u64,
}

#[derive(Debug, Clone, Copy)]
struct OpenSpan {
    id: u64,
    parent: Option<u64>,
    depth: u32,
    correlation: Option<u64>,
    role: Role,
}

/// What a span is to those inside of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Call,
    /// A range ends when the program says so, whatever call it was begun in.
    Range,
    /// Of the kernel: the only ones that interrupts lie in.
    Kernel,
    Other,
}

impl Nesting {
    pub fn place(&mut self, event: &mut Event) {
        // The GPU has no threads of the host.
        if matches!(event.layer, Layer::Gpu | Layer::Device) || !event.kind.nests() {
            return;
        }
        self.clock += 1;
        let key = thread_of(event);
        let place = match self.place_of(key) {
            Some(place) => place,
            None if event.extent != Extent::Open => return,
            None => self.add(key),
        };
        let thread = &mut self.threads[place];
        thread.seen = self.clock;
        match event.extent {
            Extent::Open => {
                let span = thread.inside(event);
                span.settle(event);
                if thread.open.len() < MOST_OPEN {
                    thread.open.push(span);
                }
            }
            Extent::Instant => thread.inside(event).settle(event),
            Extent::Closed(_) => match thread.close(event.id) {
                Some(span) => span.settle(event),
                None => thread.inside(event).settle(event),
            },
        }
    }

    /// A span during which nothing else happened.
    pub fn place_whole(&mut self, event: &mut Event) {
        if matches!(event.layer, Layer::Gpu | Layer::Device) || !event.kind.nests() {
            return;
        }
        self.clock += 1;
        if let Some(place) = self.place_of(thread_of(event)) {
            let thread = &mut self.threads[place];
            thread.seen = self.clock;
            thread.inside(event).settle(event);
        }
    }

    /// What the thread of this number left open was another's, or another program's.
    pub fn thread_begins(&mut self, pid: u32, tid: u32) {
        if let Some(place) = self.place_of((pid, tid)) {
            self.threads[place].open.clear();
            self.threads[place].outliving.clear();
        }
    }

    #[inline]
    fn place_of(&mut self, key: ThreadKey) -> Option<usize> {
        if (self.threads.get(self.latest)).is_some_and(|thread| thread.key == key) {
            return Some(self.latest);
        }
        let place = *self.places.get(&key)?;
        self.latest = place;
        Some(place)
    }

    fn add(&mut self, key: ThreadKey) -> usize {
        if self.threads.len() >= MOST_THREADS {
            self.forget();
        }
        let place = self.threads.len();
        self.threads.push(Thread {
            key,
            open: Vec::new(),
            outliving: Vec::new(),
            seen: 0,
        });
        self.places.insert(key, place);
        self.latest = place;
        place
    }

    #[cfg(test)]
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Those without open spans, and the half of the others that was quiet for longest.
    fn forget(&mut self) {
        self.threads.retain(|thread| !thread.open.is_empty());
        if self.threads.len() >= MOST_THREADS / 2 {
            let mut seen: Vec<u64> = self.threads.iter().map(|thread| thread.seen).collect();
            let middle = seen.len() / 2;
            let (_, middle, _) = seen.select_nth_unstable(middle);
            let middle = *middle;
            self.threads.retain(|thread| thread.seen >= middle);
        }
        let keys = self.threads.iter().map(|thread| thread.key);
        self.places = keys.zip(0..).collect();
    }
}

impl Thread {
    /// Where something is that begins now.
    fn inside(&self, event: &Event) -> OpenSpan {
        // An interrupt lies in no call: it only comes then.
        let is_interrupt = event.kind == Kind::Interrupt;
        let around = match is_interrupt {
            true => (self.open.iter()).rposition(|open| open.role == Role::Kernel),
            false => self.open.len().checked_sub(1),
        };
        let below_calls = matches!(event.layer, Layer::Syscall | Layer::Kernel) && !is_interrupt;
        let call = || self.open.iter().find(|open| open.role == Role::Call);
        OpenSpan {
            id: event.id,
            parent: around.map(|around| self.open[around].id),
            depth: around.map_or(0, |around| around as u32 + 1),
            correlation: match below_calls {
                true => call().map(|call| call.id),
                false => event.correlation,
            },
            role: Role::of(event),
        }
    }

    /// Takes out the span that has ended. Calls that seem to be still open inside of it will end in a moment, or were
    /// left without an end.
    fn close(&mut self, id: u64) -> Option<OpenSpan> {
        if self.open.last().is_some_and(|open| open.id == id) {
            return self.open.pop();
        }
        let Some(at) = self.open.iter().rposition(|open| open.id == id) else {
            let at = self.outliving.iter().position(|open| open.id == id)?;
            return Some(self.outliving.remove(at));
        };
        let closed = self.open.remove(at);
        if closed.role != Role::Range {
            for inside in self.open.split_off(at) {
                match inside.role {
                    Role::Range => self.open.push(inside),
                    _ => self.outliving.push(inside),
                }
            }
            let surplus = self.outliving.len().saturating_sub(MOST_OUTLIVING);
            self.outliving.drain(..surplus);
        }
        Some(closed)
    }
}

impl OpenSpan {
    fn settle(&self, event: &mut Event) {
        (event.parent, event.depth) = (self.parent, self.depth);
        // What only the end knows stays.
        event.correlation = self.correlation.or(event.correlation);
    }
}

impl Role {
    fn of(event: &Event) -> Role {
        match event.layer {
            _ if event.kind.is_around_calls() => Role::Range,
            Layer::Runtime | Layer::Driver | Layer::Library => Role::Call,
            Layer::Kernel | Layer::Os => Role::Kernel,
            _ => Role::Other,
        }
    }
}

/// Every processor has a thread 0.
fn thread_of(event: &Event) -> (u32, u32) {
    match (event.tid, event.cpu) {
        (0, Some(cpu)) => (u32::MAX, cpu),
        (tid, _) => (event.pid, tid),
    }
}
