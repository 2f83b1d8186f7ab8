//! Where records come from: one narrow interface, whatever the format.

use crate::{Error, Result, Warnings, arrow::ArrowReader, jsonl::JsonlReader, sink::Format};
use event::{Meta, Record, Summary};
use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

/// A trace format that can be read.
pub trait ReadTrace: Send {
    fn meta(&self) -> &Meta;
    fn next(&mut self) -> Result<Option<Record>>;
    /// The tail; known once everything before it has been read.
    fn summary(&self) -> Option<&Summary>;
    fn warnings(&self) -> &Warnings;
    fn only_whole(&mut self);
    fn open_spans(&self) -> usize;
}

/// A trace that is being read, in bounded memory: what is kept are the spans that are open.
pub struct Reader {
    format: Box<dyn ReadTrace>,
}

/// Enough to tell the formats apart.
const SNIFFED: usize = 8;

impl Reader {
    /// Read a trace in whichever format it turns out to have; `hint` decides where that is open.
    pub fn new(input: impl Read + Send + 'static, hint: Option<Format>) -> Result<Self> {
        let mut input = BufReader::with_capacity(256 << 10, input);
        let head = input.fill_buf()?;
        let head = head[..head.len().min(SNIFFED)].to_vec();
        let format: Box<dyn ReadTrace> = match sniff(&head)?.or(hint) {
            Some(Format::Arrow) => Box::new(ArrowReader::new(input)?),
            Some(Format::Jsonl) | None => Box::new(JsonlReader::new(input)?),
        };
        Ok(Reader { format })
    }

    pub fn meta(&self) -> &Meta {
        self.format.meta()
    }

    /// The tail of the trace, once its end has been reached; None if it has none.
    pub fn summary(&self) -> Option<&Summary> {
        self.format.summary()
    }

    /// What could not be read as it stands, so far.
    pub fn warnings(&self) -> &Warnings {
        self.format.warnings()
    }

    /// Spans that have begun and not ended, so far.
    pub fn open_spans(&self) -> usize {
        self.format.open_spans()
    }

    /// From here on give each span once, complete, when it ends; those that never end come last,
    /// open. Without this a span is given twice: open when it begins, closed when it ends.
    pub fn whole(mut self) -> Self {
        self.format.only_whole();
        self
    }
}

impl Iterator for Reader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.format.next().transpose()
    }
}

/// Open a trace, in whichever format it is.
pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|source| Error::Open {
        path: path.into(),
        source,
    })?;
    Reader::new(file, Format::of(path)).map_err(|source| Error::In {
        path: path.into(),
        source: Box::new(source),
    })
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
        [b'P', b'A', b'R', b'1', ..] => "a Parquet file, which is for export only",
        [b'[', ..] => "a JSON list, perhaps a Chrome trace; traces are JSON lines",
        _ => return Ok(None),
    };
    Err(Error::NotATrace(other.into()))
}
