//! The session and its thread: reads what processes append, writes what became of it in order.

use super::frames::Frames;
use super::link::Calls;
use super::process::{Counts, Process};
use super::work;
use crate::clock::monotonic;
use crate::merge::graph_nodes;
use crate::notes::{Notes, Topic};
use crate::preload::counters::CounterPage;
use crate::preload::{Folder, PreloadError};
use crate::{Deadline, Sink, SinkError};
use cuda::cupti::overhead_name;
use event::{Backend, ClockError, Event, Extent, Layer, Lost, Record, Reorder, gpu_times};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;

/// How often files are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Work comes this much later than it happened, at most: CUPTI hands over every 100 ms what is
/// complete by then.
const BEHIND: u64 = 400_000_000;
/// Calls and pieces of work that wait for each other.
const MUCH_WAITS: usize = 16 << 10;
/// Calls are kept this long for CUPTI to tell of them.
const KEPT: u64 = 10_000_000_000;
/// Work that waits to be written; more is written though earlier work may come yet.
const MOST_KEPT: usize = 1 << 19;
const MOST_PROCESSES: usize = 4096;

#[derive(Debug, Error)]
pub enum CuptiError {
    #[error(transparent)]
    Folder(#[from] PreloadError),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// A folder for GPU times, before the program starts.
pub struct Session {
    folder: Folder,
    counters: CounterPage,
    calls: Calls,
}

impl Session {
    /// `calls`: where the calls come from that cause work.
    pub fn create(calls: Calls) -> Result<Self, CuptiError> {
        Self::create_near(calls, None)
    }

    /// `near`: where to try last to keep files, besides the usual places.
    pub fn create_near(calls: Calls, near: Option<&Path>) -> Result<Self, CuptiError> {
        let folder = Folder::create(near)?;
        Ok(Session {
            counters: CounterPage::create(folder.path())?,
            folder,
            calls,
        })
    }

    /// Where programs leave their times.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What the program is to find in its environment. None: the driver is set to load someone
    /// else's library already.
    pub fn environment(
        &self,
        library: &Path,
        existing: Option<&OsStr>,
    ) -> Option<Vec<(OsString, OsString)>> {
        if existing.is_some_and(|existing| !existing.is_empty()) {
            return None;
        }
        Some(vec![
            ("CUTRACE_GPU_TIMES".into(), self.folder.path().into()),
            ("CUDA_INJECTION64_PATH".into(), library.into()),
        ])
    }

    /// Begins to read. Call it before the program starts. After the deadline programs
    /// collect no more, which ends its cost.
    pub fn start<S: Sink>(self, sink: S, deadline: Deadline) -> Result<Recording<S>, CuptiError> {
        let stop = Arc::new(AtomicBool::new(false));
        let watch = Watch {
            folder: self.folder.path().to_owned(),
            calls: self.calls,
            deadline,
            sink,
            counters: self.counters,
            files: HashMap::new(),
            waiting: Reorder::new(MOST_KEPT),
            next_id: 1,
            told: 0,
            rounds: 0,
            report: CuptiReport::default(),
        };
        let thread = {
            let stop = stop.clone();
            std::thread::Builder::new()
                .name("cutrace-cupti".into())
                .spawn(move || {
                    crate::launch::block_signals();
                    watch.run(&stop)
                })
                .map_err(CuptiError::Thread)?
        };
        Ok(Recording {
            _folder: self.folder,
            stop,
            thread,
        })
    }
}

/// A session that is being read.
pub struct Recording<S> {
    _folder: Folder,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(S, CuptiReport)>,
}

impl<S> Recording<S> {
    /// Reads what is left and stops. Call it when the program has ended, and when all calls have
    /// been seen.
    pub fn finish(self) -> (S, CuptiReport) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// What there is to say at the end.
#[derive(Debug, Default)]
pub struct CuptiReport {
    /// Processes that used CUDA: their ids, and what libcupti they had.
    pub processes: Vec<(u32, Option<String>)>,
    pub counts: Counts,
    /// What CUPTI took for itself: for what, how often, nanoseconds.
    pub own_cost: BTreeMap<&'static str, (u64, u64)>,
    /// Of CUPTI's times, and of those by events.
    pub clocks: Vec<ClockError>,
    pub notes: Notes,
    /// Records that the sink did not take, and why it did not take the first of them.
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

static KILLED: Topic = Topic {
    one: "process {} was killed or crashed: work of its last 100 ms may have no GPU times",
    many: "{} processes were killed or crashed: work of their last 100 ms may have no GPU times",
};
static DAMAGED: Topic = Topic {
    one: "process {}: its GPU times are damaged",
    many: "the GPU times of {} processes are damaged",
};

struct Watch<S> {
    folder: PathBuf,
    calls: Calls,
    /// When collecting ends before the program does.
    deadline: Deadline,
    sink: S,
    /// What processes could not hand over.
    counters: CounterPage,
    /// None: a file that cannot be read.
    files: HashMap<PathBuf, Option<(Frames, Process)>>,
    waiting: Reorder<Event>,
    next_id: u64,
    told: u64,
    rounds: u32,
    report: CuptiReport,
}

impl<S: Sink> Watch<S> {
    fn run(mut self, stop: &AtomicBool) -> (S, CuptiReport) {
        let backend = Backend {
            name: "cupti".into(),
            ..Backend::default()
        };
        let begun = self.sink.begin(backend);
        self.check(begun, 1);
        loop {
            let last = stop.load(Ordering::Acquire);
            let now = monotonic();
            self.read(now);
            self.take_work(now, last);
            if last {
                break;
            }
            let until = self.passed(now);
            self.write_until(until);
            self.sink.until(until);
            self.calls.forget(until.saturating_sub(KEPT));
            // Woken when it is to stop.
            std::thread::park_timeout(LOOK);
        }
        self.write_until(u64::MAX);
        self.write_lost();
        self.sum_up();
        (self.sink, self.report)
    }

    fn read(&mut self, now: u64) {
        for entry in std::fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            let Some((pid, namespace)) = process_of(&path) else {
                continue;
            };
            if !self.files.contains_key(&path) && self.files.len() < MOST_PROCESSES {
                let opened = Frames::open(&path).ok();
                self.files.insert(
                    path,
                    opened.map(|frames| (frames, Process::within(namespace, pid))),
                );
            }
        }
        let over = self.deadline.is_past(now);
        for (path, file) in &mut self.files {
            let Some((frames, process)) = file else {
                continue;
            };
            // A file that has gone is how a process knows that nobody wants more.
            if over && !std::mem::replace(&mut process.dismissed, true) {
                let _ = std::fs::remove_file(path);
            }
            frames.read(|kind, payload| process.frame(kind, payload, now));
        }
    }

    fn take_work(&mut self, now: u64, last: bool) {
        let mut found = Vec::new();
        for (_, process) in self.files.values_mut().flatten() {
            found.extend(process.take_work(&self.calls, now, last));
            for node in process.take_graph_nodes() {
                let event = graph_nodes::event(process.pid, &node, self.next_id);
                self.next_id += 1;
                self.waiting.push(node.at, event);
            }
        }
        // Ids by the order of time, as far as it is known.
        found.sort_by_key(|work| work.start);
        found.retain(|work| !self.deadline.is_past(work.start) || work.cause.is_some());
        for work in found {
            let mut event = work::event(&work, self.next_id);
            self.next_id += 1;
            if self.sink.splits_spans() {
                self.waiting.push(event.start, event);
                continue;
            }
            let extent = std::mem::replace(&mut event.extent, Extent::Open);
            self.waiting.push(event.start, event.clone());
            event.extent = extent;
            self.waiting.push(work.end, event);
        }
    }

    /// The moment before which no more work will come. What waits is looked at rarely where there is much of it: until then
    /// no more time has passed.
    fn passed(&mut self, now: u64) -> u64 {
        let processes = self.files.values().flatten();
        let waiting: usize = processes.map(|(_, process)| process.waiting()).sum();
        self.rounds = self.rounds.wrapping_add(1);
        if waiting > MUCH_WAITS && !self.rounds.is_multiple_of(16) {
            return self.told;
        }
        let alive = (self.files.values().flatten()).any(|(_, process)| !process.ended);
        let passed = if alive {
            now.saturating_sub(BEHIND)
        } else {
            now
        };
        let waiting = (self.files.values().flatten())
            .filter_map(|(_, process)| process.earliest_waiting())
            .min();
        self.told = self.told.max(passed.min(waiting.unwrap_or(u64::MAX)));
        self.told
    }

    fn write_until(&mut self, until: u64) {
        while let Some((_, event)) = self.waiting.next(until) {
            let is_whole = self.sink.splits_spans() && matches!(event.extent, Extent::Closed(_));
            // A span is two records.
            let records = 1 + u64::from(is_whole);
            if self.report.failure.is_some() {
                self.report.unwritten += records;
                continue;
            }
            let written = match is_whole {
                true => self.sink.give_whole(Record::Event(event)),
                false => self.sink.give(Record::Event(event)),
            };
            self.check(written, records);
        }
    }

    /// What was dropped on its way to us is lost, as anything else that should be in the trace.
    fn write_lost(&mut self) {
        let processes = self.files.values().flatten();
        let told = processes.fold(0u64, |sum, (_, process)| {
            sum.saturating_add(process.dropped)
        });
        let count = told.saturating_add(self.counters.lost());
        if count > 0 {
            let written = self.sink.give(Record::Lost(Lost {
                ts: monotonic(),
                count,
                source: Some("cupti".into()),
                layer: Some(Layer::Gpu),
                pid: None,
                tid: None,
            }));
            self.check(written, 1);
        }
    }

    /// How writing so many records went.
    fn check(&mut self, written: Result<(), SinkError>, records: u64) {
        if let Err(why) = written {
            self.report.unwritten += records;
            self.report.failure.get_or_insert(why);
        }
    }

    fn sum_up(&mut self) {
        let report = &mut self.report;
        let mut processes: Vec<&(Frames, Process)> = self.files.values().flatten().collect();
        processes.sort_by_key(|(_, process)| process.pid);
        let (mut error, mut pairs) = (0, 0);
        let (mut in_all, mut timed_error) = ([0u64; 3], 0);
        let mut dropped = self.counters.lost();
        for (frames, process) in processes {
            report.processes.push((process.pid, process.about.clone()));
            let counts = &mut report.counts;
            counts.kernels += process.counts.kernels;
            counts.copies += process.counts.copies;
            counts.fills += process.counts.fills;
            counts.graphs += process.counts.graphs;
            counts.waits += process.counts.waits;
            for (kind, (times, took)) in &process.own_cost {
                let (all, sum) = report.own_cost.entry(overhead_name(*kind)).or_default();
                (*all, *sum) = (*all + times, sum.saturating_add(*took));
            }
            timed_error = timed_error.max(process.timed_error);
            for (sum, more) in in_all.iter_mut().zip(process.counted) {
                *sum = sum.saturating_add(more);
            }
            counts.unlinked += process.counts.unlinked;
            counts.untimed += process.counts.untimed;
            dropped = dropped.saturating_add(process.dropped);
            if process.clock.is_known() {
                error = error.max(process.clock.error());
                pairs += u64::from(process.clock.pairs());
            }
            process.notes.iter().for_each(|note| report.notes.say(note));
            if process.about.is_some() && !process.ended {
                (report.notes).about(&KILLED, process.pid.to_string());
            }
            if frames.damaged {
                (report.notes).about(&DAMAGED, process.pid.to_string());
            }
        }
        if dropped > 0 {
            report.notes.say(format!(
                "{} no times: the session folder (usually in /dev/shm) was full, or CUPTI \
                 ran out of buffers",
                crate::notes::counted(dropped, "GPU operation has", "GPU operations have")
            ));
        }
        if report.counts.untimed > 0 {
            let untimed = report.counts.untimed;
            report.notes.say(format!(
                "CUPTI gave no times for {}",
                crate::notes::counted(untimed, "GPU operation", "GPU operations")
            ));
        }
        if pairs > 0 {
            report.clocks.push(ClockError {
                source: "cupti".into(),
                error_ns: error,
                pairs: pairs.try_into().unwrap_or(u32::MAX),
            });
        }
        let [came, timed, unfinished] = in_all;
        if timed > 0 {
            report.clocks.push(ClockError {
                source: "events".into(),
                error_ns: timed_error,
                pairs: 0,
            });
        }
        if came > timed || unfinished > 0 {
            report.notes.say(format!(
                "CUDA events timed {} of {came} GPU operations; the others came too fast, were in a stream being \
                 captured, or had not ended",
                timed.saturating_sub(unfinished)
            ));
        }
    }
}

/// The process that a file of GPU times is of, by its own number, and the PID namespace of that.
fn process_of(path: &Path) -> Option<(u32, u64)> {
    let name = path.file_name()?.to_str()?;
    let (pid, rest) = name.strip_prefix(gpu_times::FILE_PREFIX)?.split_once('.')?;
    let namespace = rest.split_once('.').and_then(|(_, last)| last.parse().ok());
    Some((pid.parse().ok()?, namespace.unwrap_or(0)))
}
