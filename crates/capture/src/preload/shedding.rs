//! What is not recorded because it would cost more than it may (`--budget`), as the draining thread sees it: what the
//! busiest thread spends, and what its gates let by.

use super::counters::CounterPage;
use super::drain::Reader;
use crate::live::budget::{Budget, BudgetReport, Class, Cost, ORDER};
use crate::live::slowdown::{Slowdown, Stretch};
use ahash::AHashMap;
use cuda::gate;

/// The gates of [`ORDER`].
pub const SHED_GATES: [u8; 6] = [
    gate::QUERIES,
    gate::STACKS,
    gate::COPIES,
    gate::LAUNCHES,
    gate::RUNTIME_LAUNCHES,
    gate::CONFIGURATIONS,
];

/// Calls that were let by and counted, by gate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Shed(pub [u64; SHED_GATES.len()]);

impl Shed {
    fn add(&mut self, more: Shed) {
        for (sum, more) in self.0.iter_mut().zip(more.0) {
            *sum = sum.saturating_add(more);
        }
    }

    /// Calls, each once: a launch by the runtime is one of the driver's as well, and what configures it is none.
    fn of(&self, class: &Class) -> u64 {
        let by_gate = SHED_GATES.iter().zip(self.0);
        let of_class = by_gate.filter(|(gate, _)| {
            **gate != gate::CONFIGURATIONS && class.gates.iter().any(|(of, _)| of == *gate)
        });
        of_class.map(|(_, calls)| calls).max().unwrap_or(0)
    }

    /// Calls that passed a hook without being recorded. Those that have no stack were recorded.
    fn passes(&self) -> u64 {
        let by_gate = SHED_GATES.iter().zip(self.0);
        let calls = by_gate.filter(|(gate, _)| **gate != gate::STACKS);
        calls.map(|(_, calls)| calls).sum()
    }
}

/// What a budget came to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SheddingReport {
    pub budget: BudgetReport,
    pub shed: Shed,
}

impl SheddingReport {
    /// For the trace's tail.
    pub fn in_words(&self) -> event::Shed {
        let calls = ORDER.iter();
        event::Shed {
            budget: self.budget.share,
            spent: self.budget.spent,
            hooks: self.budget.hooks,
            calls: calls
                .map(|class| (class.name.to_owned(), self.shed.of(class)))
                .collect(),
        }
    }
}

pub struct Shedding {
    budget: Budget,
    slowdown: Slowdown,
    /// By ring, since the budget was last asked.
    spent: AHashMap<usize, Cost>,
    shed: Shed,
    /// Nanoseconds of a tick.
    tick: f64,
    /// Nanoseconds of recording a call and of shedding one, timed in a loop; 0: not known yet.
    recording: f64,
    passing: f64,
    busiest: Option<Busiest>,
}

/// The ring whose thread was the busiest when the account was last settled, and what is new in it since gates were last
/// opened or closed.
struct Busiest {
    ring: usize,
    since: u64,
    recorded: u64,
    passes: Option<u64>,
}

impl Shedding {
    /// `tick`: nanoseconds of one of the processor's counter.
    pub fn new(budget: Budget, tick: f64) -> Self {
        Shedding {
            budget,
            slowdown: Slowdown::default(),
            spent: AHashMap::new(),
            shed: Shed::default(),
            tick,
            recording: 0.0,
            passing: 0.0,
            busiest: None,
        }
    }

    /// A ring has been read: these calls of its thread are new.
    pub fn recorded(&mut self, ring: usize, calls: u64) {
        let cost = calls as f64 * self.recording * self.slowdown.factor();
        self.spent.entry(ring).or_default().all += cost;
        if let Some(busiest) = self.busiest.as_mut().filter(|busiest| busiest.ring == ring) {
            busiest.recorded += calls;
        }
    }

    /// What a ring says besides.
    pub fn look_at(&mut self, ring: usize, reader: &mut Reader) {
        let (shed, ticks) = reader.take_shed();
        self.shed.add(shed);
        let hooks = shed.passes() as f64 * self.passing;
        let stacks = ticks as f64 * self.tick;
        if hooks + stacks > 0.0 {
            let spent = self.spent.entry(ring).or_default();
            spent.all += hooks + stacks;
            spent.hooks += hooks;
        }
    }

    pub fn is_due(&self, now: u64) -> bool {
        self.budget.is_due(now)
    }

    /// All rings have been looked at.
    pub fn settle(&mut self, now: u64) {
        let busiest = (self.spent.drain()).max_by(|(_, a), (_, b)| a.all.total_cmp(&b.all));
        let (ring, cost) =
            busiest.map_or((None, Cost::default()), |(ring, cost)| (Some(ring), cost));
        self.budget.settle(now, cost);
        if ring.is_some() && ring != self.busiest.as_ref().map(|busiest| busiest.ring) {
            self.busiest = ring.map(|ring| Busiest {
                ring,
                since: now,
                recorded: 0,
                passes: None,
            });
        }
    }

    pub fn is_stride(&self, now: u64) -> bool {
        self.budget.is_stride(now)
    }

    pub fn busiest(&self) -> Option<usize> {
        self.busiest.as_ref().map(|busiest| busiest.ring)
    }

    /// Opens and closes gates. `shed`: what the busiest thread's ring has counted, if it is still there.
    pub fn stride(&mut self, now: u64, shed: Option<Shed>, counters: &CounterPage) {
        if self.recording == 0.0 {
            (self.recording, self.passing) = (counters.cost(), counters.shed_cost());
        }
        if let Some(busiest) = &mut self.busiest {
            let passes = shed.map(|shed| shed.passes());
            if let Some((before, passes)) = busiest.passes.zip(passes) {
                self.slowdown.add(Stretch {
                    ring: busiest.ring,
                    edge: self.budget.edge(),
                    nanoseconds: now.saturating_sub(busiest.since),
                    calls: busiest.recorded + passes.saturating_sub(before),
                    cost: busiest.recorded as f64 * self.recording,
                });
            }
            (busiest.since, busiest.recorded, busiest.passes) = (now, 0, passes);
        }
        let spent = self.spent.values().map(|cost| cost.all);
        self.budget.stride(now, spent.fold(0.0, f64::max));
    }

    pub fn report(&self, now: u64) -> SheddingReport {
        SheddingReport {
            budget: self.budget.report(now),
            shed: self.shed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_its_gates_counted() {
        let gates = ORDER.iter().flat_map(|class| class.gates);
        assert!(gates.clone().all(|(gate, _)| SHED_GATES.contains(gate)));
        assert_eq!(gates.count(), SHED_GATES.len());
    }

    #[test]
    fn a_launch_of_the_runtime_is_one_launch() {
        let shed = Shed([7, 5, 3, 100, 90, 180]);
        let by_name = SheddingReport {
            shed,
            ..SheddingReport::default()
        };
        let calls = by_name.in_words().calls;
        assert_eq!((calls["launches"], calls["queries"]), (100, 7));
        assert_eq!(shed.passes(), 380);
    }
}
