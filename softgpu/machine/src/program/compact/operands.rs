//! Which registers an instruction reads and writes.

use super::super::code::{Access, Callee, Function, List, Op, Reg, ValueLocation, WarpOp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Read,
    Write,
}
use Role::{Read, Write};

/// Calls `each` for every register operand of the instruction at `at`, once an occurrence.
pub fn visit(function: &mut Function, at: usize, mut each: impl FnMut(&mut Reg, Role)) {
    let lists = &mut function.lists;
    let inst = &mut function.code[at];
    each(&mut inst.guard, Read);
    match &mut inst.op {
        Op::Alu { dst, dst2, src, .. } => {
            src.iter_mut().for_each(|reg| each(reg, Read));
            each(dst, Write);
            each(dst2, Write);
        }
        Op::Move { dst, src }
        | Op::Complement { dst, src }
        | Op::Shift { dst, src, .. }
        | Op::IsSpace { dst, src, .. }
        | Op::ClusterRank { dst, src, .. } => {
            each(src, Read);
            each(dst, Write);
        }
        Op::SignExtend { dst, .. } => {
            // Reads it too: one occurrence, and a read keeps it alive.
            each(dst, Read);
        }
        Op::MapShared { dst, src, rank, .. } => {
            each(src, Read);
            each(rank, Read);
            each(dst, Write);
        }
        Op::Special { dst, .. }
        | Op::FrameAddress { dst, .. }
        | Op::ActiveMask { dst }
        | Op::StackSave { dst } => each(dst, Write),
        Op::Alloca { dst, size, .. } => {
            each(size, Read);
            each(dst, Write);
        }
        Op::StackRestore { src } => each(src, Read),
        Op::Pack { dst, parts, .. } => {
            list(lists, *parts, Read, &mut each);
            each(dst, Write);
        }
        Op::Unpack { src, parts, .. } => {
            each(src, Read);
            list(lists, *parts, Write, &mut each);
        }
        Op::Load(access) => {
            each(&mut access.base, Read);
            list(lists, access.regs, Write, &mut each);
        }
        Op::Store(access) => {
            each(&mut access.base, Read);
            list(lists, access.regs, Read, &mut each);
        }
        Op::Atomic(atomic) => {
            each(&mut atomic.access.base, Read);
            list(lists, atomic.values, Read, &mut each);
            list(lists, atomic.swap, Read, &mut each);
            list(lists, atomic.access.regs, Write, &mut each);
        }
        Op::AsyncCopy(copy) => {
            base(&mut copy.to, &mut each);
            base(&mut copy.from, &mut each);
            each(&mut copy.source_size, Read);
        }
        Op::BulkCopy(copy) => {
            base(&mut copy.to, &mut each);
            base(&mut copy.from, &mut each);
            each(&mut copy.size, Read);
            if let Some(mbarrier) = &mut copy.mbarrier {
                base(mbarrier, &mut each);
            }
        }
        Op::Mbarrier(mbarrier) => {
            base(&mut mbarrier.access, &mut each);
            each(&mut mbarrier.value, Read);
            each(&mut mbarrier.dst, Write);
        }
        Op::BranchTable { index, .. } => each(index, Read),
        Op::Call(call) => {
            if let Callee::Register(reg) = &mut call.callee {
                each(reg, Read);
            }
            call.args.iter_mut().for_each(|p| place(p, Read, &mut each));
            call.results
                .iter_mut()
                .for_each(|p| place(p, Write, &mut each));
        }
        Op::Return => {
            for result in &mut function.returns {
                if let ValueLocation::Register { reg, .. } = result {
                    // Renamed with the signature, not here: only its life matters.
                    let mut copy = *reg;
                    each(&mut copy, Read);
                }
            }
        }
        Op::Barrier(barrier) => {
            each(&mut barrier.id, Read);
            each(&mut barrier.count, Read);
            each(&mut barrier.value, Read);
            each(&mut barrier.dst, Write);
        }
        Op::Warp { members, op } => {
            each(members, Read);
            warp(op, &mut each);
        }
        Op::Branch { .. }
        | Op::Exit
        | Op::Trap
        | Op::Breakpoint
        | Op::ClusterArrive
        | Op::ClusterWait
        | Op::Fence
        | Op::Sleep => {}
    }
}

fn list(lists: &mut [Reg], list: List, role: Role, each: &mut impl FnMut(&mut Reg, Role)) {
    let start = list.start as usize;
    for reg in &mut lists[start..start + usize::from(list.len)] {
        each(reg, role);
    }
}

fn base(access: &mut Access, each: &mut impl FnMut(&mut Reg, Role)) {
    each(&mut access.base, Read);
}

fn place(place: &mut ValueLocation, role: Role, each: &mut impl FnMut(&mut Reg, Role)) {
    if let ValueLocation::Register { reg, .. } = place {
        each(reg, role);
    }
}

fn warp(op: &mut WarpOp, each: &mut impl FnMut(&mut Reg, Role)) {
    match op {
        WarpOp::Shuffle {
            dst,
            valid,
            value,
            lane,
            clamp,
            ..
        } => {
            each(value, Read);
            each(lane, Read);
            each(clamp, Read);
            each(dst, Write);
            each(valid, Write);
        }
        WarpOp::Vote { dst, value, .. } | WarpOp::Redux { dst, value, .. } => {
            each(value, Read);
            each(dst, Write);
        }
        WarpOp::Match {
            dst, valid, value, ..
        } => {
            each(value, Read);
            each(dst, Write);
            each(valid, Write);
        }
        WarpOp::Elect { dst, leader } => {
            each(dst, Write);
            each(leader, Write);
        }
        WarpOp::Barrier => {}
    }
}
