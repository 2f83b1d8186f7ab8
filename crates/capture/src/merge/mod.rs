//! Several back ends, one trace: their records in the order of time, ids that are unique, and each
//! call inside the one that encloses it, from whatever source.
//!
//! Every back end writes into an [`Inlet`] as if it were alone. One thread takes what all of them
//! wrote, waits until no earlier record can come, and writes on. What is inside what is found out behind it
//! ([`Nested`]), and for a back end that is alone likewise.

pub mod graph_nodes;
mod graph_origins;
mod ids;
mod inlet;
mod nesting;
mod order;
mod run;
#[cfg(test)]
mod tests;

pub use inlet::Inlet;
pub use nesting::Nested;
pub use run::Merged;

use crate::Sink;
use event::{Backend, Name, Record};
use run::Run;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Batches under way between the back ends and the thread that merges them.
const BATCHES: usize = 256;

/// What an inlet tells the merging thread; `usize` is the source's number.
enum Message {
    Source {
        name: Name,
        /// Its calls are the ones that GPU work names as its cause.
        calls: bool,
    },
    Begin(usize, Vec<Backend>),
    Entries(usize, Vec<Entry>),
    /// No record older than this will come.
    Until(usize, u64),
    Done(usize),
}

/// What a source hands in, in its own order of time.
#[derive(Debug)]
// Nearly all are records: a box for each would cost more than the room that the others waste.
#[allow(clippy::large_enum_variant)]
enum Entry {
    Record(Record),
    /// A span by its end, whose beginning was not handed in.
    Whole(Record),
    /// The end of a span whose beginning has been written, with its final ids.
    End(Record),
    ThreadBegins {
        pid: u32,
        tid: u32,
        ns: u64,
    },
}

impl Entry {
    fn ts(&self) -> u64 {
        match self {
            Entry::Record(record) | Entry::End(record) => record.ts(),
            Entry::Whole(Record::Event(event)) => event.start,
            Entry::Whole(record) => record.ts(),
            Entry::ThreadBegins { ns, .. } => *ns,
        }
    }
}

/// Merges the records of several back ends into one sink.
pub struct Merge<S> {
    sender: SyncSender<Message>,
    sources: usize,
    thread: JoinHandle<Merged<S>>,
}

impl<S: Sink> Merge<S> {
    /// `window`: how long a record waits for earlier ones of a source that does not say how far it is.
    pub fn new(sink: S, window: Duration) -> io::Result<Self> {
        let (sender, receiver): (_, Receiver<Message>) = sync_channel(BATCHES);
        let thread = std::thread::Builder::new()
            .name("cutrace-merge".into())
            .spawn(move || {
                crate::launch::block_signals();
                Run::new(sink, window).until_done(&receiver)
            })?;
        Ok(Merge {
            sender,
            sources: 0,
            thread,
        })
    }

    /// One more back end. All must be named before the first of them writes: their ids are
    /// interleaved by their number.
    pub fn source(&mut self, name: impl Into<Name>) -> Inlet {
        self.add(name.into(), false)
    }

    /// The same for one that records CUDA calls: GPU work names those of the first such as its cause.
    pub fn source_of_calls(&mut self, name: impl Into<Name>) -> Inlet {
        self.add(name.into(), true)
    }

    fn add(&mut self, name: Name, calls: bool) -> Inlet {
        let number = self.sources;
        self.sources += 1;
        // A thread that is gone is noticed by the first write.
        let _ = self.sender.send(Message::Source { name, calls });
        Inlet::new(number, self.sender.clone())
    }

    /// Waits until every inlet is done and everything has been written.
    pub fn finish(self) -> Merged<S> {
        drop(self.sender);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
