//! Which record is next: the earliest of all sources, once nothing earlier can come.

use super::Entry;
use event::{Name, Reorder};
use std::collections::VecDeque;

/// Records kept while a source is behind; beyond, they are let go and latecomers counted.
const MOST_KEPT: usize = 1 << 20;

/// One source's records that wait, and how far it is.
#[derive(Debug)]
struct Source {
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
pub(super) struct Order {
    sources: Vec<Source>,
    /// Each source that has records, by the time of its first, but for the one whose turn it is.
    next: Reorder<usize>,
    /// The source of the last entry, if its next one comes before all others'.
    turn: Option<(u64, usize)>,
    kept: usize,
}

impl Default for Order {
    fn default() -> Self {
        Order {
            sources: Vec::new(),
            next: Reorder::new(usize::MAX),
            turn: None,
            kept: 0,
        }
    }
}

impl Order {
    pub fn add(&mut self, name: Name) {
        self.sources.push(Source {
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
        (self.turn.map(|(time, _)| time)).or_else(|| self.next.earliest())
    }

    /// Nothing older than this is left or will come; None when nothing at all will.
    pub fn passed(&self, idle: u64) -> Option<u64> {
        let left = self.sources.iter().filter_map(|source| {
            let first = source.entries.front().map(Entry::ts);
            first.or_else(|| (!source.done).then(|| source.told.unwrap_or(idle)))
        });
        left.min()
    }

    /// The next record and its source. `idle` is the moment before which a source that says
    /// nothing has nothing.
    pub fn next(&mut self, idle: u64) -> Option<(usize, Entry)> {
        let time = self.earliest()?;
        let passed = |source: &Source| {
            // A source's own records come in their order: one that waits is the earliest of it.
            source.done || !source.entries.is_empty() || source.told.unwrap_or(idle) >= time
        };
        if self.kept <= MOST_KEPT && !self.sources.iter().all(passed) {
            return None;
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
}
