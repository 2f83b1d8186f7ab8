//! What can go wrong with a trace as a whole, and what can be wrong with a part of it.

use std::{borrow::Cow, fmt, io, path::PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

/// The trace cannot be read or written at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open {path}: {source}")]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot create {path}: {source}")]
    Create { path: PathBuf, source: io::Error },
    /// What is wrong with the trace in this file.
    #[error("{path}: {source}")]
    In { path: PathBuf, source: Box<Error> },
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the file is empty: nothing was traced, or the tracer was killed before it started")]
    Empty,
    #[error("not a trace: {0}")]
    NotATrace(Cow<'static, str>),
    #[error(
        "the trace has format version {found}, this cutrace reads up to {supported}: \
         read it with a newer cutrace"
    )]
    Version { found: u64, supported: u32 },
    #[error("{0}: the extension selects the format: use .jsonl, .arrows, .csv or .parquet")]
    Extension(PathBuf),
    #[error("event {id} is {size} bytes as text, more than the limit of {limit} per line")]
    TooLong { id: u64, size: usize, limit: usize },
    #[error("the arguments of event {id} are nested more than {limit} deep")]
    TooDeep { id: u64, limit: usize },
    #[error("time {time} ns is too far from the trace's start at {start} ns")]
    Time { time: u64, start: u64 },
    #[error("id {0} is too large to stay distinct from the other traces' ids: merge fewer traces")]
    MergeId(u64),
    #[error(
        "process {0} is beyond Linux's largest process number, so this trace cannot be merged with those of other hosts"
    )]
    MergeProcess(u32),
    #[error(
        "traces of at most {0} hosts and containers can be merged: merge fewer, or load them into a lake"
    )]
    MergeSpaces(u32),
    #[error(
        "trace {0} does not say when it began, and it was recorded on another host or boot than the others: \
         there is no common clock to merge them by"
    )]
    MergeClock(usize),
    #[error("nothing to convert: name at least one trace")]
    NoInput,
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
}

impl Error {
    /// The reader of what we wrote has stopped reading: no failure of ours.
    pub fn is_broken_pipe(&self) -> bool {
        let source = match self {
            Error::Io(source) => source,
            Error::Arrow(arrow_schema::ArrowError::IoError(_, source)) => source,
            _ => return false,
        };
        source.kind() == io::ErrorKind::BrokenPipe
    }
}

/// What is wrong with a batch or a dictionary: nothing behind it can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BatchDamage(pub &'static str);

impl From<&'static str> for BatchDamage {
    fn from(what: &'static str) -> Self {
        BatchDamage(what)
    }
}

/// Why rows of a table could not be read: they are damaged, or another program wrote them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RowsError {
    #[error("a message whose header is invalid")]
    Header,
    #[error(transparent)]
    Batch(#[from] BatchDamage),
    #[error("rows without times")]
    NoTimes,
    #[error("rows without a type")]
    NoType,
    #[error("a key that its dictionary has not")]
    Key,
    #[error("a number too large for its field")]
    TooLarge,
    #[error("a column {0:?} of another type")]
    ColumnType(String),
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    /// The file of the next rows could not be opened.
    #[error(transparent)]
    Open(Box<Error>),
}

/// Where in a file something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilePosition {
    /// Lines count from 1; the byte is the line's first.
    Line {
        line: u64,
        byte: u64,
    },
    Byte(u64),
    /// A row of an Arrow stream, from 1, and where its batch begins.
    Row {
        row: u64,
        byte: u64,
    },
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilePosition::Line { line, byte } => write!(f, "line {line} (byte {byte})"),
            FilePosition::Byte(byte) => write!(f, "byte {byte}"),
            FilePosition::Row { row, byte } => write!(f, "row {row} (batch at byte {byte})"),
        }
    }
}

/// Something that could not be read as it stands; the rest of the trace was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The first place it was met.
    pub place: Option<FilePosition>,
    pub text: Cow<'static, str>,
    /// How often.
    pub count: u64,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}", self.text)?;
        if self.count > 1 {
            write!(f, " (and {} more like it)", self.count - 1)?;
        }
        Ok(())
    }
}

/// Warnings in the order they were met, alike ones counted together, of bounded size.
#[derive(Debug, Clone, Default)]
pub struct Warnings {
    list: Vec<Warning>,
}

/// Different warnings kept; a file that is damaged in more ways than this is simply damaged.
const MOST_WARNINGS: usize = 100;

impl Warnings {
    pub fn add(
        &mut self,
        place: impl Into<Option<FilePosition>>,
        text: impl Into<Cow<'static, str>>,
    ) {
        let text = text.into();
        if let Some(same) = self.list.iter_mut().find(|warning| warning.text == text) {
            same.count += 1;
        } else if self.list.len() < MOST_WARNINGS {
            self.list.push(Warning {
                place: place.into(),
                text,
                count: 1,
            });
        } else {
            let last = "there are more kinds of damage than are listed here";
            match self.list.get_mut(MOST_WARNINGS) {
                Some(rest) => rest.count += 1,
                None => self.list.push(Warning {
                    place: place.into(),
                    text: last.into(),
                    count: 1,
                }),
            }
        }
    }

    pub fn as_slice(&self) -> &[Warning] {
        &self.list
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_warnings_are_counted_and_the_list_is_bounded() {
        let mut warnings = Warnings::default();
        for line in 1..=3 {
            warnings.add(
                FilePosition::Line {
                    line,
                    byte: line * 10,
                },
                "not JSON",
            );
        }
        assert_eq!(
            warnings.as_slice()[0].to_string(),
            "line 1 (byte 10): not JSON (and 2 more like it)"
        );
        for kind in 0..1000 {
            warnings.add(None, format!("kind {kind}"));
        }
        assert_eq!(warnings.as_slice().len(), MOST_WARNINGS + 1);
    }
}
