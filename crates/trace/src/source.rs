//! Where records come from: one narrow interface, whatever the format.

use crate::{
    Error, Parts, Result, Warnings, arrow, batch::Batch, join::Joiner, jsonl, parquet,
    pipeline::Batches, sink::Format,
};
use event::{Extent, Lost, Meta, Record, Summary};
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// A trace whose head has been read.
pub struct Opened {
    pub meta: Meta,
    pub warnings: Warnings,
    /// Lines that the head took.
    pub lines: u64,
    pub batches: Box<dyn Batches>,
}

/// A trace that is being read, in bounded memory: what is kept are the spans that are open, and
/// a few batches of records.
pub struct Reader {
    meta: Meta,
    batches: Box<dyn Batches>,
    joiner: Joiner,
    batch: Batch,
    /// Records of the batch that were handed out.
    next: usize,
    ended: bool,
    read: Option<ReadSoFar>,
}

/// How much of a file has been read.
struct ReadSoFar {
    bytes: Arc<AtomicU64>,
    size: u64,
}

/// A file that says how much of it has been read.
struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Enough to tell the formats apart.
const SNIFFED: usize = 8;
/// Threads that decode, at most: one reader alone cannot keep more busy.
const MOST_WORKERS: usize = 4;

impl Reader {
    /// Read a trace in whichever format it turns out to have; `hint` decides where that is open.
    pub fn new(input: impl Read + Send + 'static, hint: Option<Format>) -> Result<Self> {
        Reader::with(input, hint, Parts::ALL)
    }

    /// The same, but leave parts of events unread.
    pub fn with(
        input: impl Read + Send + 'static,
        hint: Option<Format>,
        parts: Parts,
    ) -> Result<Self> {
        let mut input = BufReader::with_capacity(256 << 10, input);
        let head = input.fill_buf()?;
        let head = head[..head.len().min(SNIFFED)].to_vec();
        Ok(Reader::of(match sniff(&head)?.or(hint) {
            Some(Format::Arrow) => arrow::open(input, parts)?,
            Some(Format::Csv) => {
                let what = "a CSV table, which cutrace only writes: use the trace it was made from";
                return Err(Error::NotATrace(what.into()));
            }
            Some(Format::Jsonl | Format::Parquet) | None => jsonl::open(input, parts)?,
        }))
    }

    fn of(opened: Opened) -> Self {
        Reader {
            meta: opened.meta,
            batches: opened.batches,
            joiner: Joiner::new(opened.warnings, opened.lines),
            batch: Batch::default(),
            next: 0,
            ended: false,
            read: None,
        }
    }

    /// How much of the trace has been read, from 0 to 1; None if its size is not known.
    pub fn share(&self) -> Option<f64> {
        let so_far = self.read.as_ref().filter(|so_far| so_far.size > 0)?;
        Some(so_far.bytes.load(Ordering::Relaxed) as f64 / so_far.size as f64)
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The tail of the trace, once its end has been reached; None if it has none.
    pub fn summary(&self) -> Option<&Summary> {
        self.joiner.summary.as_ref()
    }

    /// What could not be read as it stands, so far. Records are read some thousands at a time:
    /// this may speak of some that are still to be handed out.
    pub fn warnings(&self) -> &Warnings {
        &self.joiner.warnings
    }

    /// Spans that have begun and not ended, so far; as with [`Reader::warnings`].
    pub fn open_spans(&self) -> usize {
        self.joiner.open_spans()
    }

    /// From here on give each span once, complete, when it ends; those that never end come last,
    /// open. Without this a span is given twice: open when it begins, closed when it ends.
    pub fn whole(mut self) -> Self {
        let rest = self.batch.records.drain(self.next..);
        let (begun, rest): (Vec<Record>, Vec<Record>) = rest.partition(
            |record| matches!(record, Record::Event(event) if event.extent == Extent::Open),
        );
        self.batch.records.extend(rest);
        let begun = begun.into_iter().filter_map(|record| match record {
            Record::Event(event) => Some(event),
            _ => None,
        });
        self.joiner.only_whole(begun);
        self
    }

    /// From here on decode in threads of their own, which run some batches ahead. For traces that
    /// are long, and readers that have work of their own to do.
    pub fn ahead(mut self) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.batches = self.batches.ahead(cores.min(MOST_WORKERS));
        self
    }

    /// The next records, some thousands at once: cheaper than one by one. None at the end.
    pub fn next_batch(&mut self) -> Result<Option<&[Record]>> {
        self.next_records()?;
        let from = std::mem::replace(&mut self.next, self.batch.records.len());
        let records = &self.batch.records[from..];
        Ok((!records.is_empty()).then_some(records))
    }

    /// Where in the file the batch, or the line, begins that the last records come from.
    pub(crate) fn unit(&self) -> u64 {
        self.batch.origin.byte
    }

    /// The records that [`Reader::next_batch`] gave last, with those of their batch that were handed out before.
    pub(crate) fn handed_out(&self) -> &[Record] {
        &self.batch.records[..self.next]
    }

    /// Have records to hand out, unless there are none left.
    fn next_records(&mut self) -> Result<()> {
        while self.next == self.batch.records.len() && !self.ended {
            let old = std::mem::take(&mut self.batch);
            self.next = 0;
            if !self.joiner.ended
                && let Some(batch) = self.batches.next(old)?
            {
                self.batch = batch;
                self.joiner.join(&mut self.batch);
                continue;
            }
            self.ended = true;
            self.joiner.end();
            self.batch.records = (self.joiner.take_open().into_iter())
                .map(Record::Event)
                .collect();
        }
        Ok(())
    }
}

impl Iterator for Reader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.next_records() {
            self.ended = true;
            return Some(Err(error));
        }
        let record = self.batch.records.get_mut(self.next)?;
        self.next += 1;
        Some(Ok(std::mem::replace(record, handed_out())))
    }
}

/// What stands where a record was.
fn handed_out() -> Record {
    Record::Lost(Lost {
        ts: 0,
        count: 0,
        source: None,
        layer: None,
        pid: None,
        tid: None,
    })
}

/// Open a trace, in whichever format it is.
pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
    open_with(path, Parts::ALL)
}

/// Open a trace, and leave parts of its events unread.
pub fn open_with(path: impl AsRef<Path>, parts: Parts) -> Result<Reader> {
    let path = path.as_ref();
    if parquet::is_recording(path) {
        let opened = parquet::open(path, parts).map_err(|source| Error::In {
            path: path.into(),
            source: Box::new(source),
        })?;
        return Ok(Reader::of(opened));
    }
    let file = File::open(path).map_err(|source| Error::Open {
        path: path.into(),
        source,
    })?;
    let found = file.metadata().ok().filter(fs::Metadata::is_file);
    let read = Arc::new(AtomicU64::new(0));
    let counted = Counted {
        file,
        read: read.clone(),
    };
    let mut reader =
        Reader::with(counted, Format::of(path), parts).map_err(|source| Error::In {
            path: path.into(),
            source: Box::new(source),
        })?;
    reader.read = found.map(|found| ReadSoFar {
        bytes: read,
        size: found.len(),
    });
    Ok(reader)
}

/// The format by the file's first bytes, or a word on what else it is.
fn sniff(head: &[u8]) -> Result<Option<Format>> {
    let other: &'static str = match head {
        [0xff, 0xff, 0xff, 0xff, ..] => return Ok(Some(Format::Arrow)),
        [b'{', ..] => return Ok(Some(Format::Jsonl)),
        [0x1f, 0x8b, ..] => "compressed with gzip: decompress it first",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "compressed with zstd: decompress it first",
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] => {
            "an Arrow file; traces are Arrow streams (in Python: pyarrow.ipc.new_stream)"
        }
        [b'P', b'A', b'R', b'1', ..] => {
            "a Parquet file, which is read by its name and not from a pipe"
        }
        [b'[', ..] => "a JSON list, perhaps a Chrome trace; traces are JSON lines",
        _ => return Ok(None),
    };
    Err(Error::NotATrace(other.into()))
}
