//! Operations among the lanes of a warp.

use ptx::ast::{Instruction, Operand};

use super::super::code::{Op, Reduce, Reg, ShuffleMode, VoteMode, WarpOp};
use super::operand::parse_type;
use super::{Decoded, Decoder, first, full_name, operand_at, unsupported};
use crate::alu::Kind;

const MASK: Kind = Kind::Int {
    bits: 32,
    signed: false,
};

impl Decoder<'_> {
    /// The membermask operand of a `.sync` form.
    fn members(&mut self, inst: &Instruction, at: usize) -> Decoded<Reg> {
        if inst.operands.len() <= at {
            return self.error(format!("{} lacks its member mask", full_name(inst)));
        }
        self.source(operand_at(inst, at), MASK)
    }

    fn warp(&mut self, members: Reg, op: WarpOp) -> Decoded {
        self.simple(Op::Warp {
            members,
            op: Box::new(op),
        })
    }

    /// `d` or `d|p`.
    fn one_or_two(operand: &Operand) -> (&Operand, &Operand) {
        match operand {
            Operand::Pair(first, second) => (first, second),
            single => (single, &Operand::Sink),
        }
    }

    pub fn shuffle(&mut self, inst: &Instruction) -> Decoded {
        let words = synchronised(inst)?;
        let mode = match words.as_slice() {
            ["up", "b32"] => ShuffleMode::Up,
            ["down", "b32"] => ShuffleMode::Down,
            ["bfly", "b32"] => ShuffleMode::Butterfly,
            ["idx", "b32"] => ShuffleMode::Index,
            _ => return unsupported(inst, "this form"),
        };
        if inst.operands.len() < 4 {
            return self.error(format!("{} lacks operands", full_name(inst)));
        }
        let members = self.members(inst, 4)?;
        let value = self.source(operand_at(inst, 1), MASK)?;
        let lane = self.source(operand_at(inst, 2), MASK)?;
        let clamp = self.source(operand_at(inst, 3), MASK)?;
        let (dst, valid) = Self::one_or_two(first(inst));
        let dst = self.destination(dst, 32)?;
        let valid = self.destination(valid, 1)?;
        self.warp(
            members,
            WarpOp::Shuffle {
                mode,
                dst,
                valid,
                value,
                lane,
                clamp,
            },
        )
    }

    /// A predicate source and whether it is negated.
    pub fn predicate(&mut self, operand: &Operand) -> Decoded<(Reg, bool)> {
        match operand {
            Operand::Not(name) => {
                let plain = Operand::Name(name.clone());
                Ok((self.source(&plain, Kind::Pred)?, true))
            }
            other => Ok((self.source(other, Kind::Pred)?, false)),
        }
    }

    pub fn vote(&mut self, inst: &Instruction) -> Decoded {
        let words = synchronised(inst)?;
        let mode = match words.as_slice() {
            ["all", "pred"] => VoteMode::All,
            ["any", "pred"] => VoteMode::Any,
            ["uni", "pred"] => VoteMode::Uniform,
            ["ballot", "b32"] => VoteMode::Ballot,
            _ => return unsupported(inst, "this form"),
        };
        let members = self.members(inst, 2)?;
        let (value, complement) = self.predicate(operand_at(inst, 1))?;
        let bits = if mode == VoteMode::Ballot { 32 } else { 1 };
        let dst = self.destination(first(inst), bits)?;
        self.warp(
            members,
            WarpOp::Vote {
                mode,
                dst,
                value,
                complement,
            },
        )
    }

    pub fn matching(&mut self, inst: &Instruction) -> Decoded {
        let words = synchronised(inst)?;
        let (all, bits) = match words.as_slice() {
            ["any", "b32"] => (false, 32),
            ["any", "b64"] => (false, 64),
            ["all", "b32"] => (true, 32),
            ["all", "b64"] => (true, 64),
            _ => return unsupported(inst, "this form"),
        };
        let members = self.members(inst, 2)?;
        let kind = Kind::Int {
            bits,
            signed: false,
        };
        let value = self.source(operand_at(inst, 1), kind)?;
        let (dst, valid) = Self::one_or_two(first(inst));
        let dst = self.destination(dst, 32)?;
        let valid = self.destination(valid, 1)?;
        self.warp(
            members,
            WarpOp::Match {
                all,
                dst,
                valid,
                value,
            },
        )
    }

    pub fn redux(&mut self, inst: &Instruction) -> Decoded {
        let words = synchronised(inst)?;
        let reduce = match words.as_slice() {
            ["add", "u32" | "s32"] => Reduce::Add,
            ["min", "u32"] => Reduce::Min,
            ["max", "u32"] => Reduce::Max,
            ["min", "s32"] => Reduce::MinSigned,
            ["max", "s32"] => Reduce::MaxSigned,
            ["and", "b32"] => Reduce::And,
            ["or", "b32"] => Reduce::Or,
            ["xor", "b32"] => Reduce::Xor,
            [.., "f32"] => {
                return unsupported(inst, "needs sm_100a, and softgpu is an sm_90 device");
            }
            _ => return unsupported(inst, "this form"),
        };
        let members = self.members(inst, 2)?;
        let value = self.source(operand_at(inst, 1), MASK)?;
        let dst = self.destination(first(inst), 32)?;
        self.warp(members, WarpOp::Redux { reduce, dst, value })
    }

    pub fn elect(&mut self, inst: &Instruction) -> Decoded {
        if inst.modifiers != ["sync"] {
            return unsupported(inst, "this form");
        }
        let members = self.members(inst, 1)?;
        let Operand::Pair(dst, leader) = first(inst) else {
            return self.error("elect.sync writes a lane and a predicate");
        };
        let dst = self.destination(dst, 32)?;
        let leader = self.destination(leader, 1)?;
        self.warp(members, WarpOp::Elect { dst, leader })
    }

    pub fn warp_barrier(&mut self, inst: &Instruction) -> Decoded {
        let members = self.members(inst, 0)?;
        self.warp(members, WarpOp::Barrier)
    }
}

/// The words besides `sync`, the type last: ptxas takes them in any order. Without `sync` (PTX before 6.4)
/// results are unpredictable on sm_70 and newer, as ptxas warns: softgpu would have to make them up.
fn synchronised(inst: &Instruction) -> Decoded<Vec<&str>> {
    let words = type_last(inst);
    if !words.contains(&"sync") {
        return unsupported(inst, "without .sync: unpredictable on sm_70 and newer");
    }
    Ok(words.into_iter().filter(|word| *word != "sync").collect())
}

/// The modifiers, with those that name a type behind the others.
pub fn type_last(inst: &Instruction) -> Vec<&str> {
    let mut words: Vec<&str> = inst.modifiers.iter().map(String::as_str).collect();
    words.sort_by_key(|word| parse_type(word).is_some());
    words
}
