//! Ends are joined to their beginnings, and the order in time is watched: the part of reading
//! that needs the records one after the other.

use crate::{
    Warnings,
    batch::{At, Batch, Half, NoteKind},
};
use event::{Arg, Event, Extent, Ioctl, Record, Stack, Status, Summary};
use std::collections::HashMap;

/// What is remembered between batches: the spans that are open.
#[derive(Default)]
pub struct Joiner {
    /// Give each span once, when it ends, rather than at both ends.
    whole: bool,
    open: HashMap<u64, Begun, ahash::RandomState>,
    /// The same where only whole spans are wanted.
    open_whole: HashMap<u64, Event, ahash::RandomState>,
    latest: u64,
    /// Lines or rows before the current batch.
    lines: u64,
    pub summary: Option<Summary>,
    pub warnings: Warnings,
    pub ended: bool,
}

/// What a beginning says that its end may leave out. Not the name: sharing one between two
/// threads costs more than all the rest.
struct Begun {
    start: u64,
    cpu: Option<u32>,
    device: Option<u32>,
    context: Option<u64>,
    stream: Option<u64>,
    parent: Option<u64>,
    correlation: Option<u64>,
    more: Option<Box<More>>,
}

/// What few beginnings have.
struct More {
    status: Option<Status>,
    ioctl: Option<Box<Ioctl>>,
    args: Vec<Arg>,
    stack: Stack,
}

impl Joiner {
    /// For a trace whose head took so many lines.
    pub fn new(warnings: Warnings, lines: u64) -> Self {
        Joiner {
            warnings,
            lines,
            ..Joiner::default()
        }
    }

    /// Complete a batch's records. Behind a note that ends the reading nothing is left.
    pub fn join(&mut self, batch: &mut Batch) {
        let mut notes = std::mem::take(&mut batch.notes).into_iter().peekable();
        let mut kept = 0;
        for place in 0..batch.records.len() {
            let mut no_duration = false;
            while let Some(note) = notes.next_if(|note| note.before as usize <= place) {
                no_duration |= matches!(note.what, NoteKind::NoDuration);
                self.take_note(batch, note.at, note.what);
            }
            if self.ended {
                break;
            }
            let half = batch.at.get(place).map_or(Half::Apart, |at| at.half);
            let ts = match half {
                Half::Apart => recorded_at(&batch.records[place]),
                Half::Begin | Half::End => batch.records[place].ts(),
            };
            if ts < self.latest {
                self.warn(batch, place, "not in time order");
            }
            self.latest = self.latest.max(ts);
            let wanted = match half {
                Half::Apart => self.span(batch, place, no_duration),
                Half::Begin => !self.whole,
                Half::End => true,
            };
            if wanted {
                if kept != place {
                    batch.records.swap(kept, place);
                }
                kept += 1;
            }
        }
        for note in notes {
            self.take_note(batch, note.at, note.what);
        }
        batch.records.truncate(kept);
        self.lines += u64::from(batch.origin.lines);
    }

    fn take_note(&mut self, batch: &Batch, at: At, what: NoteKind) {
        if self.ended {
            return;
        }
        match what {
            NoteKind::Warning(text) => {
                let place = batch.origin.place(at, self.lines);
                self.warnings.add(place, text);
            }
            NoteKind::WarningAt(place, text) => self.warnings.add(place, text),
            NoteKind::NoDuration => {}
            NoteKind::Summary(summary) => self.summary = Some(*summary),
            NoteKind::End => self.ended = true,
        }
    }

    fn warn(&mut self, batch: &Batch, place: usize, what: &'static str) {
        let at = batch.at.get(place).copied().unwrap_or_default();
        self.warnings.add(batch.origin.place(at, self.lines), what);
    }

    /// Open or close the span that the record begins or ends. False for a record that is not to
    /// be handed out.
    fn span(&mut self, batch: &mut Batch, place: usize, no_duration: bool) -> bool {
        let Record::Event(event) = &mut batch.records[place] else {
            return true;
        };
        match event.extent {
            Extent::Instant => true,
            Extent::Open => {
                let twice = if self.whole {
                    let taken = std::mem::replace(event, empty());
                    self.open_whole.insert(taken.id, taken).is_some()
                } else {
                    self.open.insert(event.id, Begun::of(event)).is_some()
                };
                if twice {
                    self.warn(batch, place, "a span begins twice");
                }
                !self.whole
            }
            Extent::Closed(duration) => {
                let duration = (!no_duration).then_some(duration);
                // Nothing is in the map of whole spans unless they are wanted.
                let begun = self.open.remove(&event.id);
                let begun = begun.or_else(|| {
                    let whole = self.whole.then(|| self.open_whole.remove(&event.id));
                    whole.flatten().map(Begun::from)
                });
                match begun {
                    Some(begun) => begun.complete(event, duration),
                    None => {
                        let end = event.start;
                        event.start = end.saturating_sub(duration.unwrap_or(0));
                        event.extent = Extent::Closed(end - event.start);
                        self.warn(batch, place, "a span ends without a beginning");
                    }
                }
                true
            }
        }
    }

    /// From here on give each span once; `begun` are those whose beginning was joined and not
    /// handed out.
    pub fn only_whole(&mut self, begun: impl Iterator<Item = Event>) {
        self.whole = true;
        for event in begun {
            self.open.remove(&event.id);
            self.open_whole.insert(event.id, event);
        }
    }

    /// Spans that have begun and not ended.
    pub fn open_spans(&self) -> usize {
        self.open.len() + self.open_whole.len()
    }

    /// The file is over.
    pub fn end(&mut self) {
        self.ended = true;
        if self.summary.is_none() {
            let what = "no summary at the end: the file was cut off, or the tracer died";
            self.warnings.add(None, what);
        }
    }

    /// The spans that never ended and were not handed out, oldest first.
    pub fn take_open(&mut self) -> Vec<Event> {
        let mut open: Vec<Event> = std::mem::take(&mut self.open_whole).into_values().collect();
        open.sort_by_key(|event| (event.start, event.id));
        open
    }
}

/// When a record was made that is not joined yet: an end still stands at its own time.
fn recorded_at(record: &Record) -> u64 {
    match record {
        Record::Event(event) => event.start,
        other => other.ts(),
    }
}

fn empty() -> Event {
    thread_local! {
        static NO_NAME: event::Name = event::Name::from("");
    }
    let name = NO_NAME.with(event::Name::clone);
    Event::new(0, event::Layer::Driver, event::Category::Other, name, 0)
}

fn has_more(event: &Event) -> bool {
    event.status.is_some()
        || event.ioctl.is_some()
        || !event.args.is_empty()
        || !event.stack.is_empty()
}

impl Begun {
    fn of(event: &Event) -> Self {
        Begun {
            start: event.start,
            cpu: event.cpu,
            device: event.device,
            context: event.context,
            stream: event.stream,
            parent: event.parent,
            correlation: event.correlation,
            more: has_more(event).then(|| {
                Box::new(More {
                    status: event.status.clone(),
                    ioctl: event.ioctl.clone(),
                    args: event.args.clone(),
                    stack: event.stack.clone(),
                })
            }),
        }
    }

    /// Complete an end, which still stands at its own time, with what its beginning said.
    fn complete(self, end: &mut Event, duration: Option<u64>) {
        let duration = duration.unwrap_or_else(|| end.start.saturating_sub(self.start));
        end.extent = Extent::Closed(duration);
        end.start = self.start;
        end.cpu = end.cpu.or(self.cpu);
        end.device = end.device.or(self.device);
        end.context = end.context.or(self.context);
        end.stream = end.stream.or(self.stream);
        end.parent = end.parent.or(self.parent);
        end.correlation = end.correlation.or(self.correlation);
        let Some(more) = self.more else {
            // A stack and arguments are the beginning's to say.
            end.stack = Stack::default();
            return;
        };
        end.args = more.args;
        end.stack = more.stack;
        end.status = end.status.take().or(more.status);
        end.ioctl = end.ioctl.take().or(more.ioctl);
    }
}

impl From<Event> for Begun {
    fn from(event: Event) -> Self {
        Begun {
            start: event.start,
            cpu: event.cpu,
            device: event.device,
            context: event.context,
            stream: event.stream,
            parent: event.parent,
            correlation: event.correlation,
            more: has_more(&event).then(|| {
                Box::new(More {
                    status: event.status,
                    ioctl: event.ioctl,
                    args: event.args,
                    stack: event.stack,
                })
            }),
        }
    }
}
