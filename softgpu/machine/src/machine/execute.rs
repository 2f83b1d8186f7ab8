//! The execution loop of one warp: pick a group of lanes, run it until it has to wait, splits,
//! meets another, or its time is up.

use std::sync::atomic::{Ordering, fence};

use super::access::sign_extend;
use super::address::RegionCache;
use super::block::{BlockState, Bytes, Cluster};
use super::registers::{Bits, View};
use super::trouble::{Outcome, Trouble};
use super::warp::{Group, State, Warp};
use super::{Environment, Launch};
use crate::alu::{Lanes, WARP};
use crate::fault::FaultKind;
use crate::program::code::{Function, Inst, NONE, Op};
use crate::program::{Kernel, Program};

/// Polls in a slice after which a warp lets others run: it probably waits for one of them.
const MANY_POLLS: u32 = 32;
/// Instructions after which the group that waited longest gets its turn …
const PATIENCE: u64 = 1 << 20;
/// … or these, when the running group polls.
const PATIENCE_POLLING: u64 = 192;
/// How long a turn out of order is.
const TURN: u32 = 128;

/// What a worker has at hand.
pub struct Core<'a> {
    pub launch: &'a Launch<'a>,
    pub env: &'a Environment<'a>,
    pub program: &'a Program,
    pub kernel: &'a Kernel,
    pub params: &'a Bytes,
    /// Address of the grid workspace, 0 if the launch is not cooperative.
    pub workspace: u64,
    pub regions: RegionCache<'a>,
    /// Where arithmetic puts its results before they are masked.
    pub scratch: Box<[Lanes; 2]>,
}

pub struct Executor<'x, 'a> {
    pub core: &'x mut Core<'a>,
    pub block: &'x mut BlockState,
    pub cluster: &'x mut Cluster,
    pub warp: &'x mut Warp,
    /// Of the running group.
    pub function: &'a Function,
    pub frame: u32,
    /// Instructions left in this slice.
    pub budget: u32,
    pub polls: u32,
    /// Instructions of this turn given up by polling.
    pub forfeited: u32,
}

/// Why the inner loop stopped.
enum Step {
    Next,
    /// The group is at a new place (its entry is up to date), or gone, or waits.
    Moved,
}

impl<'a> Executor<'_, 'a> {
    /// Runs until nothing is ready or the budget is spent.
    pub fn run(&mut self) -> Outcome {
        while self.budget > 0 {
            let Some((index, limit, turn)) = self.pick() else {
                return Ok(());
            };
            self.run_group(index, limit, turn)?;
        }
        Ok(())
    }

    /// The group to run, the position at which it meets another one, and for how long.
    fn pick(&mut self) -> Option<(usize, u32, u32)> {
        let warp = &mut *self.warp;
        if let [group] = warp.groups.as_mut_slice()
            && group.state == State::Ready
        {
            return Some((0, u32::MAX, u32::MAX));
        }
        wake(warp);
        merge(warp);
        let patience = if warp.has_polled {
            PATIENCE_POLLING
        } else {
            PATIENCE
        };
        let is_turn = warp.clock >= warp.fair_at.saturating_add(patience);
        let ready = |group: &&Group| group.state == State::Ready;
        if is_turn {
            warp.fair_at = warp.clock;
            warp.has_polled = false;
            let oldest = warp.groups.iter().filter(ready).min_by_key(|g| g.last)?;
            let index = warp.groups.iter().position(|g| std::ptr::eq(g, oldest))?;
            return Some((index, u32::MAX, TURN));
        }
        // The deepest call first, then the earliest place: what others wait for to meet.
        let mut best: Option<(usize, (u32, u32, u32))> = None;
        for (index, group) in warp.groups.iter().enumerate() {
            if group.state != State::Ready {
                continue;
            }
            let depth = warp.frames[group.frame as usize].depth;
            let rank = (u32::MAX - depth, group.frame, group.pc);
            if best.is_none_or(|(_, least)| rank < least) {
                best = Some((index, rank));
            }
        }
        let (index, _) = best?;
        let (frame, pc) = (warp.groups[index].frame, warp.groups[index].pc);
        let mut limit = u32::MAX;
        let mut others = 0;
        for group in warp.groups.iter().filter(ready) {
            others += 1;
            if group.frame == frame && group.pc > pc {
                limit = limit.min(group.pc);
            }
        }
        let turn = if others > 1 {
            PATIENCE_POLLING as u32
        } else {
            warp.fair_at = warp.clock;
            warp.has_polled = false;
            u32::MAX
        };
        Some((index, limit, turn))
    }

    fn view(&mut self, frame: u32) -> Outcome<(View, &'a [Inst])> {
        let frame = &mut self.warp.frames[frame as usize];
        let function = &self.core.program.functions[frame.function];
        let loaded = self.core.launch.loaded;
        let Some(constants) = loaded.constants(self.core.launch.kernel, frame.function) else {
            let text = format!(
                "{} was called but is not linked to this kernel",
                function.name
            );
            return Err(Trouble::new(FaultKind::InvalidPc, None, text));
        };
        self.function = function;
        Ok((View::new(&mut frame.registers, constants), &function.code))
    }

    fn run_group(&mut self, index: usize, limit: u32, turn: u32) -> Outcome {
        let Group {
            mut pc,
            frame,
            mask,
            ..
        } = self.warp.groups[index];
        self.frame = frame;
        let (view, code) = self.view(frame)?;
        let allowed = turn.min(self.budget);
        let mut left = allowed;
        let mut outcome = Ok(Step::Next);
        while left > 0 && pc < limit {
            left -= 1;
            let inst = &code[pc as usize];
            let mut active = mask;
            if inst.guard != NONE {
                let guard = view.mask(inst.guard);
                active &= if inst.negated { !guard } else { guard };
                if active == 0 {
                    pc += 1;
                    continue;
                }
            }
            match &inst.op {
                Op::Alu {
                    eval,
                    dst,
                    dst2,
                    src,
                } => {
                    let sources = [
                        view.get(src[0]),
                        view.get(src[1]),
                        view.get(src[2]),
                        view.get(src[3]),
                    ];
                    let scratch = &mut *self.core.scratch;
                    eval(scratch, sources);
                    view.put(*dst, &scratch[0], active);
                    if *dst2 != NONE {
                        view.put(*dst2, &scratch[1], active);
                    }
                    pc += 1;
                }
                Op::Branch { target } if active == mask => pc = *target,
                Op::Load(access) => {
                    if access.polls {
                        self.poll(&mut left);
                    }
                    if let Err(trouble) = self.load(view, access, active) {
                        outcome = Err(trouble);
                        break;
                    }
                    pc += 1;
                }
                Op::Store(access) => {
                    if let Err(trouble) = self.store(view, access, active) {
                        outcome = Err(trouble);
                        break;
                    }
                    pc += 1;
                }
                Op::Move { dst, src } => {
                    let value = *view.get(*src);
                    view.put(*dst, &value, active);
                    pc += 1;
                }
                _ => {
                    self.warp.groups[index].pc = pc;
                    outcome = self.other(view, inst, index, active, &mut left);
                    match outcome {
                        Ok(Step::Next) => pc += 1,
                        _ => break,
                    }
                }
            }
        }
        let forfeited = std::mem::take(&mut self.forfeited);
        let used = allowed - left - forfeited;
        self.budget = if forfeited > 0 { 0 } else { self.budget - used };
        self.warp.clock += u64::from(used);
        match outcome {
            Ok(Step::Next) => {
                let group = &mut self.warp.groups[index];
                group.pc = pc;
                group.last = self.warp.clock;
                Ok(())
            }
            Ok(Step::Moved) => {
                self.warp.groups.retain(|group| group.mask != 0);
                Ok(())
            }
            Err(mut trouble) => {
                if trouble.line == 0 {
                    trouble.line = code[pc as usize].line;
                }
                trouble.warp = self.warp.index;
                Err(trouble)
            }
        }
    }

    /// Someone may be waiting for something: after a while, let others run.
    fn poll(&mut self, left: &mut u32) {
        self.polls += 1;
        self.warp.has_polled = true;
        if self.polls >= MANY_POLLS {
            self.forfeited = std::mem::take(left);
        }
    }

    /// Everything but the commonest instructions.
    #[inline(never)]
    fn other(
        &mut self,
        view: View,
        inst: &'a Inst,
        index: usize,
        active: u32,
        left: &mut u32,
    ) -> Outcome<Step> {
        match &inst.op {
            Op::Alu { .. } | Op::Move { .. } | Op::Load(_) | Op::Store(_) => {}
            Op::Complement { dst, src } => {
                let mut value = *view.get(*src);
                value.iter_mut().for_each(|lane| *lane ^= 1);
                view.put(*dst, &value, active);
            }
            Op::SignExtend { dst, from, to } => {
                let mut value = *view.get(*dst);
                for lane in &mut value {
                    *lane = sign_extend(*lane, *from, *to);
                }
                view.put(*dst, &value, active);
            }
            Op::Shift { dst, src, value } => {
                let mut result = *view.get(*src);
                for lane in &mut result {
                    *lane = lane.wrapping_add(*value);
                }
                view.put(*dst, &result, active);
            }
            Op::Special { dst, which } => {
                let value = self.special(*which);
                view.put(*dst, &value, active);
            }
            Op::FrameAddress { dst, offset } => {
                let base = u64::from(self.warp.frames[self.frame as usize].base);
                view.fill(*dst, base.wrapping_add_signed(*offset), active);
            }
            Op::Pack { dst, bits, parts } => {
                let mut value = [0; WARP];
                let field = u64::MAX >> (64 - u32::from(*bits));
                for (position, &part) in self.listed(*parts).iter().enumerate() {
                    let shift = position as u32 * u32::from(*bits);
                    for (to, from) in value.iter_mut().zip(view.get(part)) {
                        *to |= (from & field) << shift;
                    }
                }
                view.put(*dst, &value, active);
            }
            Op::Unpack { src, bits, parts } => {
                let whole = *view.get(*src);
                let field = u64::MAX >> (64 - u32::from(*bits));
                for (position, &part) in self.listed(*parts).iter().enumerate() {
                    let shift = position as u32 * u32::from(*bits);
                    let mut value = whole;
                    for lane in &mut value {
                        *lane = *lane >> shift & field;
                    }
                    view.put(part, &value, active);
                }
            }
            Op::Atomic(atomic) => {
                if atomic.access.polls {
                    self.poll(left);
                }
                self.atomic(view, atomic, active)?;
            }
            Op::AsyncCopy(copy) => self.async_copy(view, copy, active)?,
            Op::BulkCopy(copy) => self.bulk_copy(view, copy, active)?,
            Op::Mbarrier(mbarrier) => {
                self.poll(left);
                self.mbarrier(view, mbarrier, active)?;
            }
            Op::IsSpace { dst, src, window } => {
                let value = self.is_space(view.get(*src), *window);
                view.put(*dst, &value, active);
            }
            Op::MapShared {
                dst,
                src,
                rank,
                generic,
            } => {
                let value = self.map_shared(view.get(*src), view.get(*rank), *generic);
                view.put(*dst, &value, active);
            }
            Op::ClusterRank { dst, src, generic } => {
                let value = self.cluster_rank(view.get(*src), *generic);
                view.put(*dst, &value, active);
            }
            Op::ActiveMask { dst } => view.fill(*dst, u64::from(active), active),
            Op::Fence => {
                fence(Ordering::SeqCst);
                self.poll(left);
            }
            Op::Sleep => {
                self.polls += MANY_POLLS;
                self.poll(left);
            }
            Op::StackSave { dst } => {
                let top = self.warp.frames[self.frame as usize].top;
                view.fill(*dst, u64::from(top), active);
            }
            Op::StackRestore { src } => self.stack_restore(view.get(*src), active),
            Op::Alloca { dst, size, align } => {
                let start = self.alloca(view.get(*size), *align, active)?;
                view.fill(*dst, u64::from(start), active);
            }
            Op::Branch { target } => {
                self.split(index, active, *target);
                return Ok(Step::Moved);
            }
            Op::BranchTable { index: by, table } => {
                self.branch_table(index, view.get(*by), *table, active)?;
                return Ok(Step::Moved);
            }
            Op::Call(call) => {
                return match self.call(view, index, call, active)? {
                    true => Ok(Step::Next),
                    false => Ok(Step::Moved),
                };
            }
            Op::Return => {
                self.separate(index, active);
                self.ret(index);
                return Ok(Step::Moved);
            }
            Op::Exit => {
                self.separate(index, active);
                self.exit(index);
                return Ok(Step::Moved);
            }
            Op::Trap | Op::Breakpoint => {
                let lane = Bits(active).next();
                return Err(Trouble::new(FaultKind::LaunchFailed, lane, "trap"));
            }
            Op::Barrier(barrier) => {
                if self.barrier(view, index, barrier, active, inst.line)? {
                    return Ok(Step::Moved);
                }
            }
            Op::ClusterArrive => self.cluster_arrive(active),
            Op::ClusterWait => {
                if self.cluster.phase <= self.warp.cluster_phase {
                    self.separate(index, active);
                    self.warp.groups[index].state = State::Cluster;
                    return Ok(Step::Moved);
                }
            }
            Op::Warp { members, op } => {
                if self.warp_op(view, index, *members, op, active) {
                    return Ok(Step::Moved);
                }
            }
        }
        Ok(Step::Next)
    }

    /// Leaves `active` in the group; its other lanes go on behind the instruction.
    pub fn separate(&mut self, index: usize, active: u32) {
        let group = self.warp.groups[index];
        let rest = group.mask & !active;
        if rest != 0 {
            self.warp.groups.push(Group {
                pc: group.pc + 1,
                mask: rest,
                state: State::Ready,
                ..group
            });
            self.warp.groups[index].mask = active;
        }
    }

    /// A divergent branch.
    fn split(&mut self, index: usize, taken: u32, target: u32) {
        self.separate(index, taken);
        self.warp.groups[index].pc = target;
    }

    fn branch_table(&mut self, index: usize, by: &Lanes, table: u32, active: u32) -> Outcome {
        self.separate(index, active);
        let targets = &self.function.tables[table as usize];
        let group = self.warp.groups[index];
        let mut rest = active;
        let mut is_first = true;
        while rest != 0 {
            let lane = rest.trailing_zeros() as usize;
            let choice = by[lane] as u32;
            let same = Bits(rest)
                .filter(|&lane| by[lane] as u32 == choice)
                .fold(0u32, |mask, lane| mask | 1 << lane);
            rest &= !same;
            let Some(&target) = targets.get(choice as usize) else {
                let text = format!("brx.idx with index {choice} of {} targets", targets.len());
                return Err(Trouble::new(FaultKind::InvalidPc, Some(lane), text));
            };
            let branch = Group {
                pc: target,
                mask: same,
                ..group
            };
            if std::mem::take(&mut is_first) {
                self.warp.groups[index] = branch;
            } else {
                self.warp.groups.push(branch);
            }
        }
        Ok(())
    }

    /// The group's lanes end.
    pub fn exit(&mut self, index: usize) {
        let group = self.warp.groups[index];
        self.warp.exit(group.frame, group.mask);
        self.warp.groups[index].mask = 0;
        self.block.has_news = true;
        self.cluster.live -= u64::from(group.mask.count_ones());
    }
}

/// Groups whose wait is over become ready.
fn wake(warp: &mut Warp) {
    for index in 0..warp.groups.len() {
        let group = warp.groups[index];
        match group.state {
            State::Members(_) if warp.is_ready(&group) => {
                warp.groups[index].state = State::Ready;
            }
            State::WarpBarrier(members) if warp.is_ready(&group) => {
                for other in &mut warp.groups {
                    if other.state == State::WarpBarrier(members) {
                        other.state = State::Ready;
                        other.pc += 1;
                    }
                }
            }
            _ => {}
        }
    }
}

/// Ready groups at the same place become one.
fn merge(warp: &mut Warp) {
    let mut index = 0;
    while index < warp.groups.len() {
        let group = warp.groups[index];
        if group.state == State::Ready {
            let mut other = index + 1;
            while other < warp.groups.len() {
                let candidate = warp.groups[other];
                if candidate.state == State::Ready
                    && candidate.pc == group.pc
                    && candidate.frame == group.frame
                {
                    warp.groups[index].mask |= candidate.mask;
                    warp.groups.swap_remove(other);
                } else {
                    other += 1;
                }
            }
        }
        index += 1;
    }
}
