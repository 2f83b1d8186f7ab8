//! `--budget`: what recording may cost the program. What costs more than it may is not recorded, in a stated order:
//! questions first, then stacks, then small copies. What is shed is counted, calls that fail are always recorded.
//!
//! The cost is that of the busiest thread: its calls times what recording one costs, as measured in the program, and
//! the time that its stacks took. Between all and nothing of a class, its gate is open part of the time.

use super::Gates;
use event::ring::{GATE_SHED, GATE_SHED_SMALL};

/// What is shed, in this order.
pub const ORDER: [(u8, u8, &str); 3] = [
    (cuda::gate::QUERIES, GATE_SHED, "queries"),
    (cuda::gate::STACKS, GATE_SHED, "stacks"),
    (cuda::gate::COPIES, GATE_SHED_SMALL, "small copies"),
];

/// How often gates are opened and closed, and how often what to shed is decided.
const STRIDE: u64 = 4_000_000;
const DECIDE: u64 = 40_000_000;
/// How much of a class is shed more after a second at twice the budget.
const EAGERNESS: f64 = 4.0;

/// Decides what is shed.
pub struct Budget {
    gates: Gates,
    /// Of the busiest thread's time.
    share: f64,
    /// How much is shed: 1.5 is all of the first class and half of the second.
    level: f64,
    /// Of each class, what is open and has not been yet.
    owed: [f64; ORDER.len()],
    began: Option<u64>,
    strode: u64,
    decided: u64,
    /// What the busiest thread's recording cost since the last decision, and in all.
    total: f64,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BudgetReport {
    /// What it could be.
    pub share: f64,
    /// What it was.
    pub spent: f64,
}

impl Budget {
    pub fn new(share: f64, gates: Gates) -> Self {
        Budget {
            gates,
            share,
            level: 0.0,
            owed: [0.0; ORDER.len()],
            began: None,
            strode: 0,
            decided: 0,
            total: 0.0,
        }
    }

    /// Whether it wants to know what was spent since it last knew.
    pub fn is_due(&self, now: u64) -> bool {
        now.saturating_sub(self.decided) >= DECIDE
    }

    /// What recording cost the busiest thread since the last time, in nanoseconds.
    pub fn spent(&mut self, now: u64, cost: f64) {
        let since = std::mem::replace(&mut self.decided, now);
        if self.began.is_none() {
            // A program that has not begun to call has cost nothing, and says nothing of what comes.
            if cost > 0.0 {
                self.began = Some(now);
            }
            return;
        }
        let interval = now.saturating_sub(since).max(1) as f64;
        self.total += cost;
        let excess = (cost / interval / self.share - 1.0).clamp(-1.0, 2.0);
        self.level += EAGERNESS * excess * interval / 1e9;
        self.level = self.level.clamp(0.0, ORDER.len() as f64);
    }

    /// Opens and closes what is shed part of the time.
    pub fn stride(&mut self, now: u64) {
        if now.saturating_sub(self.strode) < STRIDE {
            return;
        }
        self.strode = now;
        let mut shed = Vec::new();
        for (place, (class, value, _)) in ORDER.iter().enumerate() {
            let open = 1.0 - (self.level - place as f64).clamp(0.0, 1.0);
            let owed = &mut self.owed[place];
            *owed = (*owed + open).min(1.5);
            match *owed >= 1.0 {
                true => *owed -= 1.0,
                false => shed.push((*class, *value)),
            }
        }
        self.gates.shed(&shed);
    }

    pub fn report(&self, now: u64) -> BudgetReport {
        let elapsed = now.saturating_sub(self.began.unwrap_or(now)).max(1);
        BudgetReport {
            share: self.share,
            spent: self.total / elapsed as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose calls cost 5 % of its time, 4 % of it for questions.
    #[test]
    fn what_is_shed_settles_where_the_cost_is_what_it_may_be() {
        let mut budget = Budget::new(0.02, Gates::default());
        let (mut spent, mut open, mut rounds) = (0.0, 0, 0);
        for round in 1..5000_u64 {
            let now = round * STRIDE;
            budget.stride(now);
            let asks = budget.owed[0] >= 0.0 && !is_shed(&budget);
            let cost = STRIDE as f64 * if asks { 0.05 } else { 0.01 };
            spent += cost;
            if budget.is_due(now) {
                budget.spent(now, spent);
                spent = 0.0;
            }
            if round > 1000 {
                rounds += 1;
                open += u64::from(asks);
            }
        }
        let share = 0.01 + 0.04 * open as f64 / rounds as f64;
        assert!((0.018..0.022).contains(&share), "{share}");
        assert!(budget.level < 1.0, "{}", budget.level);
    }

    fn is_shed(budget: &Budget) -> bool {
        budget.gates.sheds(cuda::gate::QUERIES)
    }
}
