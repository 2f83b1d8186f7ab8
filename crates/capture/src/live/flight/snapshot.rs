//! Segments become a trace: when something has happened, or when a recorder was killed and left them behind.

use super::{
    Reason,
    segments::{OWNER, Segment, TOLD},
};
use ahash::{AHashMap, AHashSet};
use event::{Extent, Meta, Record, Watched};
use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// A trace of the last seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub path: PathBuf,
    /// Why it was written; None: it was recovered.
    pub reason: Option<Reason>,
    pub events: u64,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error(transparent)]
    Trace(#[from] trace::Error),
    #[error("{}: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("{} is not the folder of a flight recording: it has no segments", .0.display())]
    NoSegments(PathBuf),
    #[error("{} belongs to cutrace {pid}, which is running: type: cutrace snap {pid}", folder.display())]
    InUse { folder: PathBuf, pid: u32 },
}

/// A snapshot to be written.
pub(super) struct Order {
    pub path: PathBuf,
    pub meta: Meta,
    pub reason: Reason,
    pub segments: Vec<Arc<Segment>>,
    /// What ended before this is not wanted.
    pub from: u64,
    pub exit: Option<i32>,
    pub told: PathBuf,
    pub say: Option<fn(&str)>,
}

impl Order {
    pub fn write(self) -> Result<Snapshot, SnapshotError> {
        let paths = self.segments.iter().map(|segment| segment.path.as_path());
        let events = joined(&self.path, &self.meta, paths, self.from, self.exit)?;
        if let Some(say) = self.say {
            say(&format!(
                "cutrace: snapshot ({}): {} events in {}",
                self.reason,
                events,
                self.path.display()
            ));
        }
        let line = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.told);
        // Nobody may be waiting for it.
        let _ = line.and_then(|mut file| writeln!(file, "{}", self.path.display()));
        Ok(Snapshot {
            path: self.path,
            reason: Some(self.reason),
            events,
        })
    }
}

/// One trace of all that segments hold from a moment on. How many events it has.
fn joined<'a>(
    path: &Path,
    meta: &Meta,
    segments: impl Iterator<Item = &'a Path>,
    from: u64,
    exit: Option<i32>,
) -> Result<u64, SnapshotError> {
    let mut writer = trace::create(path, meta)?;
    // A span that began in one segment and ended in another has its beginning in both.
    let mut open: AHashSet<u64> = AHashSet::new();
    // Spans that began before and have not ended yet, by their order: those that end before are not wanted.
    let mut begun: BTreeMap<u64, Record> = BTreeMap::new();
    let mut order: AHashMap<u64, u64> = AHashMap::new();
    let (mut first, mut last) = (u64::MAX, 0);
    for segment in segments {
        let mut reader = match trace::open(segment) {
            Ok(reader) => reader,
            // A recorder that was killed has just begun it.
            Err(_) if fs::metadata(segment).is_ok_and(|found| found.len() < 4096) => continue,
            Err(why) => return Err(why.into()),
        };
        for record in &mut reader {
            // What is damaged is at the end: the last batch of a recorder that was killed.
            let Ok(record) = record else { break };
            if record.ts() < from {
                if let Record::Event(event) = &record {
                    match event.extent {
                        Extent::Open if open.insert(event.id) => {
                            let number = begun.last_key_value().map_or(0, |(last, _)| last + 1);
                            order.insert(event.id, number);
                            begun.insert(number, record);
                        }
                        Extent::Closed(_) => {
                            open.remove(&event.id);
                            let number = order.remove(&event.id);
                            number.and_then(|number| begun.remove(&number));
                        }
                        _ => {}
                    }
                }
                continue;
            }
            for record in std::mem::take(&mut begun).into_values() {
                first = first.min(record.ts());
                writer.write(&record)?;
            }
            if let Record::Event(event) = &record {
                match event.extent {
                    Extent::Open if !open.insert(event.id) => continue,
                    Extent::Closed(_) => {
                        open.remove(&event.id);
                    }
                    _ => {}
                }
            }
            first = first.min(record.ts());
            last = last.max(record.ts());
            writer.write(&record)?;
        }
    }
    for record in begun.into_values() {
        first = first.min(record.ts());
        last = last.max(record.ts());
        writer.write(&record)?;
    }
    let late = writer.late();
    let mut summary = writer.summary();
    summary.end_ns = last;
    summary.exit = exit;
    summary.watched = (last > 0).then(|| Watched {
        start_ns: first.max(from.min(last)),
        end_ns: last,
    });
    writer.finish_with(&summary)?;
    if late > 0 {
        trace::put_in_order(path)?;
    }
    Ok(summary.events)
}

/// The segments that a killed recorder has left, as a trace beside their folder, which goes.
pub fn recover(folder: &Path) -> Result<Snapshot, SnapshotError> {
    let failed = |source| SnapshotError::Folder {
        path: folder.to_owned(),
        source,
    };
    if let Some(pid) = owner(folder).filter(|pid| is_running(*pid)) {
        return Err(SnapshotError::InUse {
            folder: folder.to_owned(),
            pid,
        });
    }
    let mut segments: Vec<PathBuf> = (fs::read_dir(folder).map_err(failed)?)
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "arrows"))
        .collect();
    segments.sort();
    let meta = segments
        .iter()
        .find_map(|path| Some(trace::open(path).ok()?.meta().clone()));
    let Some(meta) = meta else {
        return Err(SnapshotError::NoSegments(folder.to_owned()));
    };
    let stem = folder.with_extension("");
    let name = |more: &str| {
        let mut name = stem.clone().into_os_string();
        name.push(format!("-recovered{more}.arrows"));
        PathBuf::from(name)
    };
    let names =
        std::iter::once(name("")).chain((2..1000).map(|number| name(&format!("-{number}"))));
    let path = { names }
        .find(|path| !path.exists())
        .unwrap_or_else(|| name(""));
    let events = joined(&path, &meta, segments.iter().map(PathBuf::as_path), 0, None)?;
    for segment in &segments {
        let _ = fs::remove_file(segment);
    }
    for name in [OWNER, TOLD] {
        let _ = fs::remove_file(folder.join(name));
    }
    let _ = fs::remove_dir(folder);
    Ok(Snapshot {
        path,
        reason: None,
        events,
    })
}

/// Folders beside a trace that killed recorders have left.
pub fn unfinished(beside: &Path) -> Vec<PathBuf> {
    let folder = match beside.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "flight"))
        .filter(|path| owner(path).is_some_and(|pid| !is_running(pid)))
        .collect();
    found.sort();
    found
}

fn owner(folder: &Path) -> Option<u32> {
    fs::read_to_string(folder.join(OWNER))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Whether the process of this number is one of ours: numbers are used again.
fn is_running(pid: u32) -> bool {
    let own = fs::read_link("/proc/self/exe").ok();
    let other = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let name = |path: &Option<PathBuf>| path.as_ref()?.file_name().map(|name| name.to_owned());
    other.is_some()
        && (name(&own) == name(&other) || name(&other).is_some_and(|name| name == "cutrace"))
}
