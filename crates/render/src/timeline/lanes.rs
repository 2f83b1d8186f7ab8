//! Who did what when: spans become time in the cells of their lanes.

use analyse::bins::{Bins, Cell};
use event::{Category, Event, Extent, Kind, Layer};
use std::{collections::HashMap, ops::Range};

/// Whose lane it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    Thread {
        pid: u32,
        tid: u32,
    },
    Stream {
        device: u32,
        stream: u64,
    },
    /// Probes inside kernels: what ran on a multiprocessor, or what they sent.
    Probes {
        device: u32,
        sm: Option<u32>,
    },
}

/// A row of a lane: of one depth of nesting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    pub who: Who,
    pub depth: usize,
}

pub struct Lanes {
    from: Option<u64>,
    to: Option<u64>,
    depth: usize,
    bins: Option<Bins<Lane>>,
    threads: HashMap<(u32, u32), Vec<Open>, ahash::RandomState>,
    /// GPU work that has begun.
    work: HashMap<u64, (Who, Category, u64), ahash::RandomState>,
    last: u64,
}

/// A span of a thread's stack.
struct Open {
    id: u64,
    category: Category,
    start: u64,
    /// Up to where its time is accounted for.
    done: u64,
}

impl Lanes {
    pub fn new(from: Option<u64>, to: Option<u64>, depth: usize) -> Self {
        Lanes {
            from,
            to,
            depth,
            bins: None,
            threads: HashMap::default(),
            work: HashMap::default(),
            last: 0,
        }
    }

    /// What is shown; None if that is nothing.
    pub fn range(&self) -> Option<Range<u64>> {
        let bins = self.bins.as_ref().filter(|bins| !bins.is_empty())?;
        let start = bins.start();
        let end = self.to.unwrap_or(self.last);
        Some(start..end.max(start.saturating_add(1)))
    }

    pub fn cell_width(&self) -> u64 {
        self.bins.as_ref().map_or(1, Bins::width)
    }

    pub fn lanes(&self) -> impl Iterator<Item = (&Lane, &[Cell])> {
        self.bins.iter().flat_map(Bins::lanes)
    }

    pub fn event(&mut self, event: &Event) {
        // Rows show what threads and streams do: not what the program calls it, nor samples, nor
        // what the driver does with managed memory, nor waits, which are calls of a thread.
        if matches!(
            event.kind,
            Kind::Range
                | Kind::ProcessRange
                | Kind::Operator
                | Kind::Counter
                | Kind::GpuMem
                | Kind::GpuContext
                | Kind::GpuWait
                | Kind::NotWatched
        ) {
            return;
        }
        let now = event.end().unwrap_or(event.start);
        self.last = self.last.max(now);
        // Without a beginning of the range the first event is it.
        let first = self.from.unwrap_or(event.start);
        self.bins.get_or_insert_with(|| match self.to {
            Some(to) => Bins::within(first.min(to), to),
            None => Bins::from(first),
        });
        let device = event.device.unwrap_or(0);
        match event.layer {
            Layer::Gpu => {
                let stream = event.stream.unwrap_or(0);
                self.gpu(Who::Stream { device, stream }, event);
            }
            Layer::Device => {
                let sm = event.cpu;
                self.gpu(Who::Probes { device, sm }, event);
            }
            _ => self.host(event, now),
        }
    }

    fn gpu(&mut self, who: Who, event: &Event) {
        match event.extent {
            Extent::Open => {
                self.work
                    .insert(event.id, (who, event.category, event.start));
            }
            Extent::Closed(_) => {
                self.work.remove(&event.id);
                let end = event.end().unwrap_or(event.start);
                self.add(who, 0, event.category, event.start, end);
            }
            Extent::Instant => self.add(who, 0, event.category, event.start, event.start),
        }
    }

    fn host(&mut self, event: &Event, now: u64) {
        let key = (event.pid, event.tid);
        let who = Who::Thread {
            pid: event.pid,
            tid: event.tid,
        };
        match event.extent {
            Extent::Instant => self.add(who, 0, event.category, now, now),
            Extent::Open => {
                self.account(who, now);
                let stack = self.threads.entry(key).or_default();
                // What has no category of its own is part of what it was called for.
                let category = match (event.category, stack.last()) {
                    (Category::Other, Some(outer)) => outer.category,
                    (category, _) => category,
                };
                stack.push(Open {
                    id: event.id,
                    category,
                    start: now,
                    done: now,
                });
            }
            Extent::Closed(_) => {
                self.account(who, now);
                let Some(stack) = self.threads.get_mut(&key) else {
                    return self.add(who, 0, event.category, event.start, now);
                };
                let Some(place) = stack.iter().rposition(|open| open.id == event.id) else {
                    return;
                };
                // Spans inside it that were never ended are over too.
                let ended: Vec<Open> = stack.drain(place..).collect();
                if stack.is_empty() {
                    self.threads.remove(&key);
                } else if let Some(outer) = stack.last_mut() {
                    outer.done = outer.done.max(now);
                }
                self.rows(who, place, &ended, now);
            }
        }
    }

    /// Give the innermost span of a thread its time up to now.
    fn account(&mut self, who: Who, now: u64) {
        let Who::Thread { pid, tid } = who else {
            return;
        };
        let stack = self.threads.get_mut(&(pid, tid));
        let Some(open) = stack.and_then(|stack| stack.last_mut()) else {
            return;
        };
        let (from, category) = (open.done, open.category);
        open.done = open.done.max(now);
        if self.depth == 1 && from < now {
            self.add(who, 0, category, from, now);
        }
    }

    /// Rows by depth show each span whole.
    fn rows(&mut self, who: Who, outermost: usize, ended: &[Open], now: u64) {
        for (place, open) in ended.iter().enumerate() {
            let depth = outermost + place;
            if self.depth > 1 && depth < self.depth {
                self.add(who, depth, open.category, open.start, now);
            } else if self.depth == 1 && open.start == now {
                self.add(who, 0, open.category, now, now);
            }
        }
    }

    fn add(&mut self, who: Who, depth: usize, category: Category, from: u64, to: u64) {
        if let Some(bins) = &mut self.bins {
            bins.add(&Lane { who, depth }, category, from, to);
        }
    }

    /// What is still open lasts to the trace's end.
    pub fn finish(&mut self, end: Option<u64>) {
        let now = match (end, self.bins.is_some()) {
            // A tail far behind the events would only be blank.
            (Some(end), true) if !self.threads.is_empty() || !self.work.is_empty() => {
                self.last.max(end)
            }
            _ => self.last,
        };
        self.last = now;
        for (pid, tid) in self.threads.keys().copied().collect::<Vec<_>>() {
            let who = Who::Thread { pid, tid };
            self.account(who, now);
            let ended = self.threads.remove(&(pid, tid)).unwrap_or_default();
            self.rows(who, 0, &ended, now);
        }
        for (who, category, start) in std::mem::take(&mut self.work).into_values() {
            self.add(who, 0, category, start, now);
        }
    }
}
