//! Opening a trace of JSON lines: its head, and what reads the rest.

use super::{
    chunks::{Chunk, Chunks},
    decode::{Decoder, cut_or, is_blank},
    key::Order,
    line,
};
use crate::{
    Error, FilePosition, Parts, Result, Warnings,
    fields::{Class, Fields},
    pipeline::{Cut, Decode, Inline},
    shape::{Problem, Shaper},
    source::Opened,
};
use event::{Meta, VERSION};
use std::io::Read;

/// Damaged lines after which a file without a single good one is given up.
const PATIENCE: u32 = 100;

/// What a line says where the head is looked for.
enum Head {
    Blank,
    Meta(Box<Meta>),
    /// A record, or the tail: there is no head.
    Other,
    Damaged(Problem),
}

/// Find the head. What follows it is left to be decoded.
pub fn open(input: impl Read + Send + 'static, parts: Parts) -> Result<Opened> {
    let mut chunks = Chunks::new(input);
    let mut decoder = Decoder::new(parts);
    let mut warnings = Warnings::default();
    let (mut line, mut damaged, mut first_damage) = (1, 0, None);
    let (meta, lines) = loop {
        let place = FilePosition::Line {
            line,
            byte: decoder.offset(),
        };
        let Some((bytes, terminated)) = decoder.peek_line() else {
            let Some(chunk) = chunks.next(Chunk::default())? else {
                return Err(match first_damage {
                    None => Error::Empty,
                    Some(damage) => Error::NotATrace(damage),
                });
            };
            decoder.start(chunk);
            decoder.step_over_mark();
            continue;
        };
        let head = match bytes {
            Ok(bytes) => read_head(bytes)?,
            Err(too_long) => Head::Damaged(too_long),
        };
        match head {
            Head::Blank => {}
            Head::Meta(meta) => {
                decoder.step_over_line();
                decoder.shaper = Shaper::starting_at(meta.start_ns);
                break (*meta, line);
            }
            Head::Other => {
                warnings.add(place, "no \"meta\" line before this: times count from 0");
                break (Meta::default(), line - 1);
            }
            Head::Damaged(what) => {
                let what = cut_or(terminated, what);
                damaged += 1;
                first_damage.get_or_insert_with(|| format!("{place}: {what}").into());
                if damaged >= PATIENCE {
                    return Err(Error::NotATrace(first_damage.unwrap_or_default()));
                }
                warnings.add(place, what);
            }
        }
        decoder.step_over_line();
        line += 1;
    };
    Ok(Opened {
        meta,
        warnings,
        lines,
        batches: Box::new(Inline::new(chunks, decoder, true)),
    })
}

fn read_head(bytes: &[u8]) -> Result<Head> {
    if is_blank(bytes) {
        return Ok(Head::Blank);
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Ok(Head::Damaged("not UTF-8".into()));
    };
    let mut fields = Fields::default();
    let mut shaper = Shaper::default();
    // What is odd about a record is told when it is read as one.
    let order = &mut Order::default();
    let names = &mut shaper.names;
    if let Err(problem) = line::parse(text, names, Parts::ALL, order, &mut fields, |_| {}) {
        return Ok(Head::Damaged(problem.what));
    }
    Ok(match fields.class() {
        Ok(Class::Meta) => match serde_json::from_str(text) {
            Ok(meta) => Head::Meta(Box::new(checked_version(text, meta)?)),
            Err(error) => {
                // A newer version may mean other things by the same names.
                checked_version(text, ())?;
                Head::Damaged(format!("a \"meta\" line that cannot be read: {error}").into())
            }
        },
        Ok(Class::Summary) => match serde_json::from_str::<event::Summary>(text) {
            Ok(_) => Head::Other,
            Err(error) => {
                Head::Damaged(format!("a \"summary\" line that cannot be read: {error}").into())
            }
        },
        Ok(class) => match shaper.record(class, &mut fields) {
            Ok(_) => Head::Other,
            Err(problem) => Head::Damaged(problem),
        },
        Err(problem) => Head::Damaged(problem),
    })
}

/// `value`, if the head in `text` is of a version that can be read.
fn checked_version<T>(text: &str, value: T) -> Result<T> {
    let version = serde_json::from_str::<serde_json::Value>(text)
        .ok()
        .and_then(|head| head.get("version").and_then(serde_json::Value::as_u64));
    match version {
        Some(found) if found > VERSION.into() => Err(Error::Version {
            found,
            supported: VERSION,
        }),
        _ => Ok(value),
    }
}
