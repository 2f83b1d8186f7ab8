//! Which numbers matter for safety: those that become addresses, sizes, or decide when a loop ends.
//!
//! What is known of other numbers may be dropped where paths meet. Without that, every `if` would
//! double the paths behind it, because each way knows something else about what was compared.

use super::backwards;
use super::liveness;
use super::stack::FRAME_BYTES;
use crate::helper::{self, Argument};
use crate::instruction::{Alu, Callee, FRAME, Instruction, Operation, Source};
use crate::object::Function;

pub struct Relevance {
    /// By position: registers whose numbers matter there.
    registers: Vec<u16>,
    /// Bytes of the stack that are read into what matters, from the frame's end.
    stack: Vec<bool>,
    whole_stack: bool,
    /// Instructions on a common loop have the same number.
    component: Vec<usize>,
}

const CALLER_SAVED: u16 = 0b11_1111;

impl Relevance {
    /// `loops_matter`: whether numbers that decide when a loop ends are among them.
    pub fn new(code: &[Instruction], functions: &[Function], loops_matter: bool) -> Relevance {
        let component = components(code, functions);
        let decides = match loops_matter {
            true => loop_exits(code, &component),
            false => vec![false; code.len()],
        };
        let mut relevance = Relevance {
            registers: vec![0; code.len()],
            stack: vec![false; FRAME_BYTES as usize],
            whole_stack: prints_from_stack(code),
            component,
        };
        // Each round adds bytes of the stack, and there are only so many.
        let mut changed = true;
        while changed {
            changed = false;
            relevance.registers = backwards::solve(code, |at, after| {
                let in_program = at < functions.first().map_or(0, |program| program.end);
                relevance.before(
                    &code[at].operation,
                    after,
                    decides[at],
                    in_program,
                    &mut changed,
                )
            });
        }
        relevance
    }

    pub fn registers(&self, at: usize) -> u16 {
        self.registers.get(at).copied().unwrap_or(u16::MAX)
    }

    /// Whether two instructions are on a common loop.
    pub fn share_a_loop(&self, one: usize, other: usize) -> bool {
        self.component.get(one) == self.component.get(other)
    }

    pub fn stack(&self, offset: i16, end: i16) -> bool {
        self.whole_stack || places(offset, end).any(|byte| self.stack[byte])
    }

    fn before(
        &mut self,
        operation: &Operation,
        after: u16,
        decides: bool,
        in_program: bool,
        changed: &mut bool,
    ) -> u16 {
        let bit = |source: Source| match source {
            Source::Register(register) => 1u16 << register,
            Source::Immediate(_) => 0,
        };
        match *operation {
            Operation::Alu {
                operator, dst, src, ..
            } => {
                if after & 1 << dst == 0 {
                    return after;
                }
                match operator {
                    Alu::Move => after & !(1 << dst) | bit(src),
                    _ => after | bit(src),
                }
            }
            Operation::MoveSigned { dst, src, .. } => {
                if after & 1 << dst == 0 {
                    after
                } else {
                    after & !(1 << dst) | 1 << src
                }
            }
            Operation::Negate { .. } | Operation::Swap { .. } | Operation::Jump { .. } => after,
            Operation::Constant { dst, .. } => after & !(1 << dst),
            Operation::Load {
                dst,
                base,
                offset,
                bytes,
                ..
            } => {
                if after & 1 << dst != 0 {
                    self.read_from(base, offset, bytes, changed);
                }
                after & !(1 << dst) | 1 << base
            }
            Operation::Store {
                base,
                offset,
                bytes,
                value,
            } => {
                let end = offset.saturating_add(i16::from(bytes));
                let kept = base != FRAME || self.stack(offset, end);
                after | 1 << base | if kept { bit(value) } else { 0 }
            }
            Operation::Atomic { base, src, .. } => {
                let result = operation.destination().map_or(0, |dst| 1 << dst);
                after & !result | 1 << base | (1 << src & after)
            }
            Operation::Branch { dst, src, .. } => {
                after | if decides { 1 << dst | bit(src) } else { 0 }
            }
            Operation::Call(Callee::Helper(_)) | Operation::Call(Callee::Function(_)) => {
                after & !CALLER_SAVED | liveness::read(operation)
            }
            // What a function gives back may be an index; what the program does goes to nobody.
            Operation::Exit => u16::from(!in_program),
        }
    }

    fn read_from(&mut self, base: u8, offset: i16, bytes: u8, changed: &mut bool) {
        if base == FRAME {
            let end = offset.saturating_add(i16::from(bytes));
            for byte in places(offset, end) {
                *changed |= !std::mem::replace(&mut self.stack[byte], true);
            }
        } else if !self.whole_stack {
            self.whole_stack = true;
            *changed = true;
        }
    }
}

/// Bytes of a frame by their place from its end; what is outside, the verifier refuses elsewhere.
fn places(offset: i16, end: i16) -> impl Iterator<Item = usize> {
    let place = |offset: i16| (i64::from(offset) + FRAME_BYTES).clamp(0, FRAME_BYTES) as usize;
    place(offset)..place(end)
}

/// Formats may be built on the stack: then every byte of it matters.
fn prints_from_stack(code: &[Instruction]) -> bool {
    code.iter().any(|instruction| {
        let Operation::Call(Callee::Helper(number)) = instruction.operation else {
            return false;
        };
        helper::find(number).is_some_and(|helper| {
            helper
                .arguments
                .iter()
                .any(|argument| matches!(argument, Argument::Format | Argument::Text))
        })
    })
}

/// Branches one way of which leaves a loop.
fn loop_exits(code: &[Instruction], component: &[usize]) -> Vec<bool> {
    (0..code.len())
        .map(|at| {
            let operation = &code[at].operation;
            let Operation::Branch { target, .. } = *operation else {
                return false;
            };
            let own = component[at];
            let next = component.get(at + 1).copied().unwrap_or(usize::MAX);
            (component[target] == own) != (next == own)
        })
        .collect()
}

/// Numbers for instructions so that those on a common loop have the same (Tarjan's algorithm, with a
/// stack of its own).
fn components(code: &[Instruction], functions: &[Function]) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let mut order = vec![UNSEEN; code.len()];
    let mut low = vec![0; code.len()];
    let mut component = vec![UNSEEN; code.len()];
    let mut open = Vec::new();
    let mut count = 0;
    for function in functions {
        if order[function.start] != UNSEEN {
            continue;
        }
        let mut work = vec![(function.start, 0)];
        while let Some((at, step)) = work.pop() {
            if step == 0 {
                order[at] = count;
                low[at] = count;
                count += 1;
                open.push(at);
            }
            let operation = &code[at].operation;
            let next = (!operation.ends() && at + 1 < code.len()).then_some(at + 1);
            let ways: Vec<usize> = next.into_iter().chain(operation.target()).collect();
            if let Some(&way) = ways.get(step) {
                work.push((at, step + 1));
                if order[way] == UNSEEN {
                    work.push((way, 0));
                } else if component[way] == UNSEEN {
                    low[at] = low[at].min(order[way]);
                }
                continue;
            }
            for way in ways {
                if component[way] == UNSEEN {
                    low[at] = low[at].min(low[way]);
                }
            }
            if low[at] == order[at] {
                while let Some(member) = open.pop() {
                    component[member] = at;
                    if member == at {
                        break;
                    }
                }
            }
        }
    }
    component
}
