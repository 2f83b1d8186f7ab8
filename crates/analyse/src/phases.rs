//! What a run consists of: initialisation, loading, a steady state of repeated launches, teardown.
//! The steady state is the loop that [`crate::loops`] finds.

use crate::{
    Ended, Role, SymbolId, Symbols, Wall,
    loops::{LoopSweep, Step},
    nesting::is_call,
    passed::Sums,
};
use event::{Category, Event};
use serde::{Deserialize, Serialize};

pub use crate::loops::Loop;

/// What the run consists of. The phases lie one after the other and fill the wall time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    pub phases: Vec<Phase>,
    /// Loops of launches; the first is the one that makes the steady state.
    pub loops: Vec<Loop>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    pub kind: PhaseKind,
    pub start_ns: u64,
    pub end_ns: u64,
    pub length_ns: u64,
    /// Of the wall time.
    pub share: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
/// Or what part of the GPU's work must lie in it: compiling in between may take far longer.
const LEAST_WORK: f64 = 0.25;
/// Prefer the host's loop unless its window has less than this part of the work that the GPU's window has: launched ahead, the steps are over on the host when the first has begun on the GPU.
const MUCH_LESS: f64 = 0.8;

/// What part of all GPU work is in the loop's window.
fn work_in(found: &Loop, busy: u64) -> f64 {
    let Some(window) = &found.window else {
        return 0.0;
    };
    let idle = (window.to.idle.idle_ns).saturating_sub(window.from.idle.idle_ns);
    let inside = (window.to.at - window.from.at).saturating_sub(idle);
    inside as f64 / busy.max(1) as f64
}

/// The loop that makes the steady state first, then the others.
fn meant(host: Vec<Loop>, gpu: Vec<Loop>, busy: u64) -> Vec<Loop> {
    let gpu = gpu.into_iter().map(|found| Loop {
        tid: 0,
        on_gpu: true,
        ..found
    });
    let gpu: Vec<Loop> = gpu.collect();
    let work = |loops: &[Loop]| loops.first().map_or(0.0, |found| work_in(found, busy));
    let (mut first, second) = if work(&host) < MUCH_LESS * work(&gpu) {
        (gpu, host)
    } else {
        (host, gpu)
    };
    first.extend(second);
    first.truncate(crate::loops::MOST_LOOPS);
    first
}

#[derive(Default)]
pub(crate) struct PhasesSweep {
    /// The first call that loads, allocates, copies or launches.
    first_use: Option<u64>,
    first_launch: Option<u64>,
    last_work: Option<u64>,
    loops: LoopSweep,
    /// Of GPU work, by stream: where the host runs ahead, only there a step is as long as it takes.
    gpu_loops: LoopSweep,
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
    pub fn end(&mut self, event: &Event, role: Role, ended: &Ended, sums: &Sums<'_>) {
        match role {
            Role::Other | Role::Alloc | Role::Free | Role::EndContext => return,
            Role::QueryStream => {}
            // What was launched or copied is told after the call.
            Role::Launch if event.category != Category::Graph => {}
            Role::Copy | Role::QueueCopy | Role::RecordEvent => {}
            // A runtime call and the driver's call in it are one step.
            _ if ended.outermost_in_category => {
                let step = Step {
                    thread: (event.pid, event.tid),
                    symbol: ended.symbol,
                    launch: role == Role::Launch,
                    op: event.id,
                    at: event.start,
                };
                self.step(&step, ended.end, sums);
            }
            _ => {}
        }
        self.work_until(ended.end);
    }

    /// GPU work, or a wait for it, was going on until then.
    pub fn work_until(&mut self, end: u64) {
        self.last_work = Some(self.last_work.map_or(end, |last| last.max(end)));
    }

    pub fn step(&mut self, step: &Step, now: u64, sums: &Sums<'_>) {
        if step.launch {
            self.first_launch.get_or_insert(step.at);
        }
        self.loops.step(step, now, sums);
    }

    /// GPU work begins.
    pub fn gpu_step(&mut self, event: &Event, symbol: SymbolId, sums: &Sums<'_>) {
        // Streams apart, and devices: numbers that differ are enough.
        let stream = event
            .stream
            .unwrap_or(0)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            >> 32;
        let step = Step {
            thread: (event.pid, stream as u32 ^ event.device.unwrap_or(0)),
            symbol,
            launch: event.category == Category::Kernel,
            op: event.id,
            at: event.start,
        };
        self.gpu_loops.step(&step, event.start, sums);
    }

    /// `busy` is how long GPUs worked in all. `is_whole`: all launches and copies were recorded; otherwise calls make no
    /// loop that says anything.
    pub fn finish(self, wall: Wall, symbols: &Symbols, busy: u64, is_whole: bool) -> Phases {
        let host = match is_whole {
            true => self.loops.finish(symbols),
            false => Vec::new(),
        };
        let loops = meant(host, self.gpu_loops.finish(symbols), busy);
        let cuts = Cuts {
            first_use: self.first_use,
            first_launch: self.first_launch,
            last_work: self.last_work,
        };
        Phases {
            phases: cuts.phases(wall, loops.first(), busy),
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
    fn phases(&self, wall: Wall, steady: Option<&Loop>, busy: u64) -> Vec<Phase> {
        let within = |at: u64| at.clamp(wall.start, wall.end);
        let first_use = within(self.first_use.or(self.first_launch).unwrap_or(wall.end));
        let last_work = within(self.last_work.unwrap_or(first_use)).max(first_use);
        let first_launch = within(self.first_launch.unwrap_or(last_work)).max(first_use);
        let working = last_work.saturating_sub(first_launch);
        // A loop of a moment is no steady state.
        let steady = steady.filter(|found| {
            (found.end_ns - found.start_ns) as f64 >= LEAST_STEADY * working as f64
                || work_in(found, busy) >= LEAST_WORK
                || found.is_no_chance()
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
