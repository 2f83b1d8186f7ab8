//! The merging thread: takes what the inlets hand in and writes it on in order.

use super::ids::Ids;
use super::order::Backlogs;
use super::{Entry, Message};
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
    order: Backlogs,
    /// The source of the calls that GPU work names as its cause.
    calls: Option<usize>,
    /// Who has begun, by source: a merge inside of this one speaks for several.
    begun: Vec<Vec<Backend>>,
    /// From the first record on.
    ids: Option<Ids>,
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
            order: Backlogs::default(),
            calls: None,
            begun: Vec::new(),
            ids: None,
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
            Message::Entries(source, entries) => self.order.push(source, entries),
            Message::Until(source, ns) => self.order.until(source, ns),
            Message::Done(source) => self.order.done(source),
        }
    }

    fn write_on(&mut self, now: u64) {
        let idle = now.saturating_sub(self.window);
        if self.ids.is_some() || self.may_begin(now) {
            while let Some((source, entry)) = self.order.next(idle) {
                self.write(source, entry, idle);
            }
        }
        // What is merged may be a part of a larger merge, which waits for it.
        if let Some(passed) = self.order.passed(idle) {
            self.merged.sink.until(passed);
        }
        if now.saturating_sub(self.flushed) > FLUSH_EVERY && self.ids.is_some() {
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

    fn begin(&mut self) -> Ids {
        if self.ids.is_none() {
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
        *(self.ids).get_or_insert_with(|| Ids::new(self.order.len(), self.calls.unwrap_or(0)))
    }

    /// `idle`: before this moment a source that says nothing has nothing.
    fn write(&mut self, source: usize, entry: Entry, idle: u64) {
        let ids = self.begin();
        // A span is two records.
        let mut records = 1;
        let written = match entry {
            Entry::ThreadBegins { pid, tid, ns } => self.merged.sink.thread_begins(pid, tid, ns),
            Entry::Record(mut record) => {
                ids.make_unique(source, &mut record);
                match self.comes(record.ts()) {
                    true => self.merged.sink.give(record),
                    false => Ok(()),
                }
            }
            Entry::End(record) => match self.comes(record.ts()) {
                true => self.merged.sink.give(record),
                false => Ok(()),
            },
            Entry::Whole(mut record) => {
                ids.make_unique(source, &mut record);
                let start = match &record {
                    Record::Event(event) => event.start,
                    _ => record.ts(),
                };
                let goes = self.comes(start);
                if self.order.ends_at_once(source, record.ts(), idle) {
                    match self.comes(record.ts()) {
                        true => {
                            records = 2;
                            self.merged.sink.give_whole(record)
                        }
                        false => Ok(()),
                    }
                } else {
                    let sink = &mut self.merged.sink;
                    let begun = match goes {
                        true => record.as_beginning(|record| sink.write(record)),
                        false => None,
                    };
                    self.order.keep_end(source, record);
                    begun.unwrap_or(Ok(()))
                }
            }
        };
        if let Err(why) = written {
            self.merged.unwritten += records;
            self.merged.failure.get_or_insert(why);
        }
    }

    /// A record of that time comes next. False: it cannot be written.
    fn comes(&mut self, ts: u64) -> bool {
        self.merged.late += u64::from(ts < self.latest);
        self.latest = self.latest.max(ts);
        let fails = self.merged.failure.is_some();
        self.merged.unwritten += u64::from(fails);
        !fails
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
        while let Some((source, entry)) = self.order.next(u64::MAX) {
            self.write(source, entry, u64::MAX);
        }
        self.begin();
        self.flush();
        self.merged
    }
}
