//! Barriers of a block and of a cluster, and mbarrier objects.

use ptx::ast::{Instruction, Operand};

use super::super::code::{Barrier, BarrierMode, Mbarrier, MbarrierOp, NONE, Op, Space};
use super::warp::type_last;
use super::{Decoded, Decoder, first, full_name, operand_at, unsupported};
use crate::alu::Kind;

const COUNT: Kind = Kind::Int {
    bits: 32,
    signed: false,
};
const STATE: Kind = Kind::Int {
    bits: 64,
    signed: false,
};

impl Decoder<'_> {
    pub fn barrier(&mut self, inst: &Instruction) -> Decoded {
        let mut words = type_last(inst);
        words.retain(|word| !matches!(*word, "cta" | "aligned"));
        match words.as_slice() {
            ["warp", "sync"] => self.warp_barrier(inst),
            ["cluster", "arrive", ..] => self.simple(Op::ClusterArrive),
            ["cluster", "wait", ..] => self.simple(Op::ClusterWait),
            ["sync"] => self.plain_barrier(inst, BarrierMode::Sync),
            ["arrive"] => self.plain_barrier(inst, BarrierMode::Arrive),
            ["red", "popc", "u32"] => self.reducing(inst, BarrierMode::Count, 32),
            ["red", "and", "pred"] => self.reducing(inst, BarrierMode::All, 1),
            ["red", "or", "pred"] => self.reducing(inst, BarrierMode::Any, 1),
            _ => unsupported(inst, "this form"),
        }
    }

    fn plain_barrier(&mut self, inst: &Instruction, mode: BarrierMode) -> Decoded {
        if inst.operands.is_empty() || inst.operands.len() > 2 {
            return self.error(format!("{} takes a barrier and a count", full_name(inst)));
        }
        let id = self.source(first(inst), COUNT)?;
        let count = match inst.operands.get(1) {
            Some(operand) => self.source(operand, COUNT)?,
            None => NONE,
        };
        self.simple(Op::Barrier(Box::new(Barrier {
            mode,
            id,
            count,
            dst: NONE,
            value: NONE,
            complement: false,
        })))
    }

    fn reducing(&mut self, inst: &Instruction, mode: BarrierMode, bits: u32) -> Decoded {
        let (id, count, value) = match inst.operands.as_slice() {
            [_, id, value] => (id, None, value),
            [_, id, count, value] => (id, Some(count), value),
            _ => return self.error(format!("{} takes 3 or 4 operands", full_name(inst))),
        };
        let id = self.source(id, COUNT)?;
        let count = match count {
            Some(operand) => self.source(operand, COUNT)?,
            None => NONE,
        };
        let (value, complement) = self.predicate(value)?;
        let dst = self.destination(first(inst), bits)?;
        self.simple(Op::Barrier(Box::new(Barrier {
            mode,
            id,
            count,
            dst,
            value,
            complement,
        })))
    }

    pub fn mbarrier(&mut self, inst: &Instruction) -> Decoded {
        let mut space = None;
        let mut words = Vec::new();
        for word in &inst.modifiers {
            match word.as_str() {
                "shared" | "shared::cta" | "shared::cluster" => space = Some(Space::Shared),
                "b64" | "acquire" | "release" | "relaxed" | "cta" | "cluster" => {}
                other => words.push(other),
            }
        }
        let (op, kind) = match words.as_slice() {
            ["init"] => (MbarrierOp::Init, COUNT),
            ["inval"] => (MbarrierOp::Invalidate, COUNT),
            ["arrive"] | ["arrive", "noComplete"] => (
                MbarrierOp::Arrive {
                    drop: false,
                    expect: false,
                },
                COUNT,
            ),
            ["arrive_drop"] | ["arrive_drop", "noComplete"] => (
                MbarrierOp::Arrive {
                    drop: true,
                    expect: false,
                },
                COUNT,
            ),
            ["arrive", "expect_tx"] => (
                MbarrierOp::Arrive {
                    drop: false,
                    expect: true,
                },
                COUNT,
            ),
            ["arrive_drop", "expect_tx"] => (
                MbarrierOp::Arrive {
                    drop: true,
                    expect: true,
                },
                COUNT,
            ),
            ["expect_tx"] => (MbarrierOp::ExpectTx, COUNT),
            ["complete_tx"] => (MbarrierOp::CompleteTx, COUNT),
            ["test_wait" | "try_wait"] => (MbarrierOp::TestWait { parity: false }, STATE),
            ["test_wait" | "try_wait", "parity"] => (MbarrierOp::TestWait { parity: true }, COUNT),
            ["pending_count"] => (MbarrierOp::PendingCount, STATE),
            _ => return unsupported(inst, "this form"),
        };
        // Where the address stands: after the destination, if there is one.
        let at = match first(inst) {
            Operand::Address { .. } => 0,
            _ => 1,
        };
        let mut value = NONE;
        if let Some(operand) = inst.operands.get(at + 1) {
            value = self.source(operand, kind)?;
        }
        let dst = match (op, at) {
            (_, 0) => NONE,
            (MbarrierOp::TestWait { .. }, _) => self.destination(first(inst), 1)?,
            (MbarrierOp::PendingCount, _) => self.destination(first(inst), 32)?,
            _ => self.destination(first(inst), 64)?,
        };
        if op == MbarrierOp::PendingCount {
            let value = self.source(operand_at(inst, 1), STATE)?;
            return self.mbarrier_state_count(dst, value);
        }
        if value == NONE
            && !matches!(
                op,
                MbarrierOp::Invalidate | MbarrierOp::Arrive { expect: false, .. }
            )
        {
            return self.error(format!("{} lacks operands", full_name(inst)));
        }
        let access = self.place_only(inst, at, space, 8)?;
        self.simple(Op::Mbarrier(Box::new(Mbarrier {
            op,
            access,
            dst,
            value,
        })))
    }

    /// mbarrier.pending_count reads a state, not the object.
    fn mbarrier_state_count(&mut self, dst: u32, value: u32) -> Decoded {
        let base = self.bits(0);
        let regs = self.list(&[]);
        let access = super::super::code::Access {
            space: Space::Shared,
            bytes: 8,
            extend: 0,
            narrow: false,
            polls: false,
            base,
            offset: 0,
            regs,
        };
        self.simple(Op::Mbarrier(Box::new(Mbarrier {
            op: MbarrierOp::PendingCount,
            access,
            dst,
            value,
        })))
    }

    /// cp.async.mbarrier.arrive: copies are done, so it is an arrival.
    pub fn copy_arrive(&mut self, inst: &Instruction, words: &[&str]) -> Decoded {
        let no_increment = words.contains(&"noinc");
        if !no_increment {
            // Pending count goes up and down again: nothing remains.
            return Ok(());
        }
        let access = self.place_only(inst, 0, Some(Space::Shared), 8)?;
        self.simple(Op::Mbarrier(Box::new(Mbarrier {
            op: MbarrierOp::Arrive {
                drop: false,
                expect: false,
            },
            access,
            dst: NONE,
            value: NONE,
        })))
    }
}
