//! One sweep over a trace, and everything that was found in it.

use crate::{
    Categories, Ended, Functions, Gpu, Known, Nesting, Overview, SymbolId, Symbols,
    categories::CategoriesSweep,
    contexts::{ContextSweep, Contexts},
    functions::FunctionsSweep,
    gpu::GpuSweep,
    memory::{Memory, MemorySweep},
    overview::OverviewSweep,
    transfers::{TransferSweep, Transfers},
};
use event::{Category, Event, Extent, Kind, Layer, Meaning, Meta, Record, Summary, What};
use serde::Serialize;

/// Everything that was found in a trace. Times are nanoseconds, ids are those of events.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What was run, where, and how it was watched.
    pub meta: Meta,
    /// The trace's own tail; None if it was cut off.
    pub summary: Option<Summary>,
    pub overview: Overview,
    pub categories: Categories,
    pub functions: Functions,
    pub gpu: Gpu,
    pub memory: Memory,
    pub transfers: Transfers,
    pub contexts: Contexts,
}

/// The time in which a program was watched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wall {
    pub start: u64,
    pub end: u64,
}

impl Wall {
    pub fn length(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// What part of it that is; 0 of no time at all.
    pub fn share(self, part: u64) -> f64 {
        if self.length() == 0 {
            0.0
        } else {
            part as f64 / self.length() as f64
        }
    }
}

/// A sweep over a trace's records. Give it all of them, in the trace's order: beginnings, ends
/// and meanings as readers of traces give them.
pub struct Analysis {
    meta: Meta,
    first: Option<u64>,
    last: u64,
    symbols: Symbols,
    nesting: Nesting,
    overview: OverviewSweep,
    categories: CategoriesSweep,
    functions: FunctionsSweep,
    gpu: GpuSweep,
    memory: MemorySweep,
    transfers: TransferSweep,
    contexts: ContextSweep,
}

impl Analysis {
    pub fn new(meta: &Meta) -> Self {
        Analysis {
            meta: meta.clone(),
            first: None,
            last: 0,
            symbols: Symbols::default(),
            nesting: Nesting::default(),
            overview: OverviewSweep::default(),
            categories: CategoriesSweep::default(),
            functions: FunctionsSweep::default(),
            gpu: GpuSweep::default(),
            memory: MemorySweep::new(meta.start_ns),
            transfers: TransferSweep::default(),
            contexts: ContextSweep::default(),
        }
    }

    pub fn add(&mut self, record: &Record) {
        self.memory.add(record);
        self.transfers.add(record);
        self.contexts.add(record);
        match record {
            Record::Event(event) => self.event(event),
            Record::Meaning(meaning) => {
                self.see(meaning.ts, meaning.ts);
                self.meaning(meaning);
            }
            Record::Lost(lost) => {
                self.see(lost.ts, lost.ts);
                self.overview.lost(lost.count);
            }
        }
    }

    #[inline]
    fn see(&mut self, start: u64, end: u64) {
        self.first = Some(self.first.map_or(start, |first| first.min(start)));
        self.last = self.last.max(end);
    }

    fn event(&mut self, event: &Event) {
        self.see(event.start, event.end().unwrap_or(event.start));
        let symbol = self.symbols.of(event);
        match event.layer {
            Layer::Gpu => self.gpu_event(event, symbol),
            Layer::Device => self.overview.event(event, event.extent != Extent::Open),
            _ => self.host_event(event, symbol),
        }
    }

    fn host_event(&mut self, event: &Event, symbol: SymbolId) {
        match event.extent {
            Extent::Instant => {
                self.overview.event(event, true);
                self.functions.instant(event, symbol);
            }
            Extent::Open => {
                let began = self.nesting.begin(event, symbol);
                self.give_up();
                self.overview.event(event, true);
                self.categories.begin(event, &began);
            }
            Extent::Closed(duration) => {
                let ended = self.nesting.end(event, symbol, duration);
                self.give_up();
                self.overview.event(event, ended.known == Known::Nothing);
                self.categories.end(&ended);
                self.functions.end(event, &ended);
                if let Some(stream) = event.stream {
                    self.categories.stream(event, stream, &ended);
                }
            }
        }
    }

    /// Spans that were found to have no end.
    #[inline]
    fn give_up(&mut self) {
        if self.nesting.has_abandoned() {
            for ended in self.nesting.take_abandoned() {
                self.unended(&ended);
            }
        }
    }

    fn unended(&mut self, ended: &Ended) {
        self.categories.end(ended);
        self.functions.unended(ended);
    }

    fn gpu_event(&mut self, event: &Event, symbol: SymbolId) {
        let step = self.gpu.add(event);
        let first = step != crate::gpu::GpuStep::Ended;
        self.overview.event(event, first);
        if let Extent::Closed(duration) = event.extent {
            self.functions.gpu(event, symbol, duration);
        }
    }

    fn meaning(&mut self, meaning: &Meaning) {
        self.overview.meaning(&meaning.what);
        if let What::Launch(launch) = &meaning.what {
            let kernel =
                self.symbols
                    .of_name(&launch.kernel, Layer::Gpu, Category::Kernel, Kind::Gpu);
            self.functions.launch(kernel);
        }
    }

    /// The time watched: from the trace's start to its end, as far as it says so, and in any
    /// case from its first record to its last.
    fn wall(&self, summary: Option<&Summary>) -> Wall {
        let Some(first) = self.first else {
            let end = summary.map_or(0, |summary| summary.end_ns);
            let start = self.meta.start_ns;
            return Wall {
                start,
                end: end.max(start),
            };
        };
        let start = match self.meta.start_ns {
            0 => first,
            start => start.min(first),
        };
        Wall {
            start,
            end: summary.map_or(self.last, |summary| summary.end_ns.max(self.last)),
        }
    }

    /// What was found; `summary` is the trace's tail, if it has one.
    pub fn finish(mut self, summary: Option<&Summary>) -> Report {
        let wall = self.wall(summary);
        for ended in self.nesting.finish(wall.end) {
            self.unended(&ended);
        }
        let mut overview = self
            .overview
            .finish(wall, &self.nesting, self.gpu.open(), summary);
        overview.simulated =
            !self.meta.gpus.is_empty() && self.meta.gpus.iter().all(|gpu| gpu.simulated);
        Report {
            overview,
            categories: self.categories.finish(wall, &self.nesting),
            functions: self.functions.finish(&self.symbols),
            gpu: self.gpu.finish(wall),
            memory: self.memory.finish(summary),
            transfers: self.transfers.finish(),
            contexts: self.contexts.finish(),
            meta: self.meta,
            summary: summary.cloned(),
        }
    }
}
