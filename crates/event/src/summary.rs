//! The tail of a trace: how much there was, what is missing, what watching cost.

use crate::{Aggregate, ClockError, Extent, Record};
use alloc::{collections::BTreeMap, string::String, vec::Vec};

/// The last line of a trace.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Summary {
    /// CLOCK_MONOTONIC when tracing stopped.
    pub end_ns: u64,
    /// Spans, instants and meanings; a span counts once.
    pub events: u64,
    /// The same by `type`.
    pub counts: BTreeMap<String, u64>,
    /// Spans that never ended.
    pub open: u64,
    pub lost: u64,
    /// How the traced command ended: its exit status, or 128 and the signal.
    pub exit: Option<i32>,
    pub overhead: Option<Overhead>,
    /// The clocks' errors as known at the end, which is better than at the start.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub clocks: Vec<ClockError>,
    /// When hooks were in place: from the first attached to the first removed. None: all the time.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub watched: Option<Watched>,
    /// `--window`: how many windows there were. What was between them is not known either.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub windows: Option<u64>,
    /// Options by which calls were left out, as typed: `-e memory`. What is not in the trace may have happened.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub left_out: Vec<String>,
    /// The traced processes by name, as far as they are known.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub processes: Vec<ProcessName>,
    /// What hooks counted in the kernel instead of recording it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub aggregates: Vec<Aggregate>,
    /// `--sample`: how many calls were made for each that was recorded.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub sampled: Option<Sampled>,
    /// `--budget`: what was not recorded because it would have cost too much.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub shed: Option<Shed>,
}

/// What recording could cost, what it did, and what was not recorded for it. Calls that failed were.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Shed {
    /// Shares of the busiest thread's time.
    pub budget: f64,
    pub spent: f64,
    /// The part of what was spent that went to hooks which recorded nothing: less is not possible.
    pub hooks: f64,
    /// Calls that were made and are not in the trace, by what they are; of stacks, calls that have none.
    pub calls: BTreeMap<String, u64>,
}

impl Shed {
    /// What copies and launches are called in `calls`.
    pub const COPIES: &str = "small copies";
    pub const LAUNCHES: &str = "launches";

    pub fn launches(&self) -> u64 {
        self.of(Self::LAUNCHES)
    }

    /// Whether the GPU had work that the trace does not know.
    pub fn hides_work(&self) -> bool {
        self.launches() > 0 || self.of(Self::COPIES) > 0
    }

    fn of(&self, class: &str) -> u64 {
        self.calls.get(class).copied().unwrap_or(0)
    }
}

/// One of so many calls was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Sampled {
    /// One call of this many, by function; what other calls are understood by was always recorded.
    pub one_of: u32,
    /// Calls that were made and are not in the trace.
    pub not_recorded: u64,
}

/// A stretch of CLOCK_MONOTONIC in which events were recorded; what happened outside it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Watched {
    pub start_ns: u64,
    pub end_ns: u64,
}

/// What a process is called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct ProcessName {
    pub pid: u32,
    pub parent: Option<u32>,
    /// As `ps` shows it, without folders: `python3`.
    pub name: String,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub command: Vec<String>,
    /// Where it ran, if the trace is of several hosts, containers or ranks.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub origin: Option<ProcessOrigin>,
}

/// A process of a merged trace, as it was known where it ran.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct ProcessOrigin {
    pub host: String,
    pub rank: Option<u32>,
    /// Its number there.
    pub pid: u32,
}

/// The tracer's own measured cost.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Overhead {
    /// Spent in the traced program's threads, all together.
    pub total_ns: u64,
    pub per_event_ns: f64,
}

/// Counts records as they pass, in constant space, to make a summary of them.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    counts: [(&'static str, u64); 24],
    opened: u64,
    closed: u64,
    instants: u64,
    meanings: u64,
    lost: u64,
    end: u64,
}

impl Tally {
    /// Count one record. A span is two records, and closed spans that were never opened one.
    pub fn add(&mut self, record: &Record) {
        let mut counts = true;
        match record {
            Record::Event(event) => match event.extent {
                Extent::Open => {
                    self.opened += 1;
                    counts = false;
                }
                Extent::Closed(_) => self.closed += 1,
                Extent::Instant => self.instants += 1,
            },
            Record::Meaning(_) => self.meanings += 1,
            Record::Lost(lost) => {
                self.lost = self.lost.saturating_add(lost.count);
                counts = false;
            }
        }
        self.end = self.end.max(record.ts());
        if counts {
            self.bump(record.type_name());
        }
    }

    fn bump(&mut self, kind: &'static str) {
        // Few types, each a constant: a scan beats hashing.
        for (name, count) in &mut self.counts {
            if name.is_empty() {
                *name = kind;
            }
            if core::ptr::eq(*name, kind) || *name == kind {
                *count += 1;
                return;
            }
        }
    }

    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Spans that ended, instants and meanings, so far.
    pub fn events(&self) -> u64 {
        self.closed + self.instants + self.meanings
    }

    /// The summary as far as the records themselves say it; `open` spans never ended.
    pub fn summary(&self, open: u64) -> Summary {
        Summary {
            end_ns: self.end,
            events: self.events() + open,
            counts: (self.counts.iter())
                .filter(|(name, _)| !name.is_empty())
                .map(|&(name, count)| (name.into(), count))
                .collect(),
            open,
            lost: self.lost,
            ..Summary::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Category, Event, Kind, Layer, Lost};

    #[test]
    fn a_span_counts_once_and_losses_count_apart() {
        let mut tally = Tally::default();
        let mut event = Event::new(1, Layer::Driver, Category::Init, "cuInit", 10);
        event.extent = Extent::Open;
        tally.add(&event.clone().into());
        event.extent = Extent::Closed(5);
        tally.add(&event.clone().into());
        event.extent = Extent::Instant;
        event.kind = Kind::Scheduler;
        tally.add(&event.into());
        let lost = Lost {
            ts: 90,
            count: 7,
            source: None,
            layer: None,
            pid: None,
            tid: None,
        };
        tally.add(&lost.into());
        let summary = tally.summary(0);
        assert_eq!((summary.events, summary.lost, summary.end_ns), (2, 7, 90));
        let counts: Vec<_> = summary
            .counts
            .iter()
            .map(|(name, n)| (name.as_str(), *n))
            .collect();
        assert_eq!(counts, [("scheduler", 1), ("userspace", 1)]);
    }

    #[test]
    fn every_type_has_a_place() {
        // Kinds and three meanings; lost is not counted.
        assert!(Kind::ALL.len() + 3 <= Tally::default().counts.len());
    }
}
