//! What is not recorded because it would cost more than it may (`--budget`), as the draining thread sees it: what the
//! busiest thread spends, and what its gates let by.

use super::counters::CounterPage;
use super::drain::Reader;
use crate::live::budget::{Budget, BudgetReport, ORDER};
use ahash::AHashMap;
use event::ring::GATES;

/// Calls that were let by and counted, by class in the order of [`ORDER`].
pub type Shed = [u64; ORDER.len()];

/// What a budget came to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SheddingReport {
    pub budget: BudgetReport,
    pub shed: Shed,
}

impl SheddingReport {
    /// For the trace's tail.
    pub fn in_words(&self) -> event::Shed {
        let names = ORDER.iter().map(|(_, _, name)| (*name).to_owned());
        event::Shed {
            budget: self.budget.share,
            spent: self.budget.spent,
            calls: names.zip(self.shed).collect(),
        }
    }
}

pub struct Shedding {
    budget: Budget,
    /// Nanoseconds by ring, since the budget was last asked.
    spent: AHashMap<usize, f64>,
    shed: Shed,
    /// Nanoseconds of a tick.
    tick: f64,
    cost: f64,
}

impl Shedding {
    /// `tick`: nanoseconds of one of the processor's counter.
    pub fn new(budget: Budget, tick: f64) -> Self {
        Shedding {
            budget,
            spent: AHashMap::new(),
            shed: [0; ORDER.len()],
            tick,
            cost: 0.0,
        }
    }

    /// A ring has been read: these calls of its thread are new.
    pub fn recorded(&mut self, ring: usize, calls: u64) {
        *self.spent.entry(ring).or_default() += calls as f64 * self.cost;
    }

    /// What a ring says besides.
    pub fn look_at(&mut self, ring: usize, reader: &mut Reader) {
        let (shed, ticks) = reader.take_shed();
        for (sum, more) in self.shed.iter_mut().zip(shed) {
            *sum += more;
        }
        if ticks > 0 {
            *self.spent.entry(ring).or_default() += ticks as f64 * self.tick;
        }
    }

    pub fn is_due(&self, now: u64) -> bool {
        self.budget.is_due(now)
    }

    /// All rings have been looked at.
    pub fn decide(&mut self, now: u64, counters: &CounterPage) {
        if self.cost == 0.0 {
            self.cost = counters.cost();
        }
        let busiest = self.spent.values().copied().fold(0.0, f64::max);
        self.spent.clear();
        self.budget.spent(now, busiest);
    }

    pub fn stride(&mut self, now: u64) {
        self.budget.stride(now);
    }

    pub fn report(&self, now: u64) -> SheddingReport {
        SheddingReport {
            budget: self.budget.report(now),
            shed: self.shed,
        }
    }
}

const _: () = {
    let mut place = 0;
    while place < ORDER.len() {
        assert!((ORDER[place].0 as usize) < GATES);
        place += 1;
    }
};
