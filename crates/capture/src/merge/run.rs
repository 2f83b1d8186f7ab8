//! The merging thread: takes what the inlets hand in and writes it on in order.

use super::Message;
use super::nesting::Nesting;
use super::order::Order;
use crate::clock::monotonic;
use crate::{Sink, SinkError};
use event::{Backend, Record};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How often to look whether something may go though nobody said a word.
const LOOK: Duration = Duration::from_millis(20);
/// The trace on disk is never farther behind than this.
const FLUSH_EVERY: u64 = 500_000_000;
/// How long the first record waits for back ends that have not begun yet: one that hooks what the
/// program loads begins with the first call.
const WAIT_FOR_BEGIN: u64 = 1_000_000_000;

/// What came of merging.
pub struct Merged<S> {
    pub sink: S,
    /// Records that came too late for their place in time; they are in the trace all the same.
    pub late: u64,
    /// Records that the sink did not take, and why it did not take the first of them.
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

pub(super) struct Run<S> {
    merged: Merged<S>,
    window: u64,
    order: Order,
    /// The source of the calls that GPU work names as its cause.
    calls: Option<usize>,
    /// Who has begun, by source: a merge inside of this one speaks for several.
    begun: Vec<Vec<Backend>>,
    /// From the first record on.
    nesting: Option<Nesting>,
    latest: u64,
    flushed: u64,
}

impl<S: Sink> Run<S> {
    pub fn new(sink: S, window: Duration) -> Self {
        Run {
            merged: Merged {
                sink,
                late: 0,
                unwritten: 0,
                failure: None,
            },
            window: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX),
            order: Order::default(),
            calls: None,
            begun: Vec::new(),
            nesting: None,
            latest: 0,
            flushed: monotonic(),
        }
    }

    /// Runs until every inlet is gone.
    pub fn until_done(mut self, messages: &Receiver<Message>) -> Merged<S> {
        loop {
            match messages.recv_timeout(LOOK) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // Whatever else is there already comes along.
            for message in messages.try_iter().take(64) {
                self.take(message);
            }
            self.write_on(monotonic());
        }
        self.finish()
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Source { name, calls } => {
                if calls {
                    self.calls.get_or_insert(self.order.len());
                }
                self.order.add(name);
                self.begun.push(Vec::new());
            }
            Message::Begin(source, backends) => {
                if let Some(begun) = self.begun.get_mut(source) {
                    begun.extend(backends);
                }
            }
            Message::Records(source, records) => self.order.push(source, records),
            Message::Until(source, ns) => self.order.until(source, ns),
            Message::Done(source) => self.order.done(source),
        }
    }

    fn write_on(&mut self, now: u64) {
        let idle = now.saturating_sub(self.window);
        if self.nesting.is_some() || self.may_begin(now) {
            while let Some((source, record)) = self.order.next(idle) {
                self.write(source, record);
            }
        }
        // What is merged may be a part of a larger merge, which waits for it.
        if let Some(passed) = self.order.passed(idle) {
            self.merged.sink.until(passed);
        }
        if now.saturating_sub(self.flushed) > FLUSH_EVERY && self.nesting.is_some() {
            self.flushed = now;
            self.flush();
        }
    }

    /// Whether there is a record, and everyone has begun or had time to.
    fn may_begin(&self, now: u64) -> bool {
        let Some(earliest) = self.order.earliest() else {
            return false;
        };
        self.order.all_done()
            || self.begun.iter().all(|begun| !begun.is_empty())
            || now.saturating_sub(earliest) > WAIT_FOR_BEGIN.max(self.window)
    }

    fn begin(&mut self) -> &mut Nesting {
        if self.nesting.is_none() {
            let mut all = Vec::new();
            for (source, begun) in self.begun.iter_mut().enumerate() {
                if begun.is_empty() {
                    begun.push(Backend {
                        name: self.order.name(source).map_or("?", |name| name).into(),
                        missing: vec!["nothing was attached when the trace began".into()],
                        ..Backend::default()
                    });
                }
                all.append(begun);
            }
            if let Err(why) = self.merged.sink.begin_all(all) {
                self.merged.failure.get_or_insert(why);
            }
        }
        self.nesting
            .get_or_insert_with(|| Nesting::new(self.order.len(), self.calls.unwrap_or(0)))
    }

    fn write(&mut self, source: usize, mut record: Record) {
        self.begin().place(source, &mut record);
        self.merged.late += u64::from(record.ts() < self.latest);
        self.latest = self.latest.max(record.ts());
        if self.merged.failure.is_some() {
            self.merged.unwritten += 1;
        } else if let Err(why) = self.merged.sink.write(&record) {
            self.merged.unwritten += 1;
            self.merged.failure = Some(why);
        }
    }

    fn flush(&mut self) {
        if self.merged.failure.is_none()
            && let Err(why) = self.merged.sink.flush()
        {
            self.merged.failure = Some(why);
        }
    }

    fn finish(mut self) -> Merged<S> {
        for source in 0..self.order.len() {
            self.order.done(source);
        }
        while let Some((source, record)) = self.order.next(u64::MAX) {
            self.write(source, record);
        }
        self.begin();
        self.flush();
        self.merged
    }
}
