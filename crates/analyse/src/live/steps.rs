//! Iterations of a thread's loop as they happen, found by what the thread gives the GPU to do again and again, as
//! [`crate::loops`] does for a whole trace. Here the past is forgotten, so that a loop which follows another is found too.

use super::Histogram;
use crate::SymbolId;
use event::Name;
use std::collections::{HashMap, VecDeque};

/// An iteration that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iteration {
    pub start_ns: u64,
    pub end_ns: u64,
    /// How many the thread has had before it.
    pub number: u64,
}

/// A thread's launches and copies, and the loop that they make.
#[derive(Debug, Default)]
pub struct Steps {
    count: u64,
    sum: u64,
    marks: HashMap<SymbolId, Mark, ahash::RandomState>,
    /// What begins an iteration, as far as is known.
    mark: Option<(SymbolId, bool)>,
    since_choice: u64,
    since_halving: u64,
    pub iterations: u64,
    pub durations: Histogram,
    pub recent: VecDeque<Iteration>,
}

#[derive(Debug, Default)]
struct Mark {
    count: u64,
    sum: u64,
    at: u64,
    strict: Vote,
    loose: Vote,
}

/// Which stretch most are like.
#[derive(Debug, Default)]
struct Vote {
    like: (u64, u64),
    votes: u64,
    hits: u64,
    misses: u64,
}

/// Iterations that are kept one by one.
const MOST_RECENT: usize = 240;
const MOST_MARKS: usize = 4_096;
/// Launches and copies between two looks at which mark is best.
const CHOOSE_EVERY: u64 = 32;
/// After so many, what was seen counts half.
const HALVE_EVERY: u64 = 16_384;
const FEWEST: u64 = 3;
/// A loop has so much of the thread's launches and copies.
const LEAST_SHARE: f64 = 0.3;
/// And so much of what the best one has.
const NEARLY: f64 = 0.9;

impl Vote {
    /// Whether the stretch was like the others.
    fn cast(&mut self, like: (u64, u64)) -> bool {
        if self.like == like {
            self.votes += 1;
            self.hits += 1;
            return true;
        }
        self.misses += 1;
        match self.votes {
            0 => {
                *self = Vote {
                    like,
                    votes: 1,
                    hits: 1,
                    misses: 0,
                };
                true
            }
            _ => {
                self.votes -= 1;
                false
            }
        }
    }

    fn covered(&self) -> f64 {
        (self.hits * self.like.0) as f64
    }

    fn is_clean(&self) -> bool {
        self.misses <= 1 + self.hits / 50
    }

    fn halve(&mut self) {
        self.votes = self.votes.div_ceil(2);
        self.hits = self.hits.div_ceil(2);
        self.misses /= 2;
    }
}

impl Steps {
    /// A launch or a copy. The iteration that it ends, if it does.
    pub fn step(&mut self, symbol: SymbolId, at: u64) -> Option<Iteration> {
        self.count += 1;
        self.sum = self.sum.wrapping_add(spread(symbol));
        let room = self.marks.len() < MOST_MARKS;
        let mut ended = None;
        match self.marks.get_mut(&symbol) {
            None if !room => {}
            None => {
                let mark = Mark {
                    count: self.count,
                    sum: self.sum,
                    at,
                    ..Mark::default()
                };
                self.marks.insert(symbol, mark);
            }
            Some(mark) => {
                let (steps, sum) = (self.count - mark.count, self.sum.wrapping_sub(mark.sum));
                let strict = mark.strict.cast((steps, sum));
                let loose = mark.loose.cast((steps, 0));
                let is_like = match self.mark {
                    Some((chosen, true)) => chosen == symbol && strict,
                    Some((chosen, false)) => chosen == symbol && loose,
                    None => false,
                };
                if is_like {
                    ended = Some((mark.at, at));
                }
                (mark.count, mark.sum, mark.at) = (self.count, self.sum, at);
            }
        }
        self.since_choice += 1;
        self.since_halving += 1;
        if self.since_choice >= CHOOSE_EVERY {
            self.since_choice = 0;
            self.choose();
        }
        if self.since_halving >= HALVE_EVERY {
            self.since_halving = 0;
            for mark in self.marks.values_mut() {
                mark.strict.halve();
                mark.loose.halve();
            }
        }
        let (start_ns, end_ns) = ended.filter(|(start, end)| end > start)?;
        let iteration = Iteration {
            start_ns,
            end_ns,
            number: self.iterations,
        };
        self.iterations += 1;
        self.durations.add(end_ns - start_ns);
        if self.recent.len() >= MOST_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(iteration);
        Some(iteration)
    }

    fn choose(&mut self) {
        let votes = || {
            (self.marks.iter()).flat_map(|(&symbol, mark)| {
                [(symbol, true, &mark.strict), (symbol, false, &mark.loose)]
            })
        };
        let enough = |vote: &Vote| vote.hits >= FEWEST;
        let best = votes()
            .filter(|(_, _, vote)| enough(vote))
            .map(|(_, _, vote)| vote.covered())
            .fold(0.0, f64::max);
        let seen = self.count.min(2 * HALVE_EVERY) as f64;
        if best < LEAST_SHARE * seen {
            return;
        }
        let good = |vote: &Vote| enough(vote) && vote.covered() >= NEARLY * best;
        // One that still is good stays: the series does not jump between two kernels of the same iteration.
        if let Some((chosen, is_strict)) = self.mark
            && let Some(mark) = self.marks.get(&chosen)
        {
            let vote = if is_strict { &mark.strict } else { &mark.loose };
            if good(vote) && vote.is_clean() {
                return;
            }
        }
        let candidates = votes().filter(|(_, _, vote)| good(vote));
        let found = candidates.min_by_key(|(symbol, is_strict, vote)| {
            (!vote.is_clean(), vote.like.0, !is_strict, *symbol)
        });
        let found = found.map(|(symbol, is_strict, _)| (symbol, is_strict));
        if found != self.mark {
            // Of a loop inside this one, mostly, which was seen first: its iterations are no steps.
            self.mark = found;
            self.iterations = 0;
            self.durations = Histogram::default();
            self.recent.clear();
        }
    }

    /// The kernel or copy that begins an iteration.
    pub fn mark(&self) -> Option<SymbolId> {
        self.mark.map(|(symbol, _)| symbol)
    }
}

fn spread(symbol: SymbolId) -> u64 {
    u64::from(symbol + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The steps of one thread, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct StepSeries {
    pub pid: u32,
    pub tid: u32,
    /// What begins a step.
    pub mark: Name,
    /// All that were seen since the loop was found.
    pub count: u64,
    pub durations: Histogram,
    /// The last of them.
    pub recent: Vec<Iteration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels of a step, each so long.
    fn run(steps: &mut Steps, at: &mut u64, kernels: &[SymbolId], each: u64) -> Vec<u64> {
        let mut found = Vec::new();
        for &kernel in kernels {
            *at += each;
            found.extend((steps.step(kernel, *at)).map(|it| it.end_ns - it.start_ns));
        }
        found
    }

    #[test]
    fn the_outer_loop_is_the_step() {
        let mut steps = Steps::default();
        let mut at = 0;
        // Warming up: something else.
        run(&mut steps, &mut at, &[90, 91, 92, 93, 94], 5);
        // A model of twelve equal layers between an embedding and a loss.
        let mut kernels = vec![1];
        kernels.extend([2, 3, 4].repeat(12));
        kernels.extend([5, 6]);
        for _ in 0..50 {
            run(&mut steps, &mut at, &kernels, 10);
        }
        assert!([1, 5, 6].contains(&steps.mark().expect("a loop")));
        let length = kernels.len() as u64 * 10;
        let recent: Vec<u64> = (steps.recent.iter())
            .map(|it| it.end_ns - it.start_ns)
            .collect();
        assert!(recent.len() > 35, "{recent:?}");
        assert!(recent.iter().all(|&one| one == length), "{recent:?}");
        // Slower steps show at once.
        let slow = run(&mut steps, &mut at, &kernels, 30);
        let next = run(&mut steps, &mut at, &kernels, 10);
        assert!([slow, next].concat().iter().any(|&one| one >= 2 * length));
    }

    #[test]
    fn another_loop_takes_over() {
        let mut steps = Steps::default();
        let mut at = 0;
        for _ in 0..200 {
            run(&mut steps, &mut at, &[1, 2, 3], 10);
        }
        for _ in 0..20_000 {
            run(&mut steps, &mut at, &[7, 8, 9, 10], 10);
        }
        assert!([7, 8, 9, 10].contains(&steps.mark().expect("a loop")));
        let last = steps.recent.back().expect("steps");
        assert_eq!(last.end_ns - last.start_ns, 40);
    }

    #[test]
    fn without_a_loop_there_are_no_steps() {
        let mut steps = Steps::default();
        let mut state = 1u64;
        for at in 0..3_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            steps.step((state >> 52) as SymbolId, at);
        }
        assert_eq!(steps.iterations, 0);
    }
}
