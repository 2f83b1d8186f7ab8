//! The steps of a program's loop, found while it runs.
//!
//! What a thread launches and copies is compared as in `analyse`'s loops: a name whose stretches, from one occurrence to
//! the next, are all alike marks a step. Steps are numbered by the mark's occurrences since the program began. While
//! only one function's calls are recorded ([`Tracking::marker`]), they are counted by those.

use ahash::AHashMap;
use event::{Event, Extent, Layer, Meaning, Name, Record, What};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

/// Stretches that must be alike, and how long they must have taken: an inner loop is over sooner.
const ALIKE: u64 = 12;
const LONG_ENOUGH: u64 = 300_000_000;
/// So many are enough however short they are.
const MANY: u64 = 64;
/// Stretches of as many steps, but not the same: more of them.
const ALIKE_IN_LENGTH: u64 = 48;
/// Marks that are compared, and occurrences whose times are kept.
const MOST_MARKS: usize = 4096;
const MOST_TIMES: usize = 1024;
const MOST_THREADS: usize = 4096;
/// Steps by which a marker is chosen and a median is known.
const RECENT: usize = 128;
const SAME: usize = 8;
/// Functions whose calls are counted by step.
const MOST_FUNCTIONS: usize = 256;

type Thread = (u32, u32);

/// A step begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boundary {
    /// Its number, from 0.
    pub step: u64,
    pub at: u64,
}

/// Finds steps, then follows them.
#[derive(Default)]
pub struct Steps {
    threads: AHashMap<Thread, Sum>,
    marks: AHashMap<(Thread, u64), Mark>,
    /// The call that ended last, by thread: what comes next is its meaning.
    ended: AHashMap<Thread, (u64, u64)>,
    tracking: Option<Tracking>,
    hasher: RandomState,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sum {
    count: u64,
    sum: u64,
}

#[derive(Debug)]
struct Mark {
    name: Name,
    occurrences: u64,
    times: Vec<u64>,
    last: Sum,
    strict: Run,
    loose: Run,
}

/// Stretches that were alike, one after the other.
#[derive(Debug, Default)]
struct Run {
    like: Sum,
    length: u64,
    began: u64,
}

impl Run {
    fn add(&mut self, stretch: Sum, began: u64) {
        if stretch != self.like {
            *self = Run {
                like: stretch,
                length: 0,
                began,
            };
        }
        self.length += 1;
    }

    fn is_sure(&self, alike: u64, now: u64) -> bool {
        self.length >= MANY.max(alike)
            || (self.length >= alike && now.saturating_sub(self.began) >= LONG_ENOUGH)
    }
}

/// A loop that is known.
pub struct Tracking {
    pub thread: Thread,
    pub mark: Name,
    /// The step that runs.
    pub step: u64,
    since: u64,
    /// How long the last steps took.
    took: VecDeque<u64>,
    /// Calls of this step by function, and the same of the last ones.
    calls: AHashMap<Name, u64>,
    before: VecDeque<AHashMap<Name, u64>>,
    /// What steps are counted by while little is recorded, how often a step calls it, how often it has been called.
    marker: Option<(Name, u64)>,
    counted: u64,
}

impl Tracking {
    /// The median of the last steps; None while there are few.
    pub fn median(&self) -> Option<u64> {
        if self.took.len() < SAME {
            return None;
        }
        let mut all: Vec<u64> = self.took.iter().copied().collect();
        let middle = all.len() / 2;
        Some(*all.select_nth_unstable(middle).1)
    }

    /// When the step began that runs.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// The function that every step calls the same few times.
    pub fn choose_marker(&self) -> Option<(Name, u64)> {
        if self.before.len() < SAME {
            return None;
        }
        let recent = || self.before.iter().rev().take(SAME);
        let last = self.before.back()?;
        let steady = last.iter().filter(|(name, times)| {
            **times > 0 && recent().all(|step| step.get(*name) == Some(*times))
        });
        let least = steady.min_by_key(|(name, times)| (**times, name.len()));
        least.map(|(name, times)| (name.clone(), *times))
    }

    fn call(&mut self, event: &Event) {
        if let Some((marker, _)) = &self.marker {
            self.counted += u64::from(event.name == *marker);
            return;
        }
        if let Some(times) = self.calls.get_mut(&event.name) {
            *times += 1;
        } else if self.calls.len() < MOST_FUNCTIONS {
            self.calls.insert(event.name.clone(), 1);
        }
    }

    fn next(&mut self, at: u64) -> Boundary {
        match &self.marker {
            // What was not seen was counted.
            Some((_, times)) => {
                self.step += ((self.counted + times / 2) / times).max(1);
                self.counted = 0;
            }
            None => {
                self.step += 1;
                self.took.push_back(at.saturating_sub(self.since));
                self.before.push_back(std::mem::take(&mut self.calls));
                if self.took.len() > RECENT {
                    self.took.pop_front();
                }
                if self.before.len() > SAME {
                    self.before.pop_front();
                }
            }
        }
        self.since = at;
        Boundary {
            step: self.step,
            at,
        }
    }
}

impl Steps {
    /// The loop, once it is known.
    pub fn tracking(&self) -> Option<&Tracking> {
        self.tracking.as_ref()
    }

    /// The step that runs by now, or the next: counted by the marker if need be.
    pub fn step(&self) -> Option<u64> {
        let tracking = self.tracking.as_ref()?;
        Some(match &tracking.marker {
            Some((_, times)) => tracking.step + tracking.counted / times,
            None => tracking.step,
        })
    }

    /// Steps that have begun.
    pub fn count(&self) -> Option<u64> {
        let tracking = self.tracking.as_ref()?;
        let counted = (tracking.marker.as_ref()).map_or(0, |(_, times)| tracking.counted / times);
        Some(tracking.step + counted.max(1))
    }

    /// From now on only this function's calls are sure to be seen.
    pub fn count_by(&mut self, marker: (Name, u64)) {
        if let Some(tracking) = &mut self.tracking {
            // What the step that runs has called so far counts, too.
            tracking.counted = tracking.calls.get(&marker.0).copied().unwrap_or(0);
            tracking.marker = Some(marker);
            tracking.calls.clear();
        }
    }

    /// A record, in the order of time. The boundaries that it shows: several when the loop has just been found.
    pub fn see(&mut self, record: &Record) -> Vec<Boundary> {
        match record {
            Record::Event(event) => {
                self.event(event);
                Vec::new()
            }
            Record::Meaning(meaning) => self.meaning(meaning),
            Record::Lost(_) => Vec::new(),
        }
    }

    fn event(&mut self, event: &Event) {
        if !matches!(event.layer, Layer::Runtime | Layer::Driver | Layer::Library) {
            return;
        }
        let thread = (event.pid, event.tid);
        if let Extent::Closed(_) = event.extent
            && (self.ended.len() < MOST_THREADS || self.ended.contains_key(&thread))
        {
            self.ended.insert(thread, (event.id, event.start));
        }
        if event.extent == Extent::Open
            && let Some(tracking) = &mut self.tracking
            && tracking.thread == thread
            && can_mark(event)
        {
            tracking.call(event);
        }
    }

    fn meaning(&mut self, meaning: &Meaning) -> Vec<Boundary> {
        let symbol = match &meaning.what {
            What::Launch(launch) => self.hasher.hash_one(&launch.kernel),
            What::Transfer(transfer) => self.hasher.hash_one((1_u8, transfer.direction as u8)),
            What::Memory(_) => return Vec::new(),
        };
        let thread = (meaning.pid, meaning.tid);
        let at = match self.ended.get(&thread) {
            Some((id, start)) if *id == meaning.op => *start,
            _ => meaning.ts,
        };
        if let Some(tracking) = &mut self.tracking {
            let is_mark = tracking.thread == thread
                && matches!(&meaning.what, What::Launch(launch) if launch.kernel == tracking.mark);
            return match is_mark {
                true => vec![tracking.next(at)],
                false => Vec::new(),
            };
        }
        self.learn(thread, symbol, meaning, at)
    }

    fn learn(&mut self, thread: Thread, symbol: u64, meaning: &Meaning, at: u64) -> Vec<Boundary> {
        if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&thread) {
            return Vec::new();
        }
        let so_far = self.threads.entry(thread).or_default();
        so_far.count += 1;
        so_far.sum = so_far.sum.wrapping_add(symbol | 1);
        let so_far = *so_far;
        let What::Launch(launch) = &meaning.what else {
            return Vec::new();
        };
        if self.marks.len() >= MOST_MARKS && !self.marks.contains_key(&(thread, symbol)) {
            return Vec::new();
        }
        let mark = self.marks.entry((thread, symbol)).or_insert_with(|| Mark {
            name: launch.kernel.clone(),
            occurrences: 0,
            times: Vec::new(),
            last: so_far,
            strict: Run::default(),
            loose: Run::default(),
        });
        if mark.occurrences > 0 {
            let stretch = Sum {
                count: so_far.count - mark.last.count,
                sum: so_far.sum.wrapping_sub(mark.last.sum),
            };
            let began = mark.times.last().copied().unwrap_or(at);
            mark.strict.add(stretch, began);
            mark.loose.add(Sum { sum: 0, ..stretch }, began);
        }
        mark.occurrences += 1;
        mark.last = so_far;
        if mark.times.len() < MOST_TIMES {
            mark.times.push(at);
        }
        let sure = mark.strict.is_sure(ALIKE, at) || mark.loose.is_sure(ALIKE_IN_LENGTH, at);
        match sure {
            true => self.found(thread, at),
            false => Vec::new(),
        }
    }

    /// Of the marks of this loop the one that was seen least besides: what also happens before the loop counts wrong.
    fn found(&mut self, thread: Thread, at: u64) -> Vec<Boundary> {
        let nearly = |run: &Run, alike: u64| run.length + 1 >= alike && run.like.count > 0;
        let of_loop = (self.marks.iter()).filter(|((of, _), mark)| {
            *of == thread && (nearly(&mark.strict, ALIKE) || nearly(&mark.loose, ALIKE_IN_LENGTH))
        });
        let chosen = of_loop.min_by_key(|(_, mark)| {
            let alike = mark.strict.length.max(mark.loose.length);
            let first = mark.times.first().copied().unwrap_or(0);
            (mark.occurrences.saturating_sub(alike), first)
        });
        let Some((_, mark)) = chosen else {
            return Vec::new();
        };
        let since = mark.times.last().copied().unwrap_or(at);
        let took = mark.times.windows(2).rev().take(RECENT);
        self.tracking = Some(Tracking {
            thread,
            mark: mark.name.clone(),
            step: mark.occurrences - 1,
            since,
            took: took.map(|pair| pair[1].saturating_sub(pair[0])).collect(),
            calls: AHashMap::new(),
            before: VecDeque::new(),
            marker: None,
            counted: 0,
        });
        let past = (mark.times.iter().zip(0..)).map(|(at, step)| Boundary { step, at: *at });
        let past = past.collect();
        self.marks = AHashMap::new();
        self.threads = AHashMap::new();
        past
    }
}

/// Whether a function's calls may be what steps are counted by: recording them alone costs little.
fn can_mark(event: &Event) -> bool {
    use event::Category::{Event as Events, Other, Sync, Transfer};
    matches!(event.category, Events | Other | Sync | Transfer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Launch};

    /// A program of a few calls a step, and a set-up that launches some of the same kernels.
    struct Program {
        steps: Steps,
        next: u64,
        now: u64,
        seen: Vec<Boundary>,
    }

    impl Program {
        fn call(&mut self, category: Category, name: &str, kernel: Option<&str>) {
            self.next += 1;
            let mut event = Event::new(self.next, Layer::Driver, category, name, self.now);
            (event.pid, event.tid, event.extent) = (1, 1, Extent::Open);
            let mut seen = self.steps.see(&Record::Event(event.clone()));
            self.now += 1_000_000;
            event.extent = Extent::Closed(1_000_000);
            seen.extend(self.steps.see(&Record::Event(event.clone())));
            if let Some(kernel) = kernel {
                let launch = Launch {
                    kernel: kernel.into(),
                    grid: [1; 3],
                    block: [1; 3],
                    shared: 0,
                };
                let meaning = Meaning::of(&event, What::Launch(launch));
                seen.extend(self.steps.see(&Record::Meaning(meaning)));
            }
            self.seen.extend(seen);
        }

        fn step(&mut self, recorded: bool) {
            for kernel in ["forward", "layer", "layer", "layer", "backward"] {
                if recorded {
                    self.call(Category::Kernel, "cuLaunchKernel", Some(kernel));
                }
            }
            self.call(Category::Sync, "cuStreamSynchronize", None);
            self.now += 20_000_000;
        }
    }

    fn program() -> Program {
        let mut program = Program {
            steps: Steps::default(),
            next: 0,
            now: 0,
            seen: Vec::new(),
        };
        for _ in 0..3 {
            program.call(Category::Kernel, "cuLaunchKernel", Some("layer"));
        }
        program
    }

    #[test]
    fn steps_are_numbered_from_the_first() {
        let mut program = program();
        for _ in 0..30 {
            program.step(true);
        }
        let numbers: Vec<u64> = program.seen.iter().map(|seen| seen.step).collect();
        assert!(numbers.iter().copied().eq(0..30), "{numbers:?}");
        let tracking = program.steps.tracking().expect("found");
        assert_eq!(&*tracking.mark, "forward");
        assert_eq!(tracking.median(), Some(26_000_000));
        // The first begins with its first launch, not with when that was understood.
        assert_eq!(program.seen[0].at, 3_000_000);
    }

    #[test]
    fn steps_that_are_not_recorded_are_counted() {
        let mut program = program();
        for _ in 0..40 {
            program.step(true);
        }
        let marker = program.steps.tracking().expect("found").choose_marker();
        assert_eq!(marker, Some(("cuStreamSynchronize".into(), 1)));
        program.steps.count_by(marker.expect("one"));
        for _ in 0..50 {
            program.step(false);
        }
        // The last step recorded had made its call, too.
        assert_eq!(program.steps.step(), Some(39 + 51));
        assert_eq!(program.steps.count(), Some(90));
        program.seen.clear();
        program.step(true);
        assert_eq!(program.seen[0].step, 90);
        program.step(true);
        assert_eq!(program.seen[1].step, 91);
    }
}
