//! Asking a recorder for a snapshot: SIGUSR1, which `cutrace snap` sends.

use super::segments::TOLD;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

static TAKES: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicU64 = AtomicU64::new(0);

/// SIGUSR1 means us from now on.
pub(super) fn begin() {
    TAKES.store(true, Ordering::Relaxed);
    // SAFETY: the handler only adds to an atomic. While a command runs, `launch` has one of its own.
    unsafe { libc::signal(libc::SIGUSR1, handler as *const () as usize) };
}

extern "C" fn handler(_: libc::c_int) {
    ASKED.fetch_add(1, Ordering::Relaxed);
}

/// For handlers of signals: whether this one asks for a snapshot. It has been noted then.
pub fn is_request(signal: libc::c_int) -> bool {
    let takes = signal == libc::SIGUSR1 && TAKES.load(Ordering::Relaxed);
    if takes {
        ASKED.fetch_add(1, Ordering::Relaxed);
    }
    takes
}

pub(super) fn count() -> u64 {
    ASKED.load(Ordering::Relaxed)
}

/// A cutrace that records with --flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorder {
    pub pid: u32,
    folder: PathBuf,
}

/// The recorder of this number, or the one that runs the process of this number.
pub fn find_recorder(pid: u32) -> Option<Recorder> {
    let mut pid = pid;
    for _ in 0..64 {
        if let Some(folder) = folder_of(pid) {
            return Some(Recorder { pid, folder });
        }
        pid = parent(pid).filter(|parent| *parent > 1)?;
    }
    None
}

/// Where a process writes segments: it has one open nearly all the time.
fn folder_of(pid: u32) -> Option<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut open = entries
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    open.find_map(|path| {
        let folder = path.parent()?;
        let is_flight = folder.extension().is_some_and(|ending| ending == "flight");
        is_flight.then(|| folder.to_owned())
    })
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

impl Recorder {
    /// Asks for a snapshot and waits for it. None: it did not come in time.
    pub fn snap(&self, patience: Duration) -> io::Result<Option<PathBuf>> {
        let told = self.folder.join(TOLD);
        let before = lines(&told).len();
        // SAFETY: a plain system call.
        if unsafe { libc::kill(self.pid as libc::pid_t, libc::SIGUSR1) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let began = Instant::now();
        while began.elapsed() < patience {
            let found = lines(&told);
            if let Some(path) = found.get(before) {
                return Ok(Some(path.into()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(None)
    }
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
