//! Time by what calls are about, for the whole trace and by layer, process, thread and stream.
//!
//! *Total* is the time in calls of a category, a call inside another of the same category not
//! counted again. *Self* is the time in no call further in. *Busy* is the union over all threads:
//! how long at least one thread was in such a call, which is what a share of the wall time can
//! be taken of.

use crate::{Began, Ended, Nesting, SpanHistory, ThreadId, Union, Wall};
use event::{Category, Event, Layer};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

const CATEGORIES: usize = Category::ALL.len();
const LAYERS: usize = Layer::ALL.len();

/// Host time by category. Times on the GPU are in [`crate::gpu::Gpu`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Categories {
    /// Most self time first.
    pub categories: Vec<CategoryRow>,
    /// From the program down to the driver.
    pub layers: Vec<LayerRow>,
    /// Most time first; as many as are kept.
    pub processes: Vec<ProcessRow>,
    pub threads: Vec<ThreadRow>,
    pub thread_count: u64,
    /// Calls that name a stream, by that stream; most time first.
    pub streams: Vec<StreamRow>,
    pub stream_count: u64,
}

/// One category over the whole trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CategoryRow {
    #[serde(deserialize_with = "crate::stored::word")]
    pub category: Category,
    #[serde(flatten)]
    pub time: Time,
    /// Mean of the outermost calls.
    pub average_ns: u64,
    /// How long at least one thread was in such a call.
    pub busy_ns: u64,
    /// `busy_ns` of the wall time.
    pub share: f64,
    /// The category with the most self time, if that is much of the run.
    pub bottleneck: bool,
}

/// Calls and time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Time {
    pub calls: u64,
    /// Of them, calls that lie in no other of the same category.
    pub outermost_calls: u64,
    pub total_ns: u64,
    pub self_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerRow {
    #[serde(deserialize_with = "crate::stored::word")]
    pub layer: Layer,
    /// Total: in calls that lie in no other of the layer.
    #[serde(flatten)]
    pub time: Time,
    pub busy_ns: u64,
    pub share: f64,
    pub categories: Vec<CategoryTime>,
}

/// One category's part of something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CategoryTime {
    #[serde(deserialize_with = "crate::stored::word")]
    pub category: Category,
    #[serde(flatten)]
    pub time: Time,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessRow {
    pub pid: u32,
    pub threads: u64,
    pub calls: u64,
    /// Time in traced calls, summed over threads.
    pub busy_ns: u64,
    pub categories: Vec<CategoryTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    pub pid: u32,
    pub tid: u32,
    pub calls: u64,
    /// Time in which some span was open: the sum of all self times.
    pub busy_ns: u64,
    pub share: f64,
    pub categories: Vec<CategoryTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamRow {
    pub pid: u32,
    pub context: Option<u64>,
    pub stream: u64,
    pub device: Option<u32>,
    pub calls: u64,
    /// Time in calls that name the stream.
    pub total_ns: u64,
    pub categories: Vec<CategoryTime>,
}

/// Processes, threads and streams in the report.
const MOST_ROWS: usize = 1_000;
const MOST_STREAMS: usize = 65_536;
/// What part of the wall time makes the greatest category a bottleneck.
const BOTTLENECK: f64 = 0.25;

#[derive(Default)]
pub(crate) struct CategoriesSweep {
    layers: [LayerSums; LAYERS],
    busy: [Union; CATEGORIES],
    threads: Vec<[Time; CATEGORIES]>,
    streams: HashMap<StreamKey, StreamSums, ahash::RandomState>,
}

#[derive(Default)]
struct LayerSums {
    time: Time,
    busy: Union,
    categories: [Time; CATEGORIES],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct StreamKey {
    pid: u32,
    context: Option<u64>,
    stream: u64,
}

#[derive(Default)]
struct StreamSums {
    device: Option<u32>,
    categories: [Time; CATEGORIES],
}

impl Time {
    #[inline]
    fn add(&mut self, ended: &Ended, outermost: bool) {
        // Of what was given up before, all but its last part has been counted.
        let first = ended.known != SpanHistory::GivenUp;
        self.calls += u64::from(first);
        self.self_ns = self.self_ns.saturating_add(ended.self_ns);
        if outermost {
            self.outermost_calls += u64::from(first);
            self.total_ns = self.total_ns.saturating_add(ended.further_ns());
        }
    }

    fn merge(&mut self, other: &Time) {
        self.calls += other.calls;
        self.outermost_calls += other.outermost_calls;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.self_ns = self.self_ns.saturating_add(other.self_ns);
    }

    /// Mean of the outermost calls.
    pub fn average_ns(&self) -> u64 {
        self.total_ns.checked_div(self.outermost_calls).unwrap_or(0)
    }
}

impl CategoriesSweep {
    #[inline]
    pub fn begin(&mut self, event: &Event, began: &Began) {
        if began.outermost_in_category {
            self.busy[event.category as usize].begin(event.start);
        }
        if began.outermost_in_layer {
            self.layers[event.layer as usize].busy.begin(event.start);
        }
    }

    /// A span ended, was given up, or is open at the end of the trace.
    #[inline]
    pub fn end(&mut self, ended: &Ended) {
        let category = ended.category as usize;
        let layer = &mut self.layers[ended.layer as usize];
        let outermost = ended.outermost_in_category;
        if ended.outermost_in_layer {
            close(&mut layer.busy, ended);
        }
        if outermost {
            close(&mut self.busy[category], ended);
        }
        layer.time.add(ended, ended.outermost_in_layer);
        layer.categories[category].add(ended, outermost);
        let thread = ended.thread as usize;
        if thread >= self.threads.len() {
            self.threads.resize(thread + 1, Default::default());
        }
        self.threads[thread][category].add(ended, outermost);
    }

    /// The call that ended names a stream.
    #[inline]
    pub fn stream(&mut self, event: &Event, stream: u64, ended: &Ended) {
        let key = StreamKey {
            pid: event.pid,
            context: event.context,
            stream,
        };
        let room = self.streams.len() < MOST_STREAMS;
        let sums = match self.streams.get_mut(&key) {
            Some(sums) => sums,
            None if room => self.streams.entry(key).or_default(),
            None => return,
        };
        sums.device = sums.device.or(event.device);
        // A runtime call and the driver call in it name the same stream.
        let outermost = ended.outermost_in_category;
        sums.categories[ended.category as usize].add(ended, outermost);
    }

    pub fn finish(self, wall: Wall, nesting: &Nesting) -> Categories {
        let threads = self.thread_rows(wall, nesting);
        let processes = processes(&threads);
        let mut streams: Vec<StreamRow> = self
            .streams
            .iter()
            .map(|(key, sums)| sums.row(key))
            .collect();
        streams.sort_by_key(|row| (u64::MAX - row.total_ns, row.pid, row.context, row.stream));
        let stream_count = streams.len() as u64;
        streams.truncate(MOST_ROWS);
        Categories {
            categories: self.category_rows(wall),
            layers: self.layer_rows(wall),
            processes,
            thread_count: threads.len() as u64,
            threads: threads.into_iter().take(MOST_ROWS).collect(),
            streams,
            stream_count,
        }
    }

    fn category_rows(&self, wall: Wall) -> Vec<CategoryRow> {
        let mut rows: Vec<CategoryRow> = Category::ALL
            .iter()
            .filter_map(|&category| {
                let mut time = Time::default();
                for thread in &self.threads {
                    time.merge(&thread[category as usize]);
                }
                let busy_ns = self.busy[category as usize].length(wall.end);
                (time.calls > 0).then(|| CategoryRow {
                    category,
                    time,
                    average_ns: time.average_ns(),
                    busy_ns,
                    share: wall.share(busy_ns),
                    bottleneck: false,
                })
            })
            .collect();
        rows.sort_by_key(|row| (u64::MAX - row.time.self_ns, row.category));
        if let Some(first) = rows.first_mut() {
            first.bottleneck = first.share >= BOTTLENECK;
        }
        rows
    }

    fn layer_rows(&self, wall: Wall) -> Vec<LayerRow> {
        let rows = Layer::ALL.iter().zip(&self.layers);
        rows.filter(|(_, sums)| sums.time.calls > 0)
            .map(|(&layer, sums)| {
                let busy_ns = sums.busy.length(wall.end);
                LayerRow {
                    layer,
                    time: sums.time,
                    busy_ns,
                    share: wall.share(busy_ns),
                    categories: category_times(&sums.categories),
                }
            })
            .collect()
    }

    fn thread_rows(&self, wall: Wall, nesting: &Nesting) -> Vec<ThreadRow> {
        let mut rows: Vec<ThreadRow> = (self.threads.iter().enumerate())
            .map(|(id, categories)| {
                let thread = nesting.threads().get(id as ThreadId);
                ThreadRow {
                    pid: thread.pid,
                    tid: thread.tid,
                    calls: categories.iter().map(|time| time.calls).sum(),
                    busy_ns: thread.busy_ns,
                    share: wall.share(thread.busy_ns),
                    categories: category_times(categories),
                }
            })
            .filter(|row| row.calls > 0)
            .collect();
        rows.sort_by_key(|row| (u64::MAX - row.busy_ns, row.pid, row.tid));
        rows
    }
}

/// Ends a span's part of a union; of spans whose beginning was not seen all of it is told now.
fn close(union: &mut Union, ended: &Ended) {
    match ended.known {
        SpanHistory::Begun => union.end(ended.end),
        SpanHistory::Nothing | SpanHistory::GivenUp => union.add(ended.start, ended.end),
    }
}

fn category_times(times: &[Time; CATEGORIES]) -> Vec<CategoryTime> {
    let mut rows: Vec<CategoryTime> = Category::ALL
        .iter()
        .zip(times)
        .filter(|(_, time)| time.calls > 0)
        .map(|(&category, &time)| CategoryTime { category, time })
        .collect();
    rows.sort_by_key(|row| (u64::MAX - row.time.self_ns, row.category));
    rows
}

fn processes(threads: &[ThreadRow]) -> Vec<ProcessRow> {
    let mut by_pid: HashMap<u32, (ProcessRow, [Time; CATEGORIES]), ahash::RandomState> =
        HashMap::default();
    for thread in threads {
        let (row, times) = by_pid.entry(thread.pid).or_insert_with(|| {
            let row = ProcessRow {
                pid: thread.pid,
                threads: 0,
                calls: 0,
                busy_ns: 0,
                categories: Vec::new(),
            };
            (row, Default::default())
        });
        row.threads += 1;
        row.calls += thread.calls;
        row.busy_ns = row.busy_ns.saturating_add(thread.busy_ns);
        for part in &thread.categories {
            times[part.category as usize].merge(&part.time);
        }
    }
    let mut rows: Vec<ProcessRow> = by_pid
        .into_values()
        .map(|(row, times)| ProcessRow {
            categories: category_times(&times),
            ..row
        })
        .collect();
    rows.sort_by_key(|row| (u64::MAX - row.busy_ns, row.pid));
    rows.truncate(MOST_ROWS);
    rows
}

impl StreamSums {
    fn row(&self, key: &StreamKey) -> StreamRow {
        StreamRow {
            pid: key.pid,
            context: key.context,
            stream: key.stream,
            device: self.device,
            calls: self.categories.iter().map(|time| time.calls).sum(),
            total_ns: self
                .categories
                .iter()
                .fold(0, |sum: u64, time| sum.saturating_add(time.total_ns)),
            categories: category_times(&self.categories),
        }
    }
}
