//! One traced run: its folder, the threads that drain and assemble, and what there is to say of it
//! at the end.

use super::PreloadError;
use super::backlog::Backlog;
use super::clock::{self, TscClock};
use super::counters::CounterPage;
use super::drain_thread::{Message, Shared, drain_all};
use super::folder::Folder;
use super::namespace::Namespaces;
use super::origin::Traced;
use super::process::Processes;
use super::report::PreloadReport;
use super::shedding::Shedding;
use super::untraced::UntracedWatch;
use crate::call::item::Batch;
use crate::call::{Assembler, Filter, Limits};
use crate::clock::monotonic;
use crate::files;
use crate::launch::block_signals;
use crate::live::{Gates, WindowOptions, budget::Budget};
use crate::notes::counted;
use crate::{Deadline, Sink};
use event::{ClockError, ClockPair};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// What to trace.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// More libraries than CUDA's: globs over library names, and over their functions.
    pub libraries: Vec<(String, String)>,
    pub filter: Option<Filter>,
    /// Whose calls come with the stacks they were made from.
    pub stacks: Option<Filter>,
    /// Functions whose code is not to be changed: uprobes go there.
    pub intact: Vec<String>,
    /// PyTorch's operators are recorded.
    pub operators: bool,
    /// With the shapes of their inputs.
    pub shapes: bool,
    /// Where to try last to keep rings, besides the usual places.
    pub near: Option<PathBuf>,
    /// Slots of each thread's ring.
    pub ring_slots: Option<u32>,
    /// Calls shorter than this are left out.
    pub min_duration: Duration,
    /// One of so many calls of a function is recorded; 0 and 1: all.
    pub sample: u32,
    /// Calls that begin later than this are left out.
    pub deadline: Deadline,
    /// The program itself opens gates for what these say, if it is anything it knows of.
    pub window: Option<WindowOptions>,
    /// What lets calls by that nobody wants.
    pub gates: Gates,
    /// What recording may cost, as a share of the busiest thread's time.
    pub budget: Option<f64>,
    /// All launches must be recorded.
    pub keeps_launches: bool,
    /// The program runs already: its kernels were named before anybody looked.
    pub running: bool,
}

/// Records wait this long for earlier ones of threads that were held up.
const WINDOW: u64 = 50_000_000;
/// How much longer they wait at most where they are behind.
const MOST_PATIENCE: u64 = 400_000_000;
/// The file on disk is never farther behind than this.
const FLUSH_EVERY: u64 = 500_000_000;
/// Used batches kept for use again.
const SPARE_BATCHES: usize = 8;

/// A session that has been prepared: the program can be started in its environment.
pub struct Session {
    folder: Folder,
    counters: CounterPage,
    /// What the program is to load.
    library: OnceLock<PathBuf>,
    options: Options,
    first: ClockPair,
}

impl Session {
    pub fn create(options: Options) -> Result<Self, PreloadError> {
        let first = clock::pair();
        let folder = Folder::create(options.near.as_deref())?;
        folder.write_options(&options)?;
        let counters = CounterPage::create(folder.path())?;
        if let Ok(page) = counters.file() {
            options.gates.add(page);
        }
        Ok(Session {
            folder,
            counters,
            library: OnceLock::new(),
            options,
            first,
        })
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// CLOCK_MONOTONIC of the session's start: no record is older.
    pub fn start_ns(&self) -> u64 {
        self.first.host
    }

    /// What the program is to find in its environment; `existing` is the LD_PRELOAD it has.
    pub fn environment(
        &self,
        library: &Path,
        existing: Option<&OsStr>,
    ) -> Result<Vec<(OsString, OsString)>, PreloadError> {
        let unusable = |byte: &u8| *byte == b':' || byte.is_ascii_whitespace();
        if library.as_os_str().as_bytes().iter().any(unusable) {
            return Err(PreloadError::UnusablePath(library.to_owned()));
        }
        let _ = self.library.set(library.to_owned());
        // Theirs stays first: AddressSanitizer and allocators count on it. Our constructor comes
        // before all others wherever it stands (`-z initfirst`).
        let mut preload = OsString::new();
        if let Some(existing) = existing.filter(|existing| !existing.is_empty()) {
            preload.push(existing);
            preload.push(":");
        }
        preload.push(library);
        Ok(vec![
            ("CUTRACE_SESSION".into(), self.folder.path().into()),
            ("LD_PRELOAD".into(), preload),
        ])
    }

    /// Begins to drain. Call it before the program starts.
    pub fn start<S: Sink>(self, sink: S) -> Result<Recording<S>, PreloadError> {
        let first = self.first;
        let limits = Limits {
            filter: self.options.filter.clone(),
            min_duration: nanoseconds(self.options.min_duration),
            sample: self.options.sample,
            hosts: self.options.running,
            deadline: self.options.deadline.clone(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = channel();
        let (give_back, used) = sync_channel(SPARE_BATCHES);
        let backlog = Arc::new(Backlog::new(self.options.near.as_deref()));
        let counters = Arc::new(self.counters);
        let namespaces = Namespaces::shared();
        // Rings are files, one for each process.
        files::raise_limit();
        let shedding = self.options.budget.map(|share| {
            let may_shed_launches = !self.options.keeps_launches;
            let budget = Budget::new(share, may_shed_launches, self.options.gates.clone());
            let clock = first_clock(first);
            Shedding::new(budget, clock.length(1 << 20) as f64 / f64::from(1 << 20))
        });
        let drainer = {
            let (stop, folder) = (stop.clone(), self.folder.path().to_owned());
            let (backlog, counters) = (backlog.clone(), counters.clone());
            let namespaces = namespaces.clone();
            let body = move || {
                let shared = Shared {
                    messages: &sender,
                    used: &used,
                    backlog: &backlog,
                    namespaces: &namespaces,
                    counters: &counters,
                    shedding,
                };
                drain_all(&folder, &stop, shared)
            };
            spawn("drain", body)?
        };
        let assembler = {
            let processes = Processes::new(self.folder.path(), namespaces);
            let body = move || {
                let origin = Traced {
                    processes,
                    // The program need not wait for it.
                    clock: first_clock(first),
                };
                let assembler = Assembler::new(origin, limits, sink);
                assemble_all(assembler, &receiver, &give_back, &backlog, &counters)
            };
            spawn("assemble", body)?
        };
        let session = self.folder.path().to_owned();
        Ok(Recording {
            folder: self.folder,
            stop,
            drainer,
            untraced: UntracedWatch::start(self.library.into_inner(), session),
            assembler,
        })
    }
}

/// A session that is being drained.
pub struct Recording<S> {
    folder: Folder,
    stop: Arc<AtomicBool>,
    drainer: JoinHandle<()>,
    untraced: UntracedWatch,
    assembler: JoinHandle<(S, PreloadReport)>,
}

impl<S: Sink> Recording<S> {
    /// Takes what is left in the rings and stops. Call it when the program has ended.
    pub fn finish(self) -> (S, PreloadReport) {
        self.stop.store(true, Ordering::Release);
        self.drainer.thread().unpark();
        (self.drainer.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (sink, mut report) =
            (self.assembler.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        report.notes.extend(self.untraced.finish());
        drop(self.folder);
        (sink, report)
    }
}

fn assemble_all<S: Sink>(
    mut assembler: Assembler<Traced, S>,
    messages: &Receiver<Message>,
    used: &SyncSender<Batch>,
    backlog: &Backlog,
    counters: &CounterPage,
) -> (S, PreloadReport) {
    let window = assembler.limits().min_duration.saturating_add(WINDOW);
    let mut unreadable = Vec::new();
    let mut flushed = monotonic();
    let (mut damaged, mut still_running) = (0, 0);
    let mut shed = None;
    // One for what comes back from the file, the others for the draining thread.
    let mut spare: Option<Batch> = None;
    for message in messages {
        match message {
            Message::Ring { pid, tid } => assembler.add_ring(pid, tid),
            Message::Batch(waiting) => {
                let batch = backlog.take(waiting, |steps| {
                    let spare = spare.take().filter(|spare| spare.has_room(steps));
                    spare.map_or_else(|| Batch::with_room(steps), Batch::emptied)
                });
                assembler.push(batch);
                assembler.advance(0);
                give_back(&mut assembler, &mut spare, used);
            }
            Message::ProcessLines {
                file,
                owner,
                pid,
                lines,
            } => (assembler.origin.processes).said(file, owner, pid, &lines),
            Message::Unreadable(path, why) => unreadable.push((path, why)),
            Message::Damaged => damaged += 1,
            Message::StillRunning(count) => still_running = count,
            Message::Shed(report) => shed = Some(report),
            Message::Clock(pair) => assembler.origin.clock.add(pair),
            Message::Round(began) => {
                // Who is behind may as well wait longer for threads that are held up: what comes too late is put in its
                // place when the run is over, and the whole trace is read and written again for it.
                let behind = monotonic().saturating_sub(began).min(MOST_PATIENCE);
                let passed = began.saturating_sub(window.saturating_add(behind));
                assembler.advance(passed);
                assembler.passed(passed);
                give_back(&mut assembler, &mut spare, used);
                if began.saturating_sub(flushed) > FLUSH_EVERY {
                    assembler.flush();
                    flushed = began;
                }
            }
        }
    }
    assembler.advance(u64::MAX);
    assembler.origin.processes.refresh();
    assembler.begin_sink();
    let (sink, totals, Traced { processes, clock }) = assembler.into_parts();
    let error = ClockError {
        source: "tsc".into(),
        error_ns: clock.error(),
        pairs: clock.pairs(),
    };
    let mut report = PreloadReport::new(&processes, totals, error, damaged);
    report.add_overhead(clock.length(counters.spent()));
    if let [(path, why), ..] = &*unreadable {
        report.notes.say(format!(
            "the calls of {} are not in the trace: {}: {why}",
            counted(unreadable.len() as u64, "process", "processes"),
            path.display()
        ));
    }
    if still_running > 0 {
        let processes = counted(
            still_running as u64,
            "process was still running when the command ended and is",
            "processes were still running when the command ended and are",
        );
        report.notes.say(format!("{processes} no longer traced"));
    }
    report.shed = shed;
    (sink, report)
}

/// Batches that have been used serve again.
fn give_back<S: Sink>(
    assembler: &mut Assembler<Traced, S>,
    spare: &mut Option<Batch>,
    used: &SyncSender<Batch>,
) {
    for batch in assembler.used_batches() {
        if spare.is_none() {
            *spare = Some(batch);
        } else {
            let _ = used.try_send(batch);
        }
    }
}

/// The clocks need a moment between two readings to show how fast they run.
fn first_clock(first: ClockPair) -> TscClock {
    loop {
        let second = clock::pair();
        if second.host.saturating_sub(first.host) >= 1_000_000
            && let Some(clock) = TscClock::new(first, second)
        {
            return clock;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, PreloadError> {
    std::thread::Builder::new()
        .name(format!("cutrace-{name}"))
        .spawn(move || {
            // Signals belong to the thread that runs the program.
            block_signals();
            body()
        })
        .map_err(PreloadError::Thread)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_keeps_what_was_preloaded() {
        let session = Session::create(Options::default()).expect("a session");
        let of = |existing: Option<&str>| {
            let library = Path::new("/cache/libcutrace.so");
            let variables = session
                .environment(library, existing.map(OsStr::new))
                .expect("usable");
            assert_eq!(variables[0].1, session.folder().as_os_str());
            variables[1].1.clone()
        };
        assert_eq!(of(None), "/cache/libcutrace.so");
        assert_eq!(of(Some("")), "/cache/libcutrace.so");
        assert_eq!(
            of(Some("/x/a.so b.so")),
            "/x/a.so b.so:/cache/libcutrace.so"
        );
        let spaced = session.environment(Path::new("/my cache/lib.so"), None);
        assert!(matches!(spaced, Err(PreloadError::UnusablePath(_))));
    }
}
