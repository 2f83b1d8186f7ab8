//! `--pin` while the program runs: maps in memory of the host are in the folder as soon as there are contexts
//! that have them.

use super::{LiveMap, live_maps};
use gpu_maps::Spec;
use ptx::device::{Map, Orders};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

/// New contexts are looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Why maps cannot be left there.
#[derive(Debug, thiserror::Error)]
#[error("{}", folder.display())]
pub struct PinError {
    /// The folder, or a file in it.
    pub(super) folder: PathBuf,
    pub(super) source: io::Error,
}

/// The thread that keeps the folder up to date.
pub struct LivePins {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl LivePins {
    /// `session` is where the program's maps appear.
    pub fn start(folder: &Path, session: &Path, orders: &Orders) -> Result<LivePins, PinError> {
        let why_not = |source| PinError {
            folder: folder.to_owned(),
            source,
        };
        fs::create_dir_all(folder).map_err(why_not)?;
        // What another run has left is not of this one.
        gpu_maps::write_index(folder, &[]).map_err(why_not)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (told, place, session) = (stop.clone(), folder.to_owned(), session.to_owned());
        let orders = orders.clone();
        let thread = std::thread::Builder::new()
            .name("cutrace-gpu-pins".into())
            .spawn(move || {
                let mut known = 0;
                while !told.load(Ordering::Acquire) {
                    let found = live_maps(&session, &orders);
                    // Maps of a context stay while the program runs. What cannot be linked is tried again.
                    if found.len() > known && link(&place, &orders, &found).is_ok() {
                        known = found.len();
                    }
                    std::thread::park_timeout(LOOK_EVERY);
                }
            })
            .map_err(why_not)?;
        Ok(LivePins { stop, thread })
    }

    /// The program has ended: what its maps hold now is for `cutrace gpu` to write.
    pub fn finish(self) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

fn link(folder: &Path, orders: &Orders, found: &[LiveMap]) -> io::Result<()> {
    let mut specs = Vec::new();
    for live in found {
        let Some(map) = orders.maps.get(live.map) else {
            continue;
        };
        let file = file_name(&map.name, live.pid, live.context);
        put(&folder.join(&file), |path| {
            std::os::unix::fs::symlink(&live.path, path)
        })?;
        let place = (live.pid, live.context);
        let lies = (live.layout.copies, live.layout.stride);
        specs.push(spec(map, place, lies, file, true));
    }
    gpu_maps::write_index(folder, &specs)
}

/// The file of a map.
pub fn file_name(map: &str, pid: u32, context: u32) -> String {
    format!("{}.{pid}.{context}.bin", in_file_name(map))
}

pub fn in_file_name(map: &str) -> String {
    map.replace(|letter: char| letter == '/' || letter.is_whitespace(), "_")
}

/// Its line in the index.
pub fn spec(
    map: &Map,
    (pid, context): (u32, u32),
    (copies, stride): (u64, u64),
    file: String,
    is_live: bool,
) -> Spec {
    Spec {
        name: map.name.clone(),
        kind: map.kind,
        key_size: map.key_size,
        value_size: map.value_size,
        max_entries: map.max_entries,
        copies,
        stride,
        pid,
        context,
        is_live,
        file,
    }
}

/// Makes a file in the place of what may be there; not through a link that is there, for that leads to the
/// program's memory.
pub fn put(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut aside = PathBuf::from(path);
    aside.set_extension(std::process::id().to_string());
    let _ = fs::remove_file(&aside);
    make(&aside)?;
    fs::rename(&aside, path)
}
