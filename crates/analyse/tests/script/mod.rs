//! Traces written as scripts: spans with their times, put into the order of time.
#![allow(dead_code)] // Not every test file needs every part.

use event::{
    Category, Event, Extent, Kind, Launch, Layer, Meaning, Meta, Record, Status, Summary, What,
};

/// Spans, in any order; their records come out by time.
#[derive(Default)]
pub struct Script {
    steps: Vec<(u64, u64, Record)>,
    next: u64,
}

/// Where a span lies.
#[derive(Clone, Copy)]
pub struct At {
    pub tid: u32,
    pub start: u64,
    pub end: u64,
}

pub fn at(tid: u32, start: u64, end: u64) -> At {
    At { tid, start, end }
}

impl Script {
    pub fn new() -> Self {
        Script::default()
    }

    pub fn event(&mut self, name: &str, at: At) -> Event {
        self.next += 1;
        let layer = layer(name);
        let mut event = Event::new(self.next, layer, category(name, layer), name, at.start);
        (event.pid, event.tid) = (1, at.tid);
        event.extent = Extent::Closed(at.end - at.start);
        if layer == Layer::Syscall {
            event.kind = Kind::Ioctl;
        }
        event
    }

    /// A span of the host or the GPU, by its name.
    pub fn span(&mut self, name: &str, at: At) -> u64 {
        let event = self.event(name, at);
        self.add(event)
    }

    /// Both records of a finished event.
    pub fn add(&mut self, event: Event) -> u64 {
        let mut begin = event.clone();
        begin.extent = Extent::Open;
        begin.status = None;
        let (id, start, end) = (event.id, event.start, event.end().unwrap_or(event.start));
        // Of spans that touch, the earlier ends before the later begins; of nested ones with
        // a common start the outer, which was told first, begins first.
        self.steps.push((start, 2 * id, begin.into()));
        self.steps
            .push((end, end_rank(start, end, id), event.into()));
        id
    }

    /// A span that never ends.
    pub fn open(&mut self, name: &str, tid: u32, start: u64) -> u64 {
        let mut event = self.event(name, at(tid, start, start));
        event.extent = Extent::Open;
        let id = event.id;
        self.steps.push((start, 2 * id, event.into()));
        id
    }

    pub fn failed(&mut self, name: &str, at: At, code: i64) -> u64 {
        let mut event = self.event(name, at);
        event.status = Some(Status { code, name: None });
        self.add(event)
    }

    /// A launch, as its call and its meaning.
    pub fn launch(&mut self, kernel: &str, at: At) -> u64 {
        let launch = Launch {
            kernel: kernel.into(),
            grid: [1; 3],
            block: [32, 1, 1],
            shared: 0,
        };
        self.means("cuLaunchKernel", at, What::Launch(launch))
    }

    /// A call, and what it meant.
    pub fn means(&mut self, name: &str, at: At, what: What) -> u64 {
        let event = self.event(name, at);
        let meaning = Meaning::of(&event, what);
        let id = self.add(event);
        let rank = end_rank(at.start, at.end, id);
        self.steps.push((at.end, rank + 1, meaning.into()));
        id
    }

    /// Changes both records of an event.
    pub fn change(&mut self, id: u64, change: impl Fn(&mut Event)) {
        for (_, _, record) in &mut self.steps {
            match record {
                Record::Event(event) if event.id == id => change(event),
                _ => {}
            }
        }
    }

    /// GPU work of a call.
    pub fn gpu(&mut self, name: &str, stream: u64, at: At, correlation: Option<u64>) -> u64 {
        let mut event = self.event(name, at);
        event.layer = Layer::Gpu;
        event.kind = Kind::Gpu;
        event.category = if name.contains("memcpy") {
            Category::Transfer
        } else {
            Category::Kernel
        };
        event.device = Some(0);
        event.stream = Some(stream);
        event.correlation = correlation;
        self.add(event)
    }

    pub fn records(mut self) -> Vec<Record> {
        self.steps.sort_by_key(|(time, rank, _)| (*time, *rank));
        self.steps
            .into_iter()
            .map(|(_, _, record)| record)
            .collect()
    }

    /// What is found in it, watched from `start` to `end`.
    pub fn report(self, start: u64, end: u64) -> analyse::Report {
        report(&self.records(), start, end)
    }
}

/// Ends come before the beginnings of the same moment, but not before their own.
fn end_rank(start: u64, end: u64, id: u64) -> u64 {
    if start == end { 2 * id + 1 } else { 0 }
}

pub fn report(records: &[Record], start: u64, end: u64) -> analyse::Report {
    let meta = Meta {
        start_ns: start,
        ..Meta::default()
    };
    let summary = Summary {
        end_ns: end,
        ..Summary::default()
    };
    let mut analysis = analyse::Analysis::new(&meta);
    records.iter().for_each(|record| analysis.add(record));
    analysis.finish(Some(&summary))
}

fn layer(name: &str) -> Layer {
    match name {
        "ioctl" | "mmap" | "openat" => Layer::Syscall,
        _ if name.starts_with("nv") => Layer::Kernel,
        _ if name.starts_with("cublas") => Layer::Library,
        _ => cuda::layer(name),
    }
}

fn category(name: &str, layer: Layer) -> Category {
    match layer {
        Layer::Runtime | Layer::Driver => cuda::category(name),
        _ => Category::Other,
    }
}
