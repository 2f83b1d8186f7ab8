//! Events, and the records a trace is a stream of.

use crate::{Category, Kind, Layer, Meaning, Name, Stack, StatusDomain, value::Arg};
use alloc::{boxed::Box, vec::Vec};

/// How far an event reaches in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Instant,
    /// A span that has begun and not ended (yet, or ever: the program died in it).
    Open,
    /// A span of so many nanoseconds.
    Closed(u64),
}

/// What a call returned. The name is filled in by code that knows the layer's codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub code: i64,
    pub name: Option<Name>,
}

/// The command word of an ioctl and what it was decoded to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ioctl {
    pub cmd: u64,
    pub decoded: Vec<Arg>,
}

/// A span or an instant. Times are nanoseconds of the host's CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Unique in its trace; `op_id` in files.
    pub id: u64,
    pub kind: Kind,
    pub layer: Layer,
    pub category: Category,
    pub name: Name,
    pub start: u64,
    pub extent: Extent,
    pub pid: u32,
    pub tid: u32,
    pub cpu: Option<u32>,
    pub device: Option<u32>,
    pub context: Option<u64>,
    pub stream: Option<u64>,
    /// The span that encloses this one, on the same thread.
    pub parent: Option<u64>,
    pub depth: u32,
    /// Shared by what belongs together across layers: a launch and its GPU work, an API call
    /// and its ioctls.
    pub correlation: Option<u64>,
    pub status: Option<Status>,
    /// What was passed in: known when the span begins.
    pub args: Vec<Arg>,
    /// What came back: known when the span ends.
    pub outputs: Vec<Arg>,
    pub ioctl: Option<Box<Ioctl>>,
    pub stack: Stack,
}

impl Event {
    /// An event of which no more is known; fill in the rest by assigning fields.
    pub fn new(
        id: u64,
        layer: Layer,
        category: Category,
        name: impl Into<Name>,
        start: u64,
    ) -> Self {
        Event {
            id,
            kind: layer.usual_kind(),
            layer,
            category,
            name: name.into(),
            start,
            extent: Extent::Instant,
            pid: 0,
            tid: 0,
            cpu: None,
            device: None,
            context: None,
            stream: None,
            parent: None,
            depth: 0,
            correlation: None,
            status: None,
            args: Vec::new(),
            outputs: Vec::new(),
            ioctl: None,
            stack: Stack::default(),
        }
    }

    /// The length of a closed span.
    pub fn duration(&self) -> Option<u64> {
        match self.extent {
            Extent::Closed(duration) => Some(duration),
            Extent::Instant | Extent::Open => None,
        }
    }

    /// When it was over; an open span's end is not known.
    pub fn end(&self) -> Option<u64> {
        match self.extent {
            Extent::Instant => Some(self.start),
            Extent::Open => None,
            Extent::Closed(duration) => Some(self.start.saturating_add(duration)),
        }
    }

    /// Whose numbering `status` follows.
    pub fn status_domain(&self) -> StatusDomain {
        self.layer.status_domain()
    }

    /// The argument or output of that name.
    pub fn arg(&self, name: &str) -> Option<&crate::Value> {
        self.args
            .iter()
            .chain(&self.outputs)
            .find(|arg| &*arg.name == name)
            .map(|arg| &arg.value)
    }
}

/// Events that were seen and could not be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub ts: u64,
    pub count: u64,
    /// Who lost them: the back end, and where it knows, the process and thread.
    pub source: Option<Name>,
    pub layer: Option<Layer>,
    pub pid: Option<u32>,
    pub tid: Option<u32>,
}

/// One record of a trace, in time order: a line of JSONL, a row of Arrow.
///
/// A span is two records with one id: the open event when it begins, the closed one when it
/// ends. What is known at the beginning still holds at the end: the closed event repeats the
/// arguments, the stack and whatever else was given, and adds to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    Event(Event),
    Meaning(Meaning),
    Lost(Lost),
}

impl Record {
    /// When it was recorded: a closed span's record is of its end.
    pub fn ts(&self) -> u64 {
        match self {
            Record::Event(event) => event.end().unwrap_or(event.start),
            Record::Meaning(meaning) => meaning.ts,
            Record::Lost(lost) => lost.ts,
        }
    }

    /// Does something with the beginning of a span, of which this is the end and says all that the beginning does. None: it
    /// is no such record.
    pub fn as_beginning<T>(&mut self, what: impl FnOnce(&mut Record) -> T) -> Option<T> {
        let Record::Event(event) = self else {
            return None;
        };
        if !matches!(event.extent, Extent::Closed(_)) {
            return None;
        }
        // What only the end knows.
        let extent = core::mem::replace(&mut event.extent, Extent::Open);
        let (status, outputs) = (event.status.take(), core::mem::take(&mut event.outputs));
        let done = what(self);
        if let Record::Event(event) = self {
            (event.extent, event.status, event.outputs) = (extent, status, outputs);
        }
        Some(done)
    }

    /// Does something with both records of such a span.
    pub fn in_two<E>(
        &mut self,
        mut each: impl FnMut(&mut Record) -> Result<(), E>,
    ) -> Result<(), E> {
        self.as_beginning(&mut each).transpose()?;
        each(self)
    }

    /// Its `type` in files.
    pub fn type_name(&self) -> &'static str {
        match self {
            Record::Event(event) => event.kind.as_str(),
            Record::Meaning(meaning) => meaning.what.type_name(),
            Record::Lost(_) => "lost",
        }
    }
}

impl From<Event> for Record {
    fn from(event: Event) -> Self {
        Record::Event(event)
    }
}

impl From<Meaning> for Record {
    fn from(meaning: Meaning) -> Self {
        Record::Meaning(meaning)
    }
}

impl From<Lost> for Record {
    fn from(lost: Lost) -> Self {
        Record::Lost(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_of_the_time_it_was_made() {
        let mut event = Event::new(1, Layer::Driver, Category::Memory, "cuMemAlloc_v2", 100);
        event.extent = Extent::Open;
        assert_eq!((event.end(), Record::from(event.clone()).ts()), (None, 100));
        event.extent = Extent::Closed(20);
        assert_eq!(
            (event.end(), Record::from(event.clone()).ts()),
            (Some(120), 120)
        );
        event.extent = Extent::Closed(u64::MAX);
        assert_eq!(event.end(), Some(u64::MAX));
    }

    #[test]
    fn a_whole_span_is_two_records() {
        let mut event = Event::new(1, Layer::Driver, Category::Memory, "cuMemAlloc_v2", 100);
        event.args = alloc::vec![Arg::new("bytesize", 4096u64)];
        let begin = Event {
            extent: Extent::Open,
            ..event.clone()
        };
        event.extent = Extent::Closed(5);
        event.status = Some(Status {
            code: 0,
            name: None,
        });
        event.outputs = alloc::vec![Arg::new("dptr", 7u64)];
        let mut record = Record::Event(event.clone());
        let mut seen = Vec::new();
        let told = record.in_two(|record| {
            seen.push(record.clone());
            Ok::<(), ()>(())
        });
        assert_eq!(told, Ok(()));
        assert_eq!(seen, [Record::Event(begin), Record::Event(event.clone())]);
        // After an error it is what it was.
        assert_eq!(record.in_two(|_| Err(3)), Err(3));
        assert_eq!(record, Record::Event(event));
    }

    #[test]
    fn status_follows_the_layer() {
        let event = Event::new(1, Layer::Syscall, Category::Other, "ioctl", 0);
        assert_eq!(event.status_domain(), StatusDomain::Errno);
        assert_eq!(event.kind, Kind::Syscall);
    }
}
