//! A plain interpreter of BPF's bytes, as the ISA's document describes them.

use gpubpf::instruction::Raw;

const CONTEXT: u64 = 0x1000_0000;
const VALUE: u64 = 0x2000_0000;
const STACK: u64 = 0x3000_0000;
const FRAME: u64 = 512;

pub struct Machine<'a> {
    context: &'a [u8],
    value: &'a mut [u8],
    stack: Vec<u8>,
    registers: [u64; 11],
    callers: Vec<(usize, [u64; 5])>,
}

/// Runs a program: helper 1 gives the value of key 0, nothing else is called but its own functions. It
/// may jump back so many times.
pub fn run(program: &[Raw], context: &[u8], value: &mut [u8], rounds: u64) {
    let mut machine = Machine {
        context,
        value,
        stack: vec![0; FRAME as usize * 8],
        registers: [0; 11],
        callers: Vec::new(),
    };
    machine.registers[1] = CONTEXT;
    machine.registers[10] = STACK + FRAME;
    let mut at = 0;
    let (mut steps, mut left) = (0, rounds);
    while let Some(next) = machine.step(program, at) {
        let is_jump = !matches!(program[at].code, 0x85 | 0x95) && next <= at;
        if is_jump {
            match left.checked_sub(1) {
                Some(rest) => left = rest,
                None => return,
            }
        }
        at = next;
        steps += 1;
        assert!(steps < 100_000, "the program does not end");
    }
}

impl Machine<'_> {
    fn bytes(&mut self, address: u64, size: usize) -> &mut [u8] {
        let (memory, start): (&mut [u8], u64) = match address >> 28 {
            2 => (self.value, VALUE),
            3 => (&mut self.stack, STACK),
            _ => panic!("access at {address:#x}"),
        };
        let at = (address - start) as usize;
        &mut memory[at..at + size]
    }

    fn read(&mut self, address: u64, size: usize) -> u64 {
        let mut word = [0; 8];
        if address >> 28 == 1 {
            let at = (address - CONTEXT) as usize;
            word[..size].copy_from_slice(&self.context[at..at + size]);
        } else {
            word[..size].copy_from_slice(self.bytes(address, size));
        }
        u64::from_le_bytes(word)
    }

    fn write(&mut self, address: u64, size: usize, value: u64) {
        let bytes = value.to_le_bytes();
        self.bytes(address, size).copy_from_slice(&bytes[..size]);
    }

    fn step(&mut self, program: &[Raw], at: usize) -> Option<usize> {
        let Raw {
            code,
            dst,
            src,
            offset,
            immediate,
        } = program[at];
        let (dst, src) = (dst as usize, src as usize);
        let size = [4, 2, 1, 8][(code >> 3 & 3) as usize];
        let place = |register: u64| register.wrapping_add(offset as i64 as u64);
        let jump = |by: i64| (at as i64 + 1 + by) as usize;
        match code & 7 {
            0 => {
                self.registers[dst] = match src {
                    0 => {
                        u64::from(immediate as u32)
                            | u64::from(program[at + 1].immediate as u32) << 32
                    }
                    _ => 0,
                };
                return Some(at + 2);
            }
            1 => {
                let value = self.read(place(self.registers[src]), size);
                let unused = 64 - size as u32 * 8;
                self.registers[dst] = match code >> 5 {
                    3 => value,
                    4 => ((value << unused) as i64 >> unused) as u64,
                    mode => panic!("mode {mode}"),
                };
            }
            2 => self.write(place(self.registers[dst]), size, immediate as i64 as u64),
            3 if code >> 5 == 3 => {
                self.write(place(self.registers[dst]), size, self.registers[src]);
            }
            3 => self.atomic(place(self.registers[dst]), size, src, immediate),
            4 | 7 => {
                let wide = code & 7 == 7;
                let operand = if code & 8 != 0 {
                    self.registers[src]
                } else {
                    immediate as i64 as u64
                };
                let old = self.registers[dst];
                self.registers[dst] = alu(code, wide, old, operand, offset, immediate);
            }
            5 | 6 => match (code >> 4, code & 7) {
                (0, 5) => return Some(jump(offset.into())),
                (0, _) => return Some(jump(immediate.into())),
                (8, _) if src == 1 => {
                    let saved = [6, 7, 8, 9, 10].map(|register| self.registers[register]);
                    self.callers.push((at + 1, saved));
                    self.registers[10] += FRAME;
                    return Some(jump(immediate.into()));
                }
                (8, _) => {
                    assert_eq!(immediate, 1, "only lookups are called");
                    let key = self.read(self.registers[2], 4);
                    self.registers[0] = if key == 0 { VALUE } else { 0 };
                }
                (9, _) => {
                    let (back, saved) = self.callers.pop()?;
                    for (register, value) in (6..).zip(saved) {
                        self.registers[register] = value;
                    }
                    return Some(back);
                }
                (operator, class) => {
                    let operand = if code & 8 != 0 {
                        self.registers[src]
                    } else {
                        immediate as i64 as u64
                    };
                    if holds(operator, class == 5, self.registers[dst], operand) {
                        return Some(jump(offset.into()));
                    }
                }
            },
            class => panic!("class {class}"),
        }
        Some(at + 1)
    }

    fn atomic(&mut self, address: u64, size: usize, src: usize, operator: i32) {
        let old = self.read(address, size);
        let operand = self.registers[src];
        let mask = if size == 8 { u64::MAX } else { 0xffff_ffff };
        let new = match operator & 0xf0 {
            0x00 => old.wrapping_add(operand),
            0x40 => old | operand,
            0x50 => old & operand,
            0xa0 => old ^ operand,
            0xe0 => operand,
            0xf0 if old == self.registers[0] & mask => operand,
            0xf0 => old,
            other => panic!("atomic {other:#x}"),
        };
        self.write(address, size, new);
        if operator == 0xf1 {
            self.registers[0] = old;
        } else if operator & 1 != 0 {
            self.registers[src] = old;
        }
    }
}

fn holds(operator: u8, wide: bool, left: u64, right: u64) -> bool {
    let (left, right, signed_left, signed_right) = if wide {
        (left, right, left as i64, right as i64)
    } else {
        (
            u64::from(left as u32),
            u64::from(right as u32),
            i64::from(left as i32),
            i64::from(right as i32),
        )
    };
    match operator {
        1 => left == right,
        2 => left > right,
        3 => left >= right,
        4 => left & right != 0,
        5 => left != right,
        6 => signed_left > signed_right,
        7 => signed_left >= signed_right,
        10 => left < right,
        11 => left <= right,
        12 => signed_left < signed_right,
        13 => signed_left <= signed_right,
        other => panic!("condition {other}"),
    }
}

fn alu(code: u8, wide: bool, left: u64, right: u64, offset: i16, immediate: i32) -> u64 {
    if code >> 4 == 13 {
        let bits = immediate as u32;
        let swapped = left.swap_bytes() >> (64 - bits);
        let cut = if bits == 64 {
            left
        } else {
            left & ((1 << bits) - 1)
        };
        // 0xd4 is "to little", which is what memory here is.
        return if code == 0xd4 { cut } else { swapped };
    }
    if wide {
        return alu64(code >> 4, left, right, offset);
    }
    let result = alu32(code >> 4, left as u32, right as u32, offset);
    u64::from(result)
}

macro_rules! arithmetic {
    ($name:ident, $unsigned:ty, $signed:ty) => {
        fn $name(operator: u8, left: $unsigned, right: $unsigned, offset: i16) -> $unsigned {
            let count = right as u32 % <$unsigned>::BITS;
            match (operator, offset) {
                (0, _) => left.wrapping_add(right),
                (1, _) => left.wrapping_sub(right),
                (2, _) => left.wrapping_mul(right),
                (3, 0) => left.checked_div(right).unwrap_or(0),
                (3, _) if right == 0 => 0,
                (3, _) => (left as $signed).wrapping_div(right as $signed) as $unsigned,
                (4, _) => left | right,
                (5, _) => left & right,
                (6, _) => left << count,
                (7, _) => left >> count,
                (8, _) => (left as $signed).wrapping_neg() as $unsigned,
                (9, 0) => left.checked_rem(right).unwrap_or(left),
                (9, _) if right == 0 => left,
                (9, _) => (left as $signed).wrapping_rem(right as $signed) as $unsigned,
                (10, _) => left ^ right,
                (11, 0) => right,
                (11, bits) => {
                    let unused = <$unsigned>::BITS - bits as u32;
                    ((right << unused) as $signed >> unused) as $unsigned
                }
                (12, _) => ((left as $signed) >> count) as $unsigned,
                (other, _) => panic!("arithmetic {other}"),
            }
        }
    };
}

arithmetic!(alu64, u64, i64);
arithmetic!(alu32, u32, i32);
