//! One traced run, seen by the kernel: what to trace, the threads that watch and assemble, and what
//! there is to say of it at the end.

use super::EbpfError;
use super::attach::{AttachMode, Calls};
use super::layout::{FILTER_TREE, Settings};
use super::library::Wanted;
use super::maps::{Maps, Room};
use super::process_filter::ProcessFilter;
use super::processes::{Following, mount_tracefs};
use super::system::System;
use super::tables::{LocalTables, SharedTables};
use super::watch::{Attached, CallWatch, Ended, Message, WITHOUT_HOLD};
use crate::call::item::{Batch, Item, Step};
use crate::call::{Assembler, Filter, Limits, Totals};
use crate::clock::monotonic;
use crate::ioctl::{Decoder, loaded_driver};
use crate::launch::block_signals;
use crate::notes::Notes;
use crate::notes::counted;
use crate::preload::{Library, Process};
use crate::syscall::Events;
use crate::{Deadline, Inlet, Merge, Sink, SinkError};
use event::{Backend, Hooks, Reorder, Selection};
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{JoinHandle, Scope, ScopedJoinHandle};
use std::time::Duration;

/// What to trace.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// More libraries than CUDA's: globs over library names, and over their functions.
    pub libraries: Vec<(String, String)>,
    pub filter: Option<Filter>,
    /// Calls shorter than this are left out.
    pub min_duration: Duration,
    /// One of so many calls is recorded; 0 and 1: all.
    pub sample: u32,
    /// Calls that begin later than this are left out.
    pub deadline: Deadline,
    pub target: Target,
    /// Processes run already: what they loaded was not seen, and kernels are named by the host's functions.
    pub running: bool,
    pub whose: ProcessFilter,
    /// Calls that come with their stacks.
    pub stacks: Option<Filter>,
    /// System calls on the driver's files.
    pub system_calls: bool,
    /// Not the calls of libraries: another source sees them.
    pub no_calls: bool,
    /// Bytes of the ring, a power of two.
    pub ring_bytes: Option<u32>,
    /// The first way of attaching to try.
    pub way: Option<AttachMode>,
}

/// Whose calls are recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Target {
    /// A process that is told of later, and what it forks.
    #[default]
    Tree,
    All,
}

const RING: u32 = 64 << 20;
/// Records wait this long for earlier ones of processors that were held up.
const WINDOW: u64 = 50_000_000;
/// The file on disk is never farther behind than this.
const FLUSH_EVERY: u64 = 500_000_000;
/// Nanoseconds that a thread which has loaded something waits for its probes, at most.
const HOLD: u64 = 300_000_000;
/// System calls kept for the sake of order; past this they are let go early.
const MOST_FRAMES: usize = 1 << 20;

/// A session that is being watched.
pub struct Recording<S> {
    maps: Arc<Maps>,
    known: Arc<SharedTables>,
    stop: Arc<AtomicBool>,
    watcher: JoinHandle<Ended>,
    assembler: JoinHandle<(S, Totals, u64)>,
}

/// What a session has to say of itself at its end.
#[derive(Debug)]
pub struct EbpfReport {
    pub processes: Vec<Process>,
    pub libraries: Vec<Library>,
    pub notes: Notes,
    pub ended: Ended,
    /// Calls that became records.
    pub calls: u64,
    /// System calls on the driver's files.
    pub system_calls: u64,
    pub late: u64,
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

/// Whether the kernel lets us do this at all, or why not.
pub fn available() -> Result<(), EbpfError> {
    Maps::create(4096)?;
    match crate::doctor::lockdown() {
        Some(level) if level == "confidentiality" => Err(EbpfError::LockedDown(level)),
        _ => Ok(()),
    }
}

/// Loads and attaches everything that does not depend on a process.
pub fn start<S: Sink>(options: &Options, sink: S) -> Result<Recording<S>, EbpfError> {
    let shortest = u64::try_from(options.min_duration.as_nanos()).unwrap_or(u64::MAX);
    let ring_bytes = options.ring_bytes.unwrap_or(RING);
    let room = Room {
        held: shortest > 0,
        sample: options.sample > 1,
        ..Room::default()
    };
    let maps = Arc::new(Maps::with(ring_bytes, room)?);
    // If it cannot be mounted, attaching says so.
    let _ = mount_tracefs();
    let tree = if options.target == Target::Tree {
        FILTER_TREE
    } else {
        0
    };
    let mut settings = Settings {
        until: u64::MAX,
        enough: u64::from(maps.ring_bytes) / 8 * 7,
        filter: tree,
        own: std::process::id(),
        hold: HOLD,
        shortest,
        sample: options.sample,
        ..Settings::default()
    };
    options.whose.narrow(&mut settings);
    maps.set(&settings)?;
    let driver = loaded_driver();
    // The kernel takes its time to look through each of them, and does so side by side.
    let (calls, following, system) = std::thread::scope(|scope| {
        let following = beside(scope, || Following::start(&maps))?;
        let system = match options.system_calls {
            true => Some(beside(scope, || System::start(&maps, driver))?),
            false => None,
        };
        let calls = Calls::load(&maps, options.way.unwrap_or(AttachMode::Session));
        let following = joined(following.join());
        let system = system.map(|thread| joined(thread.join()));
        Ok::<_, EbpfError>((calls?, following?, system.transpose()?))
    })?;
    let known = Arc::new(SharedTables::default());
    if let Some(why) = &following.without_hold {
        known.lock().notes.about(&WITHOUT_HOLD, why.to_string());
    }
    let (sender, receiver) = channel();
    let filter = options.filter.as_ref();
    let wanted = Wanted {
        libraries: options.libraries.clone(),
        filter: filter.map(|filter| Filter::parse(&filter.for_injection())),
        only_named: false,
        nothing: options.no_calls,
        stacks: options.stacks.clone(),
        shortest,
        sampled: options.sample > 1,
        callers: options.running,
    };
    let attached = Attached {
        maps: maps.clone(),
        calls,
        following,
        system,
        known: known.clone(),
        deadline: options.deadline.clone(),
    };
    let mut watch = CallWatch::new(attached, wanted, sender);
    if options.target == Target::All {
        let pids = running().into_iter();
        for pid in pids.filter(|pid| options.whose.may_mean(*pid)) {
            watch.found(pid);
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let limits = Limits {
        filter: options.filter.clone(),
        min_duration: shortest,
        // The kernel's programs have done it.
        sample: 1,
        hosts: options.running,
        deadline: options.deadline.clone(),
    };
    let watcher = {
        let stop = stop.clone();
        spawn("watch", move || {
            crate::preload::be_prompt();
            watch.run(&stop)
        })?
    };
    let seen = LocalTables::new(known.clone());
    let calls = system_options(options);
    let assembler = if options.system_calls {
        let mut merge =
            Merge::new(sink, Duration::from_nanos(2 * WINDOW)).map_err(EbpfError::Thread)?;
        let inlet = merge.source("ebpf");
        let system = Events::new(
            calls,
            Decoder::new(driver),
            merge.source("ebpf system calls"),
        );
        spawn("assemble", move || {
            let (inlet, mut totals, ioctls) =
                assemble_all(seen, limits, inlet, Some(system), &receiver);
            inlet.finish();
            let merged = merge.finish();
            totals.late += merged.late;
            totals.unwritten += merged.unwritten;
            totals.failure = totals.failure.or(merged.failure);
            (merged.sink, totals, ioctls)
        })?
    } else {
        spawn("assemble", move || {
            let nothing = None::<Events<Inlet>>;
            assemble_all(seen, limits, sink, nothing, &receiver)
        })?
    };
    Ok(Recording {
        maps,
        known,
        stop,
        watcher,
        assembler,
    })
}

impl<S: Sink> Recording<S> {
    /// Traces a process and what it forks from now on.
    pub fn follow(&self, pid: u32) -> Result<(), EbpfError> {
        self.maps.follow_first(pid)
    }

    /// Traces a process that runs already, and what it has forked; returns when probes are in it.
    pub fn adopt(&self, pid: u32) -> Result<(), EbpfError> {
        if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
            return Err(EbpfError::NothingToTrace(format!(
                "process {pid} does not exist"
            )));
        }
        {
            let mut state = self.known.lock();
            state.adopted.push(pid);
            state.adopting += 1;
        }
        while self.known.lock().adopting > 0 && !self.watcher.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    pub fn libraries(&self) -> usize {
        self.known.lock().libraries.len()
    }

    /// Takes what is left in the ring, takes the probes off, and stops.
    pub fn finish(self) -> (S, EbpfReport) {
        self.stop.store(true, Ordering::Release);
        let ended = joined(self.watcher.join());
        let (sink, totals, system_calls) = joined(self.assembler.join());
        let state = self.known.lock();
        let mut notes = state.notes.clone();
        if ended.late_loads > 0 {
            notes.say(format!(
                "{} before probes were attached: first calls may be missing",
                counted(ended.late_loads, "library ran", "libraries ran")
            ));
        }
        if ended.lost_ends > 0 {
            notes.say(format!(
                "{} no recorded return",
                counted(ended.lost_ends, "call has", "calls have")
            ));
        }
        if ended.faults > 0 {
            notes.say(format!(
                "{} could not be read: missing or shown as zero",
                counted(ended.faults, "argument", "arguments")
            ));
        }
        totals
            .for_cupti
            .note()
            .into_iter()
            .for_each(|note| notes.say(note));
        let report = EbpfReport {
            processes: state.processes.clone(),
            libraries: state.libraries.clone(),
            notes,
            calls: totals.calls,
            system_calls,
            late: totals.late,
            unwritten: totals.unwritten,
            failure: totals.failure,
            ended,
        };
        drop(state);
        (sink, report)
    }
}

fn system_options(options: &Options) -> crate::syscall::Options {
    let filter = options.filter.as_ref();
    crate::syscall::Options {
        filter: filter.map(|filter| Selection::new(filter.text().to_owned())),
        min_duration: options.min_duration,
        deadline: options.deadline.clone(),
    }
}

fn assemble_all<S: Sink, T: Sink>(
    seen: LocalTables,
    limits: Limits,
    sink: S,
    mut system: Option<Events<T>>,
    messages: &Receiver<Message>,
) -> (S, Totals, u64) {
    // An open is told of when it is over.
    let mut frames = Reorder::new(MOST_FRAMES);
    if let Some(system) = &mut system {
        let begun = system.sink.begin(Backend {
            name: "ebpf system calls".into(),
            hooks: Hooks {
                attached: 4,
                total: 4,
            },
            missing: Vec::new(),
        });
        system.totals.failure = begun.err();
    }
    let window = limits.min_duration.saturating_add(WINDOW);
    let mut assembler = Assembler::new(seen, limits, sink);
    let mut flushed = monotonic();
    // What is lost is nobody's in particular: a thread of its own.
    assembler.add_ring(0, 0);
    for message in messages {
        match message {
            Message::Thread { pid, tid } => assembler.add_ring(pid, tid),
            Message::Batch(mut batch) => {
                batch.ring += 1;
                assembler.push(batch);
            }
            Message::System(time, frame) => frames.push(time, frame),
            Message::Lost { time, count } => assembler.push(Batch {
                ring: 0,
                items: vec![Item {
                    time,
                    sequence: 0,
                    step: Step::Lost { count },
                }],
                bytes: Vec::new(),
            }),
            Message::Round(began) => {
                let passed = began.saturating_sub(window);
                assembler.advance(passed);
                assembler.passed(passed);
                if let Some(system) = &mut system {
                    while let Some((_, frame)) = frames.next(passed) {
                        system.take(frame);
                    }
                    system.until(passed);
                }
                if began.saturating_sub(flushed) > FLUSH_EVERY {
                    assembler.flush();
                    flushed = began;
                }
                // Their memory is not used again: batches are small here.
                assembler.used_batches().for_each(drop);
            }
        }
    }
    assembler.advance(u64::MAX);
    assembler.begin_sink();
    let (sink, mut totals, _) = assembler.into_parts();
    let mut calls = 0;
    if let Some(mut system) = system {
        while let Some((_, frame)) = frames.next(u64::MAX) {
            system.take(frame);
        }
        system.finish();
        calls = system.totals.calls;
        totals.unwritten += system.totals.unwritten;
        totals.failure = totals.failure.or(system.totals.failure);
    }
    (sink, totals, calls)
}

/// Processes that are there now.
pub fn running() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != std::process::id()).collect()
}

fn joined<T>(ended: std::thread::Result<T>) -> T {
    ended.unwrap_or_else(|panic| resume_unwind(panic))
}

fn beside<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, EbpfError> {
    std::thread::Builder::new()
        .spawn_scoped(scope, move || {
            block_signals();
            body()
        })
        .map_err(EbpfError::Thread)
}

fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, EbpfError> {
    std::thread::Builder::new()
        .name(format!("cutrace-{name}"))
        .spawn(move || {
            // Signals belong to the thread that runs the program.
            block_signals();
            body()
        })
        .map_err(|error: io::Error| EbpfError::Thread(error))
}
