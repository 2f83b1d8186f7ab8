//! A trace whose disk was full before its end: what is in it is counted, what is missing is said in it.

use super::file::STDOUT;
use analyse::{Analysis, Report};
use event::{Meta, Summary, Tally};
use std::{
    fmt,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    sync::{Arc, Mutex},
};
use trace::{Format, Reader, Writer};

/// Room that is made for the last line. A file system takes and gives blocks.
const ROOM: u64 = 16 << 10;

pub struct Cut<'a> {
    pub path: &'a Path,
    pub meta: &'a Meta,
    /// Events that had been written when writing failed, buffers included.
    pub kept: u64,
}

/// Events that could not be written.
#[derive(Clone, Copy)]
pub struct Missing {
    pub events: u64,
    /// Of what is no file nobody knows how much arrived.
    pub is_exact: bool,
}

impl Missing {
    pub const NONE: Missing = Missing {
        events: 0,
        is_exact: true,
    };
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = if self.is_exact { "" } else { "at least " };
        write!(f, "{least}{} events are not in it", self.events)
    }
}

impl Cut<'_> {
    /// Makes the trace and its summary agree: what is missing, and what it says.
    pub fn repair(&self, summary: &mut Summary, analysis: Analysis) -> (Missing, Report) {
        let all = summary.events;
        let is_jsonl = Format::of(self.path).is_none_or(|format| format == Format::Jsonl);
        let is_file = self.path != Path::new(STDOUT)
            && std::fs::metadata(self.path).is_ok_and(|found| found.is_file());
        let whole_lines = is_file && is_jsonl && self.cut_to_whole_lines().is_ok();
        let read = is_file.then(|| self.read_back()).flatten();
        let is_exact = read.is_some();
        let (kept, analysis) = match read {
            Some((found, analysis)) => {
                (summary.open, summary.counts) = (found.open, found.counts);
                (found.events, analysis)
            }
            None => (self.kept, analysis),
        };
        let missing = Missing {
            events: all.saturating_sub(kept),
            is_exact,
        };
        summary.events = kept;
        summary.lost = summary.lost.saturating_add(missing.events);
        if whole_lines {
            // Where even this fails, the trace has no last line, which readers take for an end by force.
            let _ = self.append(summary);
        }
        (missing, analysis.finish(Some(summary)))
    }

    fn cut_to_whole_lines(&self) -> io::Result<()> {
        let mut file = File::options().read(true).write(true).open(self.path)?;
        let length = file.metadata()?.len();
        let until = if length > 4 * ROOM {
            length - ROOM
        } else {
            length
        };
        // A line is far shorter than this, but for stacks.
        let from = until.saturating_sub(1 << 20);
        let mut end = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        (&file).take(until - from).read_to_end(&mut end)?;
        let newline = end.iter().rposition(|byte| *byte == b'\n');
        let whole = newline.map_or(0, |place| place as u64 + 1);
        file.set_len(from + whole)
    }

    fn read_back(&self) -> Option<(Summary, Analysis)> {
        let mut reader = Reader::new(File::open(self.path).ok()?, Format::of(self.path)).ok()?;
        let (mut tally, mut analysis) = (Tally::default(), Analysis::new(self.meta));
        while let Ok(Some(records)) = reader.next_batch() {
            for record in records {
                tally.add(record);
                analysis.add(record);
            }
        }
        Some((tally.summary(reader.open_spans() as u64), analysis))
    }

    /// The last line, as the writer writes it.
    fn append(&self, summary: &Summary) -> anyhow::Result<()> {
        let text = Shared::default();
        let writer = Writer::new(text.clone(), Format::Jsonl, self.meta)?;
        writer.finish_with(summary)?;
        let text = text.0.lock().unwrap_or_else(|broken| broken.into_inner());
        let lines = text.strip_suffix(b"\n").unwrap_or(&text);
        let start = lines.iter().rposition(|byte| *byte == b'\n');
        let last = &text[start.map_or(0, |place| place + 1)..];
        File::options()
            .append(true)
            .open(self.path)?
            .write_all(last)?;
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
