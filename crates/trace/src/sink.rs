//! Where records go: one narrow interface, whatever the format.

use crate::{
    Error, Result,
    arrow::ArrowWriter,
    jsonl::JsonlWriter,
    open_spans::OpenSpans,
    table::{CsvWriter, ParquetWriter},
};
use event::{Event, Extent, Meta, Record, Summary, Tally};
use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// A trace format that can be written.
pub trait WriteTrace: Send {
    fn write(&mut self, record: &Record) -> Result<()>;
    /// The record of a closed span whose beginning was not written, and that beginning before it.
    fn write_whole(&mut self, record: &Record, event: &Event, _duration: u64) -> Result<()> {
        self.write(&Record::Event(beginning(event)))?;
        self.write(record)
    }
    /// Hand everything written so far to the file.
    fn flush(&mut self) -> Result<()>;
    fn finish(&mut self, summary: &Summary) -> Result<()>;
    /// What was found in the trace, as JSON, for its tail. Formats that are read line by line have no place for it.
    fn keep(&mut self, _found: String) {}
    /// Bytes that [`WriteTrace::flush`] would write, or more.
    fn pending(&self) -> u64 {
        0
    }
    /// Lines that are behind later ones; None if it keeps the order in which they come.
    fn late(&self) -> Option<u64> {
        None
    }
}

/// A format, by the extension that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Jsonl,
    Arrow,
    /// A table, to be written only.
    Csv,
    /// A table, to be written only.
    Parquet,
}

impl Format {
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "jsonl" => Some(Format::Jsonl),
            "arrows" => Some(Format::Arrow),
            "csv" => Some(Format::Csv),
            "parquet" => Some(Format::Parquet),
            _ => None,
        }
    }

    /// Whether it holds a whole trace, that can be read again.
    pub fn is_trace(self) -> bool {
        matches!(self, Format::Jsonl | Format::Arrow)
    }
}

/// A trace that is being written.
///
/// Records come in time order, or nearly so: those that do not are counted. A closed span whose beginning was not written gets it written
/// just before its end, so back ends that only learn of whole spans may hand them in as such.
pub struct Writer {
    format: Box<dyn WriteTrace>,
    open: OpenSpans<()>,
    tally: Tally,
    latest: u64,
    late: u64,
    records: u64,
}

impl Writer {
    pub fn new(out: impl Write + Send + 'static, format: Format, meta: &Meta) -> Result<Self> {
        Ok(Writer {
            format: match format {
                Format::Jsonl => Box::new(JsonlWriter::new(out, meta)?),
                Format::Arrow => Box::new(ArrowWriter::new(out, meta)?),
                Format::Csv => Box::new(CsvWriter::new(out, meta)?),
                Format::Parquet => Box::new(ParquetWriter::new(out, meta)?),
            },
            open: OpenSpans::default(),
            tally: Tally::default(),
            latest: 0,
            late: 0,
            records: 0,
        })
    }

    /// After an error the record is not in the trace; the next one may be written.
    pub fn write(&mut self, record: &Record) -> Result<()> {
        if let Record::Event(event) = record
            && let Extent::Closed(duration) = event.extent
            && self.open.remove(event.id).is_none()
        {
            self.format.write_whole(record, event, duration)?;
            self.came(event.start);
        } else {
            self.format.write(record)?;
        }
        self.came(record.ts());
        self.note(record);
        Ok(())
    }

    /// Counts a record that cannot be written any more, so that the summary knows what is missing.
    pub fn count(&mut self, record: &Record) {
        if let Record::Event(event) = record
            && matches!(event.extent, Extent::Closed(_))
        {
            self.open.remove(event.id);
        }
        self.note(record);
    }

    fn note(&mut self, record: &Record) {
        if let Record::Event(event) = record
            && event.extent == Extent::Open
        {
            self.open.insert(event.id, ());
        }
        self.tally.add(record);
    }

    fn came(&mut self, time: u64) {
        self.records += 1;
        self.late += u64::from(time < self.latest);
        self.latest = self.latest.max(time);
    }

    /// Records that were written behind later ones; [`crate::put_in_order`] puts them in their places.
    pub fn late(&self) -> u64 {
        self.format.late().unwrap_or(self.late)
    }

    /// Lines or rows written, without the head and the tail.
    pub fn records(&self) -> u64 {
        self.records
    }

    pub fn flush(&mut self) -> Result<()> {
        self.format.flush()
    }

    /// Keeps what was found in the trace, as JSON, in its tail, where the format has a place for it: [`crate::found`] gives
    /// it back.
    pub fn keep(&mut self, found: String) {
        self.format.keep(found);
    }

    /// Bytes that [`Writer::flush`] would write, or more.
    pub fn pending(&self) -> u64 {
        self.format.pending()
    }

    /// Goes on where another writer has arrived, which was given the same records. What this one has not
    /// flushed is not written any more.
    pub fn go_on_in(&mut self, other: Writer) {
        self.format = other.format;
    }

    /// What the records written so far add up to, to be completed with what only the tracer
    /// knows and given to [`Writer::finish_with`].
    pub fn summary(&self) -> Summary {
        self.tally.summary(self.open.len() as u64)
    }

    pub fn finish(self) -> Result<Summary> {
        let summary = self.summary();
        self.finish_with(&summary)?;
        Ok(summary)
    }

    pub fn finish_with(mut self, summary: &Summary) -> Result<()> {
        self.format.finish(summary)
    }
}

/// A trace file in the format its extension names; missing folders are made.
pub fn create(path: impl AsRef<Path>, meta: &Meta) -> Result<Writer> {
    let path = path.as_ref();
    let format = Format::of(path).ok_or_else(|| Error::Extension(path.into()))?;
    Writer::new(create_file(path)?, format, meta)
}

pub(crate) fn create_file(path: &Path) -> Result<File> {
    let failed = |source| Error::Create {
        path: path.into(),
        source,
    };
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    // A trace tells what a program does: it is its owner's business alone until shared.
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)
}

fn beginning(event: &Event) -> Event {
    Event {
        extent: Extent::Open,
        status: None,
        outputs: Vec::new(),
        ..event.clone()
    }
}

pub(crate) fn id_of(record: &Record) -> u64 {
    match record {
        Record::Event(event) => event.id,
        Record::Meaning(meaning) => meaning.op,
        Record::Lost(_) => 0,
    }
}
