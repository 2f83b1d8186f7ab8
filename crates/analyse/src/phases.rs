//! What a run consists of: initialisation, loading, a steady state of repeated launches, teardown.
//!
//! A loop is found by its launches. For each kernel on each thread the stretch from one launch to
//! the next is compared with the stretch before: if most have as many launches and the same kernels
//! between, that kernel marks an iteration. The outermost such loop that turns often enough is the
//! steady state. Everything is kept by kernel and thread, nothing by launch.

use crate::{Quantiles, Role, SymbolId, Symbols, Wall, nesting::is_call};
use event::{Category, Event, Name};
use serde::Serialize;
use std::collections::HashMap;

/// What the run consists of. The phases lie one after the other and fill the wall time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Phases {
    pub phases: Vec<Phase>,
    /// Loops of launches; the first is the one that makes the steady state.
    pub loops: Vec<Loop>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phase {
    pub kind: PhaseKind,
    pub start_ns: u64,
    pub end_ns: u64,
    pub length_ns: u64,
    /// Of the wall time.
    pub share: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseKind {
    /// Up to the first call that loads code, allocates, copies or launches.
    Initialisation,
    /// From there up to the first launch that counts.
    Loading,
    /// The loop; without one, from the first launch to the last work.
    Steady,
    /// Launches without a loop.
    Work,
    /// What comes after.
    Teardown,
}

impl PhaseKind {
    pub fn as_str(self) -> &'static str {
        match self {
            PhaseKind::Initialisation => "initialisation",
            PhaseKind::Loading => "loading",
            PhaseKind::Steady => "steady state",
            PhaseKind::Work => "work",
            PhaseKind::Teardown => "teardown",
        }
    }
}

/// Launches that come again and again in one thread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loop {
    pub pid: u32,
    pub tid: u32,
    /// The kernel whose launch marks an iteration.
    pub kernel: Name,
    pub launches_per_iteration: u64,
    /// Iterations seen whole, from a launch of the kernel to the next.
    pub iterations: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    /// The time of an iteration.
    pub min_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// The launch that begins the longest iteration.
    pub max_op_id: u64,
    /// What part of the thread's launches lies in it.
    pub share_of_launches: f64,
}

/// An outer loop is preferred if it turned at least so often.
const ENOUGH: u64 = 8;
/// Fewer iterations are no loop.
const FEWEST: u64 = 3;
/// A loop must have so much of what the best one has of the thread's launches.
const NEARLY: f64 = 0.9;
/// And so much of all launches of its thread.
const LEAST_SHARE: f64 = 0.3;
const MOST_MARKS: usize = 65_536;
const MOST_LOOPS: usize = 8;

#[derive(Default)]
pub(crate) struct PhasesSweep {
    /// The first call that loads, allocates, copies or launches.
    first_use: Option<u64>,
    first_launch: Option<u64>,
    last_work: Option<u64>,
    threads: HashMap<(u32, u32), Launches, ahash::RandomState>,
    marks: HashMap<(u32, u32, SymbolId), Mark, ahash::RandomState>,
}

/// The launches of a thread: how many, and a sum that says which.
#[derive(Default, Clone, Copy)]
struct Launches {
    count: u64,
    sum: u64,
}

/// A kernel that may mark an iteration.
struct Mark {
    last: Launches,
    last_time: u64,
    last_op: u64,
    /// The stretch that most are like, as far as a vote says.
    like: (u64, u64),
    votes: u64,
    iterations: u64,
    start: u64,
    end: u64,
    max_op: u64,
    times: Quantiles,
}

impl PhasesSweep {
    #[inline]
    pub fn begin(&mut self, event: &Event) {
        if self.first_use.is_none()
            && is_call(event.layer)
            && matches!(
                event.category,
                Category::Module | Category::Memory | Category::Transfer | Category::Kernel
            )
        {
            self.first_use = Some(event.start);
        }
    }

    /// A call has returned.
    #[inline]
    pub fn end(&mut self, role: Role, end: u64) {
        if !matches!(
            role,
            Role::Other | Role::Alloc | Role::Free | Role::EndContext
        ) {
            self.work_until(end);
        }
    }

    /// GPU work, or a wait for it, was going on until then.
    pub fn work_until(&mut self, end: u64) {
        self.last_work = Some(self.last_work.map_or(end, |last| last.max(end)));
    }

    /// A kernel or a graph was launched by a call that began at `start`.
    pub fn launch(&mut self, thread: (u32, u32), kernel: SymbolId, op: u64, start: u64) {
        self.first_launch.get_or_insert(start);
        if self.threads.len() >= MOST_MARKS && !self.threads.contains_key(&thread) {
            return;
        }
        let launches = self.threads.entry(thread).or_default();
        launches.count += 1;
        launches.sum = launches.sum.wrapping_add(spread(kernel));
        let launches = *launches;
        let key = (thread.0, thread.1, kernel);
        let room = self.marks.len() < MOST_MARKS;
        match self.marks.get_mut(&key) {
            Some(mark) => mark.next(launches, start, op),
            None if room => {
                self.marks.insert(key, Mark::new(launches, start, op));
            }
            None => {}
        }
    }

    pub fn finish(self, wall: Wall, symbols: &Symbols) -> Phases {
        let mut found: Vec<(Loop, f64)> = self
            .marks
            .iter()
            .filter(|(_, mark)| mark.iterations >= FEWEST)
            .filter_map(|(&(pid, tid, kernel), mark)| {
                let launches = self.threads.get(&(pid, tid))?.count;
                let share = mark.covered() as f64 / launches.max(1) as f64;
                (share >= LEAST_SHARE).then(|| {
                    let found = mark.shown(pid, tid, symbols.name(kernel), share);
                    (found, mark.covered() as f64)
                })
            })
            .collect();
        // The outermost first; of equal ones that which began first.
        found.sort_by(|(a, _), (b, _)| {
            b.launches_per_iteration
                .cmp(&a.launches_per_iteration)
                .then(a.start_ns.cmp(&b.start_ns))
                .then_with(|| (a.pid, a.tid, &a.kernel).cmp(&(b.pid, b.tid, &b.kernel)))
        });
        let loops = chosen(found);
        Phases {
            phases: self.phases(wall, loops.first()),
            loops,
        }
    }

    fn phases(&self, wall: Wall, steady: Option<&Loop>) -> Vec<Phase> {
        let within = |at: u64| at.clamp(wall.start, wall.end);
        let first_use = within(self.first_use.or(self.first_launch).unwrap_or(wall.end));
        let last_work = within(self.last_work.unwrap_or(first_use)).max(first_use);
        let (kind, from, to) = match steady {
            // The last iteration begins with the last launch that was seen.
            Some(found) => (
                PhaseKind::Steady,
                found.start_ns,
                (found.end_ns.saturating_add(found.p50_ns)).min(last_work.max(found.end_ns)),
            ),
            None => {
                let from = self.first_launch.unwrap_or(last_work);
                (PhaseKind::Work, from, last_work)
            }
        };
        let from = within(from).max(first_use);
        let to = within(to).max(from);
        let cuts = [
            (PhaseKind::Initialisation, wall.start, first_use),
            (PhaseKind::Loading, first_use, from),
            (kind, from, to),
            (PhaseKind::Teardown, to, wall.end),
        ];
        cuts.into_iter()
            .filter(|(_, start, end)| end > start)
            .map(|(kind, start, end)| Phase {
                kind,
                start_ns: start,
                end_ns: end,
                length_ns: end - start,
                share: wall.share(end - start),
            })
            .collect()
    }
}

/// The loop that makes the steady state, then the others, one for each length.
fn chosen(found: Vec<(Loop, f64)>) -> Vec<Loop> {
    let best = found
        .iter()
        .map(|(_, covered)| *covered)
        .fold(0.0, f64::max);
    let nearly = |covered: f64| covered >= NEARLY * best;
    let steady = found
        .iter()
        .position(|(one, covered)| one.iterations >= ENOUGH && nearly(*covered))
        .or_else(|| found.iter().rposition(|(_, covered)| *covered >= best));
    let Some(steady) = steady else {
        return Vec::new();
    };
    let first = found[steady].0.clone();
    let mut loops = vec![first];
    for (one, _) in found {
        let known = |other: &Loop| {
            (other.pid, other.tid, other.launches_per_iteration)
                == (one.pid, one.tid, one.launches_per_iteration)
        };
        if loops.len() < MOST_LOOPS && !loops.iter().any(known) {
            loops.push(one);
        }
    }
    loops
}

impl Mark {
    fn new(launches: Launches, time: u64, op: u64) -> Self {
        Mark {
            last: launches,
            last_time: time,
            last_op: op,
            like: (0, 0),
            votes: 0,
            iterations: 0,
            start: time,
            end: time,
            max_op: op,
            times: Quantiles::default(),
        }
    }

    fn next(&mut self, launches: Launches, time: u64, op: u64) {
        let stretch = (
            launches.count - self.last.count,
            launches.sum.wrapping_sub(self.last.sum),
        );
        if self.votes == 0 && stretch != self.like {
            self.like = stretch;
            self.iterations = 0;
            self.start = self.last_time;
            self.times = Quantiles::default();
        }
        if stretch == self.like {
            self.votes += 1;
            self.iterations += 1;
            let passed = time.saturating_sub(self.last_time);
            if self.times.count() == 0 || passed > self.times.greatest() {
                self.max_op = self.last_op;
            }
            self.times.add(passed);
            self.end = self.end.max(time);
        } else {
            self.votes -= 1;
        }
        (self.last, self.last_time, self.last_op) = (launches, time, op);
    }

    /// Launches that lie in iterations.
    fn covered(&self) -> u64 {
        self.iterations.saturating_mul(self.like.0)
    }

    fn shown(&self, pid: u32, tid: u32, kernel: Name, share: f64) -> Loop {
        Loop {
            pid,
            tid,
            kernel,
            launches_per_iteration: self.like.0,
            iterations: self.iterations,
            start_ns: self.start,
            end_ns: self.end,
            min_ns: self.times.least(),
            p50_ns: self.times.quantile(0.5),
            p99_ns: self.times.quantile(0.99),
            max_ns: self.times.greatest(),
            max_op_id: self.max_op,
            share_of_launches: share,
        }
    }
}

/// A number for each kernel such that sums of different kernels differ.
fn spread(kernel: SymbolId) -> u64 {
    let mut word = u64::from(kernel).wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
