//! What a trace holds so far, for others to look at meanwhile, and what is done with it.

use event::{Extent, Record};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What has been seen so far, counted by the writer of the trace.
#[derive(Debug, Default)]
pub struct LiveCounts {
    events: AtomicU64,
    lost: AtomicU64,
    stage: AtomicU8,
}

/// What is done with the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    Recording,
    Writing,
    Packing,
    Ordering,
    Repairing,
}

impl Stage {
    const ALL: [Stage; 5] = [
        Stage::Recording,
        Stage::Writing,
        Stage::Packing,
        Stage::Ordering,
        Stage::Repairing,
    ];
}

impl LiveCounts {
    pub fn add(&self, record: &Record) {
        match record {
            Record::Event(event) if event.extent != Extent::Open => {
                // Only the writer counts: nobody else's count is overwritten.
                let events = self.events.load(Ordering::Relaxed);
                self.events.store(events + 1, Ordering::Relaxed);
            }
            Record::Lost(lost) => {
                self.lost.fetch_add(lost.count, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// A record that is not written.
    pub fn add_lost(&self, record: &Record) {
        let count = match record {
            Record::Event(event) => u64::from(event.extent != Extent::Open),
            Record::Lost(lost) => lost.count,
            Record::Meaning(_) => 1,
        };
        self.lost.fetch_add(count, Ordering::Relaxed);
    }

    pub fn does(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// Events so far, and how many were lost.
    pub fn counts(&self) -> (u64, u64) {
        let [events, lost] = [&self.events, &self.lost].map(|it| it.load(Ordering::Relaxed));
        (events, lost)
    }

    pub fn stage(&self) -> Stage {
        let number = usize::from(self.stage.load(Ordering::Relaxed));
        Stage::ALL.get(number).copied().unwrap_or(Stage::Writing)
    }
}
