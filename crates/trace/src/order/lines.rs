//! JSON lines are moved as they are; only their numbers are new.

use super::late::Late;
use crate::{Result, json::number::parse_fixed};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::Path,
};

const BUFFER: usize = 1 << 20;
const NUMBER: &[u8] = b"{\"event_id\":";
const TIME: &[u8] = b",\"ts\":";

pub fn order(path: &Path, out: File, mut late: Late) -> Result<u64> {
    let mut latest = i64::MIN;
    each_line(path, |line| {
        if let Some((time, rest)) = record(line) {
            if time < latest {
                late.push(time, rest)?;
            }
            latest = latest.max(time);
        }
        Ok(())
    })?;
    let moved = late.count;
    let mut late = late.sorted()?;
    let mut out = Numbered {
        out: BufWriter::with_capacity(BUFFER, out),
        number: 0,
    };
    let mut latest = i64::MIN;
    each_line(path, |line| match record(line) {
        Some((time, _)) if time < latest => Ok(()),
        Some((time, rest)) => {
            latest = time;
            while let Some(earlier) = late.before(time)? {
                out.record(&earlier)?;
            }
            out.record(rest)
        }
        // The head and the tail.
        None => out.out.write_all(line),
    })?;
    out.out.flush()?;
    Ok(moved)
}

struct Numbered {
    out: BufWriter<File>,
    number: u64,
}

impl Numbered {
    fn record(&mut self, rest: &[u8]) -> io::Result<()> {
        self.number += 1;
        let mut digits = itoa::Buffer::new();
        self.out.write_all(NUMBER)?;
        self.out.write_all(digits.format(self.number).as_bytes())?;
        self.out.write_all(rest)
    }
}

fn each_line(path: &Path, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(BUFFER, File::open(path)?);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        take(&line)?;
        line.clear();
    }
    Ok(())
}

/// A record's time, and its line behind its number. None: it is none that a tracer has written.
fn record(line: &[u8]) -> Option<(i64, &[u8])> {
    let rest = line.strip_prefix(NUMBER)?;
    let rest = &rest[rest.iter().position(|byte| !byte.is_ascii_digit())?..];
    let time = rest.strip_prefix(TIME)?;
    let time = &time[..memchr::memchr(b',', time)?];
    // The last line of a file that was cut off stays where it is.
    let whole = line.ends_with(b"}\n");
    let time = parse_fixed(std::str::from_utf8(time).ok()?, 6)?;
    whole.then_some((time, rest))
}
