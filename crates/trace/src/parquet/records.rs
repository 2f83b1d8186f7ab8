//! Records of a recording, in the order of time: stretches of its files are merged, and each span's end comes when it is
//! time for it.

use super::{
    cells::{StackTexts, stack_texts},
    cursor::{Chunk, Cursor, Stretch, stretches},
    recording::Recording,
};
use crate::{
    FilePosition, Parts, Result,
    arrow::{decode::half_of, row},
    batch::{At, Batch, Form, Half, NoteKind, Origin},
    error::RowsError,
    fields::{Fields, Word},
    pipeline::Batches,
    shape::{Problem, Shaper},
};
use arrow_array::{
    Array,
    cast::AsArray,
    types::{Int32Type, UInt32Type, UInt64Type},
};
use event::{Frame, Name, Summary};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    fs::File,
    path::Path,
    sync::Arc,
};

pub struct Records {
    parts: Parts,
    shaper: Shaper,
    summary: Option<Summary>,
    recording: Option<String>,
    base: i64,
    stacks: StackTexts,
    cursors: Vec<Source>,
    /// By when their next rows begin.
    next: BinaryHeap<Reverse<(i64, usize)>>,
    ends: BinaryHeap<Reverse<End>>,
    /// Ends come in the order of their beginnings reversed, where they are of one moment.
    begun: u64,
    is_over: bool,
}

enum Source {
    Closed(Stretch),
    Open(Box<Cursor>),
}

/// The end of a span that has begun.
struct End {
    at: i64,
    begun: Reverse<u64>,
    op: Option<u64>,
    cursor: usize,
    chunk: Arc<Chunk>,
    row: usize,
}

impl End {
    fn key(&self) -> (i64, Reverse<u64>) {
        (self.at, self.begun)
    }
}

impl PartialEq for End {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for End {}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for End {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// When the next row begins, its number, and where it is.
type NextRow = (i64, usize, Arc<Chunk>, usize);

impl Records {
    pub fn new(recording: Recording, parts: Parts) -> Result<Self> {
        let mut cursors = Vec::new();
        for file in &recording.files {
            cursors.extend(stretches(file)?.into_iter().map(Source::Closed));
        }
        let next = cursors.iter().enumerate().map(|(at, source)| match source {
            Source::Closed(stretch) => Reverse((stretch.earliest, at)),
            Source::Open(_) => Reverse((i64::MIN, at)),
        });
        let stacks = match (&recording.stacks, parts.stack) {
            (Some(path), true) => read_stacks(path, recording.name.as_deref())?,
            _ => StackTexts::default(),
        };
        Ok(Records {
            parts,
            shaper: Shaper::starting_at(recording.meta.start_ns),
            base: recording.meta.start_unix_ns.unwrap_or(0).cast_signed(),
            summary: recording.summary,
            recording: recording.name,
            stacks,
            next: next.collect(),
            cursors,
            ends: BinaryHeap::new(),
            begun: 0,
            is_over: false,
        })
    }

    /// The row that begins next; the cursor is left on it.
    fn peek(&mut self) -> std::result::Result<Option<NextRow>, RowsError> {
        while let Some(Reverse((time, at))) = self.next.pop() {
            if let Source::Closed(stretch) = &self.cursors[at] {
                let name = self.recording.as_deref();
                let cursor = Cursor::open(stretch, self.parts, self.base, name, &self.stacks);
                let cursor = cursor.map_err(|error| RowsError::Open(Box::new(error)))?;
                self.cursors[at] = Source::Open(Box::new(cursor));
            }
            let Source::Open(cursor) = &mut self.cursors[at] else {
                continue;
            };
            let Some((start, chunk, row)) = cursor.peek()? else {
                continue;
            };
            self.next.push(Reverse((start, at)));
            // The time in the heap was a guess, or of the row before.
            if start > time {
                let earlier = self.next.peek();
                if earlier.is_some_and(|Reverse(first)| *first != (start, at)) {
                    continue;
                }
            }
            return Ok(Some((start, at, chunk, row)));
        }
        Ok(None)
    }

    /// Takes the row that `peek` gave.
    fn advance(&mut self, at: usize) {
        if let Source::Open(cursor) = &mut self.cursors[at] {
            cursor.advance();
        }
    }

    /// One more line.
    fn step(&mut self, batch: &mut Batch) -> std::result::Result<bool, RowsError> {
        let begins = self.peek()?;
        let parent = begins.as_ref().and_then(|(_, _, chunk, row)| {
            let parents = chunk.cells.column(crate::arrow::columns::Column::Parent)?;
            number(parents, *row)
        });
        let is_due = self.ends.peek().is_some_and(|Reverse(end)| match &begins {
            None => true,
            Some((start, ..)) => {
                end.at < *start || end.at == *start && (end.op.is_none() || end.op != parent)
            }
        });
        if is_due && let Some(Reverse(end)) = self.ends.pop() {
            self.line(&end.chunk, end.row, Some(end.at), end.cursor, batch);
            return Ok(true);
        }
        let Some((start, at, chunk, row)) = begins else {
            return Ok(false);
        };
        self.advance(at);
        match Self::extent(&chunk, row) {
            Some((phase, duration)) => {
                self.begun += 1;
                if phase == Phase::Whole {
                    self.line(&chunk, row, None, at, batch);
                }
                let ops = chunk.cells.column(crate::arrow::columns::Column::OpId);
                self.ends.push(Reverse(End {
                    at: start.saturating_add_unsigned(duration),
                    begun: Reverse(self.begun),
                    op: ops.and_then(|ops| number(ops, row)),
                    cursor: at,
                    chunk,
                    row,
                }));
            }
            None => self.line(&chunk, row, None, at, batch),
        }
        Ok(true)
    }

    /// How long the row's span is, if it has an end.
    fn extent(chunk: &Chunk, row: usize) -> Option<(Phase, u64)> {
        use crate::arrow::columns::Column;
        let phases = chunk.cells.column(Column::Phase)?;
        if !phases.has(row) {
            return None;
        }
        let durations = chunk.cells.column(Column::Duration);
        let duration = durations.and_then(|durations| number(durations, row));
        match row::text(phases, row).ok()? {
            "X" => Some((Phase::Whole, duration.unwrap_or(0))),
            // In a lake such a row is where its span began; in a file of `export` where it ended.
            "E" if chunk.is_absolute => Some((Phase::End, duration.unwrap_or(0))),
            _ => None,
        }
    }

    /// Adds the record of a line; `end` is when it was, if it is a span's end.
    fn line(&mut self, chunk: &Chunk, row: usize, end: Option<i64>, at: usize, batch: &mut Batch) {
        let mut place = At::default();
        let Source::Open(cursor) = &mut self.cursors[at] else {
            return;
        };
        let mut read = || -> std::result::Result<(), Problem> {
            let mut fields = Fields::default();
            let names = &mut self.shaper.names;
            row::fields(
                &chunk.cells,
                row,
                names,
                &mut cursor.parsed,
                self.parts,
                &mut fields,
            )?;
            let is_whole = fields
                .phase
                .as_ref()
                .is_some_and(|phase| phase.as_ref() == "X");
            if let Some(end) = end.filter(|_| !is_whole) {
                // An end alone is at its own time.
                fields.ts = Some(end.wrapping_sub(self.base));
                fields.phase = Some(Word::Text("E".into()));
                place.half = Half::Apart;
            } else {
                place.half = half_of(&mut fields, end.is_some());
            }
            let class = fields.class()?;
            let shaped = self.shaper.record(class, &mut fields)?;
            if shaped.no_duration && place.half == Half::Apart {
                batch.note(place, NoteKind::NoDuration);
            }
            for note in self.shaper.take_notes() {
                batch.warn(place, note);
            }
            batch.records.push(shaped.record);
            batch.at.push(place);
            Ok(())
        };
        if let Err(problem) = read() {
            self.shaper.take_notes().for_each(drop);
            batch.warn(place, problem);
        }
    }
}

#[derive(PartialEq, Eq)]
enum Phase {
    Whole,
    End,
}

fn number(cells: &crate::arrow::batch::Cells, row: usize) -> Option<u64> {
    match &cells.values {
        crate::arrow::batch::Values::Ints { values, .. } if cells.has(row) => {
            values.get(row).copied()
        }
        _ => None,
    }
}

impl Batches for Records {
    fn next(&mut self, mut batch: Batch) -> Result<Option<Batch>> {
        if self.is_over {
            return Ok(None);
        }
        batch.clear();
        batch.origin = Origin {
            form: Form::Rows,
            ..Origin::default()
        };
        while !batch.is_full() {
            match self.step(&mut batch) {
                Ok(true) => batch.origin.lines += 1,
                Ok(false) => {
                    self.is_over = true;
                    if let Some(summary) = self.summary.take() {
                        batch.note(At::default(), NoteKind::Summary(Box::new(summary)));
                    }
                    break;
                }
                Err(what) => {
                    self.is_over = true;
                    let what = format!("{what}: nothing behind it is read").into();
                    let place = FilePosition::Byte(0);
                    batch.note(At::default(), NoteKind::WarningAt(place, what));
                    batch.note(At::default(), NoteKind::End);
                    break;
                }
            }
        }
        Ok(Some(batch))
    }

    /// Parquet is unpacked by columns, which costs little beside the records.
    fn ahead(self: Box<Self>, _: usize) -> Box<dyn Batches> {
        self
    }
}

/// The stacks of a recording, as cells have them.
fn read_stacks(path: &Path, recording: Option<&str>) -> Result<StackTexts> {
    let reader = ParquetRecordBatchReader::try_new(File::open(path)?, 8_192)?;
    let mut frames: Vec<(u32, u32, Frame)> = Vec::new();
    for rows in reader {
        let rows = rows.map_err(std::io::Error::other)?;
        let column = |name: &str| rows.column_by_name(name);
        let small = |name: &str, row: usize| {
            let column = column(name)?.as_primitive_opt::<UInt32Type>()?;
            column.is_valid(row).then(|| column.value(row))
        };
        let large = |name: &str, row: usize| {
            let column = column(name)?.as_primitive_opt::<UInt64Type>()?;
            column.is_valid(row).then(|| column.value(row))
        };
        let text = |name: &str, row: usize| {
            let column = column(name)?.as_dictionary_opt::<Int32Type>()?;
            let key = column.key(row)?;
            let texts = column.values().as_string_opt::<i32>()?;
            (key < texts.len()).then(|| texts.value(key))
        };
        for row in 0..rows.num_rows() {
            let of = text("recording", row);
            if recording.is_some() && of.is_some() && of != recording {
                continue;
            }
            let (Some(stack), Some(level)) = (small("stack_id", row), small("level", row)) else {
                continue;
            };
            let name = |column: &str| text(column, row).map(Name::from);
            let frame = Frame {
                kind: (text("kind", row))
                    .and_then(|kind| kind.parse().ok())
                    .unwrap_or_default(),
                address: large("address", row).unwrap_or(0),
                symbol: name("symbol"),
                offset: large("offset", row),
                module: name("module"),
                file: name("file"),
                line: small("line", row),
            };
            frames.push((stack, level, frame));
        }
    }
    Ok(stack_texts(frames.into_iter()))
}
