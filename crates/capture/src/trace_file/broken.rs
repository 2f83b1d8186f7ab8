//! A trace whose disk was full before its end: what is in it is counted, what is missing is said in it.

use super::{Onlooker, destination::is_stream, stop_at};
use crate::notes::counted;
use event::{Meta, Summary, Tally};
use std::{fmt, fs::File, path::Path};
use trace::{Format, Reader};

/// Room that is made besides what the tail takes. A file system takes and gives blocks.
const ROOM: u64 = 16 << 10;
const TRIES: usize = 3;

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
        write!(
            f,
            "{least}{} not in it",
            counted(self.events, "event is", "events are")
        )
    }
}

impl Cut<'_> {
    /// Makes the trace and its summary agree: what is missing, and what its reader has seen.
    pub fn repair(&self, summary: &mut Summary, mut reader: Option<&mut dyn Onlooker>) -> Missing {
        let (all, lost) = (summary.events, summary.lost);
        let mut missing = Missing {
            events: all.saturating_sub(self.kept),
            is_exact: false,
        };
        summary.events = self.kept;
        summary.lost = lost.saturating_add(missing.events);
        let mut room = ROOM + trace::tail_size(self.path, self.meta, summary).unwrap_or(0);
        for _ in 0..TRIES {
            let is_file = !is_stream(self.path)
                && std::fs::metadata(self.path).is_ok_and(|found| found.is_file());
            let cut = is_file && trace::cut_to_whole(self.path, room).is_ok();
            let read = is_file.then(|| self.read_back(&mut reader)).flatten();
            let Some(found) = read else {
                break;
            };
            missing = Missing {
                events: all.saturating_sub(found.events),
                is_exact: true,
            };
            summary.lost = lost;
            stop_at(summary, &found, missing.events, self.meta);
            // Where even this fails, the trace has no tail, which readers take for an end by force.
            if !cut || trace::append_tail(self.path, self.meta, summary).is_ok() {
                break;
            }
            // Somebody else has taken the room.
            room *= 8;
        }
        missing
    }

    fn read_back(&self, reader: &mut Option<&mut dyn Onlooker>) -> Option<Summary> {
        let mut trace = Reader::new(File::open(self.path).ok()?, Format::of(self.path)).ok()?;
        let mut tally = Tally::default();
        if let Some(reader) = reader {
            reader.begin(self.meta);
        }
        while let Ok(Some(records)) = trace.next_batch() {
            for record in records {
                tally.add(record);
                if let Some(reader) = reader {
                    reader.see(record);
                }
            }
        }
        Some(tally.summary(trace.open_spans() as u64))
    }
}
