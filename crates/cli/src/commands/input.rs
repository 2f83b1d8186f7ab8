//! Traces as the commands that look at them read them: one or several, or the newest here.

use super::stores;
use crate::say::{self, say};
use anyhow::{Context, Result, bail};
use capture::trace_file::{destination::FOLDER, latest::LATEST};
use event::{Meta, Record, Summary};
use render::{Output, units};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, IsTerminal, Read},
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use trace::{Merge, Parts, Reader, ranks};

/// Ranks that are looked for.
const MOST_RANKS: u32 = 1 << 16;

/// What scripts call the newest trace. There is no such file, or `traces/trace_*.jsonl` would have that trace twice.
const NEWEST: [&str; 2] = ["trace_latest.jsonl", "trace_latest.arrows"];

pub struct Input {
    paths: Vec<PathBuf>,
    source: Source,
    /// What is read is shown on standard output at once.
    streams: bool,
    /// What is wrong with it has been said.
    quiet: bool,
}

/// One trace is read in batches; several are put together record by record.
enum Source {
    One(Box<Reader>),
    Several(Box<Merge>),
}

impl Input {
    /// No paths are the newest trace of the folder that `record` writes to. `parts` are what the
    /// command will look at.
    pub fn open(paths: Vec<PathBuf>, parts: Parts) -> Result<Self> {
        let paths = or_newest(paths)?;
        let mut readers = (paths.iter())
            .map(|path| trace::open_with(path, parts))
            .collect::<Result<Vec<_>, _>>()?;
        let source = match (readers.len(), readers.pop()) {
            (1, Some(reader)) => Source::One(Box::new(reader.ahead())),
            (_, last) => {
                readers.extend(last);
                Source::Several(Box::new(Merge::new(readers)?))
            }
        };
        Ok(Input {
            paths,
            source,
            streams: false,
            quiet: false,
        })
    }

    /// For traces that were read before, and warned of.
    pub fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// For a command that prints while it reads: that is sign of life enough, and is not drawn into.
    pub fn streaming(mut self) -> Self {
        self.streams = true;
        self
    }

    /// How much of it has been read; None if nobody knows how much there is.
    fn share(&self) -> Option<f64> {
        match &self.source {
            Source::One(reader) => reader.share(),
            Source::Several(merge) => merge.share(),
        }
    }

    pub fn meta(&self) -> &Meta {
        match &self.source {
            Source::One(reader) => reader.meta(),
            Source::Several(merge) => merge.meta(),
        }
    }

    /// Reads to the end; what was wrong on the way is said.
    pub fn each(self, take: impl FnMut(&Record) -> Result<()>) -> Result<Option<Summary>> {
        let mut progress = Progress::new(self.streams);
        self.read(take, &mut progress)
    }

    fn read(
        mut self,
        mut take: impl FnMut(&Record) -> Result<()>,
        progress: &mut Progress,
    ) -> Result<Option<Summary>> {
        loop {
            let count = match &mut self.source {
                Source::One(reader) => match reader.next_batch()? {
                    None => break,
                    Some(records) => {
                        for record in records {
                            take(record)?;
                        }
                        records.len()
                    }
                },
                Source::Several(merge) => match merge.next() {
                    None => break,
                    Some(record) => {
                        take(&record?)?;
                        1
                    }
                },
            };
            progress.add(count, || self.share());
        }
        progress.clear();
        if !self.quiet {
            self.warn();
        }
        Ok(match self.source {
            Source::One(reader) => reader.summary().cloned(),
            Source::Several(merge) => merge.summary(),
        })
    }

    fn warn(&self) {
        let readers: Vec<&Reader> = match &self.source {
            Source::One(reader) => vec![reader],
            Source::Several(merge) => {
                for warning in merge.warnings() {
                    say!("cutrace: warning: {warning}");
                }
                merge.readers().collect()
            }
        };
        for (path, reader) in self.paths.iter().zip(readers) {
            for warning in reader.warnings().as_slice() {
                say!("cutrace: warning: {}: {warning}", path.display());
            }
        }
    }

    /// Gives everything to an output.
    pub fn show(self, output: &mut dyn Output) -> Result<()> {
        let mut progress = Progress::new(self.streams);
        let summary = self.read(|record| Ok(output.record(record)?), &mut progress)?;
        progress.last("cutrace: everything is read; writing");
        Ok(output.finish(summary.as_ref())?)
    }
}

/// A line on a terminal's stderr for as long as reading takes; gone when this is dropped.
pub struct Progress {
    began: Instant,
    records: u64,
    next: u64,
    shown: Option<Instant>,
    is_drawn: bool,
    terminal: bool,
}

impl Progress {
    /// Between looks at the clock.
    const STEP: u64 = 20_000;
    /// What takes less is not worth a line.
    const FIRST: Duration = Duration::from_secs(1);
    const EVERY: Duration = Duration::from_millis(250);

    /// `streams`: what is read goes to standard output meanwhile.
    pub fn new(streams: bool) -> Self {
        Progress {
            began: Instant::now(),
            records: 0,
            next: Self::STEP,
            shown: None,
            is_drawn: false,
            terminal: io::stderr().is_terminal()
                && !(streams && io::stdout().is_terminal())
                && std::env::var_os("TERM").is_none_or(|name| name != "dumb"),
        }
    }

    /// So many more records were read; `share` is how much of the whole all of them are.
    pub fn add(&mut self, records: usize, share: impl FnOnce() -> Option<f64>) {
        self.records += records as u64;
        if self.records < self.next || !self.terminal {
            return;
        }
        self.next = self.records + Self::STEP;
        if self.is_time() {
            let millions = self.records as f64 / 1e6;
            let share = share().map_or(String::new(), |share| {
                format!(" {:.0} %,", 100.0 * share.min(1.0))
            });
            self.draw(&format!(
                "cutrace: reading:{share} {millions:.1} million records"
            ));
        }
    }

    /// So many bytes of so many went from or to an object store.
    pub fn moved(&mut self, bytes: u64, of: u64) {
        if self.terminal && self.is_time() {
            let (bytes, of) = (units::bytes(bytes), units::bytes(of));
            self.draw(&format!("cutrace: object store: {bytes} of {of}"));
        }
    }

    /// Whether a line is due.
    fn is_time(&mut self) -> bool {
        let now = Instant::now();
        let is_time = match self.shown {
            None => now - self.began >= Self::FIRST,
            Some(last) => now - last >= Self::EVERY,
        };
        if is_time {
            self.shown = Some(now);
        }
        is_time
    }

    /// What is done when all is read, if that took long.
    fn last(&mut self, words: &str) {
        if self.shown.is_some() {
            self.draw(words);
        }
    }

    fn draw(&mut self, line: &str) {
        say::painted(&format!("\r\x1b[K{line}"));
        self.is_drawn = true;
    }

    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            say::painted("\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The traces named; without any, the newest of the folder that `record` writes to.
pub fn or_newest(paths: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
    if paths.is_empty() {
        let Some(newest) = newest_run(Path::new(FOLDER)).or_else(|| newest(Path::new(FOLDER)))
        else {
            bail!("{FOLDER}/ has no trace yet: record one with cutrace ./app, or name one");
        };
        say!("cutrace: reading {}", newest.display());
        return match newest.is_dir() {
            true => traces_of_run(&newest),
            false => Ok(vec![newest]),
        };
    }
    let mut named = Vec::new();
    for path in paths {
        let path = stores::brought(path)?;
        match path.is_dir() {
            true => named.extend(traces_of_folder(&path)?),
            false => named.push(path),
        }
    }
    let paths = named;
    // "-" is standard input, as in tar and jq.
    let named = |path: PathBuf| match path.to_str() {
        Some("-") => PathBuf::from("/dev/stdin"),
        _ => latest(&path).unwrap_or(path),
    };
    let paths: Vec<PathBuf> = paths.into_iter().map(named).collect();
    for path in &paths {
        refuse_devices(path)?;
    }
    Ok(paths)
}

/// The recordings of a lake, or the traces of a run's ranks.
fn traces_of_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    match lake::Lake::recordings(folder) {
        Some(recordings) => {
            let recordings = recordings?;
            if recordings.is_empty() {
                bail!("{}: the lake has no traces", folder.display());
            }
            Ok(recordings)
        }
        None => traces_of_run(folder),
    }
}

/// The traces of a run's ranks, in the order of the ranks. Those that are missing are named: without them, time is missing.
fn traces_of_run(folder: &Path) -> Result<Vec<PathBuf>> {
    let listed = ranks::enlisted(folder);
    if listed.is_empty() {
        let example = newest(folder).map_or(String::new(), |trace| {
            format!("; the newest trace in it is {}", trace.display())
        });
        bail!("{}: a folder, not a trace{example}", folder.display());
    }
    let mut found = BTreeMap::new();
    for entry in &listed {
        let path = folder.join(&entry.trace);
        let formats = ["arrows", "jsonl"].map(|format| path.with_extension(format));
        if let (Some(rank), Some(path)) = (
            entry.identity.rank,
            formats.into_iter().find(|path| path.exists()),
        ) {
            found.insert(rank, path);
        }
    }
    let size = listed
        .iter()
        .filter_map(|entry| entry.identity.world_size)
        .max();
    let missing: Vec<u32> = (0..size.unwrap_or(0).min(MOST_RANKS))
        .filter(|rank| !found.contains_key(rank))
        .collect();
    if found.is_empty() {
        bail!(
            "{}: none of the traces in its {} is here",
            folder.display(),
            ranks::MANIFEST
        );
    }
    if !missing.is_empty() {
        let shown: Vec<String> = missing.iter().take(8).map(ToString::to_string).collect();
        let more = if missing.len() > shown.len() {
            ", …"
        } else {
            ""
        };
        say!(
            "cutrace: warning: {} of {} ranks have a trace here; missing: {}{more}",
            found.len(),
            size.unwrap_or(0),
            shown.join(", ")
        );
    }
    Ok(found.into_values().collect())
}

/// What `traces/latest` and the names that stand for it lead to, as it is called itself.
fn latest(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let link = path.with_file_name(LATEST);
    let is_meant = name == LATEST && link.is_symlink() || NEWEST.contains(&name) && !path.exists();
    if !is_meant {
        return None;
    }
    let led = fs::read_link(&link)
        .ok()
        .map(|target| path.with_file_name(target));
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let found = led
        .filter(|trace| trace.exists())
        .or_else(|| newest(folder))?;
    say!("cutrace: reading {}", found.display());
    Some(found)
}

/// /dev/zero has no end. A terminal, which somebody types into, a pipe and /dev/null have one.
fn refuse_devices(path: &Path) -> Result<()> {
    let Ok(found) = fs::metadata(path) else {
        return Ok(());
    };
    let kind = found.file_type();
    let is_null = || found.rdev() == libc::makedev(1, 3);
    let is_terminal = || File::open(path).is_ok_and(|file| file.is_terminal());
    if kind.is_block_device() || kind.is_char_device() && !is_null() && !is_terminal() {
        bail!("{}: a device, not a file", path.display());
    }
    Ok(())
}

/// The contents of a file that is read in one piece: `most` bytes at most.
pub fn contents(path: &Path, most: u64) -> Result<Vec<u8>> {
    refuse_devices(path)?;
    let read = || {
        let mut bytes = Vec::new();
        let file = File::open(path)?;
        file.take(most + 1).read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(bytes)
    };
    let bytes = read().with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.len() as u64 > most {
        bail!(
            "{}: larger than {} MiB, which is more than such a file can be",
            path.display(),
            most >> 20
        );
    }
    Ok(bytes)
}

/// The folder of a run's ranks, if that was written to later than any trace beside it.
fn newest_run(folder: &Path) -> Option<PathBuf> {
    let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let runs = fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let runs = runs.filter(|run| run.join(ranks::MANIFEST).exists());
    let latest = |run: PathBuf| Some((changed(&newest(&run)?)?, run));
    let (when, run) = runs.filter_map(latest).max()?;
    let alone = newest(folder).and_then(|trace| changed(&trace));
    alone.is_none_or(|alone| when > alone).then_some(run)
}

/// The trace in a folder that was changed last.
pub fn newest(folder: &Path) -> Option<PathBuf> {
    let mut found: Option<(std::time::SystemTime, PathBuf)> = None;
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let Ok(changed) = entry.metadata().and_then(|data| data.modified()) else {
            continue;
        };
        let newer = found.as_ref().is_none_or(|(latest, _)| changed > *latest);
        if newer && trace::Format::of(&path).is_some_and(trace::Format::is_trace) {
            found = Some((changed, path));
        }
    }
    found.map(|(_, path)| path)
}
