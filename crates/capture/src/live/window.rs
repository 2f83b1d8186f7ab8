//! `--window`: of all records those of a stretch of the run, or of several.
//!
//! Records come here in the order of time. They wait in a queue until it is known whether they are wanted: a launch says
//! what it launched only at its end, and the first steps of a loop are no steps before the loop is known. A call is
//! wanted if it begins in a window, GPU work if its call was. What is outside was not watched.

use super::{Gates, steps::Steps};
use crate::{clock::monotonic, launch::block_signals};
use ahash::AHashSet;
use event::{Arg, Category, Event, Extent, Kind, Layer, Record, Watched, matches_glob};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

/// What is wanted of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WindowOptions {
    /// Steps of the program's loop, from a number up to one that is not wanted any more.
    Steps { from: u64, until: u64 },
    /// The same by how often a range of this name has begun.
    Ranges { name: String, from: u64, until: u64 },
    /// Whatever is in a range of this name, a glob.
    Range { name: String },
    /// From cudaProfilerStart to cudaProfilerStop.
    Profiler,
    /// From so many nanoseconds after the start on, for so many.
    Time { after: u64, length: Option<u64> },
}

/// Records that wait at least: longer than any call that launches something takes.
const WAITING: usize = 4096;
/// Records that wait at most, while the loop is not known.
const MOST_WAITING: usize = 200_000;
/// Calls that work may still come from.
const MOST_CALLS: usize = 4 << 20;
/// Windows that are remembered.
const MOST_WINDOWS: usize = 100_000;
/// Hooks are opened so long before the window, and so many steps: what is seen of the program is a little behind.
const AHEAD_NS: u64 = 1_000_000_000;
const AHEAD_STEPS: u64 = 3;
/// Ranges that say how long a step takes: so many are needed, and so many are kept.
const LEAST_BEGUN: usize = 8;
const MOST_BEGUN: usize = 64;

/// Lets those records through that are wanted.
pub struct WindowStage {
    options: WindowOptions,
    gates: Gates,
    steps: Steps,
    queue: VecDeque<Record>,
    /// The windows so far; the last may have no end yet.
    windows: VecDeque<(u64, u64)>,
    /// Where the first of those windows begins that have been forgotten.
    first: Option<u64>,
    /// Windows that have begun, forgotten ones too.
    count: u64,
    /// How often the range has begun, and how many are under way.
    occurrences: u64,
    depth: u64,
    /// When the last of them began.
    begun: VecDeque<u64>,
    /// The window that the last record was let through for; what was between it and the one before is told.
    told: u64,
    /// Calls that were let through, and not their ends yet or their work.
    calls: AHashSet<u64>,
    /// What hooks do.
    hooks: Hooks,
    /// Records had to be let go before the loop was known.
    overflowed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hooks {
    Open,
    /// Closed before the window.
    Waiting,
    /// Open again, for good until the window ends.
    Ahead,
    /// Closed behind the last window.
    Over,
}

/// What became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowReport {
    pub windows: u64,
    /// From the first window's begin to the last one's end; None: there was none.
    pub watched: Option<Watched>,
    /// What a user should know.
    pub notes: Vec<String>,
}

impl WindowStage {
    /// `start` is when the run began.
    pub fn new(options: WindowOptions, start: u64, gates: Gates) -> Self {
        let mut stage = WindowStage {
            options,
            gates,
            steps: Steps::default(),
            queue: VecDeque::new(),
            windows: VecDeque::new(),
            first: None,
            count: 0,
            occurrences: 0,
            depth: 0,
            begun: VecDeque::new(),
            told: 0,
            calls: AHashSet::new(),
            hooks: Hooks::Open,
            overflowed: false,
        };
        if let WindowOptions::Range { .. } | WindowOptions::Profiler = stage.options {
            // The program opens them itself.
            stage.gates.close(&[]);
        }
        if let WindowOptions::Time { after, length } = stage.options {
            let from = start.saturating_add(after);
            stage.open(from);
            if let Some(length) = length {
                stage.close(from.saturating_add(length));
            }
        }
        stage
    }

    /// A record comes; [`WindowStage::next`] says which are let through now.
    pub fn push(&mut self, record: Record) {
        self.look(&record);
        self.queue.push_back(record);
    }

    /// The next record to be written. `all`: nothing more will come.
    pub fn next(&mut self, all: bool) -> Option<Record> {
        loop {
            if self.told + 1 < self.count
                && let Some(first) = self.queue.front()
                && let Some(between) = self.between(first.ts())
            {
                return Some(between);
            }
            if !all && !self.is_decided() {
                return None;
            }
            let record = self.queue.pop_front()?;
            if self.wants(&record) {
                return Some(record);
            }
        }
    }

    pub fn finish(self) -> WindowReport {
        let mut notes = Vec::new();
        let until = self.windows.back().map(|(_, until)| *until);
        let first = self.first.or(self.windows.front().map(|(from, _)| *from));
        if self.count == 0 {
            notes.push(self.none());
        } else if self.overflowed {
            notes.push(
                "--window: the loop was found only after the window had begun: its first steps are \
                 missing"
                    .into(),
            );
        }
        let watched = first
            .zip(until)
            .map(|(start_ns, end_ns)| Watched { start_ns, end_ns });
        WindowReport {
            windows: self.count,
            watched,
            notes,
        }
    }

    /// Why there was no window.
    fn none(&self) -> String {
        let why = match &self.options {
            WindowOptions::Steps { from, .. } => match self.steps.count() {
                Some(steps) => {
                    format!("the program had {steps} steps, and the window begins at {from}")
                }
                None => {
                    "no loop was found whose steps launch the same kernels; name an NVTX range \
                         (--window range=NAME) or a time (--window after=30s,for=5s)"
                        .into()
                }
            },
            WindowOptions::Ranges { name, from, .. } => format!(
                "range '{name}' began {} times, and the window begins at {from}",
                self.occurrences
            ),
            WindowOptions::Range { name } => format!("no NVTX range matches '{name}'"),
            WindowOptions::Profiler => "the program did not call cudaProfilerStart".into(),
            WindowOptions::Time { .. } => "the program ended before the window began".into(),
        };
        format!("--window: nothing was recorded: {why}")
    }

    fn look(&mut self, record: &Record) {
        match (&self.options, record) {
            (WindowOptions::Steps { .. }, _) => self.look_for_steps(record),
            (WindowOptions::Profiler, Record::Event(event)) => {
                if is_profiler(event, "ProfilerStart")
                    && let Some(end) = event.end().filter(|_| event.extent != Extent::Open)
                {
                    self.open(end);
                }
                if is_profiler(event, "ProfilerStop") && event.extent == Extent::Open {
                    self.close(event.start);
                }
            }
            (
                WindowOptions::Range { name } | WindowOptions::Ranges { name, .. },
                Record::Event(event),
            ) if matches!(event.kind, Kind::Range | Kind::ProcessRange)
                && event.extent != Extent::Instant
                && matches_glob(name.as_bytes(), event.name.as_bytes()) =>
            {
                self.look_at_range(event);
            }
            _ => {}
        }
    }

    fn look_at_range(&mut self, event: &Event) {
        let number = self.occurrences;
        let begins = event.extent == Extent::Open;
        self.occurrences += u64::from(begins);
        match self.options {
            WindowOptions::Ranges { from, until, .. } if begins => {
                if number == from {
                    self.open(event.start);
                }
                if number == until {
                    self.close(event.start);
                    self.shut();
                }
                self.follow(number, from, event.start);
            }
            WindowOptions::Range { .. } if begins => {
                self.depth += 1;
                if self.depth == 1 {
                    self.open(event.start);
                }
            }
            WindowOptions::Range { .. } => {
                self.depth = self.depth.saturating_sub(1);
                if let (0, Some(end)) = (self.depth, event.end()) {
                    self.close(end.saturating_add(1));
                }
            }
            _ => {}
        }
    }

    /// Ranges are always recorded, so before the window hooks may be closed: as long as it is seconds away, for what
    /// is seen of the program is behind by many short steps.
    fn follow(&mut self, number: u64, from: u64, at: u64) {
        if self.hooks == Hooks::Over || from <= AHEAD_STEPS {
            return;
        }
        self.begun.push_back(at);
        if self.begun.len() > MOST_BEGUN {
            self.begun.pop_front();
        }
        let left = from.saturating_sub(number);
        let time = self.shortest().map(|step| step.saturating_mul(left));
        let is_near = left <= AHEAD_STEPS || time.is_some_and(|time| time <= AHEAD_NS);
        match self.hooks {
            Hooks::Open if !is_near && time.is_some_and(|time| time > 3 * AHEAD_NS) => {
                self.gates.close(&[]);
                self.gates.want_times(false);
                self.hooks = Hooks::Waiting;
            }
            Hooks::Waiting if is_near => {
                self.gates.open();
                self.gates.want_times(true);
                self.hooks = Hooks::Ahead;
            }
            _ => {}
        }
    }

    /// From the beginning of a range to that of the next, at least; None: that is not known yet.
    fn shortest(&self) -> Option<u64> {
        let steps = self.begun.iter().zip(self.begun.iter().skip(1));
        let shortest = steps.map(|(one, next)| next.saturating_sub(*one)).min();
        shortest.filter(|_| self.begun.len() >= LEAST_BEGUN)
    }

    fn look_for_steps(&mut self, record: &Record) {
        let WindowOptions::Steps { from, until } = self.options else {
            return;
        };
        if self.hooks == Hooks::Over {
            return;
        }
        let boundaries = self.steps.see(record);
        for boundary in &boundaries {
            // A step that was counted over may be the first that is seen again.
            if self.count == 0 && (from..until).contains(&boundary.step) {
                self.open(boundary.at);
            }
            if self.count > 0 && boundary.step >= until {
                self.close(boundary.at);
                self.shut();
                return;
            }
        }
        let Some(tracking) = self.steps.tracking() else {
            return;
        };
        let step = self.steps.step().unwrap_or(tracking.step);
        let left = from.saturating_sub(step);
        let time = tracking
            .median()
            .map_or(0, |median| median.saturating_mul(left));
        let near = left <= AHEAD_STEPS || time <= AHEAD_NS;
        match self.hooks {
            Hooks::Open if !boundaries.is_empty() && !near && time > 3 * AHEAD_NS => {
                if let Some((marker, times)) = tracking.choose_marker() {
                    // Which of the two it is depends on how it is recorded.
                    let of = [true, false].map(|brief| cuda::gate::class(&marker, brief));
                    self.steps.count_by((marker, times));
                    self.gates.close(&of);
                    self.gates.want_times(false);
                    self.hooks = Hooks::Waiting;
                }
            }
            Hooks::Waiting if near => {
                self.gates.open();
                self.gates.want_times(true);
                self.hooks = Hooks::Ahead;
            }
            _ => {}
        }
    }

    fn open(&mut self, at: u64) {
        if self
            .windows
            .back()
            .is_some_and(|(_, until)| *until == u64::MAX)
        {
            return;
        }
        if self.windows.len() >= MOST_WINDOWS {
            let forgotten = self.windows.pop_front();
            self.first = self.first.or(forgotten.map(|(from, _)| from));
        }
        self.windows.push_back((at, u64::MAX));
        self.count += 1;
    }

    fn close(&mut self, at: u64) {
        if let Some((from, until)) = self
            .windows
            .back_mut()
            .filter(|(_, until)| *until == u64::MAX)
        {
            *until = at.max(*from);
        }
    }

    /// No other window will come.
    fn shut(&mut self) {
        self.gates.close(&[]);
        self.gates.want_times(false);
        self.hooks = Hooks::Over;
    }

    fn is_decided(&mut self) -> bool {
        let undecided = match self.options {
            // The loop may turn out to have begun long ago.
            WindowOptions::Steps { .. } => self.steps.tracking().is_none(),
            _ => false,
        };
        if undecided && self.queue.len() > MOST_WAITING {
            self.overflowed = true;
            return true;
        }
        !undecided && self.queue.len() > WAITING
    }

    fn holds(&self, at: u64) -> bool {
        let mut windows = self.windows.iter().rev();
        windows
            .find(|(from, _)| *from <= at)
            .is_some_and(|(_, until)| at < *until)
    }

    fn wants(&mut self, record: &Record) -> bool {
        match record {
            Record::Lost(lost) => self.holds(lost.ts),
            Record::Meaning(meaning) => self.calls.contains(&meaning.op),
            Record::Event(event) if event.layer == Layer::Gpu && event.kind != Kind::Counter => {
                match event.correlation {
                    Some(call) => self.calls.contains(&call),
                    None => self.holds(event.start),
                }
            }
            Record::Event(event) => {
                let wanted = self.holds(event.start);
                if wanted && event.layer != Layer::Device {
                    if self.calls.len() >= MOST_CALLS {
                        let newest = self.calls.iter().copied().max().unwrap_or(0);
                        let old = newest.saturating_sub(MOST_CALLS as u64 / 2);
                        self.calls.retain(|id| *id >= old);
                    }
                    self.calls.insert(event.id);
                }
                wanted
            }
        }
    }

    /// A window begins behind another: what was between them nobody knows.
    fn between(&mut self, now: u64) -> Option<Record> {
        let place = self
            .windows
            .len()
            .checked_sub((self.count - self.told) as usize)?;
        let (_, closed) = *self.windows.get(place)?;
        let (opened, _) = *self.windows.get(place + 1)?;
        if now < opened {
            return None;
        }
        self.told += 1;
        let mut event = Event::new(
            (1 << 53) - self.told,
            Layer::Os,
            Category::Other,
            "not watched",
            opened,
        );
        event.kind = Kind::NotWatched;
        event.args = vec![
            Arg::new("since_ns", closed),
            Arg::new("length_ns", opened.saturating_sub(closed)),
        ];
        Some(Record::Event(event))
    }
}

/// Opens and closes hooks by the clock, whether anything is recorded or not.
pub struct TimeKeeper {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How often it looks at the clock.
const LOOK: Duration = Duration::from_millis(20);

impl TimeKeeper {
    /// None: the window is no stretch of time, or no thread can be had and hooks stay open.
    pub fn start(options: &WindowOptions, start: u64, gates: &Gates) -> Option<Self> {
        let WindowOptions::Time { after, length } = *options else {
            return None;
        };
        let from = start.saturating_add(after);
        let until = length.map_or(u64::MAX, |length| from.saturating_add(length));
        let over = Arc::new(AtomicBool::new(false));
        let (gates, ended) = (gates.clone(), over.clone());
        if after > AHEAD_NS {
            gates.close(&[]);
            gates.want_times(false);
        }
        let body = move || {
            block_signals();
            while !ended.load(Ordering::Relaxed) && monotonic().saturating_add(AHEAD_NS) < from {
                std::thread::sleep(LOOK);
            }
            gates.open();
            gates.want_times(true);
            while !ended.load(Ordering::Relaxed) && monotonic() < until {
                std::thread::sleep(LOOK);
            }
            gates.close(&[]);
            gates.want_times(false);
        };
        let thread = std::thread::Builder::new()
            .name("cutrace-window".into())
            .spawn(body);
        Some(TimeKeeper {
            over,
            thread: Some(thread.ok()?),
        })
    }
}

impl Drop for TimeKeeper {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Of the driver or of the runtime.
fn is_profiler(event: &Event, which: &str) -> bool {
    matches!(event.layer, Layer::Runtime | Layer::Driver) && event.name.ends_with(which)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What hooks do after each of so many ranges, one every `step` ns.
    fn hooks(step: u64, count: u64, (from, until): (u64, u64)) -> Vec<Hooks> {
        let options = WindowOptions::Ranges {
            name: "step".into(),
            from,
            until,
        };
        let mut stage = WindowStage::new(options, 0, Gates::default());
        let after = |number: u64| {
            let at = 1_000_000_000 + number * step;
            let mut event = Event::new(number, Layer::Os, Category::Other, "step", at);
            (event.kind, event.extent) = (Kind::Range, Extent::Open);
            stage.push(Record::Event(event));
            stage.hooks
        };
        (0..count).map(after).collect()
    }

    #[test]
    fn hooks_stay_open_for_a_window_that_comes_soon() {
        // The tracer sees the program some milliseconds late: many steps of 1.5 ms.
        let hooks = hooks(1_500_000, 110, (100, 110));
        assert!(hooks.iter().all(|hooks| *hooks == Hooks::Open), "{hooks:?}");
    }

    #[test]
    fn hooks_are_opened_a_second_before_a_window_that_is_far_away() {
        let hooks = hooks(10_000_000, 620, (600, 610));
        assert_eq!(hooks[..7], [Hooks::Open; 7]);
        assert_eq!(hooks[7..500], [Hooks::Waiting; 493]);
        assert_eq!(hooks[500..610], [Hooks::Ahead; 110]);
        assert_eq!(hooks[610..], [Hooks::Over; 10]);
    }
}
