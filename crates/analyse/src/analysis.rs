//! One sweep over a trace, and everything that was found in it.

use crate::{
    Brief, Categories, Correlation, Ended, Functions, Gpu, Idle, KernelClass, Managed, Nesting,
    Open, Operators, Overview, Phases, Ranges, Role, SpanHistory, Steps, SymbolId, Symbols,
    TensorMemory,
    blocks::{BlockRow, BlockSweep},
    categories::CategoriesSweep,
    compiled::{self, CompiledKernel},
    contexts::{ContextSweep, Contexts},
    correlation::CorrelationSweep,
    driver_objects::{DriverObjectSweep, DriverObjects},
    findings::{self, FailureRow, Finding, SignSweep},
    functions::FunctionsSweep,
    gpu::{self, GpuStep, GpuSweep},
    host::HostSweep,
    idle::{Basis, IdleSweep},
    ioctls::{IoctlSweep, Ioctls},
    kernel_classes,
    loops::Step,
    managed::ManagedSweep,
    memory::{Memory, MemorySweep},
    nesting::{ThreadId, is_call},
    operators::OperatorSweep,
    outside::OutsideSweep,
    overview::{Caller, OverviewSweep},
    pace::PaceSweep,
    passed::Sums,
    phases::PhasesSweep,
    ranges::RangeSweep,
    samples::{SampleRow, SampleSweep},
    transfers::{TransferSweep, Transfers},
    working::{self, Working},
};
use event::{
    Category, Direction, Event, Extent, Kind, Layer, Meaning, Meta, Record, Summary, Value, What,
};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;

/// Everything that was found in a trace. Times are nanoseconds, ids are those of events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    pub idle: Idle,
    pub correlation: Correlation,
    pub ioctls: Ioctls,
    /// What ioctls made, kept and moved.
    pub driver_objects: DriverObjects,
    pub phases: Phases,
    /// The time in which the GPU was used, step by step where work repeats.
    pub working: Option<Working>,
    /// The program's own words for its work.
    pub ranges: Ranges,
    /// A framework's.
    #[serde(default, skip_serializing_if = "Operators::is_empty")]
    pub operators: Operators,
    /// Of a training loop, where the framework says where they end.
    #[serde(default, skip_serializing_if = "Steps::is_empty")]
    pub steps: Steps,
    /// GPU memory of a framework's tensors.
    #[serde(default, skip_serializing_if = "TensorMemory::is_empty")]
    pub tensors: TensorMemory,
    /// GPU time by kind of work: GEMM, attention, …
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_classes: Vec<KernelClass>,
    /// Kernels that torch.compile made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compiled: Vec<CompiledKernel>,
    pub managed: Managed,
    /// What probes inside kernels saw of blocks or threads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<BlockRow>,
    /// What GPUs were sampled at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<SampleRow>,
    /// Calls that returned an error, and which of them are answers.
    pub failures: Vec<FailureRow>,
    /// What is worth changing, worst first.
    pub findings: Vec<Finding>,
}

/// Sources that record CUDA calls, and those that record requests to the driver, as traces name them. A trace may be
/// read where no source is: a test compares them with capture's registry.
pub const CALL_SOURCES: [&str; 2] = ["preload", "ebpf"];
pub const REQUEST_SOURCES: [&str; 2] = ["syscall", "ebpf"];

impl Report {
    /// Whether CUDA calls were recorded: if not, that there are none says nothing.
    pub fn calls_watched(&self) -> bool {
        self.overview.counts.api_calls > 0
            || self.meta.backends.is_empty()
            || self.watched_by(&CALL_SOURCES)
    }

    /// Whether requests to the kernel driver were recorded.
    pub fn requests_watched(&self) -> bool {
        self.overview.counts.has_kernel() || self.watched_by(&REQUEST_SOURCES)
    }

    fn watched_by(&self, names: &[&str]) -> bool {
        let mut backends = self.meta.backends.iter();
        backends.any(|backend| names.contains(&&*backend.name))
    }

    /// Whether anything is known of what the GPU did.
    pub fn gpu_watched(&self) -> bool {
        self.calls_watched() || self.overview.counts.gpu_operations > 0
    }

    /// Why nobody can say when the GPU was idle: without GPU times that follows from the calls, and some were
    /// left out.
    pub fn idle_unknown(&self) -> Option<String> {
        let summary = self.summary.as_ref()?;
        let mut left_out = summary.left_out.clone();
        if let Some(shed) = summary.shed.as_ref().filter(|shed| shed.hides_work()) {
            left_out.push(format!("--budget {}%", 100.0 * shed.budget));
        }
        (self.idle.basis == Basis::Launches && !left_out.is_empty()).then(|| {
            format!(
                "unknown: calls were left out ({}) and the trace has no GPU times",
                left_out.join(", ")
            )
        })
    }
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
    /// Between windows.
    not_watched_ns: u64,
    pub(crate) symbols: Symbols,
    pub(crate) nesting: Nesting,
    overview: OverviewSweep,
    categories: CategoriesSweep,
    pub(crate) functions: FunctionsSweep,
    pub(crate) gpu: GpuSweep,
    pace: PaceSweep,
    memory: MemorySweep,
    transfers: TransferSweep,
    contexts: ContextSweep,
    host: HostSweep,
    idle: IdleSweep,
    correlation: CorrelationSweep,
    ioctls: IoctlSweep,
    outside: OutsideSweep,
    driver_objects: DriverObjectSweep,
    phases: PhasesSweep,
    ranges: RangeSweep,
    operators: OperatorSweep,
    managed: ManagedSweep,
    samples: SampleSweep,
    blocks: BlockSweep,
    pub(crate) signs: SignSweep,
    /// What copies are called as steps of a loop, by direction.
    copies: [SymbolId; Direction::ALL.len()],
    /// The call that ended last: a meaning belongs to it nearly always.
    ended: EndedCall,
}

/// What has passed so far: the fields that know, apart from the one that asks.
macro_rules! sums {
    ($self:ident) => {
        Sums {
            origin: match $self.meta.start_ns {
                0 => $self.first.unwrap_or(0),
                start => start,
            },
            launches: $self.overview.launches(),
            graph_launches: $self.overview.graph_launches(),
            functions: &$self.functions,
            gpu: &$self.gpu,
            pace: &$self.pace,
            host: &$self.host,
            idle: &$self.idle,
            memory: &$self.memory,
        }
    };
}

/// Whether spans of that layer are something done. Those of the operating system are threads that wait: being
/// busy is the opposite.
fn is_activity(layer: Layer) -> bool {
    layer != Layer::Os
}

/// How many enclosing calls are looked at for one of the same kind.
pub(crate) const DEEPEST_SIGN: usize = 64;

/// Whether a call's beginning says nothing that its end does not say as well: it is about no context, and has
/// not failed.
fn is_plain(event: &Event) -> bool {
    event.kind == Kind::Userspace
        && is_call(event.layer)
        && event.status.as_ref().is_none_or(|status| status.code == 0)
        && event.category != Category::Context
}

/// Whether the sweeps over memory and transfers take more of a plain call than when it was.
fn concerns_memory(category: Category) -> bool {
    matches!(
        category,
        Category::Memory | Category::Transfer | Category::Graph | Category::Sync
    )
}

#[derive(Clone, Copy, Default)]
struct EndedCall {
    id: u64,
    start: u64,
}

impl Analysis {
    pub fn new(meta: &Meta) -> Self {
        let mut symbols = Symbols::default();
        let copies = std::array::from_fn(|place| {
            let name = format!("copy {}", Direction::ALL[place]).into();
            symbols.of_name(&name, Layer::Driver, Category::Transfer, Kind::Userspace)
        });
        Analysis {
            meta: meta.clone(),
            first: None,
            last: 0,
            not_watched_ns: 0,
            symbols,
            copies,
            nesting: Nesting::default(),
            overview: OverviewSweep::default(),
            categories: CategoriesSweep::default(),
            functions: FunctionsSweep::default(),
            gpu: GpuSweep::default(),
            pace: PaceSweep::default(),
            memory: MemorySweep::new(meta.start_ns),
            transfers: TransferSweep::default(),
            contexts: ContextSweep::default(),
            host: HostSweep::default(),
            idle: IdleSweep::default(),
            correlation: CorrelationSweep::default(),
            ioctls: IoctlSweep::default(),
            outside: OutsideSweep::default(),
            driver_objects: DriverObjectSweep::default(),
            phases: PhasesSweep::default(),
            ranges: RangeSweep::default(),
            operators: OperatorSweep::default(),
            managed: ManagedSweep::default(),
            samples: SampleSweep::new(meta.start_ns),
            blocks: BlockSweep::default(),
            signs: SignSweep::default(),
            ended: EndedCall::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn sums(&self) -> Sums<'_> {
        sums!(self)
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

    /// A span during which nothing else was recorded, by its end: the same as its beginning and its end one after the
    /// other.
    pub fn add_whole(&mut self, record: &mut Record) {
        if let Record::Event(event) = &*record
            && let Extent::Closed(duration) = event.extent
            && self.first.is_some()
            && is_plain(event)
        {
            let end = event.start.saturating_add(duration);
            if concerns_memory(event.category) {
                self.memory.add(record);
                self.transfers.add(record);
            } else {
                self.memory.see(end);
                self.transfers.see(end);
            }
            self.contexts.add(record);
            self.see(event.start, end);
            let symbol = self.symbols.of(event);
            let role = self.symbols.get(symbol).role;
            self.has_begun(event, symbol, role);
            let ended = self.nesting.end(&Brief::of(event), symbol, duration);
            self.give_up();
            self.overview.event(event, true);
            return self.has_ended(event, role, &ended);
        }
        let both = record.in_two(|record| {
            self.add(record);
            Ok::<(), Infallible>(())
        });
        let Ok(()) = both;
    }

    #[inline]
    pub(crate) fn see(&mut self, start: u64, end: u64) {
        self.first = Some(self.first.map_or(start, |first| first.min(start)));
        self.last = self.last.max(end);
    }

    fn event(&mut self, event: &Event) {
        self.see(event.start, event.end().unwrap_or(event.start));
        // Ranges are the program's words for its work, not work: they are on nobody's account. So are operators.
        if event.kind.is_around_calls() {
            self.overview.event(event, event.extent != Extent::Open);
            match event.kind {
                Kind::Operator => self.operators.operator(event),
                _ => {
                    self.ranges.range(event);
                    self.operators.range(event);
                }
            }
            return;
        }
        if event.kind == Kind::NotWatched {
            self.not_watched(event);
            return;
        }
        let symbol = self.symbols.of(event);
        match event.layer {
            Layer::Gpu => self.gpu_event(event, symbol),
            Layer::Device => {
                self.overview.event(event, event.extent != Extent::Open);
                self.blocks.add(event);
            }
            _ => self.host_event(event, symbol),
        }
    }

    /// Recording has begun again: nobody knows what was before, back to when it stopped.
    fn not_watched(&mut self, event: &Event) {
        let since = match event.arg("since_ns") {
            Some(Value::Uint(since)) => *since,
            Some(Value::Int(since)) => u64::try_from(*since).unwrap_or(0),
            _ => return,
        };
        let since = since.min(event.start);
        self.not_watched_ns = self.not_watched_ns.saturating_add(event.start - since);
        self.idle.not_watched(since, event.start, &mut self.host);
    }

    fn host_event(&mut self, event: &Event, symbol: SymbolId) {
        let role = self.symbols.get(symbol).role;
        match event.extent {
            Extent::Instant => {
                self.overview.event(event, true);
                self.functions.instant(&Brief::of(event), symbol);
            }
            Extent::Open => self.begin(event, symbol, role),
            Extent::Closed(duration) => {
                let ended = self.nesting.end(&Brief::of(event), symbol, duration);
                self.give_up();
                self.end(event, role, &ended);
            }
        }
    }

    fn begin(&mut self, event: &Event, symbol: SymbolId, role: Role) {
        self.overview.event(event, true);
        self.has_begun(event, symbol, role);
    }

    /// All but counting it.
    fn has_begun(&mut self, event: &Event, symbol: SymbolId, role: Role) {
        let began = self.nesting.begin(&Brief::of(event), symbol);
        self.give_up();
        if role == Role::Alloc {
            self.signs.asks(event, began.thread);
        }
        self.count_caller(event, began.thread, 1);
        if is_activity(event.layer) {
            self.categories.begin(event, &began);
            self.correlation
                .begin(event, symbol, &mut self.nesting, began.thread);
        }
        // The call itself is open already.
        if is_call(event.layer) && !self.is_in_a_call(began.thread, 1) {
            self.outside.begin(began.thread, event.start);
        }
        self.ranges.call(event);
        self.operators.call(event);
        self.host.stack(event);
        self.host.changed(event.start, began.thread, &self.nesting);
        // A runtime call and the driver's call in it do the same.
        if began.outermost_in_category {
            self.idle.begin(event, symbol, role, &mut self.host);
        }
        self.phases.begin(event);
    }

    fn end(&mut self, event: &Event, role: Role, ended: &Ended) {
        self.overview
            .event(event, ended.known == SpanHistory::Nothing);
        self.has_ended(event, role, ended);
    }

    /// All but counting it.
    fn has_ended(&mut self, event: &Event, role: Role, ended: &Ended) {
        if ended.known == SpanHistory::Nothing {
            self.count_caller(event, ended.thread, 0);
        }
        self.functions.end(&Brief::of(event), ended);
        self.operators.call_ended(event);
        if is_activity(event.layer) {
            self.categories.end(ended);
            if let Some(stream) = event.stream {
                self.categories.stream(event, stream, ended);
            }
            self.correlation.end(ended);
        }
        if let (Some(ioctl), Some(duration)) = (&event.ioctl, ended.duration_ns) {
            self.ioctls.end(event, ioctl, duration);
            let around = self.nesting.open(ended.thread).iter();
            let call = around.rev().find(|open| is_call(open.layer));
            let inside = call.map(|open| self.symbols.get(open.symbol).category);
            self.driver_objects.end(event, ioctl, inside);
            if inside.is_none() {
                let time = (event.start, duration);
                self.outside.ioctl(ended.thread, time, event.id);
            }
        }
        if is_call(event.layer) && !self.is_in_a_call(ended.thread, 0) {
            self.outside.end(ended.thread, ended.end);
        }
        self.host.changed(ended.end, ended.thread, &self.nesting);
        if ended.known == SpanHistory::Nothing {
            self.phases.begin(event);
        }
        if ended.outermost_in_category {
            if ended.known == SpanHistory::Nothing {
                self.idle.begin(event, ended.symbol, role, &mut self.host);
            }
            self.idle.end(event, ended.symbol, role, &mut self.host);
        }
        let sums = sums!(self);
        self.phases.end(event, role, ended, &sums);
        self.sign(event, role, ended);
        self.ended = EndedCall {
            id: event.id,
            start: event.start,
        };
    }

    /// Leaving out the innermost spans.
    #[inline]
    fn is_in_a_call(&self, thread: ThreadId, innermost: usize) -> bool {
        let open = self.nesting.open(thread);
        let around = open.len().saturating_sub(innermost);
        open[..around].iter().any(|open| is_call(open.layer))
    }

    /// Whose call of CUDA's API it is, leaving out the innermost spans.
    #[inline]
    fn count_caller(&mut self, event: &Event, thread: ThreadId, innermost: usize) {
        if !is_api(event.layer) || event.kind != Kind::Userspace {
            return;
        }
        let open = self.nesting.open(thread);
        let around = &open[..open.len().saturating_sub(innermost)];
        let around = &around[around.len().saturating_sub(DEEPEST_SIGN)..];
        self.overview
            .made_by(if around.iter().any(|open| is_api(open.layer)) {
                Caller::Cuda
            } else if around.iter().any(|open| open.layer == Layer::Library) {
                Caller::Library
            } else {
                Caller::Program
            });
    }

    /// What the findings need of a call: of calls inside others, the outermost speaks.
    fn sign(&mut self, event: &Event, role: Role, ended: &Ended) {
        if !is_api(event.layer) {
            return;
        }
        let around = self.nesting.open(ended.thread);
        // Real programs nest their calls a few deep.
        let around = &around[around.len().saturating_sub(DEEPEST_SIGN)..];
        if !around.iter().any(|open| is_api(open.layer)) {
            self.signs.call(event, ended);
        }
        let same = |open: &Open| self.symbols.get(open.symbol).role == role;
        if role != Role::Other && !around.iter().any(same) {
            self.signs.role(event, ended, role);
            if role == Role::Launch && is_graph_launch(&event.name) {
                self.overview.graph_launch();
            }
        }
    }

    /// Spans that were found to have no end.
    #[inline]
    pub(crate) fn give_up(&mut self) {
        if self.nesting.has_abandoned() {
            for ended in self.nesting.take_abandoned() {
                self.unended(&ended);
            }
        }
    }

    fn unended(&mut self, ended: &Ended) {
        self.functions.unended(ended);
        if is_activity(ended.layer) {
            self.categories.end(ended);
            self.correlation.end(ended);
        }
    }

    fn gpu_event(&mut self, event: &Event, symbol: SymbolId) {
        if !gpu::is_work(event) {
            self.overview.event(event, event.extent != Extent::Open);
            self.managed.add(event);
            self.gpu.other(event);
            self.samples.add(event);
            return;
        }
        let step = self.gpu.add(event);
        let first = matches!(step, GpuStep::Began | GpuStep::Whole);
        if first {
            self.pace.began(event, self.correlation.called(event));
        }
        if matches!(step, GpuStep::Ended | GpuStep::Whole) {
            self.pace.ended(event);
        }
        if first {
            self.operators.gpu_began(event);
        }
        self.overview.event(event, first);
        if first && event.category == Category::Kernel {
            let cause = self.correlation.cause(event);
            if cause.is_some_and(|symbol| is_graph_launch(&self.symbols.get(symbol).name)) {
                self.overview.graph_kernel();
            }
        }
        self.idle.gpu(event, symbol, step, &mut self.host);
        if first {
            let sums = sums!(self);
            self.phases.gpu_step(event, symbol, &sums);
        }
        if let Extent::Closed(duration) = event.extent {
            self.functions.gpu(&Brief::of(event), symbol, duration);
            self.correlation.gpu(event, symbol, duration);
            self.ranges.gpu(event, duration);
            self.operators.gpu(event, duration);
            self.phases.work_until(event.start.saturating_add(duration));
        }
    }

    fn meaning(&mut self, meaning: &Meaning) {
        self.overview.meaning(meaning);
        let (symbol, launch) = match &meaning.what {
            What::Launch(launch) => {
                let kernel = &launch.kernel;
                let kernel =
                    (self.symbols).of_name(kernel, Layer::Gpu, Category::Kernel, Kind::Gpu);
                self.functions.launch(kernel);
                self.signs.launch(meaning, launch);
                (kernel, true)
            }
            What::Transfer(transfer) => (self.copies[transfer.direction as usize], false),
            What::Memory(_) => {
                let bytes = self.memory.device_bytes(meaning.pid);
                self.operators.device_memory(meaning.pid, bytes);
                return;
            }
        };
        let at = if self.ended.id == meaning.op {
            self.ended.start
        } else {
            meaning.ts
        };
        let step = Step {
            thread: (meaning.pid, meaning.tid),
            symbol,
            launch,
            op: meaning.op,
            at,
        };
        let sums = sums!(self);
        self.phases.step(&step, meaning.ts, &sums);
    }

    /// The time watched: as the trace says, or from its start to its end, and in any case from its
    /// first record to its last. Of time outside it nobody knows whether the GPU was idle.
    fn wall(&self, summary: Option<&Summary>) -> Wall {
        let whole = self.whole(summary);
        let Some(watched) = summary.and_then(|summary| summary.watched) else {
            return whole;
        };
        let start = watched.start_ns.min(self.first.unwrap_or(u64::MAX));
        let end = watched.end_ns.max(self.last);
        let start = start.clamp(whole.start, whole.end);
        Wall {
            start,
            end: end.clamp(start, whole.end),
        }
    }

    /// From the trace's start to its end.
    fn whole(&self, summary: Option<&Summary>) -> Wall {
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
        let outside = self.whole(summary).length() - wall.length();
        let between = self.not_watched_ns.min(wall.length());
        let not_watched_ns = outside + between;
        for ended in self.nesting.finish(wall.end) {
            self.unended(&ended);
        }
        let mut overview = self
            .overview
            .finish(wall, &self.nesting, self.gpu.open(), summary);
        overview.not_watched_ns = not_watched_ns;
        overview.simulated =
            !self.meta.gpus.is_empty() && self.meta.gpus.iter().all(|gpu| gpu.simulated);
        let known = self.meta.gpus.iter().map(|gpu| gpu.index);
        let idle = (self.idle).finish((wall, between), &mut self.host, &self.symbols, known);
        let idle_busy = idle.all.busy_ns;
        let signs = self.signs.finish();
        let outside = self.outside.finish(self.nesting.threads());
        let shed = summary.and_then(|summary| summary.shed.as_ref());
        let is_whole = shed.is_none_or(|shed| !shed.hides_work());
        let (operators, steps, tensors) = self.operators.finish();
        let functions = self.functions.finish(&self.symbols);
        // Other programs' kernels have names that say nothing of it.
        let kernel_classes = match operators.operators.is_empty() {
            true => Vec::new(),
            false => kernel_classes::of(&functions.kernels),
        };
        let recorded = operators.operators.iter().map(|row| &*row.name);
        let compiled = compiled::of(&functions.kernels, recorded);
        let mut report = Report {
            compiled,
            operators,
            steps,
            tensors,
            kernel_classes,
            overview,
            idle,
            correlation: self.correlation.finish(&self.symbols),
            ioctls: self.ioctls.finish(outside),
            driver_objects: self.driver_objects.finish(),
            phases: self.phases.finish(wall, &self.symbols, idle_busy, is_whole),
            working: None,
            ranges: self.ranges.finish(),
            managed: self.managed.finish(),
            samples: self.samples.finish(),
            blocks: self.blocks.finish(),
            categories: self.categories.finish(wall, &self.nesting),
            functions,
            gpu: self.gpu.finish(wall, self.pace.finish()),
            memory: self.memory.finish(summary),
            transfers: self.transfers.finish(),
            contexts: self.contexts.finish(),
            meta: self.meta,
            summary: summary.cloned(),
            failures: findings::failures(&signs),
            findings: Vec::new(),
        };
        let working = working::of(&working::Parts {
            wall,
            idle: &report.idle,
            phases: &report.phases,
            functions: &report.functions,
            symbols: &self.symbols,
            gpu: &report.gpu,
            memory: &report.memory,
        });
        report.working = working.filter(|_| report.idle_unknown().is_none());
        report.findings = findings::of(&report, &signs);
        report
    }
}

pub(crate) fn is_api(layer: Layer) -> bool {
    matches!(layer, Layer::Runtime | Layer::Driver)
}

fn is_graph_launch(name: &str) -> bool {
    name.contains("GraphLaunch")
}
