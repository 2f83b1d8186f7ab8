//! Facts about registers that flow against the instructions' order, to their fixed point.

use crate::instruction::Instruction;

/// By position, what holds before each instruction: `before` makes it of what holds after (a bit for
/// each register; more bits only ever lead to more). A worklist, so that no order of jumps makes
/// it slow.
pub fn solve(code: &[Instruction], mut before: impl FnMut(usize, u16) -> u16) -> Vec<u16> {
    let mut comes_from = vec![Vec::new(); code.len()];
    for (at, instruction) in code.iter().enumerate() {
        if let Some(target) = instruction.operation.target() {
            comes_from[target].push(at);
        }
    }
    let mut result = vec![0; code.len()];
    let mut waiting = vec![true; code.len()];
    let mut work: Vec<usize> = (0..code.len()).collect();
    while let Some(at) = work.pop() {
        waiting[at] = false;
        let operation = &code[at].operation;
        let mut after = 0;
        if !operation.ends() {
            after |= result.get(at + 1).copied().unwrap_or(0);
        }
        if let Some(target) = operation.target() {
            after |= result[target];
        }
        let now = before(at, after) | result[at];
        if now == result[at] {
            continue;
        }
        result[at] = now;
        let previous = at
            .checked_sub(1)
            .filter(|&previous| !code[previous].operation.ends());
        for from in previous.into_iter().chain(comes_from[at].iter().copied()) {
            if !std::mem::replace(&mut waiting[from], true) {
                work.push(from);
            }
        }
    }
    result
}
