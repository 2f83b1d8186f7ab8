//! Where a back end's records go: a trace file, or a [`crate::Merge`] with those of others.

use event::{Backend, Record};
use std::io;

/// Why records could not be kept; a back end goes on watching without keeping any.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The file, the pipe or the terminal that they are written to.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The format that they are written in.
    #[error(transparent)]
    Trace(#[from] trace::Error),
    #[error("the thread that merges the sources' records has died")]
    MergeGone,
}

impl SinkError {
    /// Whether a reader has read enough.
    pub fn is_broken_pipe(&self) -> bool {
        match self {
            SinkError::Io(why) => why.kind() == io::ErrorKind::BrokenPipe,
            SinkError::Trace(why) => why.is_broken_pipe(),
            SinkError::MergeGone => false,
        }
    }
}

/// Takes records in the order of time.
pub trait Sink: Send + 'static {
    /// Comes before the first record, once from each back end, with what it had attached by then.
    fn begin(&mut self, backend: Backend) -> Result<(), SinkError>;
    /// Several at once, from a merge that speaks for them.
    fn begin_all(&mut self, backends: Vec<Backend>) -> Result<(), SinkError> {
        backends
            .into_iter()
            .try_for_each(|backend| self.begin(backend))
    }
    /// What is settled on the way (id, correlation, parent, depth) is put into the record itself. Who keeps a span until
    /// it ends writes the same event twice.
    fn write(&mut self, record: &mut Record) -> Result<(), SinkError>;
    /// The same with a record that nobody else needs: who keeps records need not copy it.
    fn give(&mut self, mut record: Record) -> Result<(), SinkError> {
        self.write(&mut record)
    }
    /// A span during which nothing else was recorded, as the record of its end: as if its beginning had been written, too,
    /// just before. If that fails, both count as missing.
    fn write_whole(&mut self, record: &mut Record) -> Result<(), SinkError> {
        record.in_two(|record| self.write(record))
    }
    /// The same with a record that nobody else needs.
    fn give_whole(&mut self, mut record: Record) -> Result<(), SinkError> {
        self.write_whole(&mut record)
    }
    /// Whether such a span may have others' records in it after all, which are put where they belong. Spans come in the
    /// order of their beginnings then.
    fn splits_spans(&self) -> bool {
        false
    }
    /// Whether it keeps what it is given: otherwise a record that is written leaves its memory for the next.
    fn keeps_records(&self) -> bool {
        false
    }
    /// A thread of this number begins, at this time, after another that may have left calls open: its program has been
    /// replaced, or it has ended.
    fn thread_begins(&mut self, _pid: u32, _tid: u32, _ns: u64) -> Result<(), SinkError> {
        Ok(())
    }
    /// No record older than this moment will come. Who waits for the records of others wants to
    /// know; a file does not care.
    fn until(&mut self, _ns: u64) {}
    /// Hand on what has been written so far.
    fn flush(&mut self) -> Result<(), SinkError>;
}
