//! Writing an Arrow stream: rows are gathered into batches.

use super::{
    message::Messages,
    output::{Output, Stream},
    rows::Rows,
};
use crate::{Result, sink::WriteTrace};
use arrow_ipc::{
    CompressionType,
    writer::{IpcWriteOptions, StreamWriter},
};
use event::{Event, Meta, Record, Summary};
use std::io::{BufWriter, IntoInnerError, Write};

/// A batch is written piece by piece, most of them short.
const BUFFER: usize = 256 << 10;

/// Of zstd: what costs a recording least and packs times and ids nearly as well as 3 does.
const LEVEL: i32 = 1;

pub struct ArrowWriter<W: Write + Send + 'static> {
    out: Output<W>,
    rows: Rows,
    /// What was found in the trace, as JSON.
    found: Option<String>,
    /// Nothing more is written: it has its end, or its file may end inside of a batch.
    closed: bool,
}

impl<W: Write + Send + 'static> ArrowWriter<W> {
    pub fn new(out: W, meta: &Meta) -> Result<Self> {
        let rows = Rows::new(meta)?;
        let mut out = stream(out, &rows)?;
        out.flush()?;
        Ok(ArrowWriter {
            out: Output::new(out),
            rows,
            found: None,
            closed: false,
        })
    }

    fn write_batch(&mut self) -> Result<()> {
        let most_bytes = self.rows.most_bytes();
        if let Some(batch) = self.rows.take()? {
            let written = self.out.write(batch, most_bytes);
            self.closed |= written.is_err();
            written?;
        }
        Ok(())
    }
}

impl<W: Write + Send + 'static> WriteTrace for ArrowWriter<W> {
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
        self.write_batch()?;
        let flushed = self.out.flush();
        self.closed |= flushed.is_err();
        flushed
    }

    fn finish(&mut self, summary: &Summary) -> Result<()> {
        // Such a tail is a batch of its own: it is found without the rows.
        if self.found.is_some() {
            self.write_batch()?;
        }
        self.rows.add_summary(summary, self.found.as_deref())?;
        self.write_batch()?;
        self.closed = true;
        let stream = self.out.stream()?;
        stream.finish()?;
        Ok(stream.flush()?)
    }

    fn keep(&mut self, found: String) {
        self.found = Some(found);
    }

    fn pending(&self) -> u64 {
        self.rows.most_bytes() + self.out.pending()
    }

    fn late(&self) -> Option<u64> {
        Some(self.rows.late())
    }
}

impl<W: Write + Send + 'static> Drop for ArrowWriter<W> {
    /// A writer that was not finished still leaves every event it was given.
    fn drop(&mut self) {
        if !self.closed {
            let _ = self.write_batch();
        }
    }
}

fn stream<W: Write>(out: W, rows: &Rows) -> Result<Stream<W>> {
    let options = IpcWriteOptions::default()
        .try_with_compression(Some(CompressionType::ZSTD))?
        .try_with_compression_level(Some(LEVEL))?;
    let out = BufWriter::with_capacity(BUFFER, out);
    Ok(StreamWriter::try_new_with_options(
        out,
        rows.schema(),
        options,
    )?)
}

/// The tail of a stream whose head and rows are there: a batch with dictionaries of its own, and the end.
pub fn tail(meta: &Meta, summary: &Summary) -> Result<Vec<u8>> {
    let mut rows = Rows::new(meta)?;
    let mut stream = stream(Vec::new(), &rows)?;
    rows.add_summary(summary, None)?;
    if let Some(batch) = rows.take()? {
        stream.write(&batch)?;
    }
    stream.finish()?;
    let mut bytes = stream
        .into_inner()?
        .into_inner()
        .map_err(IntoInnerError::into_error)?;
    let mut messages = Messages::new(&*bytes);
    messages.next()?;
    let head = messages.offset() as usize;
    Ok(bytes.split_off(head))
}
