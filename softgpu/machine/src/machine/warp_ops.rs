//! Operations among lanes: shuffles, votes, matches, reductions, and waiting for the members.

use super::execute::Executor;
use super::registers::{Bits, View};
use super::warp::{Group, State};
use crate::alu::{Lanes, WARP};
use crate::program::code::{Reduce, Reg, ShuffleMode, VoteMode, WarpOp};

impl Executor<'_, '_> {
    /// True if the group (or part of it) has to wait; its entry is up to date then.
    pub fn warp_op(
        &mut self,
        view: View,
        index: usize,
        members: Reg,
        op: &WarpOp,
        active: u32,
    ) -> bool {
        // Lanes may name different masks, as after match.any: each mask is an operation of its own.
        let masks = *view.get(members);
        let mut rest = active;
        let mut waiting = Vec::new();
        while rest != 0 {
            let mask = masks[rest.trailing_zeros() as usize] as u32;
            let same = Bits(rest)
                .filter(|&lane| masks[lane] as u32 == mask)
                .fold(0u32, |lanes, lane| lanes | 1 << lane);
            rest &= !same;
            if mask & self.warp.live & !same == 0 {
                perform(view, op, same);
            } else {
                waiting.push((mask, same));
            }
        }
        if waiting.is_empty() {
            return false;
        }
        let group = self.warp.groups[index];
        let waits = waiting.iter().fold(0, |all, (_, lanes)| all | lanes);
        let goes_on = group.mask & !waits;
        for (mask, lanes) in waiting {
            let state = match op {
                WarpOp::Barrier => State::WarpBarrier(mask),
                _ => State::Members(mask),
            };
            self.wait(Group {
                mask: lanes,
                state,
                ..group
            });
        }
        let group = &mut self.warp.groups[index];
        group.mask = goes_on;
        group.pc += 1;
        true
    }

    /// Adds a waiting group, together with those that wait at the same place for the same lanes.
    fn wait(&mut self, group: Group) {
        let same = self.warp.groups.iter_mut().find(|other| {
            other.state == group.state && other.pc == group.pc && other.frame == group.frame
        });
        match same {
            Some(other) => other.mask |= group.mask,
            None => self.warp.groups.push(group),
        }
    }
}

fn perform(view: View, op: &WarpOp, active: u32) {
    match op {
        WarpOp::Shuffle {
            mode,
            dst,
            valid,
            value,
            lane,
            clamp,
        } => {
            let (result, in_range) =
                shuffle(*mode, view.get(*value), view.get(*lane), view.get(*clamp));
            view.put(*dst, &result, active);
            view.put(*valid, &in_range, active);
        }
        WarpOp::Vote {
            mode,
            dst,
            value,
            complement,
        } => {
            let mut votes = view.mask(*value);
            if *complement {
                votes = !votes;
            }
            votes &= active;
            let result = match mode {
                VoteMode::All => u64::from(votes == active),
                VoteMode::Any => u64::from(votes != 0),
                VoteMode::Uniform => u64::from(votes == 0 || votes == active),
                VoteMode::Ballot => u64::from(votes),
            };
            view.fill(*dst, result, active);
        }
        WarpOp::Match {
            all,
            dst,
            valid,
            value,
        } => {
            let values = *view.get(*value);
            let equal_to = |wanted: u64| {
                Bits(active)
                    .filter(|&lane| values[lane] == wanted)
                    .fold(0u32, |mask, lane| mask | 1 << lane)
            };
            if *all {
                let first = Bits(active).next().map_or(0, |lane| values[lane]);
                let is_same = equal_to(first) == active;
                let mask = if is_same { active } else { 0 };
                view.fill(*dst, u64::from(mask), active);
                view.fill(*valid, u64::from(is_same), active);
            } else {
                let mut result = [0; WARP];
                for lane in Bits(active) {
                    result[lane] = u64::from(equal_to(values[lane]));
                }
                view.put(*dst, &result, active);
            }
        }
        WarpOp::Redux { reduce, dst, value } => {
            let values = view.get(*value);
            let result = Bits(active)
                .map(|lane| values[lane] as u32)
                .reduce(|a, b| combine(*reduce, a, b))
                .unwrap_or(0);
            view.fill(*dst, u64::from(result), active);
        }
        WarpOp::Elect { dst, leader } => {
            let first = active.trailing_zeros() % 32;
            view.fill(*dst, u64::from(first), active);
            let mut chosen = [0; WARP];
            chosen[first as usize] = 1;
            view.put(*leader, &chosen, active);
        }
        WarpOp::Barrier => {}
    }
}

/// The source lane as PTX defines it: segments by the upper mask of `clamp`, bounds by its low
/// five bits; a lane whose source is out of range keeps its own value.
fn shuffle(mode: ShuffleMode, values: &Lanes, lane: &Lanes, clamp: &Lanes) -> (Lanes, Lanes) {
    let mut result = [0; WARP];
    let mut valid = [0; WARP];
    for own in 0..WARP {
        let by = lane[own] as u32 & 31;
        let bound = clamp[own] as u32 & 31;
        let segment = (clamp[own] as u32 >> 8) & 31;
        let own_bits = own as u32;
        let highest = (own_bits & segment) | (bound & !segment);
        let lowest = own_bits & segment;
        let (source, in_range) = match mode {
            ShuffleMode::Up => {
                let source = own_bits as i32 - by as i32;
                (source, source >= highest as i32)
            }
            ShuffleMode::Down => {
                let source = own_bits + by;
                (source as i32, source <= highest)
            }
            ShuffleMode::Butterfly => {
                let source = own_bits ^ by;
                (source as i32, source <= highest)
            }
            ShuffleMode::Index => {
                let source = lowest | (by & !segment);
                (source as i32, source <= highest)
            }
        };
        let source = if in_range { source as usize } else { own };
        result[own] = values[source % WARP];
        valid[own] = u64::from(in_range);
    }
    (result, valid)
}

fn combine(reduce: Reduce, a: u32, b: u32) -> u32 {
    match reduce {
        Reduce::And => a & b,
        Reduce::Or => a | b,
        Reduce::Xor => a ^ b,
        Reduce::Add => a.wrapping_add(b),
        Reduce::Min => a.min(b),
        Reduce::Max => a.max(b),
        Reduce::MinSigned => (a as i32).min(b as i32) as u32,
        Reduce::MaxSigned => (a as i32).max(b as i32) as u32,
    }
}
