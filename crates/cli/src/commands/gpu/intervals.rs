//! `--every`: what maps hold, printed while the program runs.

use super::report;
use crate::{
    probes::{Probes, accesses},
    say,
};
use capture::{
    gpu_probe::{Notes, ReadingCause, dumps, map_readings},
    launch::block_signals,
};
use std::{
    collections::HashMap,
    fmt::Write as _,
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

/// The thread that prints them.
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
                let mut printer = Printer {
                    probes,
                    session,
                    began: Instant::now(),
                    printed: HashMap::new(),
                };
                while !told.load(Ordering::Acquire) {
                    printer.print_new();
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

struct Printer {
    probes: Arc<Probes>,
    session: PathBuf,
    began: Instant,
    /// The last reading of each process.
    printed: HashMap<u32, u64>,
}

impl Printer {
    fn print_new(&mut self) {
        for reading in map_readings(&self.session) {
            let last = self.printed.insert(reading.pid, reading.number);
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
            let mut text = format!("\n--- after {:.1} s", self.began.elapsed().as_secs_f64());
            if self.printed.len() > 1 {
                let _ = write!(text, ", process {}", reading.pid);
            }
            text.push_str(" ---\n");
            // Whose memory it is becomes known at the end.
            let accesses = match self.probes.tells_addresses() {
                true => accesses(&held, |_, _| None),
                false => Vec::new(),
            };
            text.push_str(&report::answer(&self.probes, &held, &[], &accesses));
            say::text(&text);
        }
    }
}
