//! A trace with its index: segments are read when somebody asks for them.

use crate::{
    commands::input::{Input, Progress},
    embedded,
    say::say,
};
use anyhow::{Context, Result};
use event::{Record, Summary};
use render::{
    Html, Output,
    detail::{Builder, Detail, Placed, Query},
};
use std::{
    collections::HashMap,
    fs::File,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Sink},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
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
/// Threads that read at once.
const MOST_READERS: usize = 4;

/// Threads that read at once, here.
pub fn readers() -> usize {
    thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MOST_READERS)
}

/// The index of a trace, if there is one that fits.
fn load(path: &Path) -> Option<Indexed> {
    let file = File::open(path).ok()?;
    let identity = Identity::of(&file).ok()?;
    let places = [Some(Index::beside(path)), in_cache(path)];
    let index =
        { places.into_iter().flatten() }.find_map(|place| Index::load(&place, &identity))?;
    let detail = Detail::from_bytes(&index.attachment, index.segments().len()).ok()?;
    Some(Indexed::new(file, index, detail))
}

/// A trace that was read once: what its page is made of, and its index if it could be made.
pub struct Read {
    pub html: Html<Sink>,
    pub summary: Option<Summary>,
    pub indexed: Option<Indexed>,
}

/// Reads a trace, for its page and for its index. Without an index there is no detail.
pub fn read(path: &Path, parts: Parts) -> Result<Read> {
    if let Some(indexed) = load(path) {
        let input = Input::open(vec![path.to_owned()], parts)?;
        let mut html = Html::new(io::sink(), input.meta());
        let summary = input.each(|record| Ok(html.record(record)?))?;
        return Ok(Read {
            html,
            summary,
            indexed: Some(indexed),
        });
    }
    let mut scan = Scan::open(path, parts)?;
    let mut html = Html::new(io::sink(), scan.meta());
    let mut builder = Builder::new(scan.meta().start_ns);
    let mut progress = Progress::new(false);
    let mut any = false;
    while let Some(stretch) = scan.next_stretch()? {
        if stretch.begins && std::mem::replace(&mut any, true) {
            builder.cut();
        }
        for record in stretch.records {
            html.record(record)?;
            builder.add(record);
        }
        let count = stretch.records.len();
        progress.add(count, || scan.share());
    }
    drop(progress);
    for warning in scan.warnings().as_slice() {
        say!("cutrace: warning: {}: {warning}", path.display());
    }
    let summary = scan.summary().cloned();
    let end = summary.as_ref().map(|summary| summary.end_ns);
    let made = builder.finish(end).and_then(|detail| {
        let index = scan.finish(detail.to_bytes())?;
        Ok((index, detail))
    });
    let indexed = match made {
        Ok((index, detail)) => {
            save(path, &index);
            let file =
                File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            Some(Indexed::new(file, index, detail))
        }
        Err(why) => {
            say!(
                "cutrace: {} cannot be indexed ({why}): the page shows what it holds itself",
                path.display()
            );
            None
        }
    };
    Ok(Read {
        html,
        summary,
        indexed,
    })
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
        }
    }

    /// Whether the trace is still the one that was indexed.
    pub fn is_current(&self) -> bool {
        (self.file.metadata()).is_ok_and(|found| found.len() >= self.index.identity.size)
    }

    /// The records of a segment.
    pub fn records(&self, segment: usize, parts: Parts) -> Result<Vec<Record>, String> {
        self.index
            .read(&self.file, segment, parts)
            .map_err(|why| why.to_string())
    }

    /// Segments on the page's rows.
    pub fn placed(&self, segments: &[u32]) -> Result<HashMap<u32, Arc<Placed>>, String> {
        let mut found = self.remembered(segments);
        let missing: Vec<u32> = { segments.iter().copied() }
            .filter(|segment| !found.contains_key(segment))
            .collect();
        let read = |segment: u32| {
            let parts = Parts {
                decoded: true,
                ..Parts::NONE
            };
            let records = self.records(segment as usize, parts)?;
            let placed = Arc::new(self.detail.place(segment, &records));
            Ok::<_, String>((segment, placed))
        };
        for placed in each(&missing, read) {
            let (segment, placed) = placed?;
            self.remember(segment, &placed);
            found.insert(segment, placed);
        }
        Ok(found)
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
    pub fn spans(&self, query: &Query) -> Result<String, String> {
        let read = self.placed(&self.detail.to_read(query))?;
        Ok(self.detail.answer(query, &read))
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
