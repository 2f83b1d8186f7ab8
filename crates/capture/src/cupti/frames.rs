//! A process's file of GPU times: whole frames as they come, and their blocks given back.

use crate::preload::folder::open_left;
use event::gpu_times::{HEADER_BYTES, header, padding};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Read at once, at least.
const CHUNK: usize = 1 << 20;
/// The system gets this much back at a time.
const GIVE_BACK: u64 = 4 << 20;

#[derive(Debug)]
pub struct Frames {
    file: File,
    /// Where the bytes that are kept begin in the file.
    at: u64,
    kept: Vec<u8>,
    given_back: u64,
    /// Something that is no frame: the rest means nothing.
    pub damaged: bool,
}

impl Frames {
    pub fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Frames {
            // For writing, too: blocks cannot be given back otherwise.
            file: open_left(path, true)?,
            at: 0,
            kept: Vec::new(),
            given_back: 0,
            damaged: false,
        })
    }

    /// Hands over every frame that is there in whole: its kind and its payload.
    pub fn read(&mut self, mut take: impl FnMut(u32, &[u8])) {
        while !self.damaged {
            let wanted = self.take_kept(&mut take).max(CHUNK);
            let length = self.kept.len();
            self.kept.resize(length + wanted, 0);
            let read = (self.file)
                .read_at(&mut self.kept[length..], self.at + length as u64)
                .unwrap_or(0);
            self.kept.truncate(length + read);
            if read == 0 {
                break;
            }
        }
        self.give_back();
    }

    /// Takes the whole frames that are kept; returns how many bytes the next one lacks.
    fn take_kept(&mut self, take: &mut impl FnMut(u32, &[u8])) -> usize {
        let mut at = 0;
        let lacking = loop {
            let Some(head) = self.kept.get(at..at + HEADER_BYTES) else {
                break HEADER_BYTES;
            };
            let Some((kind, bytes)) = header(head) else {
                self.damaged = true;
                break 0;
            };
            let (from, to) = (at + HEADER_BYTES, at + HEADER_BYTES + bytes);
            let end = to + padding(bytes);
            if self.kept.len() < end {
                break end - self.kept.len();
            }
            take(kind, &self.kept[from..to]);
            at = end;
        };
        self.kept.drain(..at);
        self.at += at as u64;
        lacking
    }

    /// What has been read needs no memory any more.
    fn give_back(&mut self) {
        let through = self.at / 4096 * 4096;
        if through - self.given_back < GIVE_BACK {
            return;
        }
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (from, bytes) = (self.given_back as i64, (through - self.given_back) as i64);
        // SAFETY: a plain system call on a descriptor we hold. Where it is refused, memory stays.
        unsafe { libc::fallocate(self.file.as_raw_fd(), mode, from, bytes) };
        self.given_back = through;
    }
}
