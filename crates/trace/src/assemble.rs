//! Fields become records: ends are joined to their beginnings, times become absolute.

use crate::{
    fields::{Class, Fields, Word},
    names::Names,
};
use event::{
    Category, Event, Extent, Ioctl, Launch, Layer, Lost, Meaning, Memory, MemoryOp, Name, Record,
    Status, Transfer, What,
};
use std::{borrow::Cow, collections::HashMap, str::FromStr};

pub type Problem = Cow<'static, str>;

/// The open spans of a trace that is being read, and what else must be remembered between lines.
#[derive(Default)]
pub struct Assembler {
    /// CLOCK_MONOTONIC at the trace's start.
    pub start: u64,
    pub names: Names,
    /// Give each span once, when it ends, rather than at both ends.
    pub whole: bool,
    open: HashMap<u64, Event, ahash::RandomState>,
    latest: u64,
    notes: Vec<Problem>,
}

impl Assembler {
    pub fn starting_at(start: u64) -> Self {
        Assembler {
            start,
            ..Assembler::default()
        }
    }

    /// The record that these fields are. None for the beginning of a span if only whole ones are
    /// wanted.
    pub fn record(
        &mut self,
        class: Class,
        fields: &mut Fields<'_>,
    ) -> Result<Option<Record>, Problem> {
        let ts = self.time(fields.ts.ok_or("no \"ts\"")?)?;
        if ts < self.latest {
            self.note("not in time order");
        }
        self.latest = self.latest.max(ts);
        match class {
            Class::Event(kind) => self.event(kind, ts, fields),
            Class::Memory => {
                let op = known::<MemoryOp>(fields.op.as_ref())?.ok_or("no \"op\"")?;
                let what = What::Memory(Memory {
                    op,
                    size: if op == MemoryOp::Free {
                        fields.freed.or(fields.size)
                    } else {
                        fields.size
                    },
                    ptr: fields.ptr.ok_or("no \"ptr\"")?,
                    space: known(fields.space.as_ref()).unwrap_or_else(|problem| {
                        self.notes.push(problem);
                        None
                    }),
                });
                self.meaning(ts, fields, what)
            }
            Class::Transfer => {
                let what = What::Transfer(Transfer {
                    direction: known(fields.direction.as_ref())?.ok_or("no \"direction\"")?,
                    size: fields.size.ok_or("no \"size\"")?,
                    duration: fields.duration,
                    src: fields.src,
                    dst: fields.dst,
                });
                self.meaning(ts, fields, what)
            }
            Class::Launch => {
                let kernel = self.name(fields.kernel.as_ref()).ok_or("no \"kernel\"")?;
                let what = What::Launch(Launch {
                    kernel,
                    grid: fields.grid.ok_or("no \"grid\"")?,
                    block: fields.block.ok_or("no \"block\"")?,
                    shared: fields.shared.unwrap_or(0),
                });
                self.meaning(ts, fields, what)
            }
            Class::Lost => Ok(Some(Record::Lost(Lost {
                ts,
                count: fields.count.ok_or("no \"count\"")?,
                source: self.name(fields.source.as_ref()),
                layer: self.layer(fields),
                pid: fields.pid,
                tid: fields.tid,
            }))),
            Class::Meta | Class::Summary => Err("a second head or tail".into()),
        }
    }

    fn meaning(
        &mut self,
        ts: u64,
        fields: &mut Fields<'_>,
        what: What,
    ) -> Result<Option<Record>, Problem> {
        Ok(Some(Record::Meaning(Meaning {
            ts,
            op: fields.op_id.ok_or("no \"op_id\"")?,
            pid: fields.pid.unwrap_or(0),
            tid: fields.tid.unwrap_or(0),
            layer: self.layer(fields),
            name: self.name(fields.name.as_ref()).ok_or("no \"name\"")?,
            device: fields.device,
            context: fields.context,
            stream: fields.stream,
            what,
        })))
    }

    fn event(
        &mut self,
        kind: event::Kind,
        ts: u64,
        fields: &mut Fields<'_>,
    ) -> Result<Option<Record>, Problem> {
        let phase = match fields.phase.as_ref().map(Word::as_ref) {
            None => Extent::Instant,
            Some("B") => Extent::Open,
            Some("E") => Extent::Closed(fields.duration.unwrap_or(0)),
            Some(_) => return Err("a \"phase\" that is neither B nor E".into()),
        };
        let id = match (fields.op_id, phase) {
            (Some(id), _) => id,
            (None, Extent::Instant) => fields.event_id.unwrap_or(0),
            (None, _) => return Err("no \"op_id\"".into()),
        };
        let category = match known::<Category>(fields.category.as_ref()) {
            Ok(category) => category.unwrap_or(Category::Other),
            Err(problem) => {
                self.notes.push(problem);
                Category::Other
            }
        };
        let details = fields.details.take().unwrap_or_default();
        let (args, outputs) = if matches!(phase, Extent::Closed(_)) {
            (Vec::new(), details)
        } else {
            (details, Vec::new())
        };
        let layer = self.layer_or(&fields.layer, kind);
        let mut event = Event {
            id,
            kind,
            layer,
            category,
            name: self.name(fields.name.as_ref()).ok_or("no \"name\"")?,
            start: ts,
            extent: phase,
            pid: fields.pid.unwrap_or(0),
            tid: fields.tid.unwrap_or(0),
            cpu: fields.cpu,
            device: fields.device,
            context: fields.context,
            stream: fields.stream,
            parent: fields.parent,
            depth: fields.depth.unwrap_or(0),
            correlation: fields.correlation,
            status: fields.status.map(|code| Status {
                code,
                name: self.name(fields.result.as_ref()),
            }),
            args,
            outputs,
            ioctl: fields.cmd.map(|cmd| {
                Box::new(Ioctl {
                    cmd,
                    decoded: fields.decoded.take().unwrap_or_default(),
                })
            }),
            stack: fields.stack.take().unwrap_or_default(),
        };
        match phase {
            Extent::Instant => Ok(Some(Record::Event(event))),
            Extent::Open => {
                let record = (!self.whole).then(|| Record::Event(event.clone()));
                if self.open.insert(id, event).is_some() {
                    self.note("a span begins twice");
                }
                Ok(record)
            }
            Extent::Closed(_) => {
                match self.open.remove(&id) {
                    Some(begin) => join(&mut event, begin, fields.duration),
                    None => {
                        self.note("a span ends that never began");
                        event.start = ts.saturating_sub(fields.duration.unwrap_or(0));
                        event.extent = Extent::Closed(ts - event.start);
                    }
                }
                Ok(Some(Record::Event(event)))
            }
        }
    }

    fn time(&self, ts: i64) -> Result<u64, Problem> {
        Ok(self
            .start
            .checked_add_signed(ts)
            .ok_or("\"ts\" lies outside of all time")?)
    }

    fn name(&mut self, word: Option<&Word<'_>>) -> Option<Name> {
        Some(match word? {
            Word::Shared(name) => Name::clone(name),
            Word::Text(text) => self.names.get(text),
        })
    }

    fn layer(&mut self, fields: &Fields<'_>) -> Option<Layer> {
        known(fields.layer.as_ref()).unwrap_or_else(|problem| {
            self.notes.push(problem);
            None
        })
    }

    fn layer_or(&mut self, layer: &Option<Word<'_>>, kind: event::Kind) -> Layer {
        known(layer.as_ref())
            .unwrap_or_else(|problem| {
                self.notes.push(problem);
                None
            })
            .unwrap_or_else(|| kind.usual_layer())
    }

    fn note(&mut self, what: &'static str) {
        self.notes.push(what.into());
    }

    /// What was odd about the last record, though it could be read.
    pub fn take_notes(&mut self) -> impl Iterator<Item = Problem> + '_ {
        self.notes.drain(..)
    }

    /// Spans that have begun and not ended.
    pub fn open_spans(&self) -> usize {
        self.open.len()
    }

    /// The spans that never ended, oldest first.
    pub fn take_open(&mut self) -> Vec<Event> {
        let mut open: Vec<Event> = std::mem::take(&mut self.open).into_values().collect();
        open.sort_by_key(|event| (event.start, event.id));
        open
    }
}

/// Complete an end with what its beginning said.
fn join(end: &mut Event, begin: Event, duration: Option<u64>) {
    let duration = duration.unwrap_or_else(|| end.start.saturating_sub(begin.start));
    end.extent = Extent::Closed(duration);
    end.start = begin.start;
    end.args = begin.args;
    end.stack = begin.stack;
    end.cpu = end.cpu.or(begin.cpu);
    end.device = end.device.or(begin.device);
    end.context = end.context.or(begin.context);
    end.stream = end.stream.or(begin.stream);
    end.parent = end.parent.or(begin.parent);
    end.correlation = end.correlation.or(begin.correlation);
    end.status = end.status.take().or(begin.status);
    end.ioctl = end.ioctl.take().or(begin.ioctl);
}

/// The member of an enumeration that a word names; None without a word.
fn known<T: FromStr<Err = event::UnknownName>>(
    word: Option<&Word<'_>>,
) -> Result<Option<T>, Problem> {
    let Some(word) = word else { return Ok(None) };
    match word.as_ref().parse() {
        Ok(member) => Ok(Some(member)),
        Err(unknown) => Err(unknown.to_string().into()),
    }
}
