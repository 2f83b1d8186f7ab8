//! What a program does now: sums over records as they come, for screens and dashboards. Everything is a running total;
//! who wants rates takes two [`Totals`] and looks at the difference. Memory is bounded by names, threads and processes,
//! each with a limit.

mod busy;
mod histogram;
mod process;
mod rows;
mod steps;
mod totals;

pub use busy::Busy;
pub use histogram::{Histogram, SCHEMA, upper};
pub use process::{Failure, MOST_PROCESSES, Process, Range};
pub use rows::{LastCall, Row};
pub use steps::{Iteration, StepSeries};
pub use totals::{Scope, Sums, Totals};

use crate::{
    Brief, Nesting, SymbolId, Symbols,
    analysis::{DEEPEST_SIGN, is_api},
    findings::expected,
    gpu,
};
use event::{Category, Direction, Event, Extent, Kind, Layer, Meaning, Record, What};
use process::Processes;
use rows::Rows;
use std::collections::HashMap;
use steps::Steps;

/// What happened with a record that is worth telling on its own: see [`Live::see`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notable {
    Nothing,
    /// A step of this thread is over.
    Step {
        pid: u32,
        tid: u32,
        iteration: Iteration,
    },
    /// A call failed, and not as an answer to a question.
    Failed,
}

/// The running totals.
pub struct Live {
    symbols: Symbols,
    copies: [SymbolId; Direction::ALL.len()],
    nesting: Nesting,
    /// Threads that the nesting knows; beyond a limit it starts anew.
    rows: Rows,
    processes: Processes,
    steps: HashMap<(u32, u32), Steps, ahash::RandomState>,
    devices: Vec<(Option<u32>, Busy)>,
    records: u64,
    events: u64,
    lost: u64,
    /// The latest time of any record.
    latest: u64,
    /// How long records of the GPU's work took to come here, lately.
    gpu_delay: u64,
    has_gpu_times: bool,
}

/// Threads whose steps are followed.
const MOST_STEPPING: usize = 1_024;
const MOST_DEVICES: usize = 64;
/// So many threads are remembered by the nesting at most: others come and go for days.
const MOST_THREADS: usize = 16_384;

impl Default for Live {
    fn default() -> Self {
        let mut symbols = Symbols::default();
        let copies = std::array::from_fn(|place| {
            let name = format!("copy {}", Direction::ALL[place]).into();
            symbols.of_name(&name, Layer::Driver, Category::Transfer, Kind::Userspace)
        });
        Live {
            symbols,
            copies,
            nesting: Nesting::default(),
            rows: Rows::default(),
            processes: Processes::default(),
            steps: HashMap::default(),
            devices: Vec::new(),
            records: 0,
            events: 0,
            lost: 0,
            latest: 0,
            gpu_delay: 0,
            has_gpu_times: false,
        }
    }
}

impl Live {
    /// Adds a record that has come at `now`.
    pub fn see(&mut self, record: &Record, now: u64) -> Notable {
        self.records += 1;
        self.latest = self.latest.max(record.ts());
        match record {
            Record::Event(event) => self.event(event, now),
            Record::Meaning(meaning) => self.meaning(meaning),
            Record::Lost(lost) => {
                self.lost = self.lost.saturating_add(lost.count);
                Notable::Nothing
            }
        }
    }

    fn event(&mut self, event: &Event, now: u64) -> Notable {
        if event.extent != Extent::Open {
            self.events += 1;
        }
        if matches!(event.kind, Kind::Range | Kind::ProcessRange) {
            if let (Extent::Closed(duration), Some(process)) =
                (event.extent, self.processes.of(event.pid, event.start))
            {
                process.range(&event.name, duration);
            }
            return Notable::Nothing;
        }
        match event.layer {
            Layer::Gpu => {
                self.gpu_work(event, now);
                Notable::Nothing
            }
            Layer::Os | Layer::Device => Notable::Nothing,
            _ => self.call(event),
        }
    }

    fn gpu_work(&mut self, event: &Event, now: u64) {
        let Extent::Closed(duration) = event.extent else {
            return;
        };
        if !gpu::is_work(event) {
            return;
        }
        self.has_gpu_times = true;
        let end = event.start.saturating_add(duration);
        let delay = now.saturating_sub(end);
        // The longest counts, and is forgotten slowly: one in a thousand of it with each record.
        self.gpu_delay = delay.max(self.gpu_delay - self.gpu_delay / 1_000);
        let symbol = self.symbols.of(event);
        self.rows.work(event, symbol, duration);
        let known = (self.devices.iter()).position(|(device, _)| *device == event.device);
        let place = known.or_else(|| {
            (self.devices.len() < MOST_DEVICES).then(|| {
                self.devices.push((event.device, Busy::default()));
                self.devices.len() - 1
            })
        });
        if let Some(place) = place {
            self.devices[place].1.add(event.start, end);
        }
        if let Some(process) = self.processes.of(event.pid, event.start) {
            process.gpu.add(event.start, end);
        }
    }

    fn call(&mut self, event: &Event) -> Notable {
        let symbol = self.symbols.of(event);
        let brief = Brief::of(event);
        let duration = match event.extent {
            Extent::Instant => return Notable::Nothing,
            Extent::Open => {
                self.nesting.begin(&brief, symbol);
                if self.nesting.has_abandoned() {
                    self.nesting.take_abandoned();
                }
                return Notable::Nothing;
            }
            Extent::Closed(duration) => duration,
        };
        let ended = self.nesting.end(&brief, symbol, duration);
        if self.nesting.has_abandoned() {
            self.nesting.take_abandoned();
        }
        let around = self.nesting.open(ended.thread);
        let around = &around[around.len().saturating_sub(DEEPEST_SIGN)..];
        let is_outermost = !around.iter().any(|open| is_api(open.layer));
        let code = brief.status.unwrap_or(0);
        let failed = code != 0
            && is_api(event.layer)
            && is_outermost
            && expected::why_not(&event.name, code).is_none();
        self.rows
            .call(event, symbol, duration, ended.self_ns, failed);
        if self.nesting.threads().len() > MOST_THREADS {
            // Spans that are open now lose their beginnings, no more.
            self.nesting = Nesting::default();
        }
        let Some(process) = self.processes.of(event.pid, event.start) else {
            return Notable::Nothing;
        };
        process.calls += u64::from(is_outermost);
        if !failed {
            return Notable::Nothing;
        }
        process.failed(event, code);
        Notable::Failed
    }

    fn meaning(&mut self, meaning: &Meaning) -> Notable {
        let Some(process) = self.processes.of(meaning.pid, meaning.ts) else {
            return Notable::Nothing;
        };
        let symbol = match &meaning.what {
            What::Memory(memory) => {
                process.memory(memory);
                return Notable::Nothing;
            }
            What::Transfer(transfer) => {
                process.copied(transfer);
                self.copies[transfer.direction as usize]
            }
            What::Launch(launch) => {
                process.launches += 1;
                let kernel =
                    (self.symbols).of_name(&launch.kernel, Layer::Gpu, Category::Kernel, Kind::Gpu);
                self.rows.launch(meaning.pid, kernel);
                kernel
            }
        };
        let thread = (meaning.pid, meaning.tid);
        if self.steps.len() >= MOST_STEPPING && !self.steps.contains_key(&thread) {
            return Notable::Nothing;
        }
        let iteration = self
            .steps
            .entry(thread)
            .or_default()
            .step(symbol, meaning.ts);
        iteration.map_or(Notable::Nothing, |iteration| Notable::Step {
            pid: meaning.pid,
            tid: meaning.tid,
            iteration,
        })
    }

    /// A process has ended and its totals are of no use any more.
    pub fn forget(&mut self, pid: u32) {
        self.processes.forget(pid);
        self.rows.forget(pid);
        self.steps.retain(|thread, _| thread.0 != pid);
    }

    /// Events that back ends could not keep, so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub fn events(&self) -> u64 {
        self.events
    }

    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    pub fn processes(&self) -> impl Iterator<Item = (u32, &Process)> {
        self.processes.iter()
    }

    /// Threads of a process that made calls.
    pub fn threads(&self, pid: u32) -> Vec<u32> {
        self.rows.threads(pid)
    }

    /// Whether the GPU's own times are known; otherwise kernels are counted when they are launched.
    pub fn has_gpu_times(&self) -> bool {
        self.has_gpu_times
    }

    /// How long after the end of GPU work its record comes, lately, at most.
    pub fn gpu_delay_ns(&self) -> u64 {
        self.gpu_delay
    }

    /// Devices, each with its busy time.
    pub fn devices(&self) -> impl Iterator<Item = (Option<u32>, &Busy)> {
        self.devices.iter().map(|(device, busy)| (*device, busy))
    }

    /// The thread's loop that has had the most steps.
    pub fn steps(&self, scope: Scope) -> Option<StepSeries> {
        let threads = self.steps.iter().filter(|(thread, _)| scope.has(**thread));
        let ((pid, tid), steps) = threads
            .filter(|(_, steps)| steps.iterations > 0)
            .max_by_key(|(thread, steps)| {
                (steps.durations.sum_ns(), std::cmp::Reverse(**thread))
            })?;
        Some(StepSeries {
            pid: *pid,
            tid: *tid,
            mark: self.symbols.name(steps.mark()?),
            count: steps.iterations,
            durations: steps.durations.clone(),
            recent: steps.recent.iter().copied().collect(),
        })
    }

    /// All rows of functions and kernels, by process and thread: the process (0 where it is not known any more) and the
    /// symbol. A process has several rows of one symbol if several threads called it.
    pub fn rows(&self) -> impl Iterator<Item = (u32, SymbolId, &Row)> {
        self.rows.all()
    }

    /// Steps of every process: those of the thread that has had the most time in them.
    pub fn steps_by_process(&self) -> Vec<StepSeries> {
        let pids = self.processes.iter().map(|(pid, _)| pid);
        pids.filter_map(|pid| self.steps(Scope::Process(pid)))
            .collect()
    }

    /// One function's or kernel's row, with its durations and its last call.
    pub fn row(&self, scope: Scope, symbol: SymbolId) -> Row {
        self.rows.one(scope, symbol)
    }

    /// The sums of this scope, to compare with later ones.
    pub fn totals(&self, scope: Scope) -> Totals {
        let mut totals = Totals {
            at_ns: self.latest,
            events: self.events,
            lost: self.lost,
            functions: self.rows.sums(scope),
            ..Totals::default()
        };
        for (pid, process) in self.processes.iter() {
            if scope.is_of(pid) {
                totals.add(process);
            }
        }
        for (_, busy) in &self.devices {
            totals.gpu_busy_ns = totals.gpu_busy_ns.saturating_add(busy.total_ns());
        }
        totals
    }
}

#[cfg(test)]
mod tests;
