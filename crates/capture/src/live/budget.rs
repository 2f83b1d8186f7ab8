//! `--budget`: what recording may cost the program. What costs more than it may is not recorded, in a stated order:
//! queries first, then stacks, then small copies, then launches. What is shed is counted, calls that fail are always recorded.
//!
//! The cost is that of the busiest thread, and it is kept like an account: recording a call is owed for, and time that
//! passes pays for it. While anything is owed the class on the edge is shed, and when all is paid it is recorded. If more
//! and more is owed nevertheless, the next class comes to be on the edge.

use super::Gates;
use cuda::gate;
use event::ring::{GATE_SHED, GATE_SHED_SMALL};

/// Calls that are shed together.
pub struct Class {
    pub name: &'static str,
    /// Their gates, and what these are set to.
    pub gates: &'static [(u8, u8)],
}

/// What is shed, in this order.
pub const ORDER: [Class; 4] = [
    Class {
        name: "queries",
        gates: &[(gate::QUERIES, GATE_SHED)],
    },
    Class {
        name: "stacks",
        gates: &[(gate::STACKS, GATE_SHED)],
    },
    Class {
        name: event::Shed::COPIES,
        gates: &[(gate::COPIES, GATE_SHED_SMALL)],
    },
    Class {
        name: event::Shed::LAUNCHES,
        gates: &[
            (gate::LAUNCHES, GATE_SHED),
            (gate::RUNTIME_LAUNCHES, GATE_SHED),
            (gate::CONFIGURATIONS, GATE_SHED),
        ],
    },
];

/// How often gates are opened and closed, and how often the account is settled.
const STRIDE: u64 = 4_000_000;
const SETTLE: u64 = 40_000_000;
/// If more is owed after this time than before, another class is shed. If nothing was owed for that time, one class less.
const MORE_AFTER: u64 = 80_000_000;
const LESS_AFTER: u64 = 1_000_000_000;
/// What a program has paid ahead, and what it still owes, in nanoseconds of its time: what was longer ago is forgotten.
const MOST_AHEAD: f64 = 1e9;
const MOST_BEHIND: f64 = 10e9;

/// Decides what is shed.
pub struct Budget {
    gates: Gates,
    /// Of the busiest thread's time.
    share: f64,
    /// Those of [`ORDER`] that may be shed.
    classes: usize,
    /// The place in [`ORDER`] of the class on the edge.
    edge: usize,
    /// It is recorded.
    open: bool,
    /// When it was last opened, closed or looked at, and what was owed then.
    since: (u64, f64),
    owed: f64,
    began: Option<u64>,
    strode: u64,
    settled: u64,
    total: Cost,
}

/// What the busiest thread spent, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// On hooks and on recording.
    pub all: f64,
    /// On hooks that recorded nothing.
    pub hooks: f64,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BudgetReport {
    /// What it could be.
    pub share: f64,
    /// What it was, and the part of it that nothing can be done about.
    pub spent: f64,
    pub hooks: f64,
}

impl Budget {
    /// `launches`: they may be shed.
    pub fn new(share: f64, launches: bool, gates: Gates) -> Self {
        Budget {
            gates,
            share,
            classes: ORDER.len() - usize::from(!launches),
            edge: 0,
            open: true,
            since: (0, 0.0),
            owed: 0.0,
            began: None,
            strode: 0,
            settled: 0,
            total: Cost::default(),
        }
    }

    /// Whether it wants to know what was spent since it last knew.
    pub fn is_due(&self, now: u64) -> bool {
        now.saturating_sub(self.settled) >= SETTLE
    }

    /// What recording cost the busiest thread since the last time.
    pub fn settle(&mut self, now: u64, cost: Cost) {
        let owed = self.owed_at(now, cost.all);
        self.settled = now;
        if self.began.is_none() {
            // A program that has not begun to call has cost nothing, and says nothing of what comes.
            if cost.all > 0.0 {
                self.began = Some(now);
                self.owed = cost.all;
                self.since = (now, cost.all);
                self.total = cost;
            }
            return;
        }
        self.owed = owed.clamp(-self.share * MOST_AHEAD, self.share * MOST_BEHIND);
        self.total.all += cost.all;
        self.total.hooks += cost.hooks;
    }

    fn owed_at(&self, now: u64, spent: f64) -> f64 {
        self.owed + spent - self.share * now.saturating_sub(self.settled) as f64
    }

    /// The class on the edge, by its place in [`ORDER`], and whether it is recorded.
    pub fn edge(&self) -> (usize, bool) {
        (self.edge, self.open)
    }

    pub fn is_stride(&self, now: u64) -> bool {
        now.saturating_sub(self.strode) >= STRIDE
    }

    /// Opens and closes gates. `spent`: by the busiest thread since the account was settled.
    pub fn stride(&mut self, now: u64, spent: f64) {
        self.strode = now;
        if self.began.is_none() {
            return;
        }
        let owed = self.owed_at(now, spent);
        let (since, before) = self.since;
        let lasted = now.saturating_sub(since);
        let open = owed <= 0.0;
        if open != self.open {
            self.open = open;
            self.since = (now, owed);
        } else if !open && lasted >= MORE_AFTER {
            if owed > before && self.edge + 1 < self.classes {
                self.edge += 1;
            }
            self.since = (now, owed);
        } else if open && lasted >= LESS_AFTER {
            self.edge = self.edge.saturating_sub(1);
            self.since = (now, owed);
        }
        let shed = &ORDER[..self.edge + usize::from(!self.open)];
        let gates = shed.iter().flat_map(|class| class.gates).copied();
        self.gates.shed(&gates.collect::<Vec<_>>());
    }

    pub fn report(&self, now: u64) -> BudgetReport {
        let elapsed = now.saturating_sub(self.began.unwrap_or(now)).max(1) as f64;
        BudgetReport {
            share: self.share,
            spent: self.total.all / elapsed,
            hooks: self.total.hooks / elapsed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of which recording each class takes a share of its time, and the rest another. What it costs in all over
    /// the seconds asked for.
    fn run(
        share: f64,
        launches: bool,
        classes: [f64; ORDER.len()],
        rest: f64,
        seconds: u64,
    ) -> (Budget, f64) {
        let mut budget = Budget::new(share, launches, Gates::default());
        let (mut spent, mut total) = (1.0, 0.0);
        let strides = seconds * 1_000_000_000 / STRIDE;
        for round in 1..=strides {
            let now = round * STRIDE;
            if budget.is_due(now) {
                let all = std::mem::take(&mut spent);
                budget.settle(now, Cost { all, hooks: 0.0 });
            }
            budget.stride(now, spent);
            let recorded = classes.iter().enumerate().filter(|(place, _)| {
                let (gate, _) = ORDER[*place].gates[0];
                !budget.gates.sheds(gate)
            });
            let cost = STRIDE as f64 * (rest + recorded.map(|(_, share)| share).sum::<f64>());
            spent += cost;
            total += cost;
        }
        (budget, total / (strides * STRIDE) as f64)
    }

    #[test]
    fn the_cost_is_what_it_may_be() {
        for (classes, edge) in [
            // The queries alone are too much, or all but the launches together.
            ([0.04, 0.0, 0.0, 0.01], 0),
            ([0.05, 0.0, 0.05, 0.01], 2),
            // A loop of nothing but launches.
            ([0.0, 0.0, 0.0, 0.3], 3),
        ] {
            let (budget, cost) = run(0.02, true, classes, 0.001, 10);
            assert!((0.0195..0.0205).contains(&cost), "{classes:?} {cost}");
            assert_eq!(budget.edge().0, edge, "{classes:?}");
            let said = budget.report(10_000_000_000).spent;
            assert!((said - cost).abs() < 0.001, "{said} {cost}");
        }
    }

    #[test]
    fn nothing_is_shed_that_costs_little() {
        let (budget, cost) = run(0.02, true, [0.01, 0.0, 0.0, 0.005], 0.0, 10);
        assert_eq!((budget.edge(), (cost * 1e3).round()), ((0, true), 15.0));
    }

    #[test]
    fn launches_are_recorded_where_steps_are_counted() {
        let (budget, cost) = run(0.02, false, [0.01, 0.0, 0.0, 0.05], 0.0, 10);
        assert!(!budget.gates.sheds(gate::LAUNCHES));
        assert!(cost > 0.05, "{cost}");
    }

    #[test]
    fn what_costs_more_than_it_may_by_itself_leaves_nothing_open() {
        let (budget, cost) = run(0.02, true, [0.01, 0.0, 0.0, 0.05], 0.03, 10);
        assert!(budget.gates.sheds(gate::RUNTIME_LAUNCHES));
        assert!((0.03..0.033).contains(&cost), "{cost}");
    }
}
