//! Batches of rows → records.

use super::{
    batch::{self, Batch as Rows},
    lines::{self, Line},
    plan::Plan,
    row,
    row::Parsed,
    units::{Unit, nothing_behind},
};
use crate::{
    FilePosition, Parts,
    batch::{At, Batch, Form, Half, NoteKind, Origin},
    error::BatchDamage,
    fields::{Class, Fields, Word},
    pipeline::Decode,
    shape::{Problem, Shaper},
};
use event::Summary;
use std::sync::Arc;

/// Decodes batches of rows.
pub struct Decoder {
    plan: Arc<Plan>,
    parts: Parts,
    shaper: Shaper,
    unit: Unit,
    rows: Rows,
    /// The unit's lines, in order.
    lines: Vec<Line>,
    next_line: usize,
    parsed: Parsed,
    /// The unit's columns are decoded.
    begun: bool,
    dictionaries: batch::OwnDictionaries,
}

enum Row {
    Record,
    Summary(Box<Summary>),
}

impl Decoder {
    pub fn new(plan: Arc<Plan>, parts: Parts) -> Self {
        Decoder {
            shaper: Shaper::starting_at(plan.meta.start_ns),
            plan,
            parts,
            unit: Unit::default(),
            rows: Rows::default(),
            lines: Vec::new(),
            next_line: 0,
            parsed: Parsed::default(),
            begun: true,
            dictionaries: batch::OwnDictionaries::default(),
        }
    }

    fn decode(&mut self) -> Result<(), BatchDamage> {
        let no_sense = BatchDamage("a message with an invalid header");
        let message = arrow_ipc::root_as_message(&self.unit.header).map_err(|_| no_sense)?;
        let header = message.header_as_record_batch().ok_or(no_sense)?;
        self.dictionaries.follow(&self.unit.dictionaries);
        batch::decode(
            header,
            &self.unit.body,
            &self.plan,
            &batch::of_parts(self.parts),
            &self.dictionaries,
            &mut self.rows,
        )?;
        let inside = row::lines_inside(&self.rows);
        lines::order(self.rows.rows, inside, &mut self.lines);
        Ok(())
    }

    fn read_line(&mut self, line: Line, mut at: At, batch: &mut Batch) -> Result<Row, Problem> {
        let mut fields = Fields::default();
        let names = &mut self.shaper.names;
        let (rows, parsed) = (&self.rows, &mut self.parsed);
        let details = row::fields(rows, line.row(), names, parsed, self.parts, &mut fields)?;
        at.half = half_of(&mut fields, line.is_end());
        match fields.class()? {
            Class::Summary => {
                let summary = serde_json::from_str(details.ok_or("a summary without details")?);
                let summary =
                    summary.map_err(|error| format!("a summary that cannot be read: {error}"))?;
                Ok(Row::Summary(Box::new(summary)))
            }
            class => {
                let shaped = self.shaper.record(class, &mut fields)?;
                if shaped.no_duration && at.half == Half::Apart {
                    batch.note(at, NoteKind::NoDuration);
                }
                for note in self.shaper.take_notes() {
                    batch.warn(at, note);
                }
                batch.records.push(shaped.record);
                batch.at.push(at);
                Ok(Row::Record)
            }
        }
    }
}

/// Makes the fields of a row those of one of its lines.
pub fn half_of(fields: &mut Fields<'_>, is_end: bool) -> Half {
    if is_end {
        fields.complete = true;
        return Half::End;
    }
    let is_whole = (fields.phase.as_ref()).is_some_and(|phase| phase.as_ref() == "X");
    if !is_whole {
        return Half::Apart;
    }
    // What only its end says is the other line's.
    fields.phase = Some(Word::Text("B".into()));
    (
        fields.duration,
        fields.status,
        fields.result,
        fields.outputs,
    ) = (None, None, None, None);
    Half::Begin
}

impl Decode for Decoder {
    type Unit = Unit;

    fn start(&mut self, unit: Unit) -> Unit {
        self.begun = false;
        self.next_line = 0;
        std::mem::replace(&mut self.unit, unit)
    }

    fn fill(&mut self, batch: &mut Batch) -> bool {
        batch.origin = Origin {
            form: Form::Rows,
            lines: 0,
            byte: self.unit.offset,
        };
        if let Some((place, what)) = self.unit.warning.take() {
            batch.note(At::default(), NoteKind::WarningAt(place, what));
            return false;
        }
        if !self.begun {
            self.begun = true;
            self.lines.clear();
            if let Err(BatchDamage(problem)) = self.decode() {
                self.lines.clear();
                let place = FilePosition::Byte(self.unit.offset);
                let what = nothing_behind(problem);
                batch.note(At::default(), NoteKind::WarningAt(place, what));
                batch.note(At::default(), NoteKind::End);
                return false;
            }
        }
        let first = self.next_line;
        while let Some(&line) = self.lines.get(self.next_line)
            && !batch.is_full()
        {
            let is_wanted = |only| row::is_of(&self.rows, line.row(), only);
            if !self.parts.only.is_none_or(is_wanted) {
                self.next_line += 1;
                continue;
            }
            let at = At {
                line: (self.next_line - first) as u32,
                ..At::default()
            };
            match self.read_line(line, at, batch) {
                Ok(Row::Record) => {}
                Ok(Row::Summary(summary)) => batch.note(at, NoteKind::Summary(summary)),
                Err(problem) => {
                    self.shaper.take_notes().for_each(drop);
                    batch.warn(at, problem);
                }
            }
            self.next_line += 1;
        }
        batch.origin.lines = (self.next_line - first) as u32;
        self.next_line < self.lines.len()
    }

    fn another(&self) -> Self {
        Decoder::new(Arc::clone(&self.plan), self.parts)
    }
}
