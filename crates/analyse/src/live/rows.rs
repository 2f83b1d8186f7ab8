//! Functions and kernels by process and thread: how often, how long, and their last call.

use super::{Histogram, Scope, Sums};
use crate::SymbolId;
use event::{Arg, Event, Name};
use std::collections::{HashMap, hash_map::Entry};

/// One function on one thread, or one kernel of a process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    pub sums: Sums,
    pub durations: Histogram,
    pub last: Option<Box<LastCall>>,
}

/// A call of late: its arguments and what it returned.
#[derive(Debug, Clone, PartialEq)]
pub struct LastCall {
    pub pid: u32,
    pub tid: u32,
    pub start_ns: u64,
    pub duration_ns: u64,
    pub args: Vec<Arg>,
    pub outputs: Vec<Arg>,
    pub result: Option<Name>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    pid: u32,
    /// 0 for work of the GPU.
    tid: u32,
    symbol: SymbolId,
}

/// All rows, and what no longer had a place.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: HashMap<Key, Row, ahash::RandomState>,
    /// By symbol: rows that came when there were too many.
    further: HashMap<SymbolId, Row, ahash::RandomState>,
}

const MOST_ROWS: usize = 16_384;
/// Arguments are copied for one call in this time, not for each.
const ARGUMENTS_EVERY: u64 = 50_000_000;
/// Texts of programs may be long.
const MOST_ARGUMENTS: usize = 32;

impl Rows {
    fn row(&mut self, key: Key) -> &mut Row {
        let has_room = self.rows.len() < MOST_ROWS;
        match self.rows.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) if has_room => free.insert(Row::default()),
            Entry::Vacant(_) => self.further.entry(key.symbol).or_default(),
        }
    }

    pub fn call(
        &mut self,
        event: &Event,
        symbol: SymbolId,
        duration: u64,
        self_ns: u64,
        failed: bool,
    ) {
        let row = self.row(Key {
            pid: event.pid,
            tid: event.tid,
            symbol,
        });
        row.sums.count += 1;
        row.sums.total_ns = row.sums.total_ns.saturating_add(duration);
        row.sums.self_ns = row.sums.self_ns.saturating_add(self_ns);
        row.sums.failed += u64::from(failed);
        row.durations.add(duration);
        row.remember(event, duration);
    }

    pub fn work(&mut self, event: &Event, symbol: SymbolId, duration: u64) {
        let row = self.row(Key {
            pid: event.pid,
            tid: 0,
            symbol,
        });
        row.sums.count += 1;
        row.sums.total_ns = row.sums.total_ns.saturating_add(duration);
        row.sums.self_ns = row.sums.self_ns.saturating_add(duration);
        row.durations.add(duration);
        row.remember(event, duration);
    }

    pub fn launch(&mut self, pid: u32, symbol: SymbolId) {
        self.row(Key {
            pid,
            tid: 0,
            symbol,
        })
        .sums
        .launches += 1;
    }

    pub fn forget(&mut self, pid: u32) {
        self.rows.retain(|key, _| key.pid != pid);
    }

    pub fn threads(&self, pid: u32) -> Vec<u32> {
        let mut threads: Vec<u32> = (self.rows.keys())
            .filter(|key| key.pid == pid && key.tid != 0)
            .map(|key| key.tid)
            .collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// GPU work belongs to a process, not to one of its threads.
    fn in_scope(&self, scope: Scope) -> impl Iterator<Item = (SymbolId, &Row)> {
        let rows = self.rows.iter().filter(move |(key, _)| match key.tid {
            0 => scope.is_of(key.pid),
            tid => scope.has((key.pid, tid)),
        });
        let further = self.further.iter().filter(move |_| scope == Scope::All);
        rows.map(|(key, row)| (key.symbol, row))
            .chain(further.map(|(symbol, row)| (*symbol, row)))
    }

    /// Every row: its process (0 where it is not known any more), its symbol.
    pub fn all(&self) -> impl Iterator<Item = (u32, SymbolId, &Row)> {
        let rows = self
            .rows
            .iter()
            .map(|(key, row)| (key.pid, key.symbol, row));
        rows.chain(self.further.iter().map(|(symbol, row)| (0, *symbol, row)))
    }

    pub fn one(&self, scope: Scope, wanted: SymbolId) -> Row {
        let mut one = Row::default();
        (self.in_scope(scope).filter(|(symbol, _)| *symbol == wanted))
            .for_each(|(_, row)| one.take_in(row));
        one
    }

    pub fn sums(&self, scope: Scope) -> HashMap<SymbolId, Sums, ahash::RandomState> {
        let mut all: HashMap<SymbolId, Sums, ahash::RandomState> = HashMap::default();
        for (symbol, row) in self.in_scope(scope) {
            all.entry(symbol).or_default().add(&row.sums);
        }
        all
    }
}

impl Row {
    fn remember(&mut self, event: &Event, duration: u64) {
        let is_recent = (self.last.as_ref())
            .is_some_and(|last| event.start < last.start_ns.saturating_add(ARGUMENTS_EVERY));
        if is_recent {
            return;
        }
        let few = |args: &[Arg]| args.iter().take(MOST_ARGUMENTS).cloned().collect();
        self.last = Some(Box::new(LastCall {
            pid: event.pid,
            tid: event.tid,
            start_ns: event.start,
            duration_ns: duration,
            args: few(&event.args),
            outputs: few(&event.outputs),
            result: event.status.as_ref().and_then(|status| status.name.clone()),
        }));
    }

    fn take_in(&mut self, other: &Row) {
        self.sums.add(&other.sums);
        self.durations.merge(&other.durations);
        let is_later = |last: &LastCall| {
            (self.last.as_ref()).is_none_or(|known| last.start_ns > known.start_ns)
        };
        if other.last.as_deref().is_some_and(is_later) {
            self.last = other.last.clone();
        }
    }
}
