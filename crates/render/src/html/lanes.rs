//! The lanes of the timeline, a thread or a GPU stream each, with the spans open in them.

use super::{colour::COLOURS, rows::Rows};
use ahash::RandomState;
use event::{Event, Kind, Layer};
use serde::Serialize;
use std::collections::HashMap;

/// Lanes of their own at most; what comes later shares one lane.
const MAX_LANES: usize = 20_000;
/// Rows of all lanes together.
const MAX_ROWS: usize = 100_000;
/// Rows of one lane: deeper spans lie in the last.
pub const MAX_DEPTH: usize = 64;

/// Whose lane it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Owner {
    Thread {
        pid: u32,
        tid: u32,
    },
    Stream {
        device: u32,
        context: Option<u64>,
        stream: Option<u64>,
    },
    /// Probes inside GPU kernels: what ran on a multiprocessor, or what they sent.
    Probes {
        device: u32,
        sm: Option<u32>,
    },
    /// Faults and migrations of managed memory.
    Managed {
        device: u32,
    },
    /// More threads and streams than there are lanes.
    Rest,
}

impl Owner {
    pub fn of(event: &Event) -> Self {
        match event.layer {
            Layer::Gpu if event.kind == Kind::GpuMem => Owner::Managed {
                device: event.device.unwrap_or(0),
            },
            Layer::Gpu => Owner::Stream {
                device: event.device.unwrap_or(0),
                context: event.context,
                stream: event.stream,
            },
            Layer::Device => Owner::Probes {
                device: event.device.unwrap_or(0),
                sm: event.cpu,
            },
            _ => Owner::Thread {
                pid: event.pid,
                tid: event.tid,
            },
        }
    }

    pub fn is_gpu(self) -> bool {
        matches!(
            self,
            Owner::Stream { .. } | Owner::Probes { .. } | Owner::Managed { .. }
        )
    }
}

/// A span that has begun.
#[derive(Debug, Clone, Copy)]
pub struct Open<T> {
    pub id: u64,
    pub start: u64,
    pub inside: u64,
    /// What else is known of it.
    pub more: T,
}

pub struct Lane<T> {
    pub owner: Owner,
    /// The spans that are open, by row.
    pub open: Vec<Option<Open<T>>>,
    /// The lane's rows, by depth.
    pub rows: Vec<u32>,
    /// When the last span of each row ended.
    ends: Vec<u64>,
    /// The span that ended last: what it means comes next.
    pub ended: Option<Ended>,
    pub spans: u64,
    pub failed: u64,
    /// Nanoseconds of outermost spans.
    pub busy: u64,
    pub by_category: [u64; COLOURS],
    pub first: u64,
    pub last: u64,
    pub longest: (u64, u32),
}

#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub id: u64,
    pub row: u32,
    /// It is the last of the row's kept spans.
    pub kept: bool,
    pub name: u32,
    /// Its place in the flame graph.
    pub node: u32,
    /// Its stack, or that of a call around it, among the page's stacks.
    pub stack: Option<u32>,
}

impl<T> Lane<T> {
    pub fn new(owner: Owner) -> Self {
        Lane {
            owner,
            open: Vec::new(),
            rows: Vec::new(),
            ends: Vec::new(),
            ended: None,
            spans: 0,
            failed: 0,
            busy: 0,
            by_category: [0; COLOURS],
            first: u64::MAX,
            last: 0,
            longest: (0, 0),
        }
    }

    /// Where a span that begins now is: below all that are open, in the first free row.
    /// None: too deep.
    pub fn free_depth(&self) -> Option<usize> {
        let free = self.open.iter().position(Option::is_none);
        free.or((self.open.len() < MAX_DEPTH).then_some(self.open.len()))
    }

    pub fn begin(&mut self, depth: usize, span: Open<T>) {
        if depth == self.open.len() {
            self.open.push(Some(span));
        } else {
            self.open[depth] = Some(span);
        }
    }

    /// The span that encloses row `depth`.
    pub fn enclosing(&mut self, depth: usize) -> Option<&mut Open<T>> {
        let above = self.open.len().min(depth);
        self.open[..above].iter_mut().rev().flatten().next()
    }

    /// Takes the span out, with its depth.
    pub fn end(&mut self, id: u64) -> Option<(usize, Open<T>)> {
        let is_it = |open: &Option<Open<T>>| open.as_ref().is_some_and(|open| open.id == id);
        let depth = self.open.iter().rposition(is_it)?;
        let span = self.open[depth].take()?;
        while self.open.last().is_some_and(Option::is_none) {
            self.open.pop();
        }
        Some((depth, span))
    }

    /// Where a span is whose beginning was not seen: the first row that was free all the while.
    pub fn free_since(&self, start: u64) -> usize {
        let free = |depth: &usize| {
            self.ends.get(*depth).is_none_or(|&end| end <= start)
                && self.open.get(*depth).is_none_or(Option::is_none)
        };
        (0..MAX_DEPTH).find(free).unwrap_or(MAX_DEPTH - 1)
    }

    pub fn ends_at(&mut self, depth: usize, end: u64) {
        if self.ends.len() <= depth {
            self.ends.resize(depth + 1, 0);
        }
        self.ends[depth] = self.ends[depth].max(end);
    }

    /// The row of a depth, created when first used.
    pub fn row(&mut self, index: u32, depth: usize, rows: &mut Rows) -> u32 {
        let depth = depth.min(MAX_DEPTH - 1);
        while self.rows.len() <= depth {
            if rows.rows.len() >= MAX_ROWS
                && let Some(&last) = self.rows.last()
            {
                return last;
            }
            let row = rows.create(index, self.rows.len() as u32);
            self.rows.push(row);
        }
        self.rows[depth]
    }
}

pub struct Lanes<T> {
    pub list: Vec<Lane<T>>,
    known: HashMap<Owner, u32, RandomState>,
    /// Neighbouring records are mostly of one thread.
    last: Option<(Owner, u32)>,
}

impl<T> Lanes<T> {
    pub fn new() -> Self {
        Lanes {
            list: Vec::new(),
            known: HashMap::default(),
            last: None,
        }
    }

    /// The lanes of these owners, with nothing open in them.
    pub fn of_owners(owners: &[Owner]) -> Self {
        let numbered = owners.iter().zip(0..);
        Lanes {
            list: owners.iter().map(|&owner| Lane::new(owner)).collect(),
            known: numbered.map(|(&owner, index)| (owner, index)).collect(),
            last: None,
        }
    }

    pub fn of(&mut self, event: &Event) -> u32 {
        self.find(Owner::of(event))
    }

    pub fn of_thread(&mut self, pid: u32, tid: u32) -> u32 {
        self.find(Owner::Thread { pid, tid })
    }

    fn find(&mut self, owner: Owner) -> u32 {
        if let Some((last, index)) = self.last
            && last == owner
        {
            return index;
        }
        let index = match self.known.get(&owner) {
            Some(&index) => index,
            None if self.list.len() < MAX_LANES => {
                let index = self.list.len() as u32;
                self.list.push(Lane::new(owner));
                self.known.insert(owner, index);
                index
            }
            None => self.rest(),
        };
        self.last = Some((owner, index));
        index
    }

    fn rest(&mut self) -> u32 {
        let next = self.list.len() as u32;
        let index = *self.known.entry(Owner::Rest).or_insert(next);
        if index == next {
            self.list.push(Lane::new(Owner::Rest));
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::Category;

    fn open(id: u64) -> Open<()> {
        Open {
            id,
            start: id,
            inside: 0,
            more: (),
        }
    }

    #[test]
    fn spans_nest_and_a_row_left_early_is_used_again() {
        let mut lane = Lane::new(Owner::Rest);
        for id in 1..=3 {
            let depth = lane.free_depth().expect("room");
            lane.begin(depth, open(id));
        }
        assert_eq!(lane.enclosing(2).map(|open| open.id), Some(2));
        assert_eq!(lane.end(2).map(|(depth, _)| depth), Some(1));
        assert_eq!(lane.free_depth(), Some(1));
        assert_eq!(lane.enclosing(2).map(|open| open.id), Some(1));
        assert!(lane.end(2).is_none());
        assert_eq!(lane.end(3).map(|(depth, _)| depth), Some(2));
        assert_eq!(lane.open.len(), 1);
    }

    #[test]
    fn depth_is_bounded() {
        let mut lane = Lane::new(Owner::Rest);
        for id in 0..1_000 {
            if let Some(depth) = lane.free_depth() {
                lane.begin(depth, open(id));
            }
        }
        assert_eq!(lane.open.len(), MAX_DEPTH);
        let mut rows = Rows::new();
        let deepest = lane.row(0, 5_000, &mut rows);
        assert_eq!(rows.rows[deepest as usize].depth as usize, MAX_DEPTH - 1);
    }

    #[test]
    fn multiprocessors_have_lanes_of_their_own() {
        let mut lanes = Lanes::<()>::new();
        let mut event = Event::new(1, Layer::Device, Category::Kernel, "block", 0);
        let mut lane = |sm: Option<u32>| {
            event.cpu = sm;
            lanes.of(&event)
        };
        assert_eq!(
            [Some(0), Some(3), None, Some(0)].map(&mut lane),
            [0, 1, 2, 0]
        );
    }

    #[test]
    fn threads_without_end_share_a_lane() {
        let mut lanes = Lanes::<()>::new();
        let mut event = Event::new(1, Layer::Driver, Category::Init, "cuInit", 0);
        for tid in 0..MAX_LANES as u32 + 5 {
            event.tid = tid;
            lanes.of(&event);
        }
        assert_eq!(lanes.list.len(), MAX_LANES + 1);
        assert_eq!(lanes.list.last().map(|lane| lane.owner), Some(Owner::Rest));
    }
}
