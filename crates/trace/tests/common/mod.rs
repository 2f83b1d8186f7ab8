//! Traces to test with: arbitrary ones for proptest, and plain ways to write and read them.
#![allow(dead_code)] // Each test uses some of it.

use event::{
    Arg, Category, Direction, Event, Extent, Frame, FrameKind, Ioctl, Kind, Launch, Layer, Lost,
    Meaning, Memory, MemoryOp, MemorySpace, Meta, Name, Record, Status, Summary, Transfer, Value,
    What,
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use std::{
    io::Write,
    sync::{Arc, Mutex},
};
use trace::{Format, Reader, Writer};

pub const FORMATS: [Format; 2] = [Format::Jsonl, Format::Arrow];

/// Bytes that a writer, which wants to own its output, writes to.
#[derive(Clone, Default)]
pub struct Shared(pub Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A whole trace in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    pub meta: Meta,
    pub records: Vec<Record>,
    pub summary: Option<Summary>,
}

impl Trace {
    pub fn write(&self, format: Format) -> Vec<u8> {
        let out = Shared::default();
        let mut writer = Writer::new(out.clone(), format, &self.meta).expect("a head");
        for record in &self.records {
            writer.write(record).expect("a record");
        }
        match &self.summary {
            Some(summary) => writer.finish_with(summary).expect("a tail"),
            None => drop(writer),
        }
        std::mem::take(&mut *out.0.lock().expect("not poisoned"))
    }

    /// The trace and what the reader warned of.
    pub fn read(bytes: &[u8]) -> trace::Result<(Trace, Vec<String>)> {
        let mut reader = Reader::new(std::io::Cursor::new(bytes.to_vec()), None)?;
        let records = reader.by_ref().collect::<trace::Result<_>>()?;
        let warnings = reader
            .warnings()
            .as_slice()
            .iter()
            .map(ToString::to_string)
            .collect();
        let trace = Trace {
            meta: reader.meta().clone(),
            records,
            summary: reader.summary().cloned(),
        };
        Ok((trace, warnings))
    }
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        4 => select(&["cuMemAlloc_v2", "cuLaunchKernel", "ioctl", "vectorAdd(float const*)"][..])
            .prop_map(Name::from),
        1 => any::<String>().prop_map(Name::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::Uint),
        any::<f64>().prop_map(Value::Float),
        any::<u64>().prop_map(Value::Pointer),
        any::<String>().prop_map(Value::from),
        // Texts that look like something else.
        any::<u64>().prop_map(|number| Value::from(format!("{number:#x}"))),
        select(&["NaN", "Infinity", "-Infinity", "null", "0x0", "0x00", "0x"][..])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::List),
            vec((name(), inner), 0..4).prop_map(|members| {
                Value::Map(
                    members
                        .into_iter()
                        .map(|(name, value)| Arg { name, value })
                        .collect(),
                )
            }),
        ]
    })
}

fn args() -> impl Strategy<Value = Vec<Arg>> {
    vec(
        (name(), value()).prop_map(|(name, value)| Arg { name, value }),
        0..4,
    )
}

fn frame() -> impl Strategy<Value = Frame> {
    (
        any::<u64>(),
        option::of(name()),
        option::of(any::<u64>()),
        option::of(name()),
        (
            option::of(name()),
            option::of(any::<u32>()),
            select(FrameKind::ALL),
        ),
    )
        .prop_map(|(address, symbol, offset, module, more)| Frame {
            kind: more.2,
            address,
            symbol,
            offset,
            module,
            file: more.0,
            line: more.1,
        })
}

/// What begins a span, or is an instant. Time, id and extent come later.
fn event() -> impl Strategy<Value = Event> {
    let who = (
        any::<u32>(),
        any::<u32>(),
        option::of(any::<u32>()),
        option::of(any::<u32>()),
    );
    let which = (
        option::of(any::<u64>()),
        option::of(any::<u64>()),
        option::of(any::<u64>()),
        any::<u32>(),
        option::of(any::<u64>()),
    );
    let what = (
        select(Kind::ALL),
        select(Layer::ALL),
        select(Category::ALL),
        name(),
    );
    let more = (
        args(),
        vec(frame(), 0..3),
        option::of((any::<u64>(), args())),
    );
    (what, who, which, more).prop_map(|(what, who, which, more)| {
        let (kind, layer, category, name) = what;
        let mut event = Event::new(0, layer, category, name, 0);
        event.kind = kind;
        (event.pid, event.tid, event.cpu, event.device) = who;
        (
            event.context,
            event.stream,
            event.parent,
            event.depth,
            event.correlation,
        ) = which;
        (event.args, event.stack) = (more.0, more.1.into());
        event.ioctl = more
            .2
            .map(|(cmd, decoded)| Box::new(Ioctl { cmd, decoded }));
        event
    })
}

fn status() -> impl Strategy<Value = Option<Status>> {
    option::of((any::<i64>(), option::of(name())).prop_map(|(code, name)| Status { code, name }))
}

fn meaning() -> impl Strategy<Value = Meaning> {
    let memory = (
        select(MemoryOp::ALL),
        option::of(any::<u64>()),
        any::<u64>(),
        option::of(select(MemorySpace::ALL)),
    )
        .prop_map(|(op, size, ptr, space)| {
            What::Memory(Memory {
                op,
                size,
                ptr,
                space,
            })
        });
    let transfer = (
        select(Direction::ALL),
        any::<u64>(),
        option::of(0..=i64::MAX as u64),
        option::of(any::<u64>()),
        option::of(any::<u64>()),
    )
        .prop_map(|(direction, size, duration, src, dst)| {
            What::Transfer(Transfer {
                direction,
                size,
                duration,
                src,
                dst,
            })
        });
    let launch = (name(), any::<[u32; 3]>(), any::<[u32; 3]>(), any::<u64>()).prop_map(
        |(kernel, grid, block, shared)| {
            What::Launch(Launch {
                kernel,
                grid,
                block,
                shared,
            })
        },
    );
    (
        event(),
        option::of(select(Layer::ALL)),
        prop_oneof![memory, transfer, launch],
    )
        .prop_map(|(call, layer, what)| Meaning {
            layer,
            ..Meaning::of(&call, what)
        })
}

/// One step of a running program.
#[derive(Debug, Clone)]
enum Step {
    Begin(Event),
    /// Ends one of the open spans.
    End {
        which: prop::sample::Index,
        status: Option<Status>,
        outputs: Vec<Arg>,
    },
    Instant(Event),
    Mean(Meaning),
    Lose(Lost),
}

fn step() -> impl Strategy<Value = Step> {
    let lost = (
        any::<u64>(),
        option::of(name()),
        option::of(select(Layer::ALL)),
        option::of(any::<u32>()),
        option::of(any::<u32>()),
    );
    let lost = lost.prop_map(|(count, source, layer, pid, tid)| Lost {
        ts: 0,
        count,
        source,
        layer,
        pid,
        tid,
    });
    prop_oneof![
        4 => event().prop_map(Step::Begin),
        4 => (any::<prop::sample::Index>(), status(), args())
            .prop_map(|(which, status, outputs)| Step::End { which, status, outputs }),
        2 => event().prop_map(Step::Instant),
        2 => meaning().prop_map(Step::Mean),
        1 => lost.prop_map(Step::Lose),
    ]
}

fn meta() -> impl Strategy<Value = Meta> {
    let start = 0..=1u64 << 62;
    (
        start,
        vec(any::<String>(), 0..3),
        any::<u32>(),
        option::of(any::<String>()),
    )
        .prop_map(|(start_ns, command, cpus, driver)| {
            let mut meta = Meta {
                start_ns,
                command,
                driver,
                ..Meta::default()
            };
            meta.host.cpus = Some(cpus);
            meta.hooks = event::Hooks {
                attached: 5,
                total: 7,
            };
            meta.gpus.push(event::Gpu {
                simulated: true,
                ..event::Gpu::default()
            });
            meta
        })
}

/// Any trace that a tracer could write: in time order, ends after beginnings.
pub fn any_trace() -> impl Strategy<Value = Trace> {
    let steps = vec(
        (step(), prop_oneof![Just(0), 1..2_000u64, 0..1u64 << 40]),
        0..40,
    );
    (meta(), steps, any::<bool>()).prop_map(|(meta, steps, before)| {
        // Some spans began before the tracer did.
        let mut now = if before {
            meta.start_ns.saturating_sub(1_000_000)
        } else {
            meta.start_ns
        };
        let mut open: Vec<Event> = Vec::new();
        let mut records: Vec<Record> = Vec::new();
        let mut next_id = 1;
        for (step, pause) in steps {
            now += pause;
            match step {
                Step::Begin(mut event) => {
                    (event.id, event.start, event.extent) = (next_id, now, Extent::Open);
                    next_id += 1;
                    open.push(event.clone());
                    records.push(event.into());
                }
                Step::End {
                    which,
                    status,
                    outputs,
                } => {
                    if open.is_empty() {
                        continue;
                    }
                    let mut event = open.swap_remove(which.index(open.len()));
                    event.extent = Extent::Closed(now - event.start);
                    (event.status, event.outputs) = (status, outputs);
                    records.push(event.into());
                }
                Step::Instant(mut event) => {
                    (event.id, event.start) = (next_id, now);
                    next_id += 1;
                    records.push(event.into());
                }
                Step::Mean(meaning) => records.push(
                    Meaning {
                        ts: now,
                        op: next_id,
                        ..meaning
                    }
                    .into(),
                ),
                Step::Lose(lost) => records.push(Lost { ts: now, ..lost }.into()),
            }
        }
        let summary = Summary {
            end_ns: now,
            events: records.len() as u64,
            ..Summary::default()
        };
        Trace {
            meta,
            records,
            summary: Some(summary),
        }
    })
}

pub fn read_document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/TRACE-FORMAT.md");
    std::fs::read_to_string(path).expect("the document is in the repository")
}
