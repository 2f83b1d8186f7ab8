//! A trace that was given no name and grows large becomes Arrow, a twentieth of its size, while it is
//! written: a thread reads the JSON lines as they come and writes them as Arrow. Once it has caught up,
//! the trace goes on there, and the lines are gone. Until then they are the trace, whatever happens.

use super::{
    room::Counted,
    unfinished::{Unfinished, UnfinishedError},
};
use crate::launch::block_signals;
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use trace::{Format, Reader, Writer};

/// Why a trace stays JSON lines.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error("{} already exists", .0.display())]
    IsThere(PathBuf),
    #[error("{}", path.display())]
    Lines { path: PathBuf, source: io::Error },
    #[error(transparent)]
    File(#[from] UnfinishedError),
    #[error(transparent)]
    Trace(#[from] trace::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the thread that writes Arrow failed")]
    Thread,
    #[error("given up")]
    GivenUp,
}

/// What stays JSON lines, as jq users expect.
const LINES_UP_TO: u64 = 256_000_000;
/// For tests: another size.
const LINES_UP_TO_VARIABLE: &str = "CUTRACE_LINES_UP_TO";
/// So few records behind, the thread is waited for: some milliseconds.
const NEARLY: u64 = 8192;
const PAUSE: Duration = Duration::from_millis(2);

/// The size past which a trace becomes Arrow; `most` is how large it may become at all.
pub fn lines_up_to(most: Option<u64>) -> u64 {
    let named = std::env::var(LINES_UP_TO_VARIABLE).ok();
    let size = named.and_then(|text| text.parse().ok());
    let size = size.unwrap_or(LINES_UP_TO);
    // Both are there for a while.
    most.map_or(size, |most| size.min(most / 2))
}

/// A trace on its way from JSON lines to Arrow.
pub struct Pack {
    path: PathBuf,
    /// None once it has its name.
    file: Option<Unfinished>,
    written: Arc<AtomicU64>,
    lines: Arc<Lines>,
    thread: Option<JoinHandle<Result<Writer, PackError>>>,
}

/// What both sides know of the lines.
struct Lines {
    written: Arc<AtomicU64>,
    read: AtomicU64,
    /// Records that are Arrow already.
    converted: AtomicU64,
    /// Nothing more is written.
    ended: AtomicBool,
    /// Nobody wants what comes of them.
    given_up: AtomicBool,
}

/// The trace in its new place.
pub struct Packed {
    pub path: PathBuf,
    pub writer: Writer,
    pub written: Arc<AtomicU64>,
}

impl Pack {
    /// For the lines in a file that is being written.
    pub fn start(lines: &Path, written: Arc<AtomicU64>) -> Result<Self, PackError> {
        let path = lines.with_extension("arrows");
        if path.exists() {
            return Err(PackError::IsThere(path));
        }
        let file = Unfinished::create(&path)?;
        let (out, out_written) = Counted::new(file.writer()?);
        let shared = Arc::new(Lines {
            written,
            read: AtomicU64::new(0),
            converted: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
        });
        let follow = Follow {
            file: File::open(lines).map_err(|source| PackError::Lines {
                path: lines.to_owned(),
                source,
            })?,
            lines: shared.clone(),
        };
        let thread = thread::Builder::new()
            .name("cutrace-pack".into())
            .spawn(move || {
                block_signals();
                convert(follow, out)
            })?;
        Ok(Pack {
            path,
            file: Some(file),
            written: out_written,
            lines: shared,
            thread: Some(thread),
        })
    }

    /// Bytes of Arrow so far.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Whether [`Pack::finish`] would take no time worth mentioning, with so many records in the lines.
    pub fn is_near(&self, records: u64) -> bool {
        let left = records.saturating_sub(self.lines.converted.load(Ordering::Relaxed));
        left < NEARLY || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Takes what is left of the lines, all of which are in their file. The trace has its new name then,
    /// and is as whole as the lines.
    pub fn finish(mut self) -> Result<Packed, PackError> {
        self.lines.ended.store(true, Ordering::Release);
        let Some(Ok(converted)) = self.thread.take().map(JoinHandle::join) else {
            return Err(PackError::Thread);
        };
        let mut writer = converted?;
        writer.flush()?;
        if let Some(file) = self.file.take() {
            file.finish()?;
        }
        Ok(Packed {
            path: std::mem::take(&mut self.path),
            writer,
            written: self.written.clone(),
        })
    }
}

fn convert(lines: Follow, out: Counted) -> Result<Writer, PackError> {
    let shared = lines.lines.clone();
    // Faster than the lines come, if there are processors for it.
    let mut reader = Reader::new(lines, Some(Format::Jsonl))?.ahead();
    let mut writer = Writer::new(out, Format::Arrow, reader.meta())?;
    while let Some(records) = reader.next_batch()? {
        for record in records {
            writer.write(record)?;
        }
        shared.converted.store(writer.records(), Ordering::Relaxed);
        if shared.given_up.load(Ordering::Relaxed) {
            return Err(PackError::GivenUp);
        }
    }
    Ok(writer)
}

/// A file that grows, up to where it is whole. Its end is when its writer says so.
struct Follow {
    file: File,
    lines: Arc<Lines>,
}

impl Read for Follow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // In this order: what was written before the end is seen.
            let ended = self.lines.ended.load(Ordering::Acquire);
            let written = self.lines.written.load(Ordering::Acquire);
            let read = self.lines.read.load(Ordering::Relaxed);
            let left = usize::try_from(written - read).unwrap_or(usize::MAX);
            if left > 0 {
                let room = buffer.len().min(left);
                let count = self.file.read(&mut buffer[..room])?;
                self.lines
                    .read
                    .store(read + count as u64, Ordering::Relaxed);
                return Ok(count);
            }
            if ended || self.lines.given_up.load(Ordering::Relaxed) {
                return Ok(0);
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Pack {
    /// Nothing is left of it, unless it was finished.
    fn drop(&mut self) {
        self.lines.given_up.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
