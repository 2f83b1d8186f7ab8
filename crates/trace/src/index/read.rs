//! Reading one segment: the trace's head, the dictionaries in force, and the segment's own bytes go to the same reader as a
//! whole trace.

use super::{Index, MOST_RECORDS, dictionaries::in_force};
use crate::{Error, Parts, Reader, Result};
use event::Record;
use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    sync::Arc,
};

impl Index {
    /// The records of a segment, or those of one event. A span that began in an earlier one is known by its end only.
    pub fn read(&self, file: &Arc<File>, number: usize, parts: Parts) -> Result<Vec<Record>> {
        let most = self.segments.get(number).map_or(0, |found| found.records);
        let mut records = Vec::with_capacity(most.min(MOST_RECORDS) as usize);
        let Some(range) = self.range(number) else {
            return Ok(records);
        };
        let mut ranges = VecDeque::from([(0, self.head)]);
        let needed = in_force(&self.dictionaries, range.0);
        ranges.extend(needed.iter().map(|found| (found.offset, found.length)));
        ranges.push_back(range);
        let input = Splice {
            file: Arc::clone(file),
            ranges,
        };
        let mut reader = Reader::with(input, None, parts)?;
        while records.len() < most as usize {
            match reader.next() {
                None => break,
                Some(record) => records.push(record?),
            }
        }
        if records.len() < most as usize && parts.only.is_none() {
            return Err(Error::NotATrace(
                "its index says more than there is: the trace has changed".into(),
            ));
        }
        Ok(records)
    }
}

/// Pieces of a file, one after the other.
struct Splice {
    file: Arc<File>,
    /// Where each begins and how long it is.
    ranges: VecDeque<(u64, u64)>,
}

impl Read for Splice {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some((offset, length)) = self.ranges.front_mut() {
            let most = (buffer.len() as u64).min(*length) as usize;
            let count = match most {
                0 => 0,
                _ => self.file.read_at(&mut buffer[..most], *offset)?,
            };
            if count > 0 || buffer.is_empty() {
                *offset += count as u64;
                *length -= count as u64;
                return Ok(count);
            }
            self.ranges.pop_front();
        }
        Ok(0)
    }
}
