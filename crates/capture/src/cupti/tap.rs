//! Looks at the calls that pass by, for those that give the GPU work.

use super::link::{Calls, is_around_work};
use crate::{Sink, SinkError};
use event::{Backend, Extent, Record};

/// Passes everything on; calls that CUPTI may tell more of get their own id as their correlation, which
/// the work then has, too.
pub struct Tap<S> {
    sink: S,
    calls: Option<Calls>,
    latest: u64,
}

impl<S: Sink> Tap<S> {
    /// Without anyone to tell, it is as if it were not there.
    pub fn new(sink: S, calls: Option<Calls>) -> Self {
        Tap {
            sink,
            calls,
            latest: 0,
        }
    }

    fn look_at(&self, record: &mut Record) {
        let Some(calls) = &self.calls else {
            return;
        };
        match record {
            Record::Event(event) if calls.wants(event) => {
                event.correlation.get_or_insert(event.id);
                if matches!(event.extent, Extent::Closed(_)) {
                    calls.add(event);
                }
            }
            Record::Event(event) if is_around_work(event) => calls.add(event),
            Record::Meaning(meaning) => calls.meant(meaning),
            _ => {}
        }
    }

    /// After the record itself: who asks in between must not hear that there was none.
    fn passed(&mut self, ts: u64) {
        if let Some(calls) = &self.calls
            && ts > self.latest.saturating_add(1_000_000)
        {
            self.latest = ts;
            calls.until(ts);
        }
    }

    /// No more calls will come.
    pub fn finish(self) -> S {
        if let Some(calls) = &self.calls {
            calls.until(u64::MAX);
        }
        self.sink
    }
}

impl<S: Sink> Sink for Tap<S> {
    fn begin(&mut self, backend: Backend) -> Result<(), SinkError> {
        self.sink.begin(backend)
    }

    fn begin_all(&mut self, backends: Vec<Backend>) -> Result<(), SinkError> {
        self.sink.begin_all(backends)
    }

    fn write(&mut self, record: &mut Record) -> Result<(), SinkError> {
        self.look_at(record);
        let ts = record.ts();
        let written = self.sink.write(record);
        self.passed(ts);
        written
    }

    fn give(&mut self, mut record: Record) -> Result<(), SinkError> {
        self.look_at(&mut record);
        let ts = record.ts();
        let written = self.sink.give(record);
        self.passed(ts);
        written
    }

    fn write_whole(&mut self, record: &mut Record) -> Result<(), SinkError> {
        self.look_at(record);
        let ts = record.ts();
        let written = self.sink.write_whole(record);
        self.passed(ts);
        written
    }

    fn give_whole(&mut self, mut record: Record) -> Result<(), SinkError> {
        self.look_at(&mut record);
        let ts = record.ts();
        let written = self.sink.give_whole(record);
        self.passed(ts);
        written
    }

    fn splits_spans(&self) -> bool {
        self.sink.splits_spans()
    }

    fn keeps_records(&self) -> bool {
        self.sink.keeps_records()
    }

    fn thread_begins(&mut self, pid: u32, tid: u32, ns: u64) -> Result<(), SinkError> {
        self.sink.thread_begins(pid, tid, ns)
    }

    fn until(&mut self, ns: u64) {
        if let Some(calls) = &self.calls {
            calls.until(ns);
        }
        self.sink.until(ns);
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.sink.flush()
    }
}
