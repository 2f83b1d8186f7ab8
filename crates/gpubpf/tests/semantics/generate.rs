//! Random programs that are valid: every instruction of the ISA, on operands, stack and a map's value.
//!
//! A program looks up its thread's own value in map 0, loads r0 to r8 from the context, does random
//! things, and leaves all registers and a part of the stack in the value.

use gpubpf::instruction::Raw;

use crate::random::Random;

/// Bytes of the value: what programs play with, then what they leave.
pub const PLAYGROUND: usize = 128;
pub const OUTPUT: usize = PLAYGROUND;
pub const VALUE: usize = OUTPUT + 9 * 8 + STACK as usize;
/// Operands in the context.
pub const OPERANDS: usize = 9;

/// The part of the stack programs play with: from here up.
const STACK_LOW: i16 = -88;
const STACK: i16 = 64;
const SPILLED_CONTEXT: i16 = -8;
const SPILLED_VALUE: i16 = -96;

pub fn generate(seed: u64) -> Vec<Raw> {
    let mut random = Random(seed);
    let mut program = Generator {
        raw: Vec::new(),
        calls: Vec::new(),
        features: Features {
            moving: random.chance(25),
            calling: random.chance(25),
        },
        random,
        depth: 0,
        busy: None,
    };
    program.prologue();
    let length = 8 + program.random.below(24) as usize;
    program.block(length);
    program.epilogue();
    program.functions();
    program.raw
}

struct Features {
    /// Places that vary: then the stack is memory, not registers.
    moving: bool,
    calling: bool,
}

struct Generator {
    raw: Vec<Raw>,
    random: Random,
    /// Slots that call, to be bound at the end.
    calls: Vec<usize>,
    features: Features,
    depth: u32,
    /// A loop's counter.
    busy: Option<u8>,
}

impl Generator {
    fn put(&mut self, code: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> usize {
        self.raw.push(Raw {
            code,
            dst,
            src,
            offset,
            immediate,
        });
        self.raw.len() - 1
    }

    fn prologue(&mut self) {
        self.put(0x7b, 10, 1, SPILLED_CONTEXT, 0);
        self.put(0x62, 10, 0, -12, 0);
        self.put(0xbf, 2, 10, 0, 0);
        self.put(0x07, 2, 0, 0, -12);
        self.put(0x18, 1, 1, 0, 0);
        self.put(0, 0, 0, 0, 0);
        self.put(0x85, 0, 0, 0, 1);
        self.put(0x55, 0, 0, 2, 0);
        self.put(0xb7, 0, 0, 0, 0);
        self.put(0x95, 0, 0, 0, 0);
        self.put(0xbf, 9, 0, 0, 0);
        self.put(0x7b, 10, 9, SPILLED_VALUE, 0);
        self.put(0x79, 1, 10, SPILLED_CONTEXT, 0);
        for register in [0, 2, 3, 4, 5, 6, 7, 8, 1] {
            self.put(0x79, register, 1, i16::from(register) * 8, 0);
        }
        for word in 0..STACK / 8 {
            let register = self.any();
            self.put(0x7b, 10, register, STACK_LOW + word * 8, 0);
        }
    }

    fn epilogue(&mut self) {
        if self.random.chance(30) {
            self.put(0x79, 9, 10, SPILLED_VALUE, 0);
        }
        for register in 0..9 {
            self.put(
                0x7b,
                9,
                register,
                (OUTPUT + register as usize * 8) as i16,
                0,
            );
        }
        for word in 0..STACK / 8 {
            self.put(0x79, 1, 10, STACK_LOW + word * 8, 0);
            self.put(0x7b, 9, 1, (OUTPUT + 72) as i16 + word * 8, 0);
        }
        self.put(0xb7, 0, 0, 0, 0);
        self.put(0x95, 0, 0, 0, 0);
    }

    /// A number's register to read.
    fn any(&mut self) -> u8 {
        self.random.below(9) as u8
    }

    /// A register to write: not the counter of a loop under way.
    fn target(&mut self) -> u8 {
        loop {
            let register = self.any();
            if self.busy != Some(register) {
                return register;
            }
        }
    }

    fn block(&mut self, length: usize) {
        for _ in 0..length {
            match self.random.below(100) {
                0..=44 => self.arithmetic(),
                45..=49 => self.signed_move(),
                50..=53 => self.swap(),
                54..=56 => self.constant(),
                57..=68 => self.load(),
                69..=78 => self.store(),
                79..=86 => self.atomic(),
                87..=93 => self.branch(),
                94..=95 => self.repeat(),
                96..=97 if self.features.moving => self.moving(),
                98..=99 if self.features.calling => self.call(),
                _ => self.arithmetic(),
            }
        }
    }

    fn arithmetic(&mut self) {
        let class = if self.random.chance(50) { 7 } else { 4 };
        let width = if class == 7 { 64 } else { 32 };
        let dst = self.target();
        let src = self.any();
        let operator = self
            .random
            .pick(&[0u8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 19, 25]);
        // 19 and 25: signed division and remainder.
        let (operator, offset) = match operator {
            19 => (3, 1),
            25 => (9, 1),
            other => (other, 0),
        };
        if operator == 8 {
            self.put(0x80 | class, dst, 0, 0, 0);
        } else if self.random.chance(60) {
            self.put(operator << 4 | 8 | class, dst, src, offset, 0);
        } else {
            let immediate = match operator {
                3 | 9 => match self.random.immediate() {
                    0 => -1,
                    other => other,
                },
                6 | 7 | 12 => self.random.below(width) as i32,
                _ => self.random.immediate(),
            };
            self.put(operator << 4 | class, dst, 0, offset, immediate);
        }
    }

    fn signed_move(&mut self) {
        let wide = self.random.chance(60);
        let bits = if wide {
            self.random.pick(&[8, 16, 32])
        } else {
            self.random.pick(&[8, 16])
        };
        let (dst, src) = (self.target(), self.any());
        self.put(if wide { 0xbf } else { 0xbc }, dst, src, bits, 0);
    }

    fn swap(&mut self) {
        let code = self.random.pick(&[0xd4, 0xdc, 0xd7]);
        let bits = self.random.pick(&[16, 32, 64]);
        let dst = self.target();
        self.put(code, dst, 0, 0, bits);
    }

    fn constant(&mut self) {
        let dst = self.target();
        let value = self.random.operand();
        self.put(0x18, dst, 0, 0, value as i32);
        self.put(0, 0, 0, 0, (value >> 32) as i32);
    }

    /// (base register, offset) of so many bytes on the stack or in the value, at any alignment.
    fn place(&mut self, bytes: i16, aligned: bool) -> (u8, i16) {
        let on_stack = self.random.chance(50);
        let room = if on_stack { STACK } else { PLAYGROUND as i16 } - bytes + 1;
        let mut offset = self.random.below(room as u64) as i16;
        if aligned || self.random.chance(70) {
            offset &= !(bytes - 1);
        }
        if on_stack {
            (10, STACK_LOW + offset)
        } else {
            (9, offset)
        }
    }

    /// The size's code and its bytes.
    fn size(&mut self) -> (u8, i16) {
        self.random
            .pick(&[(0x10, 1), (0x08, 2), (0x00, 4), (0x18, 8), (0x18, 8)])
    }

    fn load(&mut self) {
        let (mut size, mut bytes) = self.size();
        let signed = self.random.chance(30);
        if signed && bytes == 8 {
            (size, bytes) = (0x00, 4);
        }
        let (base, offset) = self.place(bytes, false);
        let dst = self.target();
        let mode = if signed { 0x80 } else { 0x60 };
        self.put(mode | size | 1, dst, base, offset, 0);
    }

    fn store(&mut self) {
        let (size, bytes) = self.size();
        let (base, offset) = self.place(bytes, false);
        if self.random.chance(70) {
            let src = self.any();
            self.put(0x60 | size | 3, base, src, offset, 0);
        } else {
            let immediate = self.random.immediate();
            self.put(0x60 | size | 2, base, 0, offset, immediate);
        }
    }

    fn atomic(&mut self) {
        let (size, bytes) = self.random.pick(&[(0x00, 4), (0x18, 8)]);
        let (base, offset) = self.place(bytes, true);
        let operator = self.random.pick(&[
            0x00, 0x40, 0x50, 0xa0, 0x01, 0x41, 0x51, 0xa1, 0xe1, 0xf1, 0x00, 0x01,
        ]);
        let src = self.target();
        if operator == 0xf1 && self.busy == Some(0) {
            return;
        }
        if operator == 0xf1 && self.random.chance(50) {
            // So that it is equal at times.
            self.put(0x60 | size | 1, 0, base, offset, 0);
        }
        self.put(0xc0 | size | 3, base, src, offset, operator);
    }

    /// Over some instructions, or one way and another.
    fn branch(&mut self) {
        let class = if self.random.chance(50) { 5 } else { 6 };
        let operator = self.random.pick(&[1u8, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13]);
        let dst = self.any();
        let at = if self.random.chance(60) {
            let src = self.any();
            self.put(operator << 4 | 8 | class, dst, src, 0, 0)
        } else {
            let immediate = self.random.immediate();
            self.put(operator << 4 | class, dst, 0, 0, immediate)
        };
        if self.depth >= 3 {
            return;
        }
        self.depth += 1;
        let length = self.random.below(4) as usize;
        self.block(length);
        if self.random.chance(40) {
            let long = self.random.chance(50);
            let jump = self.put(if long { 0x06 } else { 0x05 }, 0, 0, 0, 0);
            self.land(at);
            let length = self.random.below(4) as usize;
            self.block(length);
            let distance = self.raw.len() - jump - 1;
            if long {
                self.raw[jump].immediate = distance as i32;
            } else {
                self.raw[jump].offset = distance as i16;
            }
        } else {
            self.land(at);
        }
        self.depth -= 1;
    }

    fn land(&mut self, at: usize) {
        self.raw[at].offset = (self.raw.len() - at - 1) as i16;
    }

    /// A loop with a counter of its own.
    fn repeat(&mut self) {
        if self.busy.is_some() || self.depth >= 2 {
            return;
        }
        let counter = 6 + self.random.below(3) as u8;
        let rounds = 1 + self.random.below(5) as i32;
        self.put(0xb7, counter, 0, 0, rounds);
        let head = self.raw.len();
        self.busy = Some(counter);
        self.depth += 1;
        let length = 1 + self.random.below(4) as usize;
        self.block(length);
        self.depth -= 1;
        self.busy = None;
        self.put(0x07, counter, 0, 0, -1);
        let distance = head as i64 - self.raw.len() as i64 - 1;
        self.put(0x55, counter, 0, distance as i16, 0);
    }

    /// An access at a place that is computed.
    fn moving(&mut self) {
        let register = self.target();
        let (size, bytes) = self.size();
        let (base, offset, room) = if self.random.chance(50) {
            (10, STACK_LOW, STACK)
        } else {
            (9, 0, PLAYGROUND as i16)
        };
        let mask = self.random.pick(&[7, 15, 24, 31]);
        let start = offset + self.random.below((room - 31 - bytes) as u64) as i16;
        self.put(0x57, register, 0, 0, mask);
        self.put(0x0f, register, base, 0, 0);
        if self.random.chance(50) {
            self.put(0x60 | size | 1, register, register, start, 0);
        } else {
            let value = self.any();
            if value == register {
                self.put(0x60 | size | 2, register, 0, start, 77);
            } else {
                self.put(0x60 | size | 3, register, value, start, 0);
            }
            self.put(0xb7, register, 0, 0, 5);
        }
    }

    fn call(&mut self) {
        if self.busy.is_some_and(|counter| counter < 6) {
            return;
        }
        let at = self.put(0x85, 0, 1, 0, 0);
        self.calls.push(at);
        for register in 1..=5 {
            let word = self.random.below(STACK as u64 / 8) as i16;
            self.put(0x79, register, 10, STACK_LOW + word * 8, 0);
        }
    }

    /// Two functions for the calls: arithmetic on arguments, and on a stack of their own.
    fn functions(&mut self) {
        if self.calls.is_empty() {
            return;
        }
        let mut starts = Vec::new();
        for _ in 0..2 {
            starts.push(self.raw.len());
            self.put(0xbf, 0, 1, 0, 0);
            for register in 1..=5u8 {
                self.put(0x7b, 10, register, -8 * i16::from(register), 0);
            }
            for _ in 0..1 + self.random.below(6) {
                let operator = self.random.pick(&[0u8, 1, 2, 3, 4, 5, 9, 10]);
                let class = self.random.pick(&[4, 7]);
                let (dst, src) = (self.random.below(6) as u8, self.random.below(6) as u8);
                self.put(operator << 4 | 8 | class, dst, src, 0, 0);
                let word = 1 + self.random.below(5) as i16;
                let dst = self.random.below(6) as u8;
                self.put(0x79, dst, 10, -8 * word, 0);
            }
            self.put(0x0f, 0, 3, 0, 0);
            self.put(0x95, 0, 0, 0, 0);
        }
        for at in std::mem::take(&mut self.calls) {
            let start = self.random.pick(&starts);
            self.raw[at].immediate = (start - at - 1) as i32;
        }
        // A function nobody calls would be taken for a part of the one before.
        let called = self.raw.iter().enumerate().any(|(at, raw)| {
            raw.code == 0x85
                && raw.src == 1
                && at as i64 + 1 + i64::from(raw.immediate) == starts[1] as i64
        });
        if !called {
            self.raw.truncate(starts[1]);
        }
    }
}
