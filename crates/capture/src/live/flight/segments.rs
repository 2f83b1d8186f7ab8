//! The segments of a flight recording: short traces, the oldest of which is dropped.

use super::{FlightOptions, is_of_program};
use event::{Meta, Record};
use std::{
    cell::RefCell,
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use trace::{Format, Writer};

/// Segments that make up what is kept, about.
const PARTS: u64 = 16;
/// Who records there: its process, in a file of this name.
pub const OWNER: &str = "owner";
/// Snapshots that were written, a line each.
pub const TOLD: &str = "snapshots";

/// A segment that is whole. Its file goes with the last one who needs it.
#[derive(Debug)]
pub struct Segment {
    pub path: PathBuf,
    last: u64,
    /// Whether the program did anything in it.
    is_of_program: bool,
    bytes: u64,
}

impl Drop for Segment {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

struct Current {
    writer: Writer,
    path: PathBuf,
    first: u64,
    last: u64,
    is_of_program: bool,
    written: Arc<AtomicU64>,
}

pub struct Segments {
    folder: PathBuf,
    meta: Meta,
    length: u64,
    most: u64,
    whole: std::collections::VecDeque<Arc<Segment>>,
    current: Option<Current>,
    /// When the program did something last.
    last: u64,
    number: u64,
    /// Names that snapshots under way will have.
    reserved: RefCell<HashSet<PathBuf>>,
}

/// Counts what goes through it.
struct Counting(File, Arc<AtomicU64>);

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.0.write(bytes)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Segments {
    pub fn create(folder: PathBuf, options: &FlightOptions, meta: &Meta) -> trace::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        fs::write(folder.join(OWNER), format!("{}\n", std::process::id()))?;
        Ok(Segments {
            folder,
            meta: meta.clone(),
            length: u64::try_from(options.length.as_nanos()).unwrap_or(u64::MAX),
            most: options.most,
            whole: Default::default(),
            current: None,
            last: 0,
            number: 0,
            reserved: RefCell::default(),
        })
    }

    pub fn write(&mut self, record: &Record) -> trace::Result<()> {
        let ts = record.ts();
        if self
            .current
            .as_ref()
            .is_some_and(|current| self.is_long(current, ts))
        {
            self.close()?;
        }
        if self.current.is_none() {
            self.current = Some(self.begin(ts)?);
        }
        if let Some(current) = &mut self.current {
            current.writer.write(record)?;
            current.last = current.last.max(ts);
            current.is_of_program |= is_of_program(record);
        }
        if is_of_program(record) {
            self.last = self.last.max(ts);
        }
        Ok(())
    }

    /// When the program did something last; 0 if it did nothing.
    pub fn last(&self) -> u64 {
        self.last
    }

    fn is_long(&self, current: &Current, now: u64) -> bool {
        now.saturating_sub(current.first) >= (self.length / PARTS).max(1)
            || current.written.load(Ordering::Relaxed) >= self.most / PARTS
    }

    fn begin(&mut self, first: u64) -> trace::Result<Current> {
        self.number += 1;
        let path = self.folder.join(format!("{:08}.arrows", self.number));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let written = Arc::new(AtomicU64::new(0));
        let file = Counting(file, written.clone());
        Ok(Current {
            writer: Writer::new(file, Format::Arrow, &self.meta)?,
            path,
            first,
            last: first,
            is_of_program: false,
            written,
        })
    }

    /// Nothing more goes to the segment that is being written; the oldest are dropped.
    fn close(&mut self) -> trace::Result<()> {
        if let Some(Current {
            writer,
            path,
            last,
            is_of_program,
            written,
            ..
        }) = self.current.take()
        {
            writer.finish()?;
            let bytes = written.load(Ordering::Relaxed);
            self.whole.push_back(Arc::new(Segment {
                path,
                last,
                is_of_program,
                bytes,
            }));
        }
        let oldest = self.last.saturating_sub(self.length);
        // While the program does nothing, samples must not push out what it did last.
        let newest = self.whole.back().map_or(0, |segment| segment.last);
        let recent = newest.saturating_sub(self.length);
        (self.whole).retain(|segment| segment.is_of_program || segment.last >= recent);
        let mut bytes: u64 = self.whole.iter().map(|segment| segment.bytes).sum();
        while let Some(first) = self.whole.front()
            && (first.last < oldest || bytes > self.most)
        {
            bytes -= first.bytes;
            self.whole.pop_front();
        }
        Ok(())
    }

    /// What a killed recorder leaves is up to here.
    pub fn flush(&mut self) -> trace::Result<()> {
        match &mut self.current {
            Some(current) => current.writer.flush(),
            None => Ok(()),
        }
    }

    /// Everything up to now.
    pub fn all(&mut self) -> trace::Result<Vec<Arc<Segment>>> {
        self.close()?;
        Ok(self.whole.iter().cloned().collect())
    }

    /// Called with the path of each snapshot.
    pub fn told(&self) -> PathBuf {
        self.folder.join(TOLD)
    }

    pub fn reserved(&self, path: &Path) -> bool {
        self.reserved.borrow().contains(path)
    }

    pub fn reserve(&self, path: &Path) {
        self.reserved.borrow_mut().insert(path.to_owned());
    }

    /// The recording is over and nobody needs the segments.
    pub fn remove(mut self) {
        if let Some(Current { writer, path, .. }) = self.current.take() {
            drop(writer);
            let _ = fs::remove_file(path);
        }
        self.whole.clear();
        for name in [OWNER, TOLD] {
            let _ = fs::remove_file(self.folder.join(name));
        }
        let _ = fs::remove_dir(&self.folder);
    }
}
