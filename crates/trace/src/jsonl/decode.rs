//! Lines → records. A damaged line is skipped with a warning that says where it is; the lines
//! around it are whole.

use super::{LONGEST_LINE, chunks::Chunk, key::Order, line};
use crate::{
    Parts,
    batch::{At, Batch, Form, NoteKind, Origin},
    fields::{Class, Fields},
    pipeline::Decode,
    shape::{Problem, Shaper},
};
use event::{Extent, Record};

/// Decodes chunks of lines.
pub struct Decoder {
    pub shaper: Shaper,
    pub parts: Parts,
    order: Order,
    chunk: Chunk,
    /// The next line's first byte.
    at: usize,
}

/// What a line turned out to be.
enum Line {
    Blank,
    /// A record was added to the batch, or a note.
    Taken,
    Damaged(Problem),
    /// The second head: another trace follows.
    AnotherTrace,
}

impl Decoder {
    pub fn new(parts: Parts) -> Self {
        Decoder {
            shaper: Shaper::default(),
            parts,
            order: Order::default(),
            chunk: Chunk::default(),
            at: 0,
        }
    }

    /// Where the next line begins in the file.
    pub fn offset(&self) -> u64 {
        self.chunk.offset + self.at as u64
    }

    /// The head's way through the lines: the next one, and whether it has an end; None at the
    /// chunk's end. It stays to be decoded until it is stepped over.
    pub fn peek_line(&self) -> Option<(Result<&[u8], Problem>, bool)> {
        if self.chunk.too_long {
            return Some((Err(too_long()), self.chunk.terminated));
        }
        let rest = &self.chunk.bytes()[self.at..];
        match memchr::memchr(b'\n', rest) {
            Some(length) => Some((Ok(&rest[..length]), true)),
            None => (!rest.is_empty()).then_some((Ok(rest), false)),
        }
    }

    pub fn step_over_line(&mut self) {
        self.chunk.too_long = false;
        let rest = &self.chunk.bytes()[self.at..];
        self.at += memchr::memchr(b'\n', rest).map_or(rest.len(), |length| length + 1);
    }

    /// Step over the byte-order mark that some editors put before a file's first line.
    pub fn step_over_mark(&mut self) {
        if self.offset() == 0 && self.chunk.bytes().starts_with(b"\xef\xbb\xbf") {
            self.at = 3;
        }
    }
}

impl Decode for Decoder {
    type Unit = Chunk;

    fn start(&mut self, unit: Chunk) -> Chunk {
        self.at = 0;
        std::mem::replace(&mut self.chunk, unit)
    }

    fn fill(&mut self, batch: &mut Batch) -> bool {
        let first = self.at;
        batch.origin = Origin {
            form: Form::Lines,
            lines: 0,
            byte: self.offset(),
        };
        if self.chunk.too_long {
            batch.origin.lines = 1;
            batch.warn(At::default(), cut_or(self.chunk.terminated, too_long()));
            return false;
        }
        let chunk = std::mem::take(&mut self.chunk);
        // Nearly always the whole of it is UTF-8, which is cheaper to find out at once.
        let text = std::str::from_utf8(&chunk.bytes()[first..]).ok();
        let mut more = true;
        while !batch.is_full() {
            let rest = &chunk.bytes()[self.at..];
            if rest.is_empty() {
                more = false;
                break;
            }
            let newline = memchr::memchr(b'\n', rest);
            let length = newline.unwrap_or(rest.len());
            let at = At {
                line: batch.origin.lines,
                byte: (self.at - first) as u32,
                ..At::default()
            };
            let bytes = &rest[..length];
            let start = self.at - first;
            self.at += length + usize::from(newline.is_some());
            batch.origin.lines += 1;
            let text = match text {
                Some(text) => Some(&text[start..start + length]),
                None => std::str::from_utf8(bytes).ok(),
            };
            let line = match text {
                _ if bytes.len() > LONGEST_LINE => Line::Damaged(too_long()),
                _ if is_blank(bytes) => Line::Blank,
                Some(text) => read_line(
                    text,
                    &mut self.shaper,
                    &mut self.order,
                    self.parts,
                    at,
                    batch,
                ),
                None => Line::Damaged("not UTF-8".into()),
            };
            match line {
                Line::Blank | Line::Taken => {}
                Line::Damaged(what) => batch.warn(at, cut_or(newline.is_some(), what)),
                Line::AnotherTrace => {
                    let what = "a second \"meta\" line: another trace begins here and is not read; \
                                merge traces with cutrace export instead of joining the files";
                    batch.warn(at, what);
                    batch.note(at, NoteKind::End);
                    more = false;
                    break;
                }
            }
        }
        self.chunk = chunk;
        more
    }

    fn another(&self) -> Self {
        Decoder {
            shaper: Shaper::starting_at(self.shaper.start),
            ..Decoder::new(self.parts)
        }
    }
}

/// Decodes lines by themselves, as [`super::encode`] makes them. An end stands at its own time, and
/// knows by its duration when it began.
pub struct OneByOne {
    shaper: Shaper,
    order: Order,
}

impl OneByOne {
    pub fn starting_at(start: u64) -> Self {
        OneByOne {
            shaper: Shaper::starting_at(start),
            order: Order::default(),
        }
    }

    pub fn decode(&mut self, line: &[u8]) -> Result<Record, Problem> {
        let text = std::str::from_utf8(line).map_err(|_| "not UTF-8")?;
        let mut fields = Fields::default();
        let (names, order) = (&mut self.shaper.names, &mut self.order);
        line::parse(text, names, Parts::ALL, order, &mut fields, |_| {})
            .map_err(|problem| problem.what)?;
        let class = fields.class()?;
        let mut record = self.shaper.record(class, &mut fields)?.record;
        self.shaper.take_notes().for_each(drop);
        if let Record::Event(event) = &mut record
            && let Extent::Closed(duration) = event.extent
        {
            event.start = event.start.saturating_sub(duration);
        }
        Ok(record)
    }
}

pub fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

pub fn too_long() -> Problem {
    format!("a line longer than {} MiB", LONGEST_LINE >> 20).into()
}

/// Of a line without an end the likeliest damage is that the end is missing.
pub fn cut_or(terminated: bool, what: Problem) -> Problem {
    if terminated {
        what
    } else {
        format!("cut off: {what}").into()
    }
}

/// One line, into the batch.
fn read_line(
    text: &str,
    shaper: &mut Shaper,
    order: &mut Order,
    parts: Parts,
    at: At,
    batch: &mut Batch,
) -> Line {
    let mut fields = Fields::default();
    let parsed = line::parse(text, &mut shaper.names, parts, order, &mut fields, |name| {
        let name: String = name.chars().take(40).collect();
        batch.warn(at, format!("unknown field {name:?}: ignored"));
    });
    if let Err(problem) = parsed {
        return Line::Damaged(problem.what);
    }
    let class = match fields.class() {
        Ok(class) => class,
        Err(problem) => return Line::Damaged(problem),
    };
    match class {
        Class::Meta => Line::AnotherTrace,
        Class::Summary => match serde_json::from_str(text) {
            Ok(summary) => {
                batch.note(at, NoteKind::Summary(Box::new(summary)));
                Line::Taken
            }
            Err(error) => {
                Line::Damaged(format!("a \"summary\" line that cannot be read: {error}").into())
            }
        },
        class => match shaper.record(class, &mut fields) {
            Ok(shaped) => {
                for note in shaper.take_notes() {
                    batch.warn(at, note);
                }
                if shaped.no_duration {
                    batch.note(at, NoteKind::NoDuration);
                }
                batch.records.push(shaped.record);
                batch.at.push(at);
                Line::Taken
            }
            Err(problem) => {
                shaper.take_notes().for_each(drop);
                Line::Damaged(problem)
            }
        },
    }
}
