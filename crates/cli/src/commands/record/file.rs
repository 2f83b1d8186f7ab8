//! The trace being written, and what it holds so far.

use super::{
    allocations::Allocations,
    broken::{Cut, Missing},
    progress::Seen,
    redact::Redaction,
    user,
};
use crate::commands::{gpu::Launched, style::stdout_style};
use analyse::{Analysis, Report};
use anyhow::Result;
use capture::{Sink, SinkError};
use event::{Backend, Meta, Record, Summary, Tally};
use render::{Output, Replay, replay::Options};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal, LineWriter},
    os::{
        fd::AsFd,
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use trace::{Format, Writer};

/// There is no place for a trace that was given no name.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot write {}, nor where temporary files go: {source}; choose another place with -o FILE",
    path.display()
)]
pub struct NoTrace {
    path: PathBuf,
    source: io::Error,
}

/// Where a trace goes: its file is made before the program starts, its head is written with the
/// first record, when it is known what is hooked.
pub struct TraceFile {
    path: PathBuf,
    /// There was none of this name before.
    new: bool,
    meta: Meta,
    /// None once the writer has it.
    file: Option<File>,
    writer: Option<Writer>,
    /// Instead of the writer where somebody looks on: lines as they happen.
    live: Option<Replay<LineWriter<File>>>,
    /// What the run will be summed up with; None if nobody asks.
    analysis: Option<Analysis>,
    summed_up: bool,
    seen: Arc<Seen>,
    /// The command's process, once it is there; 0 before.
    process: Arc<AtomicU32>,
    /// Where not all that is known is to be written.
    redaction: Option<Redaction>,
    /// Where somebody will ask whose memory an address is in.
    allocations: Option<Allocations>,
    /// Where somebody will ask which kernels ran.
    launched: Option<Launched>,
    /// Events that back ends say were lost.
    lost: u64,
    /// Why nothing more can be written, and how many events had been by then.
    failure: Option<SinkError>,
    kept: u64,
    /// What came when there was not even a head.
    unwritten: Tally,
}

impl TraceFile {
    /// Without a path, `traces/trace_<now>.jsonl`.
    pub fn create(path: Option<&Path>, meta: Meta, summed_up: bool) -> Result<Self> {
        let named = path.is_some();
        let (path, file) = match path {
            Some(path) if path == Path::new(STDOUT) => {
                (path.to_owned(), stdout().map(|file| (file, false)))
            }
            Some(path) => (path.to_owned(), create(path)),
            None => unused(),
        };
        let (file, new) = match file {
            Ok(made) => made,
            Err(why) if !named => return Err(NoTrace { path, source: why }.into()),
            Err(why) => {
                let words = "choose another place with -o FILE";
                let words = format!("cannot write {}; {words}", path.display());
                return Err(anyhow::Error::new(why).context(words));
            }
        };
        Ok(TraceFile {
            path,
            new,
            meta,
            file: Some(file),
            writer: None,
            live: None,
            analysis: None,
            summed_up,
            seen: Arc::default(),
            process: Arc::default(),
            redaction: None,
            allocations: None,
            launched: None,
            lost: 0,
            failure: None,
            kept: 0,
            unwritten: Tally::default(),
        })
    }

    /// Leaves out from now on what says too much of the program and its user.
    pub fn redact(&mut self) {
        Redaction::meta(&mut self.meta);
        self.redaction = Some(Redaction::default());
    }

    /// Remembers from now on what is allocated.
    pub fn watch_allocations(&mut self) {
        self.allocations = Some(Allocations::default());
    }

    /// What was allocated, if that was watched.
    pub fn allocations(&mut self) -> Option<Allocations> {
        self.allocations.take()
    }

    /// Remembers from now on which kernels are launched.
    pub fn watch_launches(&mut self) {
        self.launched = Some(Launched::default());
    }

    /// The kernels that were launched, if that was watched.
    pub fn launched(&mut self) -> Option<Launched> {
        self.launched.take()
    }

    /// What it holds so far, for others to look at meanwhile.
    pub fn seen(&self) -> Arc<Seen> {
        self.seen.clone()
    }

    /// Where the command's process id goes as soon as it is known.
    pub fn process(&self) -> Arc<AtomicU32> {
        self.process.clone()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its file was not there before.
    pub fn is_new(&self) -> bool {
        self.new
    }

    /// Everyone has begun: the first line can be written.
    fn write_head(&mut self) -> Result<(), SinkError> {
        let format = Format::of(&self.path).unwrap_or(Format::Jsonl);
        if let Some(file) = self.file.take() {
            let process = self.process.load(Ordering::Relaxed);
            self.meta.pid = self.meta.pid.or((process != 0).then_some(process));
            self.analysis = self.summed_up.then(|| Analysis::new(&self.meta));
            if self.path == Path::new(STDOUT) && file.is_terminal() {
                let options = Options {
                    style: stdout_style(),
                    ..Options::default()
                };
                self.live = Some(Replay::new(LineWriter::new(file), &self.meta, options));
                return Ok(());
            }
            // Only now: an older trace of this name outlives a command that could not be started.
            if file.metadata().is_ok_and(|found| found.is_file()) && self.path != Path::new(STDOUT)
            {
                file.set_len(0)?;
            }
            self.writer = Some(Writer::new(file, format, &self.meta)?);
        }
        Ok(())
    }

    /// Writes the tail, with what only the tracer knows filled in, and puts the records in order. What
    /// the trace says comes back also where it could not be written.
    pub fn finish(mut self, complete: impl FnOnce(&mut Summary)) -> Finished {
        // Nobody wrote anything: the trace still has its head and its tail.
        if let Err(why) = self.write_head() {
            self.failure.get_or_insert(why);
        }
        if let Some(live) = &mut self.live
            && let Err(why) = live.finish(None)
        {
            self.failure.get_or_insert(why.into());
        }
        let analysis = self.analysis.unwrap_or_else(|| Analysis::new(&self.meta));
        let Some(writer) = self.writer else {
            let missing = Missing {
                events: self.unwritten.events(),
                is_exact: self.failure.is_none(),
            };
            let mut summary = Summary {
                lost: self.lost.saturating_add(missing.events),
                ..Summary::default()
            };
            complete(&mut summary);
            self.redaction
                .iter()
                .for_each(|it| it.summary(&mut summary));
            return Finished {
                lost: summary.lost,
                missing,
                failure: self.failure,
                out_of_order: None,
                report: analysis.finish(Some(&summary)),
            };
        };
        let mut summary = writer.summary();
        complete(&mut summary);
        self.redaction
            .iter()
            .for_each(|it| it.summary(&mut summary));
        let late = writer.late();
        let written = match self.failure {
            None => writer.finish_with(&summary).map_err(SinkError::from),
            Some(why) => {
                // What is still in a buffer goes to the file now, or never.
                drop(writer);
                Err(why)
            }
        };
        let Err(why) = written else {
            return Finished {
                lost: summary.lost,
                missing: Missing::NONE,
                failure: None,
                out_of_order: put_in_order(&self.path, late),
                report: analysis.finish(Some(&summary)),
            };
        };
        let cut = Cut {
            path: &self.path,
            meta: &self.meta,
            kept: self.kept,
        };
        let (missing, report) = cut.repair(&mut summary, analysis);
        Finished {
            lost: summary.lost,
            missing,
            failure: Some(why),
            out_of_order: None,
            report,
        }
    }
}

/// Records that were held up are behind later ones. A note if that is how they stay.
fn put_in_order(path: &Path, late: u64) -> Option<String> {
    if late == 0 {
        return None;
    }
    let why = if path == Path::new(STDOUT) || !path.is_file() {
        "only a file can be put in order".to_owned()
    } else {
        trace::put_in_order(path).err()?.to_string()
    };
    Some(format!(
        "{late} records are slightly out of the order of time: {why}"
    ))
}

/// A trace whose end has been written, or could not be.
pub struct Finished {
    pub report: Report,
    /// Everything that is not in the trace and should be.
    pub lost: u64,
    /// Of that, what could not be written, and why not.
    pub missing: Missing,
    pub failure: Option<SinkError>,
    /// A note, if its records are not in the order of time.
    pub out_of_order: Option<String>,
}

impl Sink for TraceFile {
    fn begin(&mut self, mut backend: Backend) -> Result<(), SinkError> {
        if self.redaction.is_some() {
            Redaction::missing(&mut backend.missing);
        }
        let hooks = &mut self.meta.hooks;
        hooks.attached = hooks.attached.saturating_add(backend.hooks.attached);
        hooks.total = hooks.total.saturating_add(backend.hooks.total);
        self.meta.backends.push(backend);
        Ok(())
    }

    /// Never fails: the program goes on when the trace cannot, and what is missing is counted.
    fn write(&mut self, record: &Record) -> Result<(), SinkError> {
        if let Record::Lost(lost) = record {
            self.lost = self.lost.saturating_add(lost.count);
        }
        self.seen.add(record);
        if let Some(allocations) = &mut self.allocations {
            allocations.add(record);
        }
        if let Some(launched) = &mut self.launched {
            launched.add(record);
        }
        if self.failure.is_none()
            && let Err(why) = self.put(record)
        {
            self.kept = self
                .writer
                .as_ref()
                .map_or(0, |writer| writer.summary().events);
            self.failure = Some(why);
        }
        if self.failure.is_some() {
            match &mut self.writer {
                Some(writer) => writer.count(record),
                None => self.unwritten.add(record),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        if self.failure.is_none()
            && let Some(writer) = &mut self.writer
            && let Err(why) = writer.flush()
        {
            self.kept = writer.summary().events;
            self.failure = Some(why.into());
        }
        Ok(())
    }
}

impl TraceFile {
    fn put(&mut self, record: &Record) -> Result<(), SinkError> {
        if self.file.is_some() {
            self.write_head()?;
        }
        let redacted = (self.redaction.as_mut()).map(|redaction| redaction.record(record));
        let record = redacted.as_ref().unwrap_or(record);
        if let Some(writer) = &mut self.writer {
            writer.write(record)?;
        }
        if let Some(live) = &mut self.live {
            live.record(record)?;
        }
        if let Some(analysis) = &mut self.analysis {
            analysis.add(record);
        }
        Ok(())
    }
}

/// `-o -`: to the terminal as lines to read, to a pipe as JSONL.
pub const STDOUT: &str = "-";

fn stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// The file of this name, and whether it is new; one that is there already stays as it is.
fn create(path: &Path) -> io::Result<(File, bool)> {
    match create_new(path) {
        Ok(file) => Ok((file, true)),
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
            let mut options = private();
            Ok((options.create(true).truncate(false).open(path)?, false))
        }
        Err(why) => Err(why),
    }
}

/// Only its user reads it: traces say what programs were given. Under sudo it is theirs who asked for it.
fn create_new(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
    if let Some(folder) = folder {
        make_folders(folder)?;
    }
    let file = private().create_new(true).open(path)?;
    user::give(&file)?;
    Ok(file)
}

/// Those that are missing, each given to who asked for them.
fn make_folders(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = (folder.ancestors())
        .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
        .collect();
    for path in missing.into_iter().rev() {
        match fs::create_dir(path) {
            Ok(()) => {
                // What we have made, and not what somebody has put in its place since.
                let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
                user::give(&File::options().read(true).custom_flags(flags).open(path)?)?;
            }
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

fn private() -> OpenOptions {
    let mut options = File::options();
    options.write(true).mode(0o600);
    options
}

/// A new file, here or, where nothing can be written, where temporary files go.
fn unused() -> (PathBuf, io::Result<(File, bool)>) {
    let here = unused_in(Path::new("traces"));
    if here.1.is_ok() {
        return here;
    }
    for folder in [std::env::temp_dir(), "/var/tmp".into()] {
        // SAFETY: a question without side effects.
        let own = unsafe { libc::geteuid() };
        let folder = folder.join(format!("cutrace-traces-{own}"));
        let _ = fs::DirBuilder::new().mode(0o700).create(&folder);
        // Everybody can make folders there: only our own is good enough.
        let is_ours = fs::symlink_metadata(&folder)
            .is_ok_and(|found| found.is_dir() && found.uid() == own && found.mode() & 0o022 == 0);
        let found = is_ours.then(|| unused_in(&folder));
        if let Some(found) = found.filter(|(_, made)| made.is_ok()) {
            return found;
        }
    }
    here
}

/// Named after the time; two runs in one second have two names.
fn unused_in(folder: &Path) -> (PathBuf, io::Result<(File, bool)>) {
    let time = local_time();
    let mut number = 1;
    loop {
        let more = if number == 1 {
            String::new()
        } else {
            format!("_{number}")
        };
        let path = folder.join(format!("trace_{time}{more}.jsonl"));
        match create_new(&path) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
            made => return (path, made.map(|file| (file, true))),
        }
    }
}

/// `yyyymmdd_hhmmss`
fn local_time() -> String {
    // SAFETY: all zeroes is a tm, and both calls write only where they are told.
    let time = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut time: libc::tm = std::mem::zeroed();
        libc::localtime_r(&now, &mut time);
        time
    };
    format!(
        "{:04}{:02}{:02}_{:02}{:02}{:02}",
        time.tm_year + 1900,
        time.tm_mon + 1,
        time.tm_mday,
        time.tm_hour,
        time.tm_min,
        time.tm_sec
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Event, Layer};

    /// A thread was held up, and its records come behind others'.
    fn write_late(file: &mut TraceFile) {
        for (id, start) in [(1, 100), (2, 300), (3, 200), (4, 400), (5, 150)] {
            let event = Event::new(id, Layer::Driver, Category::Query, "cuCtxGetId", start);
            file.write(&Record::Event(event)).expect("written");
        }
    }

    #[test]
    fn our_own_traces_are_in_order_when_they_are_finished() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["x.jsonl", "x.arrows"] {
            let path = folder.path().join(name);
            let mut file = TraceFile::create(Some(&path), Meta::default(), false).expect("created");
            write_late(&mut file);
            let finished = file.finish(|_| {});
            assert!(finished.failure.is_none(), "{:?}", finished.failure);
            assert_eq!(finished.out_of_order, None);
            let mut reader = trace::open(&path).expect("a trace");
            let times: Vec<u64> = reader.by_ref().map(|it| it.expect("whole").ts()).collect();
            assert_eq!(times, [100, 150, 200, 300, 400], "{name}");
            assert!(reader.warnings().is_empty(), "{:?}", reader.warnings());
        }
    }

    #[test]
    fn what_cannot_be_put_in_order_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.jsonl");
        let mut file = TraceFile::create(Some(&path), Meta::default(), false).expect("created");
        write_late(&mut file);
        // Nothing can be written beside it.
        let beside = format!(".x.jsonl.{}.unfinished", std::process::id());
        fs::create_dir(folder.path().join(beside)).expect("in the way");
        let finished = file.finish(|_| {});
        assert!(finished.failure.is_none(), "{:?}", finished.failure);
        let note = finished.out_of_order.expect("a note");
        assert!(note.starts_with("2 records are slightly out"), "{note}");
        assert_eq!(trace::open(&path).expect("a trace").count(), 5);
    }
}
