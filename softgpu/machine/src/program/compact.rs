//! Giving registers that are never live at once the same slot: compilers write PTX with a fresh
//! register for every value, and a warp's frame should stay in the cache.

mod operands;

use std::collections::BTreeSet;

use super::code::{CONSTANT, Function, NONE, Op, Reg};
use operands::{Role, visit};

/// Words of liveness tables beyond which slots are left as they are.
const MAX_WORDS: usize = 1 << 25;
/// Words visited in search of the fixed point before giving up.
const MAX_WORK: usize = 1 << 28;

struct Block {
    start: usize,
    end: usize,
    next: Vec<usize>,
}

/// First and last position where a register holds something.
#[derive(Clone, Copy)]
struct Interval {
    first: u32,
    last: u32,
}

/// Renumbers the slots and records the pressure; false if the function is too large for that.
pub fn compact(function: &mut Function, widths: &[u8]) -> bool {
    let registers = function.registers as usize;
    let blocks = blocks(function);
    let words = registers.div_ceil(64);
    if blocks.len().saturating_mul(words) > MAX_WORDS {
        function.pressure = 255;
        return false;
    }
    let Some(intervals) = intervals(function, &blocks, registers, words) else {
        function.pressure = 255;
        return false;
    };
    let slots = assign(function, &intervals, widths);
    rename(function, &slots);
    true
}

fn is_register(reg: Reg) -> bool {
    reg != NONE && reg & CONSTANT == 0
}

fn blocks(function: &Function) -> Vec<Block> {
    let code = &function.code;
    let mut leaders: BTreeSet<usize> = BTreeSet::from([0]);
    for (position, inst) in code.iter().enumerate() {
        match &inst.op {
            Op::Branch { target } => {
                leaders.insert(*target as usize);
                leaders.insert(position + 1);
            }
            Op::BranchTable { table, .. } => {
                leaders.extend(function.tables[*table as usize].iter().map(|&t| t as usize));
                leaders.insert(position + 1);
            }
            Op::Return | Op::Exit | Op::Trap => {
                leaders.insert(position + 1);
            }
            _ => {}
        }
    }
    let starts: Vec<usize> = leaders.into_iter().filter(|&at| at < code.len()).collect();
    let at = |position: usize| starts.binary_search(&position).ok();
    let mut blocks = Vec::new();
    for (index, &start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(code.len());
        let last = &code[end - 1];
        let mut next = Vec::new();
        let falls_through = match &last.op {
            Op::Branch { target } => {
                next.extend(at(*target as usize));
                last.guard != NONE
            }
            Op::BranchTable { table, .. } => {
                let table = &function.tables[*table as usize];
                next.extend(table.iter().filter_map(|&target| at(target as usize)));
                last.guard != NONE
            }
            Op::Return | Op::Exit | Op::Trap => last.guard != NONE,
            _ => true,
        };
        if falls_through {
            next.extend(at(end));
        }
        blocks.push(Block { start, end, next });
    }
    blocks
}

/// Registers as bits of a table with one row a block.
struct Bits {
    words: usize,
    bits: Vec<u64>,
}

impl Bits {
    fn new(rows: usize, words: usize) -> Bits {
        Bits {
            words,
            bits: vec![0; rows * words],
        }
    }

    fn row(&self, row: usize) -> &[u64] {
        &self.bits[row * self.words..(row + 1) * self.words]
    }

    fn set(&mut self, row: usize, reg: Reg) {
        self.bits[row * self.words + reg as usize / 64] |= 1 << (reg % 64);
    }

    fn has(&self, row: usize, reg: Reg) -> bool {
        self.bits[row * self.words + reg as usize / 64] >> (reg % 64) & 1 == 1
    }
}

fn intervals(
    function: &mut Function,
    blocks: &[Block],
    registers: usize,
    words: usize,
) -> Option<Vec<Option<Interval>>> {
    // Per block: read before written, and surely written.
    let mut reads = Bits::new(blocks.len(), words);
    let mut writes = Bits::new(blocks.len(), words);
    let mut found: Vec<Option<Interval>> = vec![None; registers];
    let touch = |found: &mut Vec<Option<Interval>>, reg: Reg, at: usize| {
        let at = at as u32;
        let interval = found[reg as usize].get_or_insert(Interval {
            first: at,
            last: at,
        });
        interval.first = interval.first.min(at);
        interval.last = interval.last.max(at);
    };
    let mut operands = Vec::new();
    for (row, block) in blocks.iter().enumerate() {
        for at in block.start..block.end {
            operands.clear();
            visit(function, at, |reg, role| operands.push((*reg, role)));
            let is_guarded = function.code[at].guard != NONE;
            operands.retain(|(reg, _)| is_register(*reg));
            for &(reg, role) in &operands {
                touch(&mut found, reg, at);
                if role == Role::Read && !writes.has(row, reg) {
                    reads.set(row, reg);
                }
            }
            for &(reg, role) in &operands {
                if role == Role::Write && !is_guarded && !reads.has(row, reg) {
                    writes.set(row, reg);
                } else if role == Role::Write && is_guarded && !writes.has(row, reg) {
                    // The old value may survive a guarded write.
                    reads.set(row, reg);
                }
            }
        }
    }
    for place in &function.params {
        if let super::code::ValueLocation::Register { reg, .. } = place {
            touch(&mut found, *reg, 0);
        }
    }
    let live = live_in(blocks, &reads, &writes, words)?;
    for (row, block) in blocks.iter().enumerate() {
        for_each(live.row(row), |reg| touch(&mut found, reg, block.start));
        for &next in &block.next {
            for_each(live.row(next), |reg| touch(&mut found, reg, block.end - 1));
        }
    }
    Some(found)
}

fn for_each(row: &[u64], mut visit: impl FnMut(Reg)) {
    for (index, &word) in row.iter().enumerate() {
        let mut rest = word;
        while rest != 0 {
            visit(index as u32 * 64 + rest.trailing_zeros());
            rest &= rest - 1;
        }
    }
}

/// What each block needs on entry: the fixed point of reads ∪ (needs of successors − writes).
/// None for code so tangled that it would take too long.
fn live_in(blocks: &[Block], reads: &Bits, writes: &Bits, words: usize) -> Option<Bits> {
    let mut live = Bits::new(blocks.len(), words);
    live.bits.copy_from_slice(&reads.bits);
    let mut work = MAX_WORK;
    let mut changed = true;
    while changed {
        changed = false;
        work = work.checked_sub(live.bits.len().max(1))?;
        for (row, block) in blocks.iter().enumerate().rev() {
            for &next in &block.next {
                for word in 0..words {
                    let wanted = live.bits[next * words + word] & !writes.bits[row * words + word];
                    let slot = &mut live.bits[row * words + word];
                    if wanted & !*slot != 0 {
                        *slot |= wanted;
                        changed = true;
                    }
                }
            }
        }
    }
    Some(live)
}

/// A slot for every register: the lowest free one when its interval begins.
fn assign(function: &mut Function, intervals: &[Option<Interval>], widths: &[u8]) -> Vec<Reg> {
    let mut order: Vec<(u32, u32, usize)> = intervals
        .iter()
        .enumerate()
        .filter_map(|(reg, interval)| interval.map(|i| (i.first, i.last, reg)))
        .collect();
    order.sort_unstable();
    let mut slots = vec![0; intervals.len()];
    let mut free: BTreeSet<Reg> = BTreeSet::new();
    let mut busy: BTreeSet<(u32, Reg, usize)> = BTreeSet::new();
    let (mut count, mut now, mut most) = (0, 0u32, 0u32);
    let width = |reg: usize| u32::from(widths.get(reg).copied().unwrap_or(1));
    for (first, last, reg) in order {
        while let Some(&(end, slot, old)) = busy.first()
            && end < first
        {
            busy.pop_first();
            free.insert(slot);
            now -= width(old);
        }
        let slot = free.pop_first().unwrap_or_else(|| {
            count += 1;
            count - 1
        });
        slots[reg] = slot;
        busy.insert((last, slot, reg));
        now += width(reg);
        most = most.max(now);
    }
    function.registers = count;
    function.pressure = most;
    slots
}

fn rename(function: &mut Function, slots: &[Reg]) {
    let apply = |reg: &mut Reg| {
        if is_register(*reg) {
            *reg = slots[*reg as usize];
        }
    };
    for at in 0..function.code.len() {
        visit(function, at, |reg, _| apply(reg));
    }
    for place in function.params.iter_mut().chain(&mut function.returns) {
        if let super::code::ValueLocation::Register { reg, .. } = place {
            apply(reg);
        }
    }
}
