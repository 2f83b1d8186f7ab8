//! Records leave for the sink.

use super::{Assembler, Restart};
use crate::call::origin::Origin;
use crate::{Sink, SinkError};
use event::{Lost, Record};

/// Threads whose losses are counted by themselves.
const MOST_THREADS: usize = 1 << 16;

impl<O: Origin, S: Sink> Assembler<O, S> {
    pub(super) fn lost(&mut self, ring: usize, time: u64, count: u64) {
        let thread = &self.rings[ring];
        // A ring without a process stands for all of them.
        let known = thread.pid != 0;
        let (pid, tid) = (known.then_some(thread.pid), known.then_some(thread.tid));
        let by_thread = &mut self.totals.lost_by_thread;
        let key = (thread.pid, thread.tid);
        if known && (by_thread.len() < MOST_THREADS || by_thread.contains_key(&key)) {
            let sum = by_thread.entry(key).or_default();
            *sum = sum.saturating_add(count);
        }
        self.totals.lost = self.totals.lost.saturating_add(count);
        self.give(Record::Lost(Lost {
            ts: time,
            count,
            source: Some(self.origin.name().into()),
            layer: None,
            pid,
            tid,
        }));
    }

    /// Tells the sink what is hooked, once.
    pub fn begin_sink(&mut self) {
        if !std::mem::replace(&mut self.begun, true)
            && let Err(why) = self.sink.begin(self.origin.backend())
        {
            self.totals.failure = Some(why);
        }
    }

    /// A record that is needed again.
    pub(super) fn write(&mut self, record: &mut Record) {
        if self.held.waits() {
            self.held.keep(record.clone());
        } else if self.may_put(record) {
            let written = self.sink.write(record);
            self.check(written, 1);
        }
    }

    pub(super) fn give(&mut self, record: Record) {
        if self.held.waits() {
            self.held.keep(record);
        } else {
            self.put(record);
        }
    }

    pub(super) fn put(&mut self, record: Record) {
        if self.may_put(&record) {
            let written = self.sink.give(record);
            self.check(written, 1);
        }
    }

    /// Whether there is a sink to write into.
    pub(super) fn may_put(&mut self, record: &Record) -> bool {
        if !self.begun {
            self.origin.refresh();
            self.begin_sink();
        }
        if !self.restarted.is_empty() {
            self.tell_restart(record);
        }
        self.totals.late += u64::from(record.ts() < self.latest);
        self.latest = self.latest.max(record.ts());
        let fails = self.totals.failure.is_some();
        self.totals.unwritten += u64::from(fails);
        !fails
    }

    /// How writing so many records went.
    pub(super) fn check(&mut self, written: Result<(), SinkError>, records: u64) {
        if let Err(why) = written {
            // The program goes on, and so does draining: only the trace ends here.
            self.totals.unwritten += records;
            self.totals.failure = Some(why);
        }
    }

    /// Tells the sink when this is the first record of a thread that has the number of an earlier one.
    fn tell_restart(&mut self, record: &Record) {
        let Record::Event(event) = record else {
            return;
        };
        let begins = |restart: &Restart| {
            (restart.pid, restart.tid) == (event.pid, event.tid) && event.id >= restart.first_id
        };
        if let Some(at) = self.restarted.iter().position(begins) {
            let Restart { pid, tid, .. } = self.restarted.swap_remove(at);
            if let Err(why) = self.sink.thread_begins(pid, tid, record.ts()) {
                self.totals.failure.get_or_insert(why);
            }
        }
    }
}
