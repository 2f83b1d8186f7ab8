//! Memory of a process that nobody vouches for: reads of it are counted, and end after a while.

use crate::call::remote;
use std::time::{Duration, Instant};

/// As long as a kernel's name may be.
const LONGEST_NAME: usize = 4096;
const PIECE: usize = 256;
/// How long a process is read at a time: its records wait meanwhile.
const LONGEST: Duration = Duration::from_millis(100);

pub trait Memory {
    /// Fills `to` from an address as far as it can be read. How many bytes were.
    fn read(&self, address: u64, to: &mut [u8]) -> usize;
}

/// A running process. One that is gone has no memory.
pub struct Process {
    pid: u32,
    until: Instant,
}

impl Process {
    /// To be read from now on, for a while.
    pub fn new(pid: u32) -> Self {
        let until = Instant::now() + LONGEST;
        Process { pid, until }
    }
}

impl Memory for Process {
    fn read(&self, address: u64, to: &mut [u8]) -> usize {
        match Instant::now() < self.until {
            true => remote::read(self.pid, address, to),
            false => 0,
        }
    }
}

pub struct Reader<'a> {
    memory: &'a dyn Memory,
    left: u32,
}

impl<'a> Reader<'a> {
    /// At most so many reads.
    pub fn new(memory: &'a dyn Memory, reads: u32) -> Self {
        Reader {
            memory,
            left: reads,
        }
    }

    /// As many of the bytes at an address as can be read.
    pub fn block(&mut self, address: u64, size: usize) -> Vec<u8> {
        let Some(left) = self.left.checked_sub(1) else {
            return Vec::new();
        };
        self.left = left;
        let mut bytes = vec![0; size];
        let count = self.memory.read(address, &mut bytes).min(size);
        bytes.truncate(count);
        bytes
    }

    pub fn word(&mut self, address: u64) -> Option<u64> {
        let bytes = self.block(address, 8);
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Whether there still is something at an address. If not, the process has changed, or reads or time have run out:
    /// that nothing was found before means nothing.
    pub fn is_there(&mut self, address: u64) -> bool {
        self.word(address).is_some()
    }

    /// The kernel's name at an address, of which the first bytes may be known: a whole C string of an identifier's
    /// characters.
    pub fn name(&mut self, address: u64, known: &[u8]) -> Option<String> {
        let mut text = Vec::new();
        let mut piece = known.to_vec();
        loop {
            let end = piece.iter().position(|byte| *byte == 0);
            let part = &piece[..end.unwrap_or(piece.len())];
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
            if !part.iter().all(is_name) || text.len() + part.len() > LONGEST_NAME {
                return None;
            }
            text.extend_from_slice(part);
            if end.is_some() {
                break;
            }
            piece = self.block(address.checked_add(text.len() as u64)?, PIECE);
            if piece.is_empty() {
                return None;
            }
        }
        let begins = text.first().is_some_and(|byte| !byte.is_ascii_digit());
        String::from_utf8(text).ok().filter(|_| begins)
    }
}
