//! Fields become records, each from its own line or row alone: times become absolute, words
//! become members of enumerations. Ends are joined to their beginnings in `join`.

use crate::{
    fields::{Class, Fields, Word},
    names::Names,
};
use event::{
    Category, Event, Extent, Ioctl, Launch, Layer, Lost, Meaning, Memory, MemoryOp, Name, Record,
    Status, Transfer, What,
};
use std::{borrow::Cow, str::FromStr};

pub type Problem = Cow<'static, str>;

/// What turns fields into records.
#[derive(Default)]
pub struct Shaper {
    /// CLOCK_MONOTONIC at the trace's start.
    pub start: u64,
    pub names: Names,
    notes: Vec<Problem>,
}

/// A record, and whether it is the end of a span that does not say how long it was.
pub struct Shaped {
    pub record: Record,
    pub no_duration: bool,
}

impl Shaper {
    pub fn starting_at(start: u64) -> Self {
        Shaper {
            start,
            ..Shaper::default()
        }
    }

    /// The record that these fields are. An end has its own time for its start.
    pub fn record(&mut self, class: Class, fields: &mut Fields<'_>) -> Result<Shaped, Problem> {
        let record = self.unfinished(class, fields)?;
        let end = matches!(&record, Record::Event(event) if event.duration().is_some());
        Ok(Shaped {
            record,
            no_duration: end && fields.duration.is_none(),
        })
    }

    fn unfinished(&mut self, class: Class, fields: &mut Fields<'_>) -> Result<Record, Problem> {
        let ts = self.time(fields.ts.ok_or("no \"ts\"")?)?;
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
                // Traces of old have the function called for their name.
                if fields.call.is_some() {
                    fields.name = fields.call.take();
                }
                let what = What::Launch(Launch {
                    kernel,
                    grid: fields.grid.ok_or("no \"grid\"")?,
                    block: fields.block.ok_or("no \"block\"")?,
                    shared: fields.shared.unwrap_or(0),
                });
                self.meaning(ts, fields, what)
            }
            Class::Lost => Ok(Record::Lost(Lost {
                ts,
                count: fields.count.ok_or("no \"count\"")?,
                source: self.name(fields.source.as_ref()),
                layer: self.layer(fields),
                pid: fields.pid,
                tid: fields.tid,
            })),
            Class::Meta | Class::Summary => Err("a second head or tail".into()),
        }
    }

    fn meaning(&mut self, ts: u64, fields: &mut Fields<'_>, what: What) -> Result<Record, Problem> {
        Ok(Record::Meaning(Meaning {
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
        }))
    }

    fn event(
        &mut self,
        kind: event::Kind,
        ts: u64,
        fields: &mut Fields<'_>,
    ) -> Result<Record, Problem> {
        let phase = match fields.phase.as_ref().map(Word::as_ref) {
            None => Extent::Instant,
            Some("B") => Extent::Open,
            Some("E") => Extent::Closed(fields.duration.unwrap_or(0)),
            Some("X") if fields.complete => Extent::Closed(fields.duration.unwrap_or(0)),
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
        let outputs = fields.outputs.take();
        let (args, outputs) = match phase {
            Extent::Closed(_) if fields.complete => (details, outputs.unwrap_or_default()),
            Extent::Closed(_) => (Vec::new(), outputs.unwrap_or(details)),
            _ => (details, Vec::new()),
        };
        let layer = self.layer_or(&fields.layer, kind);
        Ok(Record::Event(Event {
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
        }))
    }

    fn time(&self, ts: i64) -> Result<u64, Problem> {
        Ok(self
            .start
            .checked_add_signed(ts)
            .ok_or("\"ts\" is out of range")?)
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

    /// What was odd about the last record, though it could be read.
    pub fn take_notes(&mut self) -> impl Iterator<Item = Problem> + '_ {
        self.notes.drain(..)
    }
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
