//! Records as they are decoded, some thousands at a time: each a line's or row's own, ends not
//! yet joined to their beginnings, with notes on what was odd.

use crate::FilePosition;
use event::{Record, Summary};
use std::borrow::Cow;

/// Records of a batch: enough to make handing over cheap, few enough to stay in a core's cache.
pub const BATCH_RECORDS: usize = 2_048;

/// What decoding a piece of a file gave.
#[derive(Default)]
pub struct Batch {
    pub records: Vec<Record>,
    /// Where each record comes from.
    pub at: Vec<At>,
    /// In the order of the file.
    pub notes: Vec<Note>,
    pub origin: Origin,
}

/// Where a batch's lines or rows are counted from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Origin {
    pub form: Form,
    /// Lines or rows that this batch used up.
    pub lines: u32,
    /// The byte of the file that [`At::byte`] counts from.
    pub byte: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub enum Form {
    #[default]
    Lines,
    Rows,
}

/// A place within a batch.
#[derive(Debug, Clone, Copy, Default)]
pub struct At {
    /// The line or row, from 0.
    pub line: u32,
    pub byte: u32,
    pub half: Half,
}

/// Which half of a span a record is, where both are read together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Half {
    /// It is to be joined to its other half.
    #[default]
    Apart,
    Begin,
    /// Complete: it has what its beginning says.
    End,
}

/// Something to know before the record number `before` is looked at.
pub struct Note {
    pub before: u32,
    pub at: At,
    pub what: NoteKind,
}

pub enum NoteKind {
    Warning(Cow<'static, str>),
    /// A warning whose place is not one of the batch's lines.
    WarningAt(FilePosition, Cow<'static, str>),
    /// The record is the end of a span and does not say how long it was.
    NoDuration,
    Summary(Box<Summary>),
    /// Nothing behind this is to be read.
    End,
}

impl Batch {
    pub fn clear(&mut self) {
        self.records.clear();
        self.at.clear();
        self.notes.clear();
        self.origin = Origin::default();
    }

    pub fn note(&mut self, at: At, what: NoteKind) {
        self.notes.push(Note {
            before: self.records.len() as u32,
            at,
            what,
        });
    }

    pub fn warn(&mut self, at: At, text: impl Into<Cow<'static, str>>) {
        self.note(at, NoteKind::Warning(text.into()));
    }

    pub fn is_full(&self) -> bool {
        self.records.len() >= BATCH_RECORDS
    }
}

impl Origin {
    /// The place in the file, where `lines` were used up before this batch.
    pub fn place(&self, at: At, lines: u64) -> FilePosition {
        let line = lines + u64::from(at.line) + 1;
        match self.form {
            Form::Lines => FilePosition::Line {
                line,
                byte: self.byte + u64::from(at.byte),
            },
            Form::Rows => FilePosition::Row {
                row: line,
                byte: self.byte,
            },
        }
    }
}
