//! What the GPU did, where the trace has its times: unions over devices, streams and kinds of
//! work. Work of several streams overlaps, so sums of it are not time on the wall.

use crate::{
    Union, Wall,
    pace::Pace,
    waits::{WaitRow, WaitSweep},
};
use event::{Category, Event, Extent, Kind, Value};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

const CATEGORIES: usize = Category::ALL.len();

/// What ran on GPUs; all of it empty where the trace has no GPU times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// All GPUs together.
    pub all: Work,
    pub devices: Vec<DeviceRow>,
    /// Most busy first; as many as are kept.
    pub streams: Vec<GpuStreamRow>,
    pub stream_count: u64,
    pub categories: Vec<GpuCategoryRow>,
    /// Work whose end was not seen.
    pub open: u64,
    /// How long copies and kernels ran at the same time.
    pub copies_beside_kernels_ns: u64,
    pub pace: Pace,
    /// Work that was timed by events around it.
    #[serde(default, skip_serializing_if = "ByEvents::is_none")]
    pub by_events: ByEvents,
    /// When the host waited, where CUPTI tells: no work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitRow>,
}

/// Times that are less exact than CUPTI's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ByEvents {
    pub operations: u64,
    /// How wrong their times may be, added up.
    pub error_ns: u64,
}

impl ByEvents {
    fn is_none(&self) -> bool {
        self.operations == 0
    }

    fn add(&mut self, event: &Event) {
        if event.arg("source").and_then(Value::as_str) == Some("events") {
            let error = event.arg("error_ns").and_then(Value::as_u64).unwrap_or(0);
            self.operations += 1;
            self.error_ns = self.error_ns.saturating_add(error);
        }
    }
}

/// Work on the GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    pub operations: u64,
    /// How long at least one operation ran.
    pub busy_ns: u64,
    /// The operations' times added up: more than `busy_ns` where they overlap.
    pub sum_ns: u64,
    /// `busy_ns` of the wall time.
    pub share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceRow {
    /// Unknown where the trace does not say.
    pub device: Option<u32>,
    #[serde(flatten)]
    pub work: Work,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuStreamRow {
    pub pid: u32,
    pub device: Option<u32>,
    pub context: Option<u64>,
    pub stream: Option<u64>,
    #[serde(flatten)]
    pub work: Work,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuCategoryRow {
    #[serde(deserialize_with = "crate::stored::word")]
    pub category: Category,
    #[serde(flatten)]
    pub work: Work,
}

#[derive(Default)]
pub(crate) struct GpuSweep {
    all: Sums,
    /// Few: a search is as quick as any.
    devices: Vec<(Option<u32>, Sums)>,
    streams: Vec<(StreamKey, Sums)>,
    by_stream: HashMap<StreamKey, usize, ahash::RandomState>,
    /// The stream of the last work: the next is often of the same.
    latest: usize,
    categories: [Sums; CATEGORIES],
    /// Kernels and copies taken together.
    either: Sums,
    by_events: ByEvents,
    waits: WaitSweep,
    open: HashSet<u64, ahash::RandomState>,
}

#[derive(Default, Clone, Copy)]
struct Sums {
    operations: u64,
    busy: Union,
    sum_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct StreamKey {
    pid: u32,
    device: Option<u32>,
    context: Option<u64>,
    stream: Option<u64>,
}

const MOST_STREAMS: usize = 65_536;
const MOST_DEVICES: usize = 256;
const MOST_ROWS: usize = 1_000;
const MOST_OPEN: usize = 1_048_576;

/// What became of GPU work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GpuStep {
    Began,
    /// It had been told that it began.
    Ended,
    /// Its beginning is told with its end.
    Whole,
    /// It says nothing of work.
    Nothing,
}

/// Whether an event of the GPU is work: not a mark of its end, of memory or of a switch.
pub(crate) fn is_work(event: &Event) -> bool {
    is_work_of(event.kind, event.category, event.extent)
}

#[inline]
pub(crate) fn is_work_of(kind: Kind, category: Category, extent: Extent) -> bool {
    kind == Kind::Gpu
        && extent != Extent::Instant
        && matches!(
            category,
            Category::Kernel
                | Category::Transfer
                | Category::Memory
                | Category::Graph
                | Category::Other
        )
}

impl GpuSweep {
    pub fn add(&mut self, event: &Event) -> GpuStep {
        let step = match event.extent {
            Extent::Instant => return GpuStep::Nothing,
            Extent::Open if self.open.len() >= MOST_OPEN => return GpuStep::Nothing,
            Extent::Open => {
                if !self.open.insert(event.id) {
                    return GpuStep::Nothing;
                }
                GpuStep::Began
            }
            Extent::Closed(_) if self.open.remove(&event.id) => GpuStep::Ended,
            Extent::Closed(_) => GpuStep::Whole,
        };
        self.all.add(event, step);
        if step != GpuStep::Ended {
            self.by_events.add(event);
        }
        let device = self
            .devices
            .iter()
            .position(|(device, _)| *device == event.device);
        match device {
            Some(place) => self.devices[place].1.add(event, step),
            None if self.devices.len() < MOST_DEVICES => {
                let mut sums = Sums::default();
                sums.add(event, step);
                self.devices.push((event.device, sums));
            }
            None => {}
        }
        self.categories[event.category as usize].add(event, step);
        if matches!(event.category, Category::Kernel | Category::Transfer) {
            self.either.add(event, step);
        }
        let key = StreamKey {
            pid: event.pid,
            device: event.device,
            context: event.context,
            stream: event.stream,
        };
        if let Some(place) = self.stream(key) {
            self.streams[place].1.add(event, step);
        }
        step
    }

    /// Work of which only the time is counted.
    pub fn add_sum(&mut self, duration: u64) {
        self.all.operations += 1;
        self.all.sum_ns = self.all.sum_ns.saturating_add(duration);
    }

    /// What is no work may be a wait for some.
    pub fn other(&mut self, event: &Event) {
        self.waits.add(event);
    }

    /// The place of a stream; None if there are too many.
    fn stream(&mut self, key: StreamKey) -> Option<usize> {
        if self
            .streams
            .get(self.latest)
            .is_some_and(|(latest, _)| *latest == key)
        {
            return Some(self.latest);
        }
        let place = match self.by_stream.get(&key) {
            Some(&place) => place,
            None if self.streams.len() >= MOST_STREAMS => return None,
            None => {
                self.by_stream.insert(key, self.streams.len());
                self.streams.push((key, Sums::default()));
                self.streams.len() - 1
            }
        };
        self.latest = place;
        Some(place)
    }

    /// How long kernels have run so far, and copies.
    pub fn passed(&self, now: u64) -> (u64, u64) {
        let busy = |category: Category| self.categories[category as usize].busy.length(now);
        (busy(Category::Kernel), busy(Category::Transfer))
    }

    pub fn open(&self) -> u64 {
        self.open.len() as u64
    }

    pub fn finish(self, wall: Wall, pace: Pace) -> Gpu {
        let busy = |sums: &Sums| sums.busy.length(wall.end);
        let [kernels, copies] = [Category::Kernel, Category::Transfer]
            .map(|category| busy(&self.categories[category as usize]));
        let both = kernels
            .saturating_add(copies)
            .saturating_sub(busy(&self.either));
        let mut devices: Vec<DeviceRow> = (self.devices.iter())
            .map(|(device, sums)| DeviceRow {
                device: *device,
                work: sums.work(wall),
            })
            .collect();
        devices.sort_by_key(|row| row.device);
        let mut streams: Vec<GpuStreamRow> = (self.streams.iter())
            .map(|(key, sums)| GpuStreamRow {
                pid: key.pid,
                device: key.device,
                context: key.context,
                stream: key.stream,
                work: sums.work(wall),
            })
            .collect();
        streams.sort_by_key(|row| {
            let place = (row.device, row.context, row.stream, row.pid);
            (u64::MAX - row.work.busy_ns, place)
        });
        let stream_count = streams.len() as u64;
        streams.truncate(MOST_ROWS);
        let mut categories: Vec<GpuCategoryRow> = (Category::ALL.iter())
            .zip(&self.categories)
            .filter(|(_, sums)| sums.operations > 0)
            .map(|(&category, sums)| GpuCategoryRow {
                category,
                work: sums.work(wall),
            })
            .collect();
        categories.sort_by_key(|row| (u64::MAX - row.work.busy_ns, row.category));
        Gpu {
            all: self.all.work(wall),
            devices,
            streams,
            stream_count,
            categories,
            open: self.open.len() as u64,
            copies_beside_kernels_ns: both.min(kernels).min(copies),
            pace,
            by_events: self.by_events,
            waits: self.waits.finish(),
        }
    }
}

impl Sums {
    #[inline]
    fn add(&mut self, event: &Event, step: GpuStep) {
        let end = event.end().unwrap_or(event.start);
        match step {
            GpuStep::Began => self.busy.begin(event.start),
            GpuStep::Ended => self.busy.end(end),
            GpuStep::Whole => self.busy.add(event.start, end),
            GpuStep::Nothing => {}
        }
        if let Extent::Closed(duration) = event.extent {
            self.operations += 1;
            self.sum_ns = self.sum_ns.saturating_add(duration);
        }
    }

    fn work(&self, wall: Wall) -> Work {
        let busy_ns = self.busy.length(wall.end);
        Work {
            operations: self.operations,
            busy_ns,
            sum_ns: self.sum_ns,
            share: wall.share(busy_ns),
        }
    }
}
