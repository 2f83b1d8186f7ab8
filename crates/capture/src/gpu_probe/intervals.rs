//! `--every`: what maps hold, shown while the program runs.

use super::{MapDump, Notes, Probes, ReadingCause, dumps, map_readings};
use crate::launch::block_signals;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// New readings are looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a process's maps held at a moment.
pub struct Interval {
    /// Since the run began.
    pub after: Duration,
    pub pid: u32,
    /// How many processes have shown theirs by now.
    pub processes: usize,
    pub dumps: Vec<MapDump>,
}

/// Shows them, in a thread of its own.
pub type ShowInterval = Box<dyn Fn(&Probes, &Interval) + Send + Sync>;

/// The thread that looks for them.
pub struct Intervals {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Intervals {
    /// `session` is where the program leaves its maps.
    pub fn start(probes: Arc<Probes>, session: &Path) -> std::io::Result<Intervals> {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, session) = (stop.clone(), session.to_owned());
        let thread = std::thread::Builder::new()
            .name("cutrace-gpu-every".into())
            .spawn(move || {
                block_signals();
                let mut looking = Looking {
                    probes,
                    session,
                    began: Instant::now(),
                    shown: HashMap::new(),
                };
                while !told.load(Ordering::Acquire) {
                    looking.show_new();
                    std::thread::park_timeout(LOOK_EVERY);
                }
            })?;
        Ok(Intervals { stop, thread })
    }

    /// The program has ended: the report says what is to be said.
    pub fn finish(self) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

struct Looking {
    probes: Arc<Probes>,
    session: PathBuf,
    began: Instant,
    /// The last reading of each process.
    shown: HashMap<u32, u64>,
}

impl Looking {
    fn show_new(&mut self) {
        let Some(show) = &self.probes.show else {
            return;
        };
        for reading in map_readings(&self.session) {
            let last = self.shown.insert(reading.pid, reading.number);
            if last == Some(reading.number) || reading.why != ReadingCause::Interval {
                continue;
            }
            let notes = Notes::read(&self.session);
            let multiprocessors = |pid, context| {
                let found = notes.contexts.get(&(pid, context));
                found.map_or(1, |found| found.1)
            };
            let mut held = dumps(&self.session, &self.probes.orders, multiprocessors);
            held.retain(|dump| dump.pid == reading.pid);
            let interval = Interval {
                after: self.began.elapsed(),
                pid: reading.pid,
                processes: self.shown.len(),
                dumps: held,
            };
            show(&self.probes, &interval);
        }
    }
}
