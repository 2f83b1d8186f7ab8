//! One back end's way into the merge.

use super::{Entry, Message};
use crate::{Sink, SinkError};
use event::{Backend, Record};
use std::sync::mpsc::SyncSender;

/// Entries that are handed on together.
const BATCH: usize = 256;

/// Takes one back end's records. Dropping it says that no more will come.
pub struct Inlet {
    source: usize,
    sender: SyncSender<Message>,
    kept: Vec<Entry>,
}

impl Inlet {
    pub(super) fn new(source: usize, sender: SyncSender<Message>) -> Self {
        Inlet {
            source,
            sender,
            kept: Vec::new(),
        }
    }

    /// This back end is done.
    pub fn finish(self) {}

    fn hand_on(&mut self) -> Result<(), SinkError> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.kept);
        self.send(Message::Entries(self.source, entries))
    }

    fn keep(&mut self, entry: Entry) -> Result<(), SinkError> {
        if self.kept.capacity() == 0 {
            self.kept.reserve_exact(BATCH);
        }
        self.kept.push(entry);
        if self.kept.len() >= BATCH {
            return self.hand_on();
        }
        Ok(())
    }

    fn send(&self, message: Message) -> Result<(), SinkError> {
        self.sender.send(message).map_err(|_| SinkError::MergeGone)
    }
}

impl Sink for Inlet {
    fn begin(&mut self, backend: Backend) -> Result<(), SinkError> {
        self.begin_all(vec![backend])
    }

    fn begin_all(&mut self, backends: Vec<Backend>) -> Result<(), SinkError> {
        self.send(Message::Begin(self.source, backends))
    }

    fn write(&mut self, record: &mut Record) -> Result<(), SinkError> {
        self.keep(Entry::Record(record.clone()))
    }

    fn give(&mut self, record: Record) -> Result<(), SinkError> {
        self.keep(Entry::Record(record))
    }

    fn write_whole(&mut self, record: &mut Record) -> Result<(), SinkError> {
        self.keep(Entry::Whole(record.clone()))
    }

    fn give_whole(&mut self, record: Record) -> Result<(), SinkError> {
        self.keep(Entry::Whole(record))
    }

    fn splits_spans(&self) -> bool {
        true
    }

    fn keeps_records(&self) -> bool {
        true
    }

    fn thread_begins(&mut self, pid: u32, tid: u32, ns: u64) -> Result<(), SinkError> {
        self.keep(Entry::ThreadBegins { pid, tid, ns })
    }

    fn until(&mut self, ns: u64) {
        // What fails here fails at the next write, too.
        if self.hand_on().is_ok() {
            let _ = self.send(Message::Until(self.source, ns));
        }
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.hand_on()
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        let _ = self.hand_on();
        let _ = self.send(Message::Done(self.source));
    }
}
