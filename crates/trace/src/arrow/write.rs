//! Writing an Arrow stream: rows are gathered into batches, batches are compressed.

use super::{message::Messages, rows::Rows};
use crate::{Result, sink::WriteTrace};
use arrow_ipc::{
    CompressionType,
    writer::{IpcWriteOptions, StreamWriter},
};
use event::{Event, Meta, Record, Summary};
use std::io::{BufWriter, Write};

/// A batch is written piece by piece, most of them short.
const BUFFER: usize = 256 << 10;

/// Of zstd: what costs a recording least and packs times and ids nearly as well as 3 does.
const LEVEL: i32 = 1;

pub struct ArrowWriter<W: Write> {
    out: StreamWriter<BufWriter<W>>,
    rows: Rows,
    /// What was found in the trace, as JSON.
    found: Option<String>,
    /// Nothing more is written: it has its end, or its file may end inside of a batch.
    closed: bool,
}

impl<W: Write> ArrowWriter<W> {
    pub fn new(out: W, meta: &Meta) -> Result<Self> {
        let rows = Rows::new(meta)?;
        let options = IpcWriteOptions::default()
            .try_with_compression(Some(CompressionType::ZSTD))?
            .try_with_compression_level(Some(LEVEL))?;
        let out = BufWriter::with_capacity(BUFFER, out);
        let mut out = StreamWriter::try_new_with_options(out, rows.schema(), options)?;
        out.flush()?;
        Ok(ArrowWriter {
            out,
            rows,
            found: None,
            closed: false,
        })
    }

    fn write_batch(&mut self) -> Result<()> {
        if let Some(batch) = self.rows.take()? {
            // Whole batches only: what a reader sees of a trace that is being written can be read.
            let written = self.out.write(&batch).and_then(|()| self.out.flush());
            self.closed |= written.is_err();
            written?;
        }
        Ok(())
    }
}

impl<W: Write + Send> WriteTrace for ArrowWriter<W> {
    fn write(&mut self, record: &Record) -> Result<()> {
        self.rows.add(record)?;
        if self.rows.is_full() {
            self.write_batch()?;
        }
        Ok(())
    }

    fn write_whole(&mut self, _: &Record, event: &Event, duration: u64) -> Result<()> {
        self.rows.add_whole(event, duration)?;
        if self.rows.is_full() {
            self.write_batch()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.write_batch()
    }

    fn finish(&mut self, summary: &Summary) -> Result<()> {
        // Such a tail is a batch of its own: it is found without the rows.
        if self.found.is_some() {
            self.write_batch()?;
        }
        self.rows.add_summary(summary, self.found.as_deref())?;
        self.write_batch()?;
        self.closed = true;
        self.out.finish()?;
        Ok(self.out.flush()?)
    }

    fn keep(&mut self, found: String) {
        self.found = Some(found);
    }

    fn pending(&self) -> u64 {
        self.rows.most_bytes()
    }

    fn late(&self) -> Option<u64> {
        Some(self.rows.late())
    }
}

impl<W: Write> Drop for ArrowWriter<W> {
    /// A writer that was not finished still leaves every event it was given.
    fn drop(&mut self) {
        if !self.closed {
            let _ = self.write_batch();
        }
    }
}

/// The tail of a stream whose head and rows are there: a batch with dictionaries of its own, and the end.
pub fn tail(meta: &Meta, summary: &Summary) -> Result<Vec<u8>> {
    let mut stream = Vec::new();
    ArrowWriter::new(&mut stream, meta)?.finish(summary)?;
    let mut messages = Messages::new(&*stream);
    messages.next()?;
    let head = messages.offset() as usize;
    Ok(stream.split_off(head))
}
