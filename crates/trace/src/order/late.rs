//! Records that came late, as lines of text, sorted by time: in memory while they are few, else in
//! sorted runs of a file that has no name. This sorts a finished file on disk; [`event::Reorder`] keeps
//! the order of records while they come.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    rc::Rc,
};

/// Bytes kept in memory.
pub const MOST_BYTES: usize = 64 << 20;

pub struct Late {
    /// The runs' file, once there is one.
    path: PathBuf,
    file: Option<File>,
    /// Where in it each run ends.
    ends: Vec<u64>,
    memory: usize,
    bytes: Vec<u8>,
    kept: Vec<LateRecord>,
    pub count: u64,
}

struct LateRecord {
    time: i64,
    start: usize,
    length: usize,
}

impl Late {
    /// Beside the file of this name.
    pub fn new(beside: &Path, memory: usize) -> Self {
        let mut path = beside.as_os_str().to_owned();
        path.push(".late");
        Late {
            path: path.into(),
            file: None,
            ends: Vec::new(),
            memory,
            bytes: Vec::new(),
            kept: Vec::new(),
            count: 0,
        }
    }

    pub fn push(&mut self, time: i64, line: &[u8]) -> io::Result<()> {
        let used = self.bytes.len() + self.kept.len() * size_of::<LateRecord>();
        if used + line.len() > self.memory && !self.kept.is_empty() {
            self.write_run()?;
        }
        self.kept.push(LateRecord {
            time,
            start: self.bytes.len(),
            length: line.len(),
        });
        self.bytes.extend_from_slice(line);
        self.count += 1;
        Ok(())
    }

    fn write_run(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            let mut options = File::options();
            options.read(true).write(true).create_new(true).mode(0o600);
            let file = options.open(&self.path)?;
            // Nothing of it is left, whatever becomes of us.
            fs::remove_file(&self.path)?;
            self.file = Some(file);
        }
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut end = self.ends.last().copied().unwrap_or(0);
        let mut out = BufWriter::with_capacity(1 << 20, file);
        self.kept.sort_by_key(|one| one.time);
        for one in self.kept.drain(..) {
            let line = &self.bytes[one.start..one.start + one.length];
            out.write_all(&one.time.to_le_bytes())?;
            out.write_all(&(line.len() as u64).to_le_bytes())?;
            out.write_all(line)?;
            end += 16 + line.len() as u64;
        }
        out.flush()?;
        self.bytes.clear();
        self.ends.push(end);
        Ok(())
    }

    /// All of them, in order.
    pub fn sorted(mut self) -> io::Result<Sorted> {
        self.kept.sort_by_key(|one| one.time);
        let mut runs: Vec<Run> = Vec::new();
        if let Some(file) = self.file.map(Rc::new) {
            let mut at = 0;
            for end in self.ends {
                let part = Part {
                    file: file.clone(),
                    at,
                    end,
                };
                runs.push(Run::Written(BufReader::with_capacity(64 << 10, part)));
                at = end;
            }
        }
        runs.push(Run::InMemory {
            bytes: self.bytes,
            kept: self.kept.into_iter(),
        });
        let mut sorted = Sorted {
            next: BinaryHeap::new(),
            runs,
        };
        for run in 0..sorted.runs.len() {
            sorted.advance(run)?;
        }
        Ok(sorted)
    }
}

enum Run {
    Written(BufReader<Part>),
    InMemory {
        bytes: Vec<u8>,
        kept: std::vec::IntoIter<LateRecord>,
    },
}

/// A run's piece of the file.
struct Part {
    file: Rc<File>,
    at: u64,
    end: u64,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let room = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..room], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Run {
    fn next(&mut self) -> io::Result<Option<(i64, Vec<u8>)>> {
        match self {
            Run::InMemory { bytes, kept } => Ok(kept.next().map(|one| {
                let line = &bytes[one.start..one.start + one.length];
                (one.time, line.to_vec())
            })),
            Run::Written(part) => {
                let mut word = [0; 8];
                if part.read(&mut word[..1])? == 0 {
                    return Ok(None);
                }
                part.read_exact(&mut word[1..])?;
                let time = i64::from_le_bytes(word);
                part.read_exact(&mut word)?;
                let length = usize::try_from(u64::from_le_bytes(word)).unwrap_or(0);
                let mut line = vec![0; length];
                part.read_exact(&mut line)?;
                Ok(Some((time, line)))
            }
        }
    }
}

pub struct Sorted {
    /// The first line of each run. Of one moment, those of earlier runs came earlier.
    next: BinaryHeap<Reverse<(i64, usize, Vec<u8>)>>,
    runs: Vec<Run>,
}

impl Sorted {
    fn advance(&mut self, run: usize) -> io::Result<()> {
        if let Some((time, line)) = self.runs[run].next()? {
            self.next.push(Reverse((time, run, line)));
        }
        Ok(())
    }

    /// The next line, if it is of before that moment.
    pub fn before(&mut self, time: i64) -> io::Result<Option<Vec<u8>>> {
        match self.next.peek() {
            Some(Reverse((first, ..))) if *first < time => {}
            _ => return Ok(None),
        }
        let Some(Reverse((_, run, line))) = self.next.pop() else {
            return Ok(None);
        };
        self.advance(run)?;
        Ok(Some(line))
    }
}
