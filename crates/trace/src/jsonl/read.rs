//! Reading JSON lines. A damaged line is skipped with a warning that says where it is; the
//! lines around it are whole.

use super::{
    LONGEST_LINE, line,
    lines::{Line, Lines},
};
use crate::{
    Error, Place, Result, Warnings,
    assemble::Assembler,
    fields::{Class, Fields},
    source::ReadTrace,
};
use event::{Meta, Record, Summary, VERSION};
use std::{borrow::Cow, collections::VecDeque, io::Read};

pub struct JsonlReader<R> {
    lines: Lines<R>,
    meta: Meta,
    summary: Option<Summary>,
    assembler: Assembler,
    warnings: Warnings,
    /// The first record, where the trace has no head; at the end, spans that never ended.
    waiting: VecDeque<Record>,
    ended: bool,
}

/// Damaged lines after which a file without a single good one is given up.
const PATIENCE: u32 = 100;

/// What a line turned out to be.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, and nearly always a record"
)]
enum Content {
    Meta(Box<Meta>),
    Record(Record),
    /// The beginning of a span, or the summary: nothing to hand out.
    Nothing,
    Damaged(Cow<'static, str>),
    /// The second head: another trace follows.
    AnotherTrace,
}

impl<R: Read> JsonlReader<R> {
    pub fn new(input: R) -> Result<Self> {
        let mut reader = JsonlReader {
            lines: Lines::new(input),
            meta: Meta::default(),
            summary: None,
            assembler: Assembler::default(),
            warnings: Warnings::default(),
            waiting: VecDeque::new(),
            ended: false,
        };
        reader.read_head()?;
        Ok(reader)
    }

    fn read_head(&mut self) -> Result<()> {
        let mut damaged = 0;
        let mut first_damage = None;
        loop {
            let Some(line) = self.lines.next()? else {
                return Err(match first_damage {
                    None => Error::Empty,
                    Some(damage) => Error::NotATrace(damage),
                });
            };
            let place = place(&line);
            match self.read_line(&line, true)? {
                None => {}
                Some(Content::Meta(meta)) => {
                    self.assembler.start = meta.start_ns;
                    self.meta = *meta;
                    return Ok(());
                }
                Some(Content::Damaged(what)) => {
                    damaged += 1;
                    first_damage.get_or_insert_with(|| format!("{place}: {what}").into());
                    if damaged >= PATIENCE {
                        return Err(Error::NotATrace(first_damage.unwrap_or_default()));
                    }
                    self.warnings.add(place, what);
                }
                Some(other) => {
                    self.warnings
                        .add(place, "no \"meta\" line before this: times count from 0");
                    if let Content::Record(record) = other {
                        self.waiting.push_back(record);
                    }
                    return Ok(());
                }
            }
        }
    }

    /// None for a blank line. Errors are those that end the reading.
    fn read_line(&mut self, line: &Line, head: bool) -> Result<Option<Content>> {
        let damaged = |what: Cow<'static, str>| {
            // Of a line without an end the likeliest damage is that the end is missing.
            let what = if line.terminated {
                what
            } else {
                format!("cut off: {what}").into()
            };
            Ok(Some(Content::Damaged(what)))
        };
        if line.too_long {
            return damaged(format!("a line longer than {} MiB", LONGEST_LINE >> 20).into());
        }
        let bytes = self.lines.bytes(line);
        let bytes = if line.number == 1 {
            bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
        } else {
            bytes
        };
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => return damaged("not UTF-8".into()),
        };
        let place = place(line);
        let warnings = &mut self.warnings;
        let mut fields = Fields::default();
        let parsed = line::parse(text, &mut self.assembler.names, &mut fields, |name| {
            let name: String = name.chars().take(40).collect();
            warnings.add(place, format!("unknown field {name:?}: ignored"));
        });
        if let Err(problem) = parsed {
            return damaged(problem.what);
        }
        let class = match fields.class() {
            Ok(class) => class,
            Err(problem) => return damaged(problem),
        };
        Ok(Some(match class {
            Class::Meta if head => match serde_json::from_str(text) {
                Ok(meta) => Content::Meta(Box::new(checked_version(text, meta)?)),
                Err(error) => {
                    // A newer version may mean other things by the same names.
                    checked_version(text, ())?;
                    return damaged(format!("a \"meta\" line of another kind: {error}").into());
                }
            },
            Class::Meta => Content::AnotherTrace,
            Class::Summary => match serde_json::from_str(text) {
                Ok(summary) => {
                    self.summary = Some(summary);
                    Content::Nothing
                }
                Err(error) => {
                    return damaged(format!("a \"summary\" line of another kind: {error}").into());
                }
            },
            class => match self.assembler.record(class, &mut fields) {
                Ok(record) => {
                    for note in self.assembler.take_notes() {
                        self.warnings.add(place, note);
                    }
                    record.map_or(Content::Nothing, Content::Record)
                }
                Err(problem) => return damaged(problem),
            },
        }))
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

impl<R: Read + Send> ReadTrace for JsonlReader<R> {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn next(&mut self) -> Result<Option<Record>> {
        loop {
            if let Some(record) = self.waiting.pop_front() {
                return Ok(Some(record));
            }
            if self.ended {
                return Ok(None);
            }
            let Some(line) = self.lines.next()? else {
                self.end();
                continue;
            };
            match self.read_line(&line, false)? {
                Some(Content::Record(record)) => return Ok(Some(record)),
                None | Some(Content::Nothing | Content::Meta(_)) => {}
                Some(Content::Damaged(what)) => self.warnings.add(place(&line), what),
                Some(Content::AnotherTrace) => {
                    let what = "a second \"meta\" line: another trace begins here and is not read; \
                                merge traces with cutrace export instead of joining the files";
                    self.warnings.add(place(&line), what);
                    self.end();
                }
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
        // What was read ahead is a span's beginning or complete.
        self.waiting.retain(
            |record| !matches!(record, Record::Event(event) if event.extent == event::Extent::Open),
        );
        self.assembler.whole = true;
    }

    fn open_spans(&self) -> usize {
        self.assembler.open_spans()
    }
}

fn place(line: &Line) -> Place {
    Place::Line {
        line: line.number,
        byte: line.offset,
    }
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
