//! The file that GPU times are handed over by.

use crate::{clock, losses::Losses, mps};
use event::gpu_times::{self as frames, GraphNode};
use std::{
    ffi::OsStr,
    fs::{File, Metadata, OpenOptions},
    io::{self, IoSlice, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

/// What the tracer may be behind by: then records are dropped and counted, and memory is safe.
const MOST_BEHIND: u64 = 1 << 30;

pub struct TimesFile {
    /// None: it has ended, and the program has no file of ours open.
    file: Option<File>,
    losses: Losses,
    /// What could not be handed over and is not counted elsewhere.
    dropped: u64,
    /// The end of a frame whose beginning is in the file, and how many records are in it.
    rest: Vec<u8>,
    in_rest: u64,
}

/// The PID namespace that this process's number is of.
fn pid_namespace() -> Option<u64> {
    let name = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let digits = name.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?;
    digits.parse().ok()
}

impl TimesFile {
    /// A new file in the session's folder.
    pub fn create(session: &OsStr) -> io::Result<Self> {
        let (pid, now) = (std::process::id(), clock::monotonic());
        let namespace = pid_namespace().unwrap_or(0);
        let name = format!("{}{pid}.{now}.{namespace}", frames::FILE_PREFIX);
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).mode(0o600);
        Ok(TimesFile {
            file: Some(options.open(Path::new(session).join(name))?),
            losses: Losses::open(session),
            dropped: 0,
            rest: Vec::new(),
            in_rest: 0,
        })
    }

    /// The tracer has gone, and with it the folder.
    pub fn is_abandoned(&self) -> bool {
        self.about().is_some_and(|found| found.nlink() == 0)
    }

    fn about(&self) -> Option<Metadata> {
        self.file.as_ref()?.metadata().ok()
    }

    /// False: there is no room, and nothing of it is in the file.
    pub fn write(&mut self, kind: u32, payload: &[u8]) -> bool {
        self.write_counted(kind, payload, 0)
    }

    /// The same for a frame with so many records. One that is there in part is counted as lost until the rest of
    /// it has found room: the program may end before.
    fn write_counted(&mut self, kind: u32, payload: &[u8], count: u64) -> bool {
        if !self.write_rest() {
            return false;
        }
        let header = frames::frame(kind, payload.len());
        let padding = [0u8; 8];
        let padding = &padding[..frames::padding(payload.len())];
        let all = header.len() + payload.len() + padding.len();
        if !self.may_grow_by(all) {
            return false;
        }
        let mut parts = [
            IoSlice::new(&header),
            IoSlice::new(payload),
            IoSlice::new(padding),
        ];
        let rest = write_all(self.file.as_ref(), &mut parts);
        if rest.len() == all {
            return false;
        }
        if !rest.is_empty() {
            self.in_rest = count;
            self.lose(count);
            self.rest = rest;
        }
        true
    }

    /// Completes the last frame; nothing else can be written before. False: there is no room for it yet.
    fn write_rest(&mut self) -> bool {
        if self.rest.is_empty() {
            return true;
        }
        let rest = std::mem::take(&mut self.rest);
        self.rest = write_all(self.file.as_ref(), &mut [IoSlice::new(&rest)]);
        if !self.rest.is_empty() {
            return false;
        }
        let count = std::mem::take(&mut self.in_rest);
        if !self.losses.take_back(count) {
            self.dropped = self.dropped.saturating_sub(count);
        }
        true
    }

    /// Whether the program's own limit lets the file grow: beyond it, writing would end the program (SIGXFSZ).
    fn may_grow_by(&self, bytes: usize) -> bool {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the call writes there and nowhere else.
        let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
        if !known || limit.rlim_cur == libc::RLIM_INFINITY {
            return true;
        }
        let length = self.about().map_or(0, |found| found.len());
        length.saturating_add(bytes as u64) <= limit.rlim_cur
    }

    fn lose(&mut self, count: u64) {
        if !self.losses.add(count) {
            self.dropped = self.dropped.saturating_add(count);
        }
    }

    pub fn clock(&mut self, pair: Option<[u64; 3]>) {
        if let Some(pair) = pair {
            self.write(frames::CLOCK, &words(&pair));
        }
    }

    pub fn note(&mut self, text: &str) {
        self.write(frames::NOTE, text.as_bytes());
    }

    /// What there is to say of the process's surroundings, if it has not been said.
    pub fn surroundings(&mut self) {
        if let Some(words) = mps::news() {
            self.note(words);
        }
    }

    /// So many of CUPTI's records.
    pub fn records(&mut self, payload: &[u8], count: u64) {
        self.pieces(frames::RECORDS, payload, count);
    }

    /// So many records, encoded as a frame of their own; fewer are left if the tracer is slow.
    pub fn pieces(&mut self, kind: u32, payload: &[u8], count: u64) {
        let behind = self
            .about()
            .map_or(0, |found| found.blocks().saturating_mul(512));
        if behind > MOST_BEHIND {
            return self.lose(count);
        }
        self.tell_dropped();
        if !self.write_counted(kind, payload, count) {
            self.lose(count);
        }
    }

    /// Nodes of graphs: no events of the trace.
    pub fn nodes(&mut self, nodes: &[GraphNode]) {
        if !nodes.is_empty() {
            let payload: Vec<u8> = nodes.iter().flat_map(GraphNode::encode).collect();
            self.pieces(frames::GRAPH_NODES, &payload, 0);
        }
    }

    /// CUPTI itself had no room.
    pub fn dropped(&mut self, count: u64) {
        self.lose(count);
        self.tell_dropped();
    }

    /// By the file, where the page does not serve.
    fn tell_dropped(&mut self) {
        let dropped = self.dropped - self.in_rest.min(self.dropped);
        if dropped > 0 && self.write(frames::DROPPED, &words(&[dropped])) {
            self.dropped -= dropped;
        }
    }

    pub fn end(&mut self) {
        self.surroundings();
        self.tell_dropped();
        self.write(frames::END, &[]);
        self.file = None;
    }
}

fn words<const N: usize>(words: &[u64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// What could not be written.
fn write_all(file: Option<&File>, mut parts: &mut [IoSlice<'_>]) -> Vec<u8> {
    IoSlice::advance_slices(&mut parts, 0);
    while let Some(mut file) = file.filter(|_| !parts.is_empty()) {
        match file.write_vectored(parts) {
            Ok(written) if written > 0 => IoSlice::advance_slices(&mut parts, written),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    parts.iter().flat_map(|part| part.iter().copied()).collect()
}
