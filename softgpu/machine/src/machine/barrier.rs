//! Barriers: per-warp arrival, as PTX defines it. A warp has arrived when all its live lanes have;
//! a barrier is complete when all warps (or as many as were named) have arrived.

use super::block::BlockState;
use super::execute::Executor;
use super::registers::{Bits, View};
use super::trouble::{Outcome, Trouble};
use super::warp::{State, Warp};
use crate::alu::WARP;
use crate::fault::FaultKind;
use crate::program::code::{Barrier, BarrierMode, NONE};

/// One of the sixteen barriers of a block.
#[derive(Default, Clone)]
pub struct BarrierState {
    /// Lanes that arrived, by warp.
    pending: Vec<u32>,
    /// Number of threads named, if any.
    expected: Option<u32>,
    mode: Option<BarrierMode>,
    arrived: u32,
    set: u32,
}

impl BarrierState {
    pub fn reset(&mut self, warps: usize) {
        self.pending.clear();
        self.pending.resize(warps, 0);
        self.expected = None;
        self.mode = None;
        self.arrived = 0;
        self.set = 0;
    }

    fn is_complete(&self, warps: &[Warp]) -> bool {
        let mut arrived = 0;
        let mut all = true;
        for (pending, warp) in self.pending.iter().zip(warps) {
            if *pending != 0 && warp.live & !pending == 0 {
                arrived += 1;
            } else if warp.live != 0 {
                all = false;
            }
        }
        match self.expected {
            Some(expected) => arrived * WARP as u32 >= expected,
            None => all,
        }
    }

    fn result(&self) -> u64 {
        match self.mode {
            Some(BarrierMode::Count) => u64::from(self.set),
            Some(BarrierMode::All) => u64::from(self.set == self.arrived),
            Some(BarrierMode::Any) => u64::from(self.set != 0),
            _ => 0,
        }
    }
}

impl Executor<'_, '_> {
    /// True if lanes wait now; their group's entry is up to date then.
    pub fn barrier(
        &mut self,
        view: View,
        index: usize,
        barrier: &Barrier,
        active: u32,
        line: u32,
    ) -> Outcome<bool> {
        let ids = *view.get(barrier.id);
        let first = Bits(active).next().unwrap_or(0);
        let id = ids[first];
        let trouble = |lane: usize, text: String| {
            Err(Trouble::new(
                FaultKind::IllegalInstruction,
                Some(lane),
                text,
            ))
        };
        if id > 15 {
            return trouble(first, format!("barrier {id}: only 0 to 15 exist"));
        }
        if let Some(lane) = Bits(active).find(|&lane| ids[lane] != id) {
            return trouble(lane, "lanes of a warp name different barriers".to_string());
        }
        let expected = match barrier.count {
            NONE => None,
            reg => Some(view.get(reg)[first] as u32),
        };
        if let Some(count) = expected
            && count % WARP as u32 != 0
        {
            return trouble(
                first,
                format!("barrier for {count} threads: not whole warps"),
            );
        }
        let state = &mut self.block.barriers[id as usize];
        state.pending[self.warp.index as usize] |= active;
        state.expected = expected.or(state.expected);
        state.arrived += active.count_ones();
        if barrier.value != NONE {
            let mut set = view.mask(barrier.value);
            if barrier.complement {
                set = !set;
            }
            state.set += (set & active).count_ones();
            state.mode = Some(barrier.mode);
        }
        self.block.has_news = true;
        if barrier.mode == BarrierMode::Arrive {
            return Ok(false);
        }
        self.separate(index, active);
        self.warp.groups[index].state = State::Barrier {
            id: id as u8,
            dst: barrier.dst,
            line,
        };
        Ok(true)
    }

    pub fn cluster_arrive(&mut self, active: u32) {
        self.warp.cluster_phase = self.cluster.phase;
        self.cluster.arrived += u64::from(active.count_ones());
        self.block.has_news = true;
    }
}

/// Releases the lanes at barriers that are complete now.
pub fn settle(block: &mut BlockState, warps: &mut [Warp]) {
    for id in 0..block.barriers.len() {
        let state = &block.barriers[id];
        if state.pending.iter().all(|pending| *pending == 0) || !state.is_complete(warps) {
            continue;
        }
        let result = state.result();
        for warp in warps.iter_mut() {
            for group in &mut warp.groups {
                let State::Barrier { id: at, dst, .. } = group.state else {
                    continue;
                };
                if usize::from(at) != id {
                    continue;
                }
                if dst != NONE {
                    let register = &mut warp.frames[group.frame as usize].registers[dst as usize];
                    for lane in Bits(group.mask) {
                        register[lane] = result;
                    }
                }
                group.state = State::Ready;
                group.pc += 1;
            }
        }
        block.barriers[id].reset(warps.len());
    }
}
