//! cp.async.bulk. Like cp.async it is done at once; only its mbarrier must be notified.

use ptx::ast::Instruction;

use super::super::code::{BulkCopy, Op, Space};
use super::memory::is_hint;
use super::{Decoded, Decoder, full_name, operand_at, unsupported};
use crate::alu::Kind;

impl Decoder<'_> {
    /// `words` follow `cp.async.bulk`.
    pub fn bulk_copy(&mut self, inst: &Instruction, words: &[&str]) -> Decoded {
        let (to, from, rest) = match words {
            ["commit_group" | "wait_group", ..] | ["prefetch", "L2", ..] => return Ok(()),
            [to, from, rest @ ..] => match (space(to), space(from)) {
                // An illegal instruction on an H200 in a launch without clusters.
                (Some(Space::Shared), Some(Space::Shared)) => {
                    return unsupported(inst, "from shared memory to shared memory");
                }
                (Some(to), Some(from)) => (to, from, rest),
                _ => return unsupported(inst, "between these state spaces"),
            },
            _ => return unsupported(inst, "this copy"),
        };
        let mut is_counted = false;
        for word in rest {
            match *word {
                "mbarrier::complete_tx::bytes" => is_counted = true,
                "bulk_group" => {}
                _ if is_hint(word) => {}
                other => return unsupported(inst, other),
            }
        }
        if inst.operands.len() < 3 + usize::from(is_counted) {
            return self.error(format!("{} lacks operands", full_name(inst)));
        }
        let kind = Kind::Int {
            bits: 32,
            signed: false,
        };
        let size = self.source(operand_at(inst, 2), kind)?;
        let mbarrier = match is_counted {
            true => Some(self.place_only(inst, 3, Some(Space::Shared), 8)?),
            false => None,
        };
        let copy = BulkCopy {
            to: self.place_only(inst, 0, Some(to), 8)?,
            from: self.place_only(inst, 1, Some(from), 8)?,
            size,
            mbarrier,
        };
        self.simple(Op::BulkCopy(Box::new(copy)))
    }
}

fn space(word: &str) -> Option<Space> {
    match word {
        "global" => Some(Space::Global),
        "shared::cta" | "shared::cluster" => Some(Space::Shared),
        _ => None,
    }
}
