//! Cutting a file into lines with bounded memory, whatever the file holds.

use super::LONGEST_LINE;
use std::io::{self, Read};

pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// What is filled and not yet handed out.
    start: usize,
    end: usize,
    ended: bool,
    number: u64,
    offset: u64,
}

/// Where a line is in the buffer and in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub range: std::ops::Range<usize>,
    pub number: u64,
    pub offset: u64,
    /// Without a newline at its end the line may be cut off.
    pub terminated: bool,
    /// Longer than a line may be; its contents were dropped.
    pub too_long: bool,
}

const FIRST_BUFFER: usize = 256 << 10;

impl<R: Read> Lines<R> {
    pub fn new(input: R) -> Self {
        Lines {
            input,
            buffer: vec![0; FIRST_BUFFER],
            start: 0,
            end: 0,
            ended: false,
            number: 0,
            offset: 0,
        }
    }

    /// The bytes of the line that was handed out last.
    pub fn bytes(&self, line: &Line) -> &[u8] {
        &self.buffer[line.range.clone()]
    }

    /// The next line without its newline; None at the end.
    pub fn next(&mut self) -> io::Result<Option<Line>> {
        let mut searched = self.start;
        let mut dropped = 0u64;
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[searched..self.end]) {
                return Ok(Some(self.hand_out(searched + found, true, dropped)));
            }
            searched = self.end;
            if self.ended {
                let rest = self.start < self.end || dropped > 0;
                return Ok(rest.then(|| self.hand_out(self.end, false, dropped)));
            }
            if self.end - self.start > LONGEST_LINE {
                dropped += (self.end - self.start) as u64;
                self.start = self.end;
            }
            let moved = self.make_room();
            searched -= moved;
            self.fill()?;
        }
    }

    fn hand_out(&mut self, end: usize, terminated: bool, dropped: u64) -> Line {
        let range = self.start..end;
        self.number += 1;
        let too_long = dropped > 0 || range.len() > LONGEST_LINE;
        let line = Line {
            number: self.number,
            offset: self.offset,
            terminated,
            too_long,
            range,
        };
        self.start = end + usize::from(terminated);
        self.offset += dropped + (line.range.len() + usize::from(terminated)) as u64;
        line
    }

    /// Move what is left to the front, grow if that is not enough. Returns how far it moved.
    fn make_room(&mut self) -> usize {
        let moved = self.start;
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= moved;
        self.start = 0;
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        moved
    }

    fn fill(&mut self) -> io::Result<()> {
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    self.ended = count == 0;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_carry_their_place() {
        let mut lines = Lines::new(&b"ab\n\ncd"[..]);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().expect("memory does not fail") {
            seen.push((
                lines.bytes(&line).to_vec(),
                line.number,
                line.offset,
                line.terminated,
            ));
        }
        let expected: [(&[u8], u64, u64, bool); 3] =
            [(b"ab", 1, 0, true), (b"", 2, 3, true), (b"cd", 3, 4, false)];
        assert_eq!(
            seen,
            expected.map(|(bytes, n, offset, end)| (bytes.to_vec(), n, offset, end))
        );
    }

    #[test]
    fn a_huge_line_is_dropped_in_bounded_memory() {
        let input = b"x\n"
            .chain(io::repeat(b'y').take(100 << 20))
            .chain(&b"\nz\n"[..]);
        let mut lines = Lines::new(input);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().expect("memory does not fail") {
            seen.push((line.number, line.offset, line.too_long));
        }
        assert_eq!(
            seen,
            [(1, 0, false), (2, 2, true), (3, (100 << 20) + 3, false)]
        );
        assert!(
            lines.buffer.len() <= 2 * LONGEST_LINE,
            "{}",
            lines.buffer.len()
        );
    }
}
