//! What a run consists of: initialisation, loading, a steady state of repeated launches, teardown.
//! The steady state is the loop that [`crate::loops`] finds.

use crate::{
    Ended, Role, Symbols, Wall,
    loops::{LoopSweep, Step},
    nesting::is_call,
};
use event::{Category, Event};
use serde::Serialize;

pub use crate::loops::Loop;

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
    /// The loop.
    Steady,
    /// Launches, copies and waits after the loop; without one, from the first launch.
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

/// What part of the time from the first launch to the last work a loop must last.
const LEAST_STEADY: f64 = 0.1;

#[derive(Default)]
pub(crate) struct PhasesSweep {
    /// The first call that loads, allocates, copies or launches.
    first_use: Option<u64>,
    first_launch: Option<u64>,
    last_work: Option<u64>,
    loops: LoopSweep,
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
    pub fn end(&mut self, event: &Event, role: Role, ended: &Ended) {
        match role {
            Role::Other | Role::Alloc | Role::Free | Role::EndContext => return,
            Role::QueryStream => {}
            // What was launched or copied is told after the call.
            Role::Launch if event.category != Category::Graph => {}
            Role::Copy | Role::QueueCopy | Role::RecordEvent => {}
            // A runtime call and the driver's call in it are one step.
            _ if ended.outermost_in_category => self.step(Step {
                thread: (event.pid, event.tid),
                symbol: ended.symbol,
                launch: role == Role::Launch,
                op: event.id,
                at: event.start,
            }),
            _ => {}
        }
        self.work_until(ended.end);
    }

    /// GPU work, or a wait for it, was going on until then.
    pub fn work_until(&mut self, end: u64) {
        self.last_work = Some(self.last_work.map_or(end, |last| last.max(end)));
    }

    pub fn step(&mut self, step: Step) {
        if step.launch {
            self.first_launch.get_or_insert(step.at);
        }
        self.loops.step(&step);
    }

    pub fn finish(self, wall: Wall, symbols: &Symbols) -> Phases {
        let loops = self.loops.finish(symbols);
        let cuts = Cuts {
            first_use: self.first_use,
            first_launch: self.first_launch,
            last_work: self.last_work,
        };
        Phases {
            phases: cuts.phases(wall, loops.first()),
            loops,
        }
    }
}

/// What the phases are found by.
struct Cuts {
    first_use: Option<u64>,
    first_launch: Option<u64>,
    last_work: Option<u64>,
}

impl Cuts {
    fn phases(&self, wall: Wall, steady: Option<&Loop>) -> Vec<Phase> {
        let within = |at: u64| at.clamp(wall.start, wall.end);
        let first_use = within(self.first_use.or(self.first_launch).unwrap_or(wall.end));
        let last_work = within(self.last_work.unwrap_or(first_use)).max(first_use);
        let first_launch = within(self.first_launch.unwrap_or(last_work)).max(first_use);
        let working = last_work.saturating_sub(first_launch);
        // A loop of a moment is no steady state.
        let steady = steady.filter(|found| {
            (found.end_ns - found.start_ns) as f64 >= LEAST_STEADY * working as f64
        });
        let (from, to) = match steady {
            // The last iteration begins with the last mark that was seen.
            Some(found) => {
                let to = found.end_ns.saturating_add(found.p50_ns);
                (found.start_ns, to.min(last_work.max(found.end_ns)))
            }
            None => (first_launch, first_launch),
        };
        let from = within(from).max(first_use);
        let to = within(to).max(from);
        let last_work = last_work.max(to);
        let cuts = [
            (PhaseKind::Initialisation, wall.start, first_use),
            (PhaseKind::Loading, first_use, from),
            (PhaseKind::Steady, from, to),
            (PhaseKind::Work, to, last_work),
            (PhaseKind::Teardown, last_work, wall.end),
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
