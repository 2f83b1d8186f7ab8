//! Which record is next: the earliest of all sources, once nothing earlier can come.

use super::Entry;
use event::{Name, Record, Reorder};
use std::collections::VecDeque;

/// Records kept while a source is behind; beyond, they are let go and latecomers counted.
const MOST_KEPT: usize = 1 << 20;

/// One source's records that wait, and how far it is.
#[derive(Debug)]
struct Backlog {
    name: Name,
    entries: WaitingEntries,
    /// It says how far it is; others are taken to be a window behind the clock.
    told: Option<u64>,
    done: bool,
}

/// Entries as they were handed in: each is moved once, when its turn comes.
#[derive(Debug, Default)]
struct WaitingEntries(VecDeque<std::vec::IntoIter<Entry>>);

impl WaitingEntries {
    fn push(&mut self, entries: Vec<Entry>) {
        if !entries.is_empty() {
            self.0.push_back(entries.into_iter());
        }
    }

    fn front(&self) -> Option<&Entry> {
        self.0.front()?.as_slice().first()
    }

    fn pop_front(&mut self) -> Option<Entry> {
        let first = self.0.front_mut()?;
        let entry = first.next();
        if first.as_slice().is_empty() {
            self.0.pop_front();
        }
        entry
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The sources, side by side.
#[derive(Debug)]
pub(super) struct Backlogs {
    sources: Vec<Backlog>,
    /// Each source that has records, by the time of its first, but for the one whose turn it is.
    next: Reorder<usize>,
    /// The source of the last entry, if its next one comes before all others'.
    turn: Option<(u64, usize)>,
    /// Ends of spans that have begun, by the time of the end and the source.
    ends: Reorder<(usize, Record)>,
    kept: usize,
}

impl Default for Backlogs {
    fn default() -> Self {
        Backlogs {
            sources: Vec::new(),
            next: Reorder::new(usize::MAX),
            turn: None,
            ends: Reorder::new(usize::MAX),
            kept: 0,
        }
    }
}

impl Backlogs {
    pub fn add(&mut self, name: Name) {
        self.sources.push(Backlog {
            name,
            entries: WaitingEntries::default(),
            told: None,
            done: false,
        });
    }

    pub fn len(&self) -> usize {
        self.sources.len()
    }

    pub fn name(&self, source: usize) -> Option<&Name> {
        self.sources.get(source).map(|source| &source.name)
    }

    pub fn push(&mut self, place: usize, entries: Vec<Entry>) {
        if let Some(source) = self.sources.get_mut(place) {
            if let (true, Some(first)) = (source.entries.is_empty(), entries.first()) {
                // It may come before the one whose turn it would have been.
                if let Some((time, turn)) = self.turn.take() {
                    self.next.push_ranked(time, turn as u32, turn);
                }
                self.next.push_ranked(first.ts(), place as u32, place);
            }
            self.kept += entries.len();
            source.entries.push(entries);
        }
    }

    pub fn until(&mut self, source: usize, ns: u64) {
        if let Some(source) = self.sources.get_mut(source) {
            source.told = source.told.max(Some(ns));
        }
    }

    pub fn done(&mut self, source: usize) {
        if let Some(source) = self.sources.get_mut(source) {
            source.done = true;
        }
    }

    pub fn all_done(&self) -> bool {
        self.sources.iter().all(|source| source.done)
    }

    /// When the earliest record that waits is of.
    pub fn earliest(&self) -> Option<u64> {
        let first = (self.turn.map(|(time, _)| time)).or_else(|| self.next.earliest());
        first.into_iter().chain(self.ends.earliest()).min()
    }

    /// Nothing older than this is left or will come; None when nothing at all will.
    pub fn passed(&self, idle: u64) -> Option<u64> {
        let left = self.sources.iter().filter_map(|source| {
            let first = source.entries.front().map(Entry::ts);
            first.or_else(|| (!source.done).then(|| source.told.unwrap_or(idle)))
        });
        left.chain(self.ends.earliest()).min()
    }

    /// The next record and its source. `idle` is the moment before which a source that says
    /// nothing has nothing.
    pub fn next(&mut self, idle: u64) -> Option<(usize, Entry)> {
        let time = self.earliest()?;
        if self.kept <= MOST_KEPT && !self.nothing_before(time, idle) {
            return None;
        }
        if self.end_is_next(time) {
            let (_, (place, record)) = self.ends.next(u64::MAX)?;
            self.kept -= 1;
            return Some((place, Entry::End(record)));
        }
        let (_, place) = match self.turn.take() {
            Some(turn) => turn,
            None => self.next.next(u64::MAX)?,
        };
        self.kept -= 1;
        let source = &mut self.sources[place];
        let entry = source.entries.pop_front()?;
        if let Some(following) = source.entries.front() {
            let time = following.ts();
            if self.next.would_be_next(time, place as u32) {
                self.turn = Some((time, place));
            } else {
                self.next.push_ranked(time, place as u32, place);
            }
        }
        Some((place, entry))
    }

    /// Whether every source is past that moment.
    fn nothing_before(&self, time: u64, idle: u64) -> bool {
        self.sources.iter().all(|source| {
            // A source's own records come in their order: one that waits is the earliest of it.
            source.done || !source.entries.is_empty() || source.told.unwrap_or(idle) >= time
        })
    }

    /// Whether the earliest, of that time, is the end of a span. Of one moment and one source it is: what comes next there
    /// came after the span.
    fn end_is_next(&self, time: u64) -> bool {
        let Some((end, rank)) = self.ends.first() else {
            return false;
        };
        let is_later = |other: (u64, u32)| (end, rank) <= other;
        end == time
            && self
                .turn
                .is_none_or(|(time, place)| is_later((time, place as u32)))
            && self.next.first().is_none_or(is_later)
    }

    /// Whether a span of that source, whose beginning is next, ends before anything else happens.
    pub fn ends_at_once(&self, source: usize, end: u64, idle: u64) -> bool {
        let is_later = |other: (u64, u32)| (end, source as u32) <= other;
        self.turn
            .is_none_or(|(time, place)| is_later((time, place as u32)))
            && self.next.first().is_none_or(is_later)
            && self.ends.first().is_none_or(is_later)
            && self.nothing_before(end, idle)
    }

    /// The end of a span that has begun waits for its turn.
    pub fn keep_end(&mut self, source: usize, record: Record) {
        self.kept += 1;
        self.ends
            .push_ranked(record.ts(), source as u32, (source, record));
    }
}
