//! NVTX ranges: how often and how long the program was in each, and what the GPU did for the calls
//! made inside.
//!
//! Ranges of one name are one row. GPU work belongs to every range that was open, on the thread or in
//! the process, when the call that started it was made; its time is a union, for work overlaps.

use crate::intervals::LateUnion;
use event::{Event, Extent, Kind, Name, Value};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What the program's own words for its work come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ranges {
    /// Most time first.
    pub ranges: Vec<Range>,
    pub marks: u64,
    /// Ranges whose names came when there were too many.
    pub left_out: u64,
}

/// All ranges of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Range {
    pub name: Name,
    pub domain: Option<Name>,
    /// It may begin on one thread and end on another.
    pub of_process: bool,
    pub count: u64,
    /// Those that never ended.
    pub open: u64,
    pub total_ns: u64,
    pub max_ns: u64,
    pub max_op_id: Option<u64>,
    /// GPU work that calls inside of it started.
    pub gpu_operations: u64,
    /// How long at least one of these ran.
    pub gpu_ns: u64,
    /// From the first of them to the last: the range as the GPU had it, all of its turns together.
    pub gpu_start_ns: Option<u64>,
    pub gpu_end_ns: Option<u64>,
}

const MOST_NAMES: usize = 4096;
const MOST_THREADS: usize = 65_536;
/// Ranges open at a time, on one thread or in one process.
const DEEPEST: usize = 256;
/// Combinations of open ranges that calls were made in.
const MOST_SETS: usize = 65_536;
/// Calls whose work may yet come, as in `correlation`.
const PLACES: usize = 65_536;

#[derive(Default)]
pub(crate) struct RangeSweep {
    rows: Vec<Row>,
    names: HashMap<(Name, Option<Name>, bool), u32>,
    threads: HashMap<(u32, u32), Vec<(u64, u32)>>,
    processes: HashMap<u32, Vec<(u64, u32)>>,
    sets: Vec<Box<[u32]>>,
    set_numbers: HashMap<Box<[u32]>, u32>,
    calls: Vec<Option<CallInRanges>>,
    marks: u64,
    left_out: u64,
}

struct Row {
    range: Range,
    gpu: LateUnion,
}

#[derive(Clone, Copy)]
struct CallInRanges {
    pid: u32,
    correlation: u64,
    set: u32,
}

impl RangeSweep {
    /// A range or a mark.
    pub fn range(&mut self, event: &Event) {
        let of_process = event.kind == Kind::ProcessRange;
        match event.extent {
            Extent::Instant => self.marks += 1,
            Extent::Open => {
                let Some(row) = self.row(event, of_process) else {
                    self.left_out += 1;
                    return;
                };
                self.rows[row as usize].range.open += 1;
                let open = if of_process {
                    self.processes.entry(event.pid).or_default()
                } else if self.threads.len() < MOST_THREADS {
                    self.threads.entry((event.pid, event.tid)).or_default()
                } else {
                    return;
                };
                if open.len() < DEEPEST {
                    open.push((event.id, row));
                }
            }
            Extent::Closed(duration) => {
                let open = if of_process {
                    self.processes.get_mut(&event.pid)
                } else {
                    self.threads.get_mut(&(event.pid, event.tid))
                };
                let begun = open.and_then(|open| {
                    let place = open.iter().rposition(|(id, _)| *id == event.id)?;
                    Some(open.remove(place).1)
                });
                let was_open = begun.is_some();
                let Some(row) = begun.or_else(|| self.row(event, of_process)) else {
                    return;
                };
                let range = &mut self.rows[row as usize].range;
                range.open -= u64::from(was_open && range.open > 0);
                range.count += 1;
                range.total_ns = range.total_ns.saturating_add(duration);
                if duration >= range.max_ns {
                    (range.max_ns, range.max_op_id) = (duration, Some(event.id));
                }
            }
        }
    }

    fn row(&mut self, event: &Event, of_process: bool) -> Option<u32> {
        let domain = event.arg("domain").and_then(|domain| match domain {
            Value::Str(name) => Some(name.clone()),
            _ => None,
        });
        let key = (event.name.clone(), domain, of_process);
        if let Some(&row) = self.names.get(&key) {
            return Some(row);
        }
        if self.rows.len() >= MOST_NAMES {
            return None;
        }
        let row = self.rows.len() as u32;
        self.rows.push(Row {
            range: Range {
                name: key.0.clone(),
                domain: key.1.clone(),
                of_process,
                count: 0,
                open: 0,
                total_ns: 0,
                max_ns: 0,
                max_op_id: None,
                gpu_operations: 0,
                gpu_ns: 0,
                gpu_start_ns: None,
                gpu_end_ns: None,
            },
            gpu: LateUnion::default(),
        });
        self.names.insert(key, row);
        Some(row)
    }

    /// A call begins that may start work on the GPU.
    #[inline]
    pub fn call(&mut self, event: &Event) {
        if self.rows.is_empty() {
            return;
        }
        let Some(correlation) = event.correlation else {
            return;
        };
        let own = self.threads.get(&(event.pid, event.tid));
        let all = self.processes.get(&event.pid);
        let open = own.into_iter().chain(all).flatten().map(|(_, row)| *row);
        let mut rows: Vec<u32> = open.collect();
        if rows.is_empty() {
            return;
        }
        rows.sort_unstable();
        rows.dedup();
        let Some(set) = self.set(rows.into()) else {
            return;
        };
        if self.calls.is_empty() {
            self.calls.resize(PLACES, None);
        }
        self.calls[place_of(event.pid, correlation)] = Some(CallInRanges {
            pid: event.pid,
            correlation,
            set,
        });
    }

    fn set(&mut self, rows: Box<[u32]>) -> Option<u32> {
        if let Some(&set) = self.set_numbers.get(&rows) {
            return Some(set);
        }
        if self.sets.len() >= MOST_SETS {
            return None;
        }
        let set = self.sets.len() as u32;
        self.sets.push(rows.clone());
        self.set_numbers.insert(rows, set);
        Some(set)
    }

    /// GPU work has ended.
    pub fn gpu(&mut self, event: &Event, duration: u64) {
        let Some(correlation) = event.correlation else {
            return;
        };
        let call = self.calls.get(place_of(event.pid, correlation));
        let Some(call) = call.copied().flatten() else {
            return;
        };
        if (call.pid, call.correlation) != (event.pid, correlation) {
            return;
        }
        let end = event.start.saturating_add(duration);
        for &row in &*self.sets[call.set as usize] {
            let Row { range, gpu } = &mut self.rows[row as usize];
            range.gpu_operations += 1;
            gpu.add(event.start, end);
            let first = range
                .gpu_start_ns
                .map_or(event.start, |at| at.min(event.start));
            range.gpu_start_ns = Some(first);
            range.gpu_end_ns = Some(range.gpu_end_ns.map_or(end, |at| at.max(end)));
        }
    }

    pub fn finish(self) -> Ranges {
        let rows = self.rows.into_iter().map(|row| Range {
            gpu_ns: row.gpu.length(),
            ..row.range
        });
        let mut ranges: Vec<Range> = rows.collect();
        ranges.sort_by(|a, b| {
            b.total_ns
                .cmp(&a.total_ns)
                .then_with(|| a.name.cmp(&b.name))
        });
        Ranges {
            ranges,
            marks: self.marks,
            left_out: self.left_out,
        }
    }
}

fn place_of(pid: u32, correlation: u64) -> usize {
    (correlation.wrapping_add(u64::from(pid).wrapping_mul(0x9e37)) % PLACES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Arg, Category, Layer};

    fn range(id: u64, name: &str, tid: u32, start: u64, extent: Extent) -> Event {
        let mut event = Event::new(id, Layer::Library, Category::Other, name, start);
        (event.kind, event.extent) = (Kind::Range, extent);
        (event.pid, event.tid) = (1, tid);
        event
    }

    fn launch(id: u64, tid: u32, start: u64) -> Event {
        let mut event = Event::new(id, Layer::Driver, Category::Kernel, "cuLaunchKernel", start);
        (event.pid, event.tid, event.correlation) = (1, tid, Some(id));
        event.extent = Extent::Open;
        event
    }

    fn work(cause: u64, start: u64, duration: u64) -> Event {
        let mut event = Event::new(1000 + cause, Layer::Gpu, Category::Kernel, "k", start);
        (event.pid, event.correlation) = (1, Some(cause));
        event.extent = Extent::Closed(duration);
        event
    }

    #[test]
    fn work_belongs_to_the_ranges_its_call_was_made_in() {
        let mut sweep = RangeSweep::default();
        let gpu = |sweep: &mut RangeSweep, event: &Event| {
            sweep.gpu(event, event.duration().expect("ended"));
        };
        sweep.range(&range(1, "outer", 1, 0, Extent::Open));
        sweep.range(&range(2, "inner", 1, 10, Extent::Open));
        sweep.call(&launch(3, 1, 20));
        sweep.range(&range(2, "inner", 1, 10, Extent::Closed(20)));
        sweep.call(&launch(4, 1, 40));
        // Another thread is in no range.
        sweep.call(&launch(5, 2, 45));
        sweep.range(&range(1, "outer", 1, 0, Extent::Closed(60)));
        sweep.call(&launch(6, 1, 70));
        // The GPU is late: the ranges are over when it works, and what overlaps counts once.
        gpu(&mut sweep, &work(3, 100, 10));
        gpu(&mut sweep, &work(5, 100, 12));
        gpu(&mut sweep, &work(4, 105, 10));
        gpu(&mut sweep, &work(6, 200, 10));
        let found = sweep.finish();
        let row = |name: &str| {
            let found = found.ranges.iter().find(|range| &*range.name == name);
            let found = found.expect("a row");
            (
                found.count,
                found.total_ns,
                found.gpu_operations,
                found.gpu_ns,
            )
        };
        assert_eq!(row("outer"), (1, 60, 2, 15));
        assert_eq!(row("inner"), (1, 20, 1, 10));
        assert_eq!(found.ranges[0].gpu_start_ns, Some(100));
        assert_eq!(found.ranges[0].gpu_end_ns, Some(115));
    }

    #[test]
    fn a_range_of_the_process_holds_every_threads_calls() {
        let mut sweep = RangeSweep::default();
        let mut whole = range(1, "whole", 1, 0, Extent::Open);
        whole.kind = Kind::ProcessRange;
        whole.args = vec![Arg::new("domain", "mine")];
        sweep.range(&whole);
        sweep.call(&launch(2, 9, 5));
        whole.extent = Extent::Closed(30);
        sweep.range(&whole);
        sweep.gpu(&work(2, 50, 7), 7);
        sweep.range(&range(3, "left open", 1, 60, Extent::Open));
        sweep.range(&range(4, "mark", 1, 61, Extent::Instant));
        let found = sweep.finish();
        assert_eq!((found.marks, found.ranges.len()), (1, 2));
        let whole = &found.ranges[0];
        assert_eq!(whole.domain.as_deref(), Some("mine"));
        assert_eq!((whole.of_process, whole.gpu_ns, whole.open), (true, 7, 0));
        assert_eq!((found.ranges[1].count, found.ranges[1].open), (0, 1));
    }

    #[test]
    fn names_without_end_are_counted_and_not_kept() {
        let mut sweep = RangeSweep::default();
        for id in 0..MOST_NAMES as u64 + 10 {
            sweep.range(&range(id, &format!("range {id}"), 1, id, Extent::Open));
            sweep.range(&range(id, &format!("range {id}"), 1, id, Extent::Closed(1)));
        }
        let found = sweep.finish();
        assert_eq!((found.ranges.len(), found.left_out), (MOST_NAMES, 10));
    }
}
