//! Loops, found by what a thread gives the GPU to do again and again.
//!
//! Launches, copies and waits are steps. For each step's name on each thread the stretch from one
//! occurrence to the next is compared with those before: if most have as many steps (and, strictly,
//! the same steps) the name marks an iteration. Everything is kept by name and thread, nothing by
//! step.

use crate::{
    Quantiles, SymbolId, Symbols,
    passed::{Allowance, Passed, Sums},
};
use event::Name;
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, sync::Arc};

/// Steps that come again and again in one thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loop {
    pub pid: u32,
    /// 0 for a stream of the GPU.
    pub tid: u32,
    /// The steps are GPU work as it ran, not the calls that launched it.
    pub on_gpu: bool,
    /// The kernel or call that begins an iteration.
    pub mark: Name,
    /// Launches, copies and waits in an iteration.
    pub steps_per_iteration: u64,
    /// Of them, launches; the mean where iterations differ.
    pub launches_per_iteration: f64,
    /// Whether the same kernels are launched each time.
    pub same_steps: bool,
    /// Iterations seen whole, from a mark to the next.
    pub iterations: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    /// The time of an iteration; the first few are left out where there are more, but for the maximum.
    pub min_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// The step that begins the longest iteration.
    pub max_op_id: u64,
    /// What part of the thread's steps is in it.
    pub share_of_steps: f64,
    /// Of all iterations, to compare two runs by.
    #[serde(skip)]
    pub times: Quantiles,
    /// Where each iteration begins and ends, the first of them: at most [`MOST_TURNS`].
    #[serde(skip)]
    pub turns: Vec<(u64, u64)>,
    /// Whole iterations of which everything is known.
    #[serde(skip)]
    pub(crate) window: Option<Window>,
}

/// Iterations of a loop that are known one by one.
pub const MOST_TURNS: usize = 2_000;
/// Of all loops that there may be, together.
const ALL_TURNS: usize = 500_000;

impl Loop {
    /// Many of the same steps, many times: it is a loop, however much else takes longer.
    pub(crate) fn is_no_chance(&self) -> bool {
        self.same_steps && self.iterations >= ENOUGH && self.steps_per_iteration >= ENOUGH
    }
}

/// From one mark to a later one.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    pub from: Arc<Passed>,
    pub to: Arc<Passed>,
    /// As many as there were steps for: an iteration that differs now and then is one, too.
    pub iterations: f64,
    /// What device memory was held at marks in between, by time.
    pub held: Vec<(u64, u64)>,
}

impl PartialEq for Window {
    fn eq(&self, other: &Self) -> bool {
        (self.from.at, self.to.at) == (other.from.at, other.to.at)
    }
}

/// A step of a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub thread: (u32, u32),
    /// The kernel, or the function called.
    pub symbol: SymbolId,
    pub launch: bool,
    pub op: u64,
    /// When its call began.
    pub at: u64,
}

#[derive(Default)]
pub(crate) struct LoopSweep {
    threads: HashMap<(u32, u32), Steps, ahash::RandomState>,
    marks: HashMap<(u32, u32, SymbolId), Mark, ahash::RandomState>,
    allowance: Allowance,
    /// Iterations that are kept one by one.
    turns: usize,
}

/// The steps of a thread so far: how many, and a sum that says which.
#[derive(Default, Clone, Copy)]
struct Steps {
    count: u64,
    launches: u64,
    sum: u64,
}

/// A name that may mark an iteration.
struct Mark {
    last: Steps,
    last_time: u64,
    last_op: u64,
    /// Stretches of the same steps.
    strict: Vote,
    /// Stretches of as many steps.
    loose: Vote,
}

/// Which stretch most are like: the majority, if there is one, wins such a vote in one pass.
#[derive(Default)]
struct Vote {
    like: (u64, u64),
    votes: u64,
    iterations: u64,
    /// Stretches that were not like it, since it was first seen.
    misses: u64,
    launches: u64,
    start: u64,
    end: u64,
    max_op: u64,
    times: Quantiles,
    /// Without the first few iterations, which are often slower.
    warm_times: Quantiles,
    /// The same one by one, while they are few.
    single: Vec<u64>,
    /// All of them, the first of them.
    turns: Vec<(u64, u64)>,
    seen: LoopSnapshots,
}

/// What had passed at some of a loop's marks, each with the steps of its thread by then.
#[derive(Default)]
struct LoopSnapshots {
    /// At the first mark, and after the first few iterations, which are often slower.
    first: Option<(Arc<Passed>, u64)>,
    warm: Option<(Arc<Passed>, u64)>,
    last: Option<(Arc<Passed>, u64)>,
    /// How many iterations must be seen before the next is taken.
    due: u64,
    held: Vec<(u64, u64)>,
}

/// Times of iterations kept one by one: of more, quantiles are known to 1.6 %.
const MOST_SINGLE: usize = 128;
/// After so many iterations a loop is warm.
const WARM: u64 = 4;
/// So many of them are enough to know it by.
const ENOUGH_WARM: f64 = 3.0;
/// Marks at which the memory held is kept.
const MOST_HELD: usize = 128;

impl LoopSnapshots {
    /// An iteration has ended.
    fn turn(
        &mut self,
        iterations: u64,
        steps: u64,
        passed: &mut dyn FnMut() -> Option<Arc<Passed>>,
    ) {
        if iterations < self.due {
            return;
        }
        let Some(now) = passed() else { return };
        // Ever rarer: what is known is never much less than all.
        self.due = (iterations + 1).max(iterations + iterations / 16);
        self.held.push((now.at, now.memory.live_bytes));
        if self.held.len() >= MOST_HELD {
            let mut place = 0;
            self.held.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
        if self.first.is_none() {
            self.first = Some((Arc::clone(&now), steps));
        }
        if iterations >= WARM && self.warm.is_none() {
            self.warm = Some((Arc::clone(&now), steps));
        }
        self.last = Some((now, steps));
    }

    fn window(&self, steps_per_iteration: u64) -> Option<Window> {
        let (to, last) = self.last.as_ref()?;
        let since = |(from, first): &(Arc<Passed>, u64)| Window {
            from: Arc::clone(from),
            to: Arc::clone(to),
            iterations: last.saturating_sub(*first) as f64 / steps_per_iteration.max(1) as f64,
            held: (self.held.iter().copied())
                .filter(|(at, _)| *at >= from.at)
                .collect(),
        };
        let warm = self.warm.as_ref().map(since);
        warm.filter(|window| window.iterations >= ENOUGH_WARM)
            .or_else(|| self.first.as_ref().map(since))
            .filter(|window| window.iterations > 0.0 && window.to.at > window.from.at)
    }
}

/// Fewer iterations are no loop.
const FEWEST: u64 = 3;
/// With so many a loop need not be the greatest to be chosen.
const ENOUGH: u64 = 8;
/// A loop must have so much of what the best one has.
const NEARLY: f64 = 0.9;
/// And so much of all steps of its thread.
const LEAST_SHARE: f64 = 0.3;
/// A loop of the same steps may be so much longer than one of as many steps.
const MUCH_LONGER: u64 = 8;
/// So many of the same steps, often, are a loop of the program: compilers that try kernels out launch more,
/// but a few different ones at a time.
const LONG: u64 = 16;
const SHORT: u64 = 4;
const LEAST_SHARE_OF_LONG: f64 = 0.05;
const MOST_MARKS: usize = 16_384;
pub(crate) const MOST_LOOPS: usize = 8;

impl LoopSweep {
    pub fn step(&mut self, step: &Step, now: u64, sums: &Sums<'_>) {
        self.allowance.step();
        let mut taken: Option<Option<Arc<Passed>>> = None;
        let allowance = &mut self.allowance;
        let mut passed = || taken.get_or_insert_with(|| sums.at(now, allowance)).clone();
        if self.threads.len() >= MOST_MARKS && !self.threads.contains_key(&step.thread) {
            return;
        }
        let steps = self.threads.entry(step.thread).or_default();
        steps.count += 1;
        steps.launches += u64::from(step.launch);
        steps.sum = steps.sum.wrapping_add(spread(step.symbol));
        let steps = *steps;
        let room = self.marks.len() < MOST_MARKS;
        let key = (step.thread.0, step.thread.1, step.symbol);
        match self.marks.get_mut(&key) {
            Some(mark) => mark.next(steps, step, &mut self.turns, &mut passed),
            None if room => {
                let mark = Mark {
                    last: steps,
                    last_time: step.at,
                    last_op: step.op,
                    strict: Vote::default(),
                    loose: Vote::default(),
                };
                self.marks.insert(key, mark);
            }
            None => {}
        }
    }

    /// The loops, the one that makes the steady state first.
    pub fn finish(self, symbols: &Symbols) -> Vec<Loop> {
        let mut found = Vec::new();
        for (&(pid, tid, symbol), mark) in &self.marks {
            let steps = self.threads.get(&(pid, tid)).map_or(1, |steps| steps.count);
            for (vote, same_steps) in [(&mark.strict, true), (&mark.loose, false)] {
                let share = vote.covered() as f64 / steps.max(1) as f64;
                let no_chance = same_steps && vote.is_long() && share >= LEAST_SHARE_OF_LONG;
                if vote.iterations >= FEWEST && (share >= LEAST_SHARE || no_chance) {
                    let mut one = vote.shown(symbols.name(symbol), same_steps);
                    (one.pid, one.tid, one.share_of_steps) = (pid, tid, share);
                    found.push(LoopCandidate {
                        clean: vote.misses <= 1 + vote.iterations / 200,
                        covered: vote.covered() as f64,
                        one,
                    });
                }
            }
        }
        // Outer loops first; of equal ones that which began first.
        found.sort_by(|a, b| {
            let (a, b) = (&a.one, &b.one);
            (b.steps_per_iteration.cmp(&a.steps_per_iteration))
                .then(a.start_ns.cmp(&b.start_ns))
                .then(b.same_steps.cmp(&a.same_steps))
                .then_with(|| (a.pid, a.tid, &a.mark).cmp(&(b.pid, b.tid, &b.mark)))
        });
        chosen(found)
    }
}

struct LoopCandidate {
    one: Loop,
    covered: f64,
    /// It was hardly ever broken: loops inside another are, whenever that turns.
    clean: bool,
}

/// The loop of the program, then the others, one for each length.
fn chosen(found: Vec<LoopCandidate>) -> Vec<Loop> {
    let best = found.iter().map(|found| found.covered).fold(0.0, f64::max);
    let nearly = |found: &&LoopCandidate| found.covered >= NEARLY * best;
    let often = |found: &&LoopCandidate| found.one.iterations >= ENOUGH;
    // The shortest that is clean, and of those as long the first.
    let shortest = |same_steps: bool, fewest: u64| {
        let clean = found.iter().filter(nearly).filter(|found| found.clean);
        clean
            .filter(|found| found.one.same_steps == same_steps && found.one.iterations >= fewest)
            .min_by_key(|found| (found.one.steps_per_iteration, found.one.start_ns))
    };
    let clean = match (shortest(true, ENOUGH), shortest(false, ENOUGH)) {
        (Some(strict), Some(loose))
            if strict.one.steps_per_iteration / MUCH_LONGER
                >= loose.one.steps_per_iteration.max(1) =>
        {
            Some(loose)
        }
        (Some(strict), _) => Some(strict),
        (None, loose) => shortest(true, FEWEST).or(loose),
    };
    let steady = clean
        .or_else(|| found.iter().filter(nearly).find(often))
        .or_else(|| found.iter().rfind(|found| found.covered >= best));
    let long = (found.iter())
        .filter(|found| {
            found.clean && found.one.same_steps && found.one.steps_per_iteration >= LONG
        })
        .filter(|found| found.one.iterations >= ENOUGH)
        .max_by(|a, b| (a.covered.total_cmp(&b.covered)).then(b.one.start_ns.cmp(&a.one.start_ns)));
    let steady = match (steady, long) {
        (Some(steady), Some(long)) if steady.one.steps_per_iteration <= SHORT => Some(long),
        (steady, long) => steady.or(long),
    };
    let Some(steady) = steady else {
        return Vec::new();
    };
    let mut loops = vec![steady.one.clone()];
    for LoopCandidate { one, .. } in found {
        let known = |other: &Loop| {
            (other.pid, other.tid, other.steps_per_iteration)
                == (one.pid, one.tid, one.steps_per_iteration)
        };
        if loops.len() < MOST_LOOPS && !loops.iter().any(known) {
            loops.push(one);
        }
    }
    loops
}

impl Mark {
    fn next(
        &mut self,
        steps: Steps,
        step: &Step,
        turns: &mut usize,
        passed: &mut dyn FnMut() -> Option<Arc<Passed>>,
    ) {
        let stretch = Stretch {
            count: steps.count - self.last.count,
            launches: steps.launches - self.last.launches,
            start: self.last_time,
            end: step.at.max(self.last_time),
            op: self.last_op,
            steps: steps.count,
        };
        let which = steps.sum.wrapping_sub(self.last.sum);
        self.strict.cast(&stretch, which, turns, passed);
        self.loose.cast(&stretch, 0, turns, passed);
        (self.last, self.last_time, self.last_op) = (steps, stretch.end, step.op);
    }
}

/// From one mark to the next.
struct Stretch {
    count: u64,
    launches: u64,
    start: u64,
    end: u64,
    /// The step it begins with.
    op: u64,
    /// Of the thread, up to its end.
    steps: u64,
}

impl Vote {
    fn cast(
        &mut self,
        stretch: &Stretch,
        which: u64,
        turns: &mut usize,
        passed: &mut dyn FnMut() -> Option<Arc<Passed>>,
    ) {
        let like = (stretch.count, which);
        if like != self.like {
            if self.votes > 0 {
                self.votes -= 1;
                self.misses += 1;
                return;
            }
            *turns -= self.turns.len();
            *self = Vote {
                like,
                start: stretch.start,
                end: stretch.end,
                ..Vote::default()
            };
        }
        self.votes += 1;
        self.iterations += 1;
        self.launches += stretch.launches;
        let took = stretch.end - stretch.start;
        if self.times.count() == 0 || took > self.times.greatest() {
            self.max_op = stretch.op;
        }
        self.times.add(took);
        if self.iterations > WARM {
            self.warm_times.add(took);
            if self.single.len() <= MOST_SINGLE {
                self.single.push(took);
            }
        }
        if self.turns.len() < MOST_TURNS && *turns < ALL_TURNS {
            self.turns.push((stretch.start, stretch.end));
            *turns += 1;
        }
        self.end = self.end.max(stretch.end);
        self.seen.turn(self.iterations, stretch.steps, passed);
    }

    fn is_long(&self) -> bool {
        self.iterations >= ENOUGH && self.like.0 >= LONG
    }

    /// Steps that lie in iterations.
    fn covered(&self) -> u64 {
        self.iterations.saturating_mul(self.like.0)
    }

    /// A quantile of the warm iterations, if they are few enough to be known exactly.
    fn exact(&self, quantile: f64) -> Option<u64> {
        let mut times = self.single.clone();
        if !(FEWEST as usize..=MOST_SINGLE).contains(&times.len()) {
            return None;
        }
        times.sort_unstable();
        let place = (quantile * (times.len() - 1) as f64).round() as usize;
        times.get(place).copied()
    }

    fn shown(&self, mark: Name, same_steps: bool) -> Loop {
        let times = if self.warm_times.count() >= FEWEST {
            &self.warm_times
        } else {
            &self.times
        };
        Loop {
            pid: 0,
            tid: 0,
            on_gpu: false,
            mark,
            steps_per_iteration: self.like.0,
            launches_per_iteration: self.launches as f64 / self.iterations.max(1) as f64,
            same_steps,
            iterations: self.iterations,
            start_ns: self.start,
            end_ns: self.end,
            min_ns: times.least(),
            p50_ns: self.exact(0.5).unwrap_or_else(|| times.quantile(0.5)),
            p99_ns: self.exact(0.99).unwrap_or_else(|| times.quantile(0.99)),
            max_ns: self.times.greatest(),
            max_op_id: self.max_op,
            share_of_steps: 0.0,
            times: times.clone(),
            turns: self.turns.clone(),
            window: self.seen.window(self.like.0),
        }
    }
}

/// A number for each name such that sums of different ones differ.
fn spread(symbol: SymbolId) -> u64 {
    let mut word = u64::from(symbol).wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Analysis;
    use event::{Category, Kind, Layer};

    /// The loops in a sequence of one-letter steps, ten nanoseconds apart.
    fn found(steps: &str) -> Vec<Loop> {
        let mut symbols = Symbols::default();
        let mut sweep = LoopSweep::default();
        let known = Analysis::new(&event::Meta::default());
        for (place, letter) in steps.chars().enumerate() {
            let name = Name::from(letter.to_string());
            let step = Step {
                thread: (1, 1),
                symbol: symbols.of_name(&name, Layer::Gpu, Category::Kernel, Kind::Gpu),
                launch: true,
                op: place as u64,
                at: 10 * place as u64,
            };
            sweep.step(&step, step.at, &known.sums());
        }
        sweep.finish(&symbols)
    }

    /// Their marks, lengths and iterations.
    fn loops(steps: &str) -> Vec<(String, u64, u64)> {
        let found = found(steps);
        let rows = found.iter();
        rows.map(|found| {
            (
                found.mark.to_string(),
                found.steps_per_iteration,
                found.iterations,
            )
        })
        .collect()
    }

    fn first(steps: &str) -> Option<(String, u64, u64)> {
        loops(steps).into_iter().next()
    }

    #[test]
    fn the_loop_that_is_never_broken_is_meant() {
        assert_eq!(first(&"a".repeat(20)), Some(("a".into(), 1, 19)));
        assert_eq!(first(&"abc".repeat(20)), Some(("a".into(), 3, 19)));
        // Layers inside a token, with something before and after.
        let token = format!("p{}h", "abcd".repeat(12));
        assert_eq!(first(&token.repeat(20)), Some(("p".into(), 50, 19)));
        assert!(
            loops(&token.repeat(20))
                .iter()
                .any(|(_, length, _)| *length == 4)
        );
        // As many steps each time, but different ones in turn.
        assert_eq!(first(&"abac".repeat(20)), Some(("b".into(), 4, 19)));
    }

    #[test]
    fn a_kernel_that_varies_does_not_hide_the_loop() {
        let steps: String = (0..60)
            .map(|turn| {
                format!(
                    "pqr{}",
                    char::from(b'A' + (turn * turn + turn / 3) as u8 % 23)
                )
            })
            .collect();
        assert_eq!(first(&steps), Some(("p".into(), 4, 59)));
    }

    /// A compiler tries kernels out, each a hundred times after clearing a cache, before a short training.
    #[test]
    fn a_long_loop_is_meant_rather_than_many_short_ones() {
        let tried: String = ('A'..='Z')
            .map(|kernel| format!("z{kernel}").repeat(20))
            .collect();
        let step = "abcdefghijklmnopqrst";
        let steps = format!("{tried}{}", step.repeat(12));
        assert_eq!(first(&steps), Some(("a".into(), 20, 11)));
    }

    #[test]
    fn what_comes_before_and_after_does_not_matter() {
        let steps = format!("xyzw{}vvwx", "abc".repeat(30));
        assert_eq!(first(&steps), Some(("a".into(), 3, 29)));
    }

    #[test]
    fn each_iteration_is_known_up_to_a_number() {
        let steps = format!("xy{}", "abc".repeat(30));
        let turns = &found(&steps)[0].turns;
        assert_eq!(turns.len(), 29);
        assert_eq!((turns[0], turns[28]), ((20, 50), (860, 890)));
        let many = &found(&"ab".repeat(MOST_TURNS + 500))[0];
        assert_eq!(many.turns.len(), MOST_TURNS);
        assert_eq!(many.iterations as usize, MOST_TURNS + 499);
    }

    #[test]
    fn without_repetition_there_is_no_loop() {
        assert_eq!(first("abcdefgh"), None);
        assert_eq!(first("abab"), None);
        assert_eq!(first(""), None);
    }
}
