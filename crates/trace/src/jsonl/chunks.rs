//! Cutting a file into pieces of whole lines with bounded memory, whatever the file holds.

use super::LONGEST_LINE;
use crate::{Result, pipeline::Cut};
use std::io::{self, Read};

/// A piece of the file that ends where a line ends.
#[derive(Default)]
pub struct Chunk {
    bytes: Vec<u8>,
    length: usize,
    /// Of its first byte in the file.
    pub offset: u64,
    /// Without a newline at its end the last line may be cut off.
    pub terminated: bool,
    /// One line, longer than a line may be: its contents were dropped.
    pub too_long: bool,
}

impl Chunk {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

pub struct Chunks<R> {
    input: R,
    /// What was read behind the last newline.
    rest: Vec<u8>,
    offset: u64,
    ended: bool,
}

/// About a thousand lines.
const CHUNK: usize = 256 << 10;

impl<R: Read> Chunks<R> {
    pub fn new(input: R) -> Self {
        Chunks {
            input,
            rest: Vec::new(),
            offset: 0,
            ended: false,
        }
    }

    /// The next piece, in the buffer of an old one; None at the end.
    fn cut(&mut self, spare: Chunk) -> io::Result<Option<Chunk>> {
        let mut chunk = Chunk {
            bytes: spare.bytes,
            offset: self.offset,
            ..Chunk::default()
        };
        let rest = std::mem::take(&mut self.rest);
        if chunk.bytes.len() < rest.len() + CHUNK {
            chunk.bytes.resize(rest.len() + CHUNK, 0);
        }
        chunk.bytes[..rest.len()].copy_from_slice(&rest);
        let mut filled = rest.len();
        self.rest = rest;
        self.rest.clear();
        // Behind a line that was dropped there may be whole ones in the rest.
        let mut searched = 0;
        let mut dropped = 0u64;
        while !self.ended {
            if filled > LONGEST_LINE {
                dropped += filled as u64;
                (filled, searched) = (0, 0);
            }
            if chunk.bytes.len() < filled + CHUNK {
                chunk.bytes.resize(2 * filled + CHUNK, 0);
            }
            let count = self.read(&mut chunk.bytes[filled..filled + CHUNK])?;
            self.ended = count == 0;
            filled += count;
            let new = &chunk.bytes[searched..filled];
            let newline = if dropped > 0 {
                memchr::memchr(b'\n', new)
            } else {
                memchr::memrchr(b'\n', new)
            };
            if let Some(newline) = newline {
                self.rest.extend_from_slice(&new[newline + 1..]);
                chunk.length = searched + newline + 1;
                chunk.terminated = true;
                return Ok(Some(self.hand_out(chunk, dropped)));
            }
            searched = filled;
        }
        chunk.length = filled;
        Ok((filled > 0 || dropped > 0).then(|| self.hand_out(chunk, dropped)))
    }

    fn hand_out(&mut self, mut chunk: Chunk, dropped: u64) -> Chunk {
        self.offset += dropped + chunk.length as u64;
        if dropped > 0 {
            chunk.too_long = true;
            chunk.length = 0;
        }
        chunk
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.input.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

impl<R: Read + Send + 'static> Cut for Chunks<R> {
    type Unit = Chunk;

    fn next(&mut self, spare: Chunk) -> Result<Option<Chunk>> {
        // One huge line must not be paid for to the end.
        let spare = if spare.bytes.len() > 4 * CHUNK {
            Chunk::default()
        } else {
            spare
        };
        Ok(self.cut(spare)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_cut_after_newlines() {
        let mut text = Vec::new();
        for number in 0..100_000 {
            text.extend_from_slice(format!("line {number}\n").as_bytes());
        }
        text.extend_from_slice(b"no newline");
        let mut chunks = Chunks::new(io::Cursor::new(text.clone()));
        let (mut back, mut spare, mut pieces) = (Vec::new(), Chunk::default(), 0);
        while let Some(chunk) = chunks.next(spare).expect("memory does not fail") {
            assert_eq!(chunk.offset, back.len() as u64);
            assert_eq!(chunk.terminated, chunk.bytes().ends_with(b"\n"));
            back.extend_from_slice(chunk.bytes());
            spare = chunk;
            pieces += 1;
        }
        assert!(back == text && pieces > 4, "{pieces} pieces");
    }

    #[test]
    fn a_huge_line_is_dropped_in_bounded_memory() {
        let input = b"x\n"
            .chain(io::repeat(b'y').take(100 << 20))
            .chain(&b"\nz\n"[..]);
        let mut chunks = Chunks::new(input);
        let mut seen = Vec::new();
        while let Some(chunk) = chunks.next(Chunk::default()).expect("memory does not fail") {
            assert!(
                chunk.bytes.len() <= 3 * LONGEST_LINE,
                "{}",
                chunk.bytes.len()
            );
            seen.push((chunk.offset, chunk.too_long, chunk.length, chunk.terminated));
        }
        assert_eq!(
            seen,
            [
                (0, false, 2, true),
                (2, true, 0, true),
                ((100 << 20) + 3, false, 2, true)
            ]
        );
    }
}
