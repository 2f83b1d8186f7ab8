//! The file that activity is handed over by.

use crate::{clock, mps};
use event::activity as frames;
use std::{
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::{self, IoSlice, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

/// What the tracer may be behind by: then records are dropped and counted, and memory is safe.
const MOST_BEHIND: u64 = 1 << 30;

pub struct Activity {
    file: File,
    dropped: u64,
}

/// The PID namespace that this process's number is of.
fn pid_namespace() -> Option<u64> {
    let name = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let digits = name.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?;
    digits.parse().ok()
}

impl Activity {
    /// A new file in the session's folder.
    pub fn create(session: &OsStr) -> io::Result<Self> {
        let (pid, now) = (std::process::id(), clock::monotonic());
        let namespace = pid_namespace().unwrap_or(0);
        let name = format!("{}{pid}.{now}.{namespace}", frames::FILE_PREFIX);
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).mode(0o600);
        Ok(Activity {
            file: options.open(Path::new(session).join(name))?,
            dropped: 0,
        })
    }

    /// The tracer has gone, and with it the folder.
    pub fn is_abandoned(&self) -> bool {
        self.file.metadata().is_ok_and(|found| found.nlink() == 0)
    }

    pub fn write(&mut self, kind: u32, payload: &[u8]) {
        let header = frames::frame(kind, payload.len());
        let padding = [0u8; 8];
        let padding = &padding[..frames::padding(payload.len())];
        let mut parts = [
            IoSlice::new(&header),
            IoSlice::new(payload),
            IoSlice::new(padding),
        ];
        // A full disk loses activity; the tracer sees where the frames end.
        let _ = write_all(&mut self.file, &mut parts);
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
        let behind = (self.file.metadata()).map_or(0, |found| found.blocks().saturating_mul(512));
        if behind > MOST_BEHIND {
            self.dropped += count;
            return;
        }
        if self.dropped > 0 {
            let dropped = std::mem::take(&mut self.dropped);
            self.dropped(dropped);
        }
        self.write(kind, payload);
    }

    pub fn dropped(&mut self, count: u64) {
        self.write(frames::DROPPED, &words(&[count]));
    }

    pub fn end(&mut self) {
        self.surroundings();
        if self.dropped > 0 {
            let dropped = std::mem::take(&mut self.dropped);
            self.dropped(dropped);
        }
        self.write(frames::END, &[]);
    }
}

fn words<const N: usize>(words: &[u64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn write_all(file: &mut File, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        match file.write_vectored(parts) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut parts, written),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}
