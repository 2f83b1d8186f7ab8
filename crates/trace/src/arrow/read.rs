//! Reading an Arrow stream. Damage ends the reading with a warning: behind it nothing can be
//! told from noise, before it every batch is whole.

use super::{
    batch::{self, Batch, Dictionaries},
    message::{Messages, Next},
    plan::Plan,
    row,
};
use crate::{
    Error, Place, Result, Warnings,
    assemble::Assembler,
    fields::{Class, Fields},
    source::ReadTrace,
};
use arrow_ipc::MessageHeader;
use event::{Meta, Record, Summary};
use std::{collections::VecDeque, io::Read, sync::Arc};

pub struct ArrowReader<R> {
    messages: Messages<R>,
    plan: Plan,
    dictionaries: Dictionaries,
    batch: Batch,
    next_row: usize,
    batch_offset: u64,
    /// Rows of the batches before this one.
    rows_before: u64,
    summary: Option<Summary>,
    assembler: Assembler,
    warnings: Warnings,
    waiting: VecDeque<Record>,
    ended: bool,
}

impl<R: Read> ArrowReader<R> {
    pub fn new(input: R) -> Result<Self> {
        let mut messages = Messages::new(input);
        let plan = match messages.next()?.1 {
            Next::NoMore => return Err(Error::Empty),
            Next::End | Next::CutOff => {
                return Err(Error::NotATrace(
                    "an Arrow stream that ends before it begins".into(),
                ));
            }
            Next::Damaged(what) => return Err(Error::NotATrace(format!("byte 0: {what}").into())),
            Next::Message => {
                let message = arrow_ipc::root_as_message(messages.header());
                let schema = message.ok().and_then(|message| message.header_as_schema());
                Plan::new(schema.ok_or_else(|| {
                    Error::NotATrace("an Arrow stream that does not begin with a schema".into())
                })?)?
            }
        };
        let mut warnings = Warnings::default();
        if plan.no_meta {
            warnings.add(None, "no head in the schema's metadata: times count from 0");
        }
        Ok(ArrowReader {
            assembler: Assembler::starting_at(plan.meta.start_ns),
            messages,
            plan,
            dictionaries: Dictionaries::new(),
            batch: Batch {
                rows: 0,
                columns: Vec::new(),
            },
            next_row: 0,
            batch_offset: 0,
            rows_before: 0,
            summary: None,
            warnings,
            waiting: VecDeque::new(),
            ended: false,
        })
    }

    /// Read up to and including the next batch of rows.
    fn next_batch(&mut self) -> Result<()> {
        self.rows_before += self.batch.rows as u64;
        self.batch = Batch {
            rows: 0,
            columns: Vec::new(),
        };
        self.next_row = 0;
        let (offset, next) = self.messages.next()?;
        self.batch_offset = offset;
        let problem = match next {
            Next::Message => match self.decode() {
                Ok(()) => return Ok(()),
                Err(what) => what,
            },
            Next::End => {
                if self.messages.next()?.1 != Next::NoMore {
                    let what = "data after the stream's end is not read";
                    self.warnings.add(Place::Byte(self.messages.offset()), what);
                }
                self.end();
                return Ok(());
            }
            Next::NoMore => {
                self.end();
                return Ok(());
            }
            Next::CutOff => "the file is cut off inside this batch; what stood before it was read",
            Next::Damaged(what) => what,
        };
        self.warnings.add(
            Place::Byte(offset),
            format!("{problem}: nothing behind it is read"),
        );
        self.end();
        Ok(())
    }

    /// The message that was just read: rows, or a dictionary for later ones.
    fn decode(&mut self) -> std::result::Result<(), &'static str> {
        let no_sense = "a message whose header makes no sense";
        let message = arrow_ipc::root_as_message(self.messages.header()).map_err(|_| no_sense)?;
        match message.header_type() {
            MessageHeader::RecordBatch => {
                let header = message.header_as_record_batch().ok_or(no_sense)?;
                self.batch =
                    batch::decode(header, self.messages.body(), &self.plan, &self.dictionaries)?;
                Ok(())
            }
            MessageHeader::DictionaryBatch => {
                let header = message.header_as_dictionary_batch().ok_or(no_sense)?;
                let id = header.id();
                let known = self
                    .plan
                    .dictionaries
                    .iter()
                    .find(|&&(known, _)| known == id);
                let &(_, large) = known.ok_or("a dictionary that no column has")?;
                let data = header.data().ok_or(no_sense)?;
                let mut names = batch::decode_dictionary(data, self.messages.body(), large)?;
                if header.isDelta() {
                    let mut all = self
                        .dictionaries
                        .get(&id)
                        .map(|old| old.to_vec())
                        .unwrap_or_default();
                    all.append(&mut names);
                    names = all;
                }
                self.dictionaries.insert(id, Arc::new(names));
                Ok(())
            }
            _ => Err("a message of an unknown kind"),
        }
    }

    fn read_row(&mut self) -> std::result::Result<Option<Record>, std::borrow::Cow<'static, str>> {
        let mut fields = Fields::default();
        let names = &mut self.assembler.names;
        let details = row::fields(&self.batch, self.next_row, names, &mut fields)?;
        match fields.class()? {
            Class::Summary => {
                let summary = serde_json::from_str(details.ok_or("a summary without details")?);
                self.summary =
                    Some(summary.map_err(|error| format!("a summary of another kind: {error}"))?);
                Ok(None)
            }
            class => self.assembler.record(class, &mut fields),
        }
    }

    fn end(&mut self) {
        self.ended = true;
        if self.summary.is_none() {
            self.warnings.add(
                None,
                "no summary at the end: the file was cut off, or the tracer died",
            );
        }
        if self.assembler.whole {
            self.waiting
                .extend(self.assembler.take_open().into_iter().map(Record::Event));
        }
    }
}

impl<R: Read + Send> ReadTrace for ArrowReader<R> {
    fn meta(&self) -> &Meta {
        &self.plan.meta
    }

    fn next(&mut self) -> Result<Option<Record>> {
        loop {
            if let Some(record) = self.waiting.pop_front() {
                return Ok(Some(record));
            }
            if self.ended {
                return Ok(None);
            }
            if self.next_row == self.batch.rows {
                self.next_batch()?;
                continue;
            }
            let read = self.read_row();
            self.next_row += 1;
            let row = self.rows_before + self.next_row as u64;
            let place = Place::Row {
                row,
                byte: self.batch_offset,
            };
            for note in self.assembler.take_notes() {
                self.warnings.add(place, note);
            }
            match read {
                Ok(Some(record)) => return Ok(Some(record)),
                Ok(None) => {}
                Err(problem) => self.warnings.add(place, problem),
            }
        }
    }

    fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    fn warnings(&self) -> &Warnings {
        &self.warnings
    }

    fn only_whole(&mut self) {
        self.assembler.whole = true;
    }

    fn open_spans(&self) -> usize {
        self.assembler.open_spans()
    }
}
