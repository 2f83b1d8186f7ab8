//! Programs whose loops are stopped by a budget when they run: the walk need not come to each loop's
//! end, only to a state that covers all its rounds.

use super::explore::{Path, Trouble, Walk};
use super::refused::Reason;
use crate::instruction::Operation;

/// Rounds of a loop after which numbers that change are no longer followed, and rounds after which
/// none are.
const ROUNDS_FOLLOWED: usize = 20;
const ROUNDS_KNOWN: usize = 48;

impl Walk<'_> {
    /// Makes the states of a loop alike: what changes from round to round may be anything.
    pub(super) fn generalise(&self, path: &mut Path) {
        let seen = self.states_at(path.at);
        if !self.is_budgeted || !self.is_head[path.at] || seen.len() < ROUNDS_FOLLOWED {
            return;
        }
        if seen.len() >= ROUNDS_KNOWN {
            path.state.widen_all();
        } else if let Some(before) = self.last_state_at(path.at) {
            path.state.widen_changed(before);
        }
    }

    /// Whether a jump leads back, in what is reached.
    pub(super) fn goes_round(&self) -> bool {
        self.jumps_back().next().is_some()
    }

    fn jumps_back(&self) -> impl Iterator<Item = (usize, usize)> {
        let code = self.program.instructions.iter().enumerate();
        code.filter_map(|(at, instruction)| {
            let target = instruction.operation.target()?;
            let goes = self.facts.reached[at] && self.facts.reached[target];
            (goes && target <= at).then_some((at, target))
        })
    }

    /// A loop that nothing leaves is a mistake, whatever stops it.
    pub(super) fn check_ways_out(&self) -> Result<(), (usize, Trouble)> {
        if !self.is_budgeted {
            return Ok(());
        }
        for (at, head) in self.jumps_back() {
            let inside = |place: usize| self.relevance.share_a_loop(place, head);
            let leaves = (0..self.program.instructions.len()).any(|place| {
                let Operation::Branch { target, .. } = self.program.instructions[place].operation
                else {
                    return false;
                };
                let goes_out = |to: usize| {
                    let is_reached = self.facts.reached.get(to).copied().unwrap_or(false);
                    is_reached && !inside(to)
                };
                self.facts.reached[place]
                    && inside(place)
                    && (goes_out(target) || goes_out(place + 1))
            });
            // A jump over nothing, which is in no loop.
            if !leaves && inside(at) {
                let text = "nothing leaves the loop".to_owned();
                return Err((head, (Reason::UnboundedLoop, text)));
            }
        }
        Ok(())
    }
}
