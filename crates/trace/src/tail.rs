//! The tails of traces. Those whose disk was full before their end are cut back to what is whole, and get their tail
//! behind it.

use crate::{
    Error, Format, Result,
    arrow::{self, Messages, Next},
    jsonl,
    source::open,
};
use event::{Meta, Summary};
use std::{
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom, Write},
    path::Path,
};

/// Longer than any line but those with deep stacks.
const LAST_LINES: u64 = 1 << 20;

/// The tail of a trace; None if it has none, because it was not finished. Mostly without reading the rest.
pub fn summary(path: impl AsRef<Path>) -> Result<Option<Summary>> {
    let path = path.as_ref();
    if let Some(found) = arrow::summary(path).or_else(|| last_line(path)) {
        return Ok(Some(found));
    }
    let mut reader = open(path)?;
    while reader.next_batch()?.is_some() {}
    Ok(reader.summary().cloned())
}

/// The last line of a JSONL file, if it is a summary of usual length.
fn last_line(path: &Path) -> Option<Summary> {
    let mut file = File::open(path).ok()?;
    let found = file.metadata().ok().filter(|found| found.is_file())?;
    let from = found.len().saturating_sub(LAST_LINES);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut end = Vec::new();
    file.read_to_end(&mut end).ok()?;
    let line = end
        .strip_suffix(b"\n")?
        .rsplit(|byte| *byte == b'\n')
        .next()?;
    let is_summary = line.starts_with(br#"{"type":"summary","#);
    is_summary.then(|| serde_json::from_slice(line).ok())?
}

/// Cuts a trace back to whole lines or batches, of those as many away as hold `room` bytes: that is where
/// the tail goes. The head stays.
pub fn cut_to_whole(path: impl AsRef<Path>, room: u64) -> Result<()> {
    let path = path.as_ref();
    let failed = |source| Error::Open {
        path: path.into(),
        source,
    };
    let file = (File::options().read(true).write(true).open(path)).map_err(failed)?;
    let length = file.metadata()?.len();
    let whole = match Format::of(path) {
        Some(Format::Arrow) => whole_batches(&file, length.saturating_sub(room))?,
        _ => whole_lines(&file, length, room)?,
    };
    Ok(file.set_len(whole)?)
}

fn whole_lines(mut file: &File, length: u64, room: u64) -> Result<u64> {
    // A short trace keeps its head.
    let until = match length > 4 * room {
        true => length - room,
        false => length,
    };
    let from = until.saturating_sub(LAST_LINES);
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(until - from).read_to_end(&mut end)?;
    let newline = end.iter().rposition(|byte| *byte == b'\n');
    Ok(from + newline.map_or(0, |place| place as u64 + 1))
}

/// Where the last batch ends that ends before `most`; behind the head if none does.
fn whole_batches(file: &File, most: u64) -> Result<u64> {
    let mut messages = Messages::new(BufReader::with_capacity(1 << 20, file));
    let mut whole = 0;
    while let (_, Next::Message) = messages.next()? {
        // A dictionary without the rows that need it does no harm: the tail brings its own.
        if whole > 0 && messages.offset() > most {
            break;
        }
        whole = messages.offset();
    }
    Ok(whole)
}

/// Bytes that the tail of a trace takes in its file.
pub fn tail_size(path: impl AsRef<Path>, meta: &Meta, summary: &Summary) -> Result<u64> {
    Ok(tail(path.as_ref(), meta, summary)?.len() as u64)
}

/// Writes the tail behind a trace that has none.
pub fn append_tail(path: impl AsRef<Path>, meta: &Meta, summary: &Summary) -> Result<()> {
    let path = path.as_ref();
    let tail = tail(path, meta, summary)?;
    let failed = |source| Error::Open {
        path: path.into(),
        source,
    };
    let mut file = (File::options().append(true).open(path)).map_err(failed)?;
    let whole = file.metadata()?.len();
    file.write_all(&tail).map_err(|why| {
        // Half a tail would be damage.
        let _ = file.set_len(whole);
        why.into()
    })
}

fn tail(path: &Path, meta: &Meta, summary: &Summary) -> Result<Vec<u8>> {
    match Format::of(path) {
        Some(Format::Arrow) => arrow::tail(meta, summary),
        _ => jsonl::tail(summary),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{create, open};
    use event::{Category, Event, Layer, Record};

    #[test]
    fn a_trace_that_was_cut_off_anywhere_gets_its_tail() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["x.jsonl", "x.arrows"] {
            let path = folder.path().join(name);
            let meta = Meta {
                start_ns: 5,
                ..Meta::default()
            };
            let mut writer = create(&path, &meta).expect("created");
            for id in 1..=3000u64 {
                let name = format!("cuFunction{}", id / 100);
                let event = Event::new(id, Layer::Driver, Category::Query, &*name, 10 + id);
                writer.write(&Record::Event(event)).expect("written");
                if id % 500 == 0 {
                    writer.flush().expect("flushed");
                }
            }
            drop(writer);
            assert_eq!(super::summary(&path).expect("readable"), None, "{name}");
            let bytes = std::fs::read(&path).expect("there");
            let mut before = 0;
            for kept in (bytes.len() / 2..bytes.len()).step_by(bytes.len() / 37) {
                std::fs::write(&path, &bytes[..kept]).expect("written");
                let mut summary = Summary {
                    lost: 77,
                    ..Summary::default()
                };
                let room = tail_size(&path, &meta, &summary).expect("known");
                cut_to_whole(&path, room).expect("cut");
                summary.events = open(&path).expect("a trace").count() as u64;
                append_tail(&path, &meta, &summary).expect("appended");
                let length = std::fs::metadata(&path).expect("there").len();
                assert!(length <= bytes.len() as u64 + room, "{name}: {length}");
                let mut reader = open(&path).expect("a trace");
                let found = reader.by_ref().map(|record| record.expect("whole").ts());
                let found: Vec<u64> = found.collect();
                assert!((11..).take(found.len()).eq(found.iter().copied()), "{name}");
                assert!(found.len() >= before && found.len() < 3000, "{name}");
                before = found.len();
                assert_eq!(reader.summary(), Some(&summary), "{name}");
                let found = super::summary(&path).expect("readable");
                assert_eq!(found, Some(summary), "{name}");
                assert!(reader.warnings().is_empty(), "{:?}", reader.warnings());
            }
            assert!(before >= 2000, "{name}: {before} kept");
        }
    }
}
