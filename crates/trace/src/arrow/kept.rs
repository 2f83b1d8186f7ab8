//! The tail of a trace, without reading its rows: its summary, and what was found in it.
//!
//! The tail is the last row, whose details are the summary as JSON; what was found is one more member of that, [`KEY`]. Only
//! message headers are read on the way to it. Whatever is odd about a file, nothing is found: reading it as any other says
//! what it is.

use super::{
    batch::{self, Batch, Dictionaries, OwnDictionaries},
    columns::Column,
    message::{LARGEST_BODY, LARGEST_HEADER},
    plan::{Layout, Plan},
    row,
};
use arrow_ipc::MessageHeader;
use event::Summary;
use serde_json::{Map, Value};
use std::{collections::HashMap, fs::File, os::unix::fs::FileExt, path::Path, sync::Arc};

const KEY: &str = "found";
/// Messages of a trace: more is no trace of ours.
const MOST_MESSAGES: usize = 16 << 20;

/// The tail as JSON, with what was found.
pub fn with_found(summary: &[u8], found: Option<&str>) -> Vec<u8> {
    let mut tail = summary.to_vec();
    if let Some(found) = found
        && tail.pop() == Some(b'}')
    {
        if tail.len() > 1 {
            tail.push(b',');
        }
        tail.extend_from_slice(format!("\"{KEY}\":{found}}}").as_bytes());
        return tail;
    }
    summary.to_vec()
}

/// What was found in a trace when it was written, as its writer put it, and the trace's tail.
pub fn found(path: &Path) -> Option<(Value, Summary)> {
    let mut fields = tail(path)?;
    let found = fields.remove(KEY)?;
    let summary = serde_json::from_value(Value::Object(fields)).ok()?;
    Some((found, summary))
}

/// The summary of a trace that was finished.
pub fn summary(path: &Path) -> Option<Summary> {
    let mut fields = tail(path)?;
    fields.remove(KEY);
    serde_json::from_value(Value::Object(fields)).ok()
}

/// The details of the last row.
fn tail(path: &Path) -> Option<Map<String, Value>> {
    let file = File::open(path).ok().filter(|file| {
        let found = file.metadata();
        found.is_ok_and(|found| found.is_file())
    })?;
    let mut places = MessagePlaces::new(&file);
    let schema = places.next()?;
    let header = schema.header(&file)?;
    let message = arrow_ipc::root_as_message(&header).ok()?;
    let plan = Plan::new(message.header_as_schema()?).ok()?;
    let wanted = |column: Column| matches!(column, Column::Kind | Column::Details);
    let dictionaries: Vec<i64> = (plan.columns.iter())
        .filter_map(|(column, layout)| match layout {
            Layout::Keys { dictionary, .. } if column.is_some_and(wanted) => Some(*dictionary),
            _ => None,
        })
        .collect();
    let (mut rows, mut texts) = (None, HashMap::new());
    while let Some(place) = places.next() {
        match place.kind {
            MessageKind::Rows => rows = Some(place),
            MessageKind::Dictionary(id) if dictionaries.contains(&id) => {
                texts.insert(id, place);
            }
            MessageKind::Dictionary(_) => {}
            MessageKind::Other => return None,
        }
    }
    if !places.ended {
        return None;
    }
    let mut names = Dictionaries::default();
    for (id, place) in texts {
        let (_, large) = *plan.dictionaries.iter().find(|(known, _)| *known == id)?;
        let header = place.header(&file)?;
        let message = arrow_ipc::root_as_message(&header).ok()?;
        let data = message.header_as_dictionary_batch()?.data()?;
        let decoded = batch::decode_dictionary(data, &place.body(&file)?, large).ok()?;
        names.insert(id, Arc::new(decoded));
    }
    let mut own = OwnDictionaries::default();
    own.follow(&names);
    let rows = rows?;
    let (header, body) = (rows.header(&file)?, rows.body(&file)?);
    let message = arrow_ipc::root_as_message(&header).ok()?;
    let header = message.header_as_record_batch()?;
    let mut tail = Batch::default();
    let wanted = |column: Column, _: &Batch| wanted(column);
    batch::decode(header, &body, &plan, &wanted, &own, &mut tail).ok()?;
    let last = tail.rows.checked_sub(1)?;
    let text = |column| row::text(tail.column(column)?, last).ok();
    let is_summary = text(Column::Kind)? == "summary";
    is_summary.then(|| serde_json::from_str(text(Column::Details)?).ok())?
}

/// Where a message is in its file.
struct MessagePlace {
    kind: MessageKind,
    header: (u64, u32),
    body: (u64, u64),
}

enum MessageKind {
    Rows,
    Dictionary(i64),
    Other,
}

impl MessagePlace {
    fn header(&self, file: &File) -> Option<Vec<u8>> {
        let (offset, length) = self.header;
        bytes(file, offset, length.into())
    }

    fn body(&self, file: &File) -> Option<Vec<u8>> {
        let (offset, length) = self.body;
        bytes(file, offset, length)
    }
}

/// The messages of a file, by their headers.
struct MessagePlaces<'a> {
    file: &'a File,
    offset: u64,
    length: u64,
    count: usize,
    /// The stream says that it ends, and the file ends with it.
    ended: bool,
}

impl<'a> MessagePlaces<'a> {
    fn new(file: &'a File) -> Self {
        MessagePlaces {
            file,
            offset: 0,
            length: file.metadata().map_or(0, |found| found.len()),
            count: 0,
            ended: false,
        }
    }

    fn next(&mut self) -> Option<MessagePlace> {
        self.count += 1;
        let prefix = bytes(self.file, self.offset, 8).filter(|_| self.count < MOST_MESSAGES)?;
        let (mark, length) = prefix.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length.first_chunk()?);
        if *mark != [0xff; 4] || length > LARGEST_HEADER {
            return None;
        }
        let header = (self.offset + 8, length);
        if length == 0 {
            self.ended = header.0 == self.length;
            return None;
        }
        let bytes = bytes(self.file, header.0, length.into())?;
        let message = arrow_ipc::root_as_message(&bytes).ok()?;
        let kind = match message.header_type() {
            MessageHeader::RecordBatch => MessageKind::Rows,
            MessageHeader::DictionaryBatch => {
                let dictionary = message.header_as_dictionary_batch()?;
                match dictionary.isDelta() {
                    true => MessageKind::Other,
                    false => MessageKind::Dictionary(dictionary.id()),
                }
            }
            MessageHeader::Schema if self.offset == 0 => MessageKind::Other,
            _ => return None,
        };
        let length = u64::try_from(message.bodyLength()).ok()?;
        let body = (header.0 + u64::from(header.1), length);
        self.offset = body.0.checked_add(length).filter(|end| {
            let is_whole = *end <= self.length;
            is_whole && length <= LARGEST_BODY
        })?;
        Some(MessagePlace { kind, header, body })
    }
}

/// None if there are not so many. Memory is taken only for bytes that exist: callers compare with the file's length, or ask
/// for few.
fn bytes(file: &File, offset: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Writer, open};
    use event::{Category, Event, Layer, Meta, Record};
    use serde_json::json;

    fn write(path: &Path, events: u64, kept: Option<&str>) -> Summary {
        let file = File::create(path).expect("created");
        let mut writer = Writer::new(file, Format::Arrow, &Meta::default()).expect("begun");
        for id in 1..=events {
            let event = Event::new(id, Layer::Driver, Category::Query, "cuCtxGetId", id);
            writer.write(&Record::Event(event)).expect("written");
        }
        let summary = writer.summary();
        if let Some(kept) = kept {
            writer.keep(kept.to_owned());
        }
        writer.finish_with(&summary).expect("finished");
        summary
    }

    #[test]
    fn what_was_found_is_read_without_the_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.arrows");
        for events in [0, 1, 70_000] {
            let summary = write(&path, events, Some(r#"{"calls":7}"#));
            assert_eq!(found(&path), Some((json!({"calls": 7}), summary.clone())));
            let mut reader = open(&path).expect("a trace");
            assert_eq!(reader.by_ref().count() as u64, events);
            assert_eq!(reader.summary(), Some(&summary));
            assert!(reader.warnings().is_empty());
            assert_eq!(super::summary(&path), Some(summary.clone()));
            let summary = write(&path, events, None);
            assert_eq!(found(&path), None);
            assert_eq!(super::summary(&path), Some(summary));
        }
    }

    #[test]
    fn a_file_that_is_damaged_has_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.arrows");
        write(&path, 5_000, Some("{}"));
        let whole = std::fs::read(&path).expect("there");
        for kept in (0..whole.len()).step_by(97) {
            std::fs::write(&path, &whole[..kept]).expect("written");
            assert_eq!(found(&path), None, "{kept}");
        }
        for place in (0..whole.len()).step_by(61) {
            let mut bytes = whole.clone();
            bytes[place] ^= 0xff;
            std::fs::write(&path, &bytes).expect("written");
            found(&path);
        }
        let mut longer = whole.clone();
        longer.push(0);
        std::fs::write(&path, &longer).expect("written");
        assert_eq!(found(&path), None);
    }
}
