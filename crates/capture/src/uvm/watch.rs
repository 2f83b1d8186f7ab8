//! The thread that finds the command's processes as they begin to use managed memory, and makes events
//! of what the driver tells of it.

use super::draining::{Drained, Draining};
use super::entry::{UvmEntry, decode};
use super::gpu_clock::GpuClocks;
use super::queue;
use super::raw_clock::RawClock;
use super::tracker::{TOOLS, Tracker};
use super::tree::Tree;
use super::words::{Processors, event};
use crate::clock::monotonic;
use crate::ordered_writer::OrderedWriter;
use crate::{Deadline, Sink, SinkError};
use event::{Backend, ClockError, Layer, Lost, Record};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fs, io};

/// How often it looks at what was taken from the queues.
const ROUND: Duration = Duration::from_millis(5);
/// Rounds between two looks for descriptors, and between two looks for processes. A program has its
/// descriptor for some hundred milliseconds before it can use managed memory.
const LOOK: u32 = 4;
const COUNT: u32 = 20;
/// Looks after which a refusal is final: a descriptor is there a moment before it is ready.
const PATIENCE: u32 = 100;
/// How long an entry waits for earlier ones: the driver tells of a migration when it is done.
const HELD: u64 = 100_000_000;

/// Watches the managed memory of a command's processes.
pub struct UvmWatch<S> {
    stop: Arc<AtomicBool>,
    pid: mpsc::Sender<u32>,
    thread: JoinHandle<(S, UvmReport)>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct UvmReport {
    /// Processes whose events were taken.
    pub processes: u64,
    pub events: u64,
    pub lost: u64,
    /// Entries of kinds that are not known.
    pub unknown: u64,
    /// What the driver refused, and for which process.
    pub refused: Vec<String>,
    pub clock: Option<ClockError>,
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

/// The driver's file for tools could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{TOOLS}: {0}")]
pub struct NoTools(#[source] io::Error);

/// Whether the driver offers this to us.
pub fn available() -> Result<(), NoTools> {
    fs::File::options()
        .read(true)
        .write(true)
        .open(TOOLS)
        .map(drop)
        .map_err(NoTools)
}

impl<S: Sink> UvmWatch<S> {
    pub fn start(sink: S, deadline: Deadline) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (pid, pids) = mpsc::channel();
        let stopped = stop.clone();
        let draining = Draining::start()?;
        let thread = std::thread::Builder::new()
            .name("cutrace-uvm".into())
            .spawn(move || {
                crate::launch::block_signals();
                Watching::new(OrderedWriter::new(sink, deadline), &pids, draining).run(&stopped)
            })?;
        Ok(UvmWatch { stop, pid, thread })
    }

    /// The command's first process.
    pub fn follow(&self, pid: u32) {
        // A thread that is gone has said why.
        let _ = self.pid.send(pid);
    }

    pub fn finish(self) -> (S, UvmReport) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

struct Watching<'a, S> {
    held: OrderedWriter<S>,
    pids: &'a mpsc::Receiver<u32>,
    tree: Tree,
    followed: HashMap<u32, Followed>,
    draining: Draining,
    /// How often the driver has refused a process.
    refused: HashMap<u32, u32>,
    next_id: u64,
    clock: RawClock,
    report: UvmReport,
}

struct Followed {
    tracker: Tracker,
    processors: Processors,
    gpu_clocks: GpuClocks,
    /// Entries that found its queue full, as far as they have been told of.
    dropped: u64,
}

impl<'a, S: Sink> Watching<'a, S> {
    fn new(held: OrderedWriter<S>, pids: &'a mpsc::Receiver<u32>, draining: Draining) -> Self {
        Watching {
            held,
            pids,
            tree: Tree::default(),
            followed: HashMap::new(),
            draining,
            refused: HashMap::new(),
            next_id: 1,
            clock: RawClock::now(),
            report: UvmReport::default(),
        }
    }

    fn run(mut self, stop: &AtomicBool) -> (S, UvmReport) {
        let backend = Backend {
            name: "uvm".into(),
            ..Backend::default()
        };
        if let Err(why) = self.held.sink.begin(backend) {
            self.held.failure = Some(why);
        }
        for round in 0u32.. {
            let last = stop.load(Ordering::Acquire);
            self.tree.roots.extend(self.pids.try_iter());
            if round.is_multiple_of(COUNT) {
                self.tree.look();
            }
            if round.is_multiple_of(LOOK) && !last {
                self.find();
            }
            self.clock.follow();
            while let Ok(drained) = self.draining.drained.try_recv() {
                self.take(drained);
            }
            let pids: Vec<u32> = self.followed.keys().copied().collect();
            for pid in pids {
                self.look_at(pid, last, round.is_multiple_of(LOOK));
            }
            let until = if last {
                u64::MAX
            } else {
                monotonic().saturating_sub(HELD)
            };
            self.held.release(until);
            if last {
                break;
            }
            // Woken when it is to stop.
            std::thread::park_timeout(ROUND);
        }
        self.report.clock = (self.report.processes > 0).then(|| ClockError {
            source: "uvm".into(),
            error_ns: self.clock.map.error(),
            pairs: self.clock.map.pairs(),
        });
        self.report.events = self.held.events;
        self.report.unwritten = self.held.unwritten;
        self.report.failure = self.held.failure;
        (self.held.sink, self.report)
    }

    /// Processes that have come to use managed memory.
    fn find(&mut self) {
        for &pid in &self.tree.all {
            let refusals = self.refused.get(&pid).copied().unwrap_or(0);
            if self.followed.contains_key(&pid) || refusals > PATIENCE {
                continue;
            }
            let entries = queue::entries(queue::available_memory(), self.followed.len());
            match Tracker::attach(pid, entries) {
                Ok(None) => {}
                Ok(Some(tracker)) => {
                    self.report.processes += 1;
                    self.draining.add(pid, tracker.queue.clone());
                    let followed = Followed {
                        tracker,
                        processors: Processors::default(),
                        gpu_clocks: GpuClocks::default(),
                        dropped: 0,
                    };
                    self.followed.insert(pid, followed);
                }
                Err(why) => {
                    self.refused.insert(pid, refusals + 1);
                    if refusals == PATIENCE {
                        self.report.refused.push(format!("process {pid}: {why}"));
                    }
                }
            }
        }
    }

    /// What the driver has not told by itself, and what it has dropped. The descriptors of a process that
    /// has ended are given back, for they keep its memory.
    fn look_at(&mut self, pid: u32, last: bool, flush: bool) {
        let Some(followed) = self.followed.get(&pid) else {
            return;
        };
        let over = last || followed.tracker.has_ended();
        if over || flush {
            // Where it is refused, entries come when the driver next has something to do.
            let _ = followed.tracker.flush();
        }
        if over {
            self.draining.remove(pid);
            while let Ok(drained) = self.draining.drained.recv() {
                let ended = matches!(drained, Drained::Ended { pid: which } if which == pid);
                self.take(drained);
                if ended {
                    break;
                }
            }
        }
        let Some(followed) = self.followed.get_mut(&pid) else {
            return;
        };
        let all = followed.tracker.queue.dropped();
        let dropped = all.wrapping_sub(std::mem::replace(&mut followed.dropped, all));
        if dropped > 0 {
            self.report.lost += dropped;
            self.held.push(Record::Lost(Lost {
                ts: monotonic(),
                count: dropped,
                source: Some("uvm".into()),
                layer: Some(Layer::Gpu),
                pid: Some(pid),
                tid: None,
            }));
        }
        if over {
            self.followed.remove(&pid);
        }
    }

    /// What was in a process's queue.
    fn take(&mut self, drained: Drained) {
        let Drained::Entries { pid, bytes, count } = drained else {
            return;
        };
        self.draining.taken(count);
        let Some(followed) = self.followed.get_mut(&pid) else {
            return;
        };
        let layout = followed.tracker.queue.layout;
        let mut entries: Vec<UvmEntry> = Vec::with_capacity(count);
        for bytes in bytes.chunks(layout.bytes()) {
            match decode(layout, bytes) {
                Some(entry) => entries.push(entry),
                None => self.report.unknown += 1,
            }
        }
        // GPUs are registered one by one: a number that is not in the table is asked for again.
        if !entries.is_empty()
            && followed.processors.gpus.is_empty()
            && let Ok(table) = followed.tracker.processors()
        {
            followed.processors = Processors::of(&table);
        }
        for entry in &entries {
            followed.gpu_clocks.learn(entry);
        }
        for entry in entries {
            let entry = followed.gpu_clocks.placed(entry);
            let mut event = event(&entry, &followed.processors);
            event.start = match event.start {
                0 => monotonic(),
                raw => self.clock.to_host(raw),
            };
            event.pid = pid;
            event.id = self.next_id;
            self.next_id += 1;
            self.held.push_whole(event);
        }
    }
}
