//! How much of everything a trace holds, in constant space but for the spans that are open.

use crate::Brief;
use crate::captures::Captures;
use crate::{Nesting, Wall};
use event::{Category, Event, Extent, Kind, Layer, Meaning, MemoryOp, Record, Summary, What};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The first things to know of a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// CLOCK_MONOTONIC at the beginning of what was watched, and at its end.
    pub start_ns: u64,
    pub end_ns: u64,
    pub wall_ns: u64,
    /// Of the run, before hooks were in place and after they were removed: no part of the wall time.
    pub not_watched_ns: u64,
    /// Spans and instants; a span counts once. Meanings are not counted here.
    pub events: u64,
    pub processes: u64,
    pub threads: u64,
    pub layers: Vec<LayerCount>,
    #[serde(flatten)]
    pub counts: Counts,
    /// Spans that never ended.
    pub open_spans: u64,
    /// Of events, as the records say and as the trace's summary says: the greater.
    pub lost: u64,
    /// How the traced command ended.
    pub exit: Option<i32>,
    /// Where every GPU of the trace is softgpu, a software device: times are not a GPU's.
    pub simulated: bool,
}

/// Events of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerCount {
    #[serde(deserialize_with = "crate::stored::word")]
    pub layer: Layer,
    pub events: u64,
    pub failed: u64,
}

/// Who made a call, as far as the calls around it say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The program, or a library whose calls are not traced.
    Program,
    /// A library whose calls are traced.
    Library,
    /// Another call of CUDA's API.
    Cuda,
}

/// Counts what an overview says.
#[derive(Default)]
pub(crate) struct OverviewSweep {
    counts: Counts,
    events: [u64; Layer::ALL.len()],
    failed: [u64; Layer::ALL.len()],
}

impl OverviewSweep {
    /// An event; `first` if nothing of it was seen before.
    #[inline]
    pub fn event(&mut self, event: &Event, first: bool) {
        self.counts.event(event, first);
        self.events[event.layer as usize] += u64::from(first);
        if failed(&Brief::of(event)) {
            self.failed[event.layer as usize] += 1;
        }
    }

    /// A call of CUDA's API, by what it is in.
    #[inline]
    pub fn made_by(&mut self, caller: Caller) {
        match caller {
            Caller::Program => {}
            Caller::Library => self.counts.calls_by_libraries += 1,
            Caller::Cuda => self.counts.calls_by_cuda += 1,
        }
    }

    pub fn graph_launch(&mut self) {
        self.counts.graph_launches += 1;
    }

    pub fn graph_kernel(&mut self) {
        self.counts.graph_kernels += 1;
    }

    pub fn meaning(&mut self, meaning: &Meaning) {
        self.counts.meaning(meaning);
    }

    pub fn launches(&self) -> u64 {
        self.counts.launches
    }

    pub fn graph_launches(&self) -> u64 {
        self.counts.graph_launches
    }

    pub fn lost(&mut self, count: u64) {
        self.counts.lost = self.counts.lost.saturating_add(count);
    }

    pub fn finish(
        self,
        wall: Wall,
        nesting: &Nesting,
        open_gpu: u64,
        summary: Option<&Summary>,
    ) -> Overview {
        let mut pids: Vec<u32> = nesting.threads().iter().map(|thread| thread.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let layers = Layer::ALL.iter().zip(self.events).zip(self.failed);
        Overview {
            start_ns: wall.start,
            end_ns: wall.end,
            wall_ns: wall.length(),
            not_watched_ns: 0,
            events: self.events.iter().sum(),
            processes: pids.len() as u64,
            threads: nesting.threads().len() as u64,
            layers: layers
                .filter(|((_, events), _)| *events > 0)
                .map(|((&layer, events), failed)| LayerCount {
                    layer,
                    events,
                    failed,
                })
                .collect(),
            open_spans: nesting.open_spans() + open_gpu,
            lost: self
                .counts
                .lost
                .max(summary.map_or(0, |summary| summary.lost)),
            exit: summary.and_then(|summary| summary.exit),
            simulated: false,
            counts: self.counts,
        }
    }
}

/// Whether a call has failed. "Not ready" is the answer to a question, and no failure.
#[inline]
pub(crate) fn failed(event: &Brief) -> bool {
    const NOT_READY: i64 = 600;
    match (event.status, event.layer) {
        (None, _) => false,
        (Some(code), Layer::Runtime | Layer::Driver) => code != 0 && code != NOT_READY,
        (Some(code), _) => code != 0,
    }
}

/// What the end of a run says. Every number is a count, or a sum, of records in the trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Calls of the runtime and of the driver API, whether they returned or not.
    pub api_calls: u64,
    /// Of them, calls of the runtime API (libcudart).
    pub runtime_calls: u64,
    /// Of them, calls of the driver API (libcuda).
    pub driver_calls: u64,
    /// Of them, calls that CUDA itself made inside another call: the driver's inside the runtime's.
    pub calls_by_cuda: u64,
    /// Of them, calls inside a traced call of another library, and inside no other CUDA call.
    pub calls_by_libraries: u64,
    /// Of them, calls that only ask for something.
    pub query_calls: u64,
    /// Of them, those that returned an error.
    pub failed_calls: u64,
    /// Calls into other libraries.
    pub library_calls: u64,
    /// Kernels launched one by one; those of graphs are not among them.
    pub launches: u64,
    /// Launches that were captured into a graph: nothing ran then.
    pub captured_launches: u64,
    pub graph_launches: u64,
    /// Kernels that ran because a graph was launched: known from the GPU's times.
    pub graph_kernels: u64,
    pub allocations: u64,
    pub allocated_bytes: u64,
    pub frees: u64,
    pub transfers: u64,
    pub transferred_bytes: u64,
    pub ioctls: u64,
    /// Nanoseconds in ioctls.
    #[serde(rename = "ioctl_ns")]
    pub ioctl_time: u64,
    pub scheduler_calls: u64,
    /// Functions of the kernel driver.
    pub kernel_calls: u64,
    /// Kernels, copies and memsets with GPU time.
    pub gpu_operations: u64,
    #[serde(skip)]
    pub lost: u64,
    #[serde(skip)]
    captures: Captures,
    /// Spans that have begun and not ended.
    #[serde(skip)]
    open: HashSet<u64, ahash::RandomState>,
}

/// The counts of a whole trace.
pub fn counts<'a>(records: impl IntoIterator<Item = &'a Record>) -> Counts {
    let mut counts = Counts::default();
    for record in records {
        counts.add(record);
    }
    counts
}

impl Counts {
    /// Counts one record more. A span counts once, however many records it has.
    pub fn add(&mut self, record: &Record) {
        match record {
            Record::Event(event) => {
                let first = match event.extent {
                    Extent::Open => self.open.insert(event.id),
                    Extent::Closed(_) => !self.open.remove(&event.id),
                    Extent::Instant => true,
                };
                self.event(event, first);
            }
            Record::Meaning(meaning) => self.meaning(meaning),
            Record::Lost(lost) => self.lost = self.lost.saturating_add(lost.count),
        }
    }

    /// Spans that have not ended.
    pub fn open_spans(&self) -> u64 {
        self.open.len() as u64
    }

    /// Whether anything of the kernel driver was traced.
    pub fn has_kernel(&self) -> bool {
        self.ioctls + self.scheduler_calls + self.kernel_calls > 0
    }

    fn event(&mut self, event: &Event, first: bool) {
        self.captures.event(event);
        if first {
            if event.kind == Kind::Userspace {
                self.runtime_calls += u64::from(event.layer == Layer::Runtime);
                self.driver_calls += u64::from(event.layer == Layer::Driver);
                let asks = event.category == Category::Query && event.layer != Layer::Library;
                self.query_calls += u64::from(asks);
            }
            *match event.kind {
                Kind::Userspace if event.layer == Layer::Library => &mut self.library_calls,
                Kind::Userspace => &mut self.api_calls,
                Kind::Ioctl => &mut self.ioctls,
                // Threads that leave the processor are no calls; older traces call them so.
                Kind::Scheduler if event.layer == Layer::Os => return,
                Kind::Scheduler => &mut self.scheduler_calls,
                Kind::KernelFunction | Kind::KernelMem => &mut self.kernel_calls,
                Kind::Gpu => &mut self.gpu_operations,
                Kind::Syscall
                | Kind::OffCpu
                | Kind::Os
                | Kind::Interrupt
                | Kind::GpuComplete
                | Kind::GpuMem
                | Kind::Device
                | Kind::Range
                | Kind::ProcessRange
                | Kind::Operator
                | Kind::Counter
                | Kind::GpuContext
                | Kind::GpuWait
                | Kind::NotWatched => return,
            } += 1;
        }
        if let Extent::Closed(duration) = event.extent {
            if event.kind == Kind::Ioctl {
                self.ioctl_time = self.ioctl_time.saturating_add(duration);
            }
            let api = matches!(event.layer, Layer::Runtime | Layer::Driver);
            self.failed_calls += u64::from(api && failed(&Brief::of(event)));
        }
    }

    fn meaning(&mut self, meaning: &Meaning) {
        match &meaning.what {
            What::Memory(memory) if memory.op == MemoryOp::Alloc => {
                self.allocations += 1;
                let size = memory.size.unwrap_or(0);
                self.allocated_bytes = self.allocated_bytes.saturating_add(size);
            }
            What::Memory(_) => self.frees += 1,
            What::Transfer(transfer) => {
                self.transfers += 1;
                self.transferred_bytes = self.transferred_bytes.saturating_add(transfer.size);
            }
            What::Launch(_) if self.captures.has(meaning) => self.captured_launches += 1,
            What::Launch(_) => self.launches += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Direction, Launch, Lost, Memory, MemorySpace, Status, Transfer};

    fn span(id: u64, layer: Layer) -> Event {
        let mut event = Event::new(id, layer, Category::Other, "f", 10 * id);
        event.extent = Extent::Open;
        event
    }

    fn closed(mut event: Event, duration: u64, code: i64) -> Event {
        event.extent = Extent::Closed(duration);
        event.status = Some(Status { code, name: None });
        event
    }

    #[test]
    fn spans_count_once_whether_given_whole_or_in_halves() {
        let halves = [
            span(1, Layer::Driver).into(),
            closed(span(1, Layer::Driver), 5, 2).into(),
            span(2, Layer::Runtime).into(),
            closed(span(3, Layer::Runtime), 5, 600).into(),
            span(4, Layer::Library).into(),
        ];
        let counts = counts(&halves);
        assert_eq!((counts.api_calls, counts.failed_calls), (3, 1));
        assert_eq!((counts.library_calls, counts.open_spans()), (1, 2));
    }

    #[test]
    fn meanings_and_the_kernel_side_add_up() {
        let call = closed(span(1, Layer::Driver), 5, 0);
        let memory = |op, size| {
            let memory = Memory {
                op,
                size,
                ptr: 1,
                space: Some(MemorySpace::Device),
            };
            Record::from(Meaning::of(&call, What::Memory(memory)))
        };
        let mut ioctl = closed(span(9, Layer::Syscall), 700, 0);
        ioctl.kind = Kind::Ioctl;
        let records = [
            memory(MemoryOp::Alloc, Some(100)),
            memory(MemoryOp::Alloc, None),
            memory(MemoryOp::Free, Some(100)),
            Meaning::of(
                &call,
                What::Transfer(Transfer {
                    direction: Direction::HostToDevice,
                    size: 64,
                    duration: None,
                    src: None,
                    dst: None,
                }),
            )
            .into(),
            Meaning::of(
                &call,
                What::Launch(Launch {
                    kernel: "k".into(),
                    grid: [1; 3],
                    block: [1; 3],
                    shared: 0,
                }),
            )
            .into(),
            ioctl.into(),
            Lost {
                ts: 1,
                count: 3,
                source: None,
                layer: None,
                pid: None,
                tid: None,
            }
            .into(),
        ];
        let counts = counts(&records);
        assert_eq!(
            (counts.allocations, counts.allocated_bytes, counts.frees),
            (2, 100, 1)
        );
        assert_eq!((counts.transfers, counts.transferred_bytes), (1, 64));
        assert_eq!((counts.launches, counts.lost), (1, 3));
        assert_eq!((counts.ioctls, counts.ioctl_time), (1, 700));
        assert!(counts.has_kernel() && counts.api_calls == 0);
    }
}
