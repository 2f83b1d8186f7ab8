//! The trace being written, and what it holds so far.

use super::{
    allocations::Allocations,
    broken::{Cut, Missing},
    progress::Seen,
    user,
};
use crate::commands::style::stdout_style;
use analyse::{Analysis, Report};
use anyhow::{Context, Result};
use capture::{Sink, SinkError};
use event::{Backend, Meta, Record, Summary, Tally};
use render::{Output, Replay, replay::Options};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal, LineWriter},
    os::{
        fd::AsFd,
        unix::fs::{OpenOptionsExt, chown, fchown},
    },
    path::{Path, PathBuf},
    sync::Arc,
};
use trace::{Format, Writer};

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
    /// Where somebody will ask whose memory an address is in.
    allocations: Option<Allocations>,
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
        let (path, file) = match path {
            Some(path) if path == Path::new(STDOUT) => {
                (path.to_owned(), stdout().map(|file| (file, false)))
            }
            Some(path) => (path.to_owned(), create(path)),
            None => unused(),
        };
        let (file, new) = file.with_context(|| {
            format!(
                "cannot write {}; choose another place with -o FILE",
                path.display()
            )
        })?;
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
            allocations: None,
            lost: 0,
            failure: None,
            kept: 0,
            unwritten: Tally::default(),
        })
    }

    /// Remembers from now on what is allocated.
    pub fn watch_allocations(&mut self) {
        self.allocations = Some(Allocations::default());
    }

    /// What was allocated, if that was watched.
    pub fn allocations(&mut self) -> Option<Allocations> {
        self.allocations.take()
    }

    /// What it holds so far, for others to look at meanwhile.
    pub fn seen(&self) -> Arc<Seen> {
        self.seen.clone()
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

    /// Writes the tail, with what only the tracer knows filled in. What the trace says comes
    /// back also where it could not be written.
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
            return Finished {
                lost: summary.lost,
                missing,
                failure: self.failure,
                report: analysis.finish(Some(&summary)),
            };
        };
        let mut summary = writer.summary();
        complete(&mut summary);
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
            report,
        }
    }
}

/// A trace whose end has been written, or could not be.
pub struct Finished {
    pub report: Report,
    /// Everything that is not in the trace and should be.
    pub lost: u64,
    /// Of that, what could not be written, and why not.
    pub missing: Missing,
    pub failure: Option<SinkError>,
}

impl Sink for TraceFile {
    fn begin(&mut self, backend: Backend) -> Result<(), SinkError> {
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
    let user = user::invoking();
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty() && !folder.exists())
    {
        fs::create_dir_all(folder)?;
        if let Some(user) = &user {
            chown(folder, Some(user.uid), Some(user.gid))?;
        }
    }
    let file = private().create_new(true).open(path)?;
    if let Some(user) = user {
        fchown(&file, Some(user.uid), Some(user.gid))?;
    }
    Ok(file)
}

fn private() -> OpenOptions {
    let mut options = File::options();
    options.write(true).mode(0o600);
    options
}

/// A new file named after the time; two runs in one second have two names.
fn unused() -> (PathBuf, io::Result<(File, bool)>) {
    let time = local_time();
    let mut number = 1;
    loop {
        let more = if number == 1 {
            String::new()
        } else {
            format!("_{number}")
        };
        let path = PathBuf::from(format!("traces/trace_{time}{more}.jsonl"));
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
