//! A trace with its index: segments are read when somebody asks for them.

use super::{board::Board, flame::Growing};
use crate::{commands::input::Progress, embedded, say::say};
use anyhow::{Context, Result};
use event::{Meta, Record, Summary};
use render::detail::{Builder, Detail, MOST_READ, Placed, Query};
use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use trace::{
    Parts,
    index::{Identity, Index, Scan},
};

pub struct Indexed {
    file: Arc<File>,
    pub index: Index,
    pub detail: Detail,
    recent: Mutex<Recent>,
    /// What reading and placing a segment took, lately, in nanoseconds.
    cost: AtomicU64,
    /// The segments that were read last for questions about single events, which are often near each other.
    read: Mutex<VecDeque<(usize, Arc<Vec<Record>>)>>,
    /// Segments that the next question is likely to need: too many were missing for the last one.
    ahead: Mutex<Vec<u32>>,
    /// Held by the thread that reads ahead.
    reading_ahead: Mutex<()>,
    /// Flame graphs that are being made.
    pub growing: Mutex<Growing>,
}

/// Segments that were placed and may be asked for again.
#[derive(Default)]
struct Recent {
    placed: HashMap<u32, (u64, Arc<Placed>)>,
    spans: usize,
    clock: u64,
}

/// Spans of the segments that are remembered.
const MOST_RECENT: usize = 500_000;
/// Segments of which all records are remembered, without their arguments.
const MOST_HELD: usize = 3;
/// For reading the segments of one answer.
const READING: Duration = Duration::from_millis(50);
/// What a segment is expected to take, at first.
const FIRST_COST: Duration = Duration::from_millis(40);
/// Threads that read at once.
const MOST_READERS: usize = 4;

/// Threads that read at once, here.
pub fn readers() -> usize {
    thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MOST_READERS)
}

/// A trace with its index, and what is known besides.
pub struct LoadedTrace {
    pub indexed: Indexed,
    pub meta: Meta,
    /// None if its index was there, and in a trace that lacks it.
    pub summary: Option<Summary>,
    /// What was kept of its report; see [`Indexed::keep`].
    pub report: Vec<u8>,
}

/// What is read of a trace for its index, and of a segment to place it.
pub const PLACED: Parts = Parts {
    decoded: true,
    ..Parts::NONE
};

/// The index of a trace, if there is one that fits.
pub fn load(path: &Path) -> Option<LoadedTrace> {
    if trace::is_recording(path) {
        return None;
    }
    let file = File::open(path).ok()?;
    let identity = Identity::of(&file).ok()?;
    let places = [Some(Index::beside(path)), in_cache(path)];
    let mut index =
        { places.into_iter().flatten() }.find_map(|place| Index::load(&place, &identity))?;
    let detail = Detail::from_bytes(&index.attachment, index.segments().len()).ok()?;
    let meta = trace::open_with(path, Parts::NONE).ok()?.meta().clone();
    let report = std::mem::take(&mut index.report);
    Some(LoadedTrace {
        indexed: Indexed::new(file, index, detail),
        meta,
        summary: None,
        report,
    })
}

/// Reads a trace for its index. None, with words about it, if there can be none: then there is no detail.
pub fn make(path: &Path, board: &Board) -> Result<Option<LoadedTrace>> {
    if trace::is_recording(path) {
        say!(
            "cutrace: {} is Parquet, which has no index: the page shows what it holds itself",
            path.display()
        );
        return Ok(None);
    }
    let mut scan = Scan::open(path, PLACED)?;
    let mut builder = Builder::new(scan.meta().start_ns);
    let mut progress = Progress::new(false);
    let mut any = false;
    while let Some(stretch) = scan.next_stretch()? {
        if stretch.begins && std::mem::replace(&mut any, true) {
            builder.cut();
        }
        for record in stretch.records {
            builder.add(record);
        }
        let count = stretch.records.len();
        board.read(scan.share());
        progress.add(count, || scan.share());
    }
    drop(progress);
    for warning in scan.warnings().as_slice() {
        say!("cutrace: warning: {}: {warning}", path.display());
    }
    let (meta, summary) = (scan.meta().clone(), scan.summary().cloned());
    let end = summary.as_ref().map(|summary| summary.end_ns);
    let made = builder.finish(end).map_err(anyhow::Error::from);
    let made = made.and_then(|detail| {
        let index = scan.finish(detail.to_bytes())?;
        Ok((index, detail))
    });
    match made {
        Ok((index, detail)) => {
            save(path, &index);
            let file =
                File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            Ok(Some(LoadedTrace {
                indexed: Indexed::new(file, index, detail),
                meta,
                summary,
                report: Vec::new(),
            }))
        }
        Err(why) => {
            say!(
                "cutrace: {} cannot be indexed ({why}): the page shows what it holds itself",
                path.display()
            );
            Ok(None)
        }
    }
}

/// Beside the trace, or if that cannot be written, among cutrace's own files. If neither works it is made again next time.
fn save(path: &Path, index: &Index) {
    if index.save(&Index::beside(path)).is_err()
        && let Some(place) = in_cache(path)
    {
        let _ = index.save(&place);
    }
}

/// Where the index of a trace is whose folder cannot be written.
fn in_cache(path: &Path) -> Option<PathBuf> {
    let whole = path.canonicalize().ok()?;
    let mut hash = DefaultHasher::new();
    whole.hash(&mut hash);
    let folder = embedded::cache_folder("index").ok()?;
    Some(folder.join(format!("{:016x}.index", hash.finish())))
}

impl Indexed {
    fn new(file: File, mut index: Index, detail: Detail) -> Self {
        // The attachment is the detail once more.
        index.attachment = Vec::new();
        Indexed {
            file: Arc::new(file),
            index,
            detail,
            recent: Mutex::default(),
            cost: AtomicU64::new(FIRST_COST.as_nanos() as u64),
            read: Mutex::default(),
            ahead: Mutex::default(),
            reading_ahead: Mutex::default(),
            growing: Mutex::default(),
        }
    }

    /// Keeps the report in the index, for the next time.
    pub fn keep(&self, path: &Path, report: Vec<u8>) {
        let mut index = self.index.clone();
        (index.attachment, index.report) = (self.detail.to_bytes(), report);
        save(path, &index);
    }

    /// Whether the trace is still the one that was indexed.
    pub fn is_current(&self) -> bool {
        (self.file.metadata()).is_ok_and(|found| found.len() >= self.index.identity.size)
    }

    /// The records of a segment.
    pub fn records(&self, segment: usize, parts: Parts) -> anyhow::Result<Vec<Record>> {
        Ok(self.index.read(&self.file, segment, parts)?)
    }

    /// What a segment has, without arguments and stacks.
    pub fn brief(&self, segment: usize) -> anyhow::Result<Arc<Vec<Record>>> {
        let lock = || self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, records)) = lock().iter().find(|(known, _)| *known == segment) {
            return Ok(Arc::clone(records));
        }
        let records = Arc::new(self.records(segment, PLACED)?);
        let mut read = lock();
        read.push_front((segment, Arc::clone(&records)));
        read.truncate(MOST_HELD);
        Ok(records)
    }

    /// Everything that a segment says of one event.
    pub fn all_of(&self, segment: usize, id: u64) -> anyhow::Result<Vec<Record>> {
        let parts = Parts {
            only: Some(id),
            ..Parts::ALL
        };
        self.records(segment, parts)
    }

    /// Segments that can be read and placed for one answer.
    fn affordable(&self) -> usize {
        let cost = u128::from(self.cost.load(Ordering::Relaxed).max(1));
        let most = READING.as_nanos() * readers() as u128 / cost;
        (most as usize).clamp(1, MOST_READ)
    }

    /// Segments on the page's rows.
    pub fn placed(&self, segments: &[u32]) -> anyhow::Result<HashMap<u32, Arc<Placed>>> {
        let mut found = self.remembered(segments);
        let missing: Vec<u32> = { segments.iter().copied() }
            .filter(|segment| !found.contains_key(segment))
            .collect();
        let read = |segment: u32| {
            let began = Instant::now();
            let records = self.records(segment as usize, PLACED)?;
            let placed = Arc::new(self.detail.place(segment, &records));
            let took = began.elapsed().as_nanos() as u64;
            // Half of it is what it took before.
            let before = self.cost.load(Ordering::Relaxed);
            self.cost.store((before + took) / 2, Ordering::Relaxed);
            anyhow::Ok((segment, placed))
        };
        for placed in each(&missing, read) {
            let (segment, placed) = placed?;
            self.remember(segment, &placed);
            found.insert(segment, placed);
        }
        Ok(found)
    }

    /// A segment on the page's rows, whose records were read already.
    pub fn placed_with(&self, segment: u32, records: &[Record]) -> Arc<Placed> {
        if let Some(placed) = self.remembered(&[segment]).remove(&segment) {
            return placed;
        }
        let placed = Arc::new(self.detail.place(segment, records));
        self.remember(segment, &placed);
        placed
    }

    fn remembered(&self, segments: &[u32]) -> HashMap<u32, Arc<Placed>> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.clock += 1;
        let now = recent.clock;
        let mut found = HashMap::new();
        for &segment in segments {
            if let Some((used, placed)) = recent.placed.get_mut(&segment) {
                *used = now;
                found.insert(segment, Arc::clone(placed));
            }
        }
        found
    }

    fn remember(&self, segment: u32, placed: &Arc<Placed>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let now = recent.clock;
        if recent
            .placed
            .insert(segment, (now, Arc::clone(placed)))
            .is_none()
        {
            recent.spans += placed.spans.len();
        }
        while recent.spans > MOST_RECENT && recent.placed.len() > 1 {
            let oldest = recent.placed.iter().min_by_key(|(_, (used, _))| *used);
            let Some(oldest) = oldest.map(|(&oldest, _)| oldest) else {
                break;
            };
            if let Some((_, gone)) = recent.placed.remove(&oldest) {
                recent.spans -= gone.spans.len();
            }
        }
    }

    /// The spans of a stretch.
    pub fn spans(&self, query: &Query) -> anyhow::Result<String> {
        let is_known = |segment: u32| {
            let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            recent.placed.contains_key(&segment)
        };
        let (read, ahead) = match self.detail.to_read(query, self.affordable(), is_known) {
            Some(segments) => (Some(self.placed(&segments)?), None),
            None => (None, self.detail.to_read(query, MOST_READ, |_| false)),
        };
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) = ahead.unwrap_or_default();
        Ok(self.detail.answer(query, read.as_ref()))
    }

    /// Whether the last answer left something to read for the next.
    pub fn has_ahead(&self) -> bool {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        !ahead.is_empty()
    }

    /// Reads what the next step of a zoom needs, one segment after the other and in one thread at a time. Another question puts
    /// other segments in their place.
    pub fn read_ahead(&self) {
        let Ok(_reading) = self.reading_ahead.try_lock() else {
            return;
        };
        loop {
            let next = {
                let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
                // From the middle outwards.
                match ahead.len() {
                    0 => return,
                    count => ahead.remove(count / 2),
                }
            };
            // What cannot be read is said when somebody asks for it.
            if self.placed(&[next]).is_err() {
                return;
            }
        }
    }
}

/// Does something with each of these, several at once; the results come in order.
pub fn each<T: Copy + Sync, R: Send>(items: &[T], work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let count = readers().min(items.len());
    if count <= 1 {
        return items.iter().map(|&item| work(item)).collect();
    }
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..count)
            .map(|first| {
                scope.spawn(move || {
                    let mine = items.iter().enumerate().skip(first).step_by(count);
                    mine.map(|(place, &item)| (place, work(item)))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let done = workers.into_iter().map(|worker| worker.join());
        done.flat_map(|done| done.unwrap_or_default()).collect()
    });
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}
