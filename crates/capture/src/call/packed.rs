//! Batches in fewer bytes, for those that wait in a file: most steps differ little from the one before, or from the last
//! one of the same function. What is packed is unpacked by the same process.

use super::item::{Batch, Item, PayloadRange, Step, Within};
use event::note::Note;
use event::ring::SLOT_ARGS;

/// What is there is not what was written.
#[derive(Debug, PartialEq, Eq)]
pub struct Damaged;

/// Functions whose last arguments are remembered; others take their places.
const REMEMBERED: usize = 256;

/// What steps are compared with; the same on both sides.
struct Before {
    time: u64,
    sequence: u64,
    args: Box<[[u64; SLOT_ARGS]; REMEMBERED]>,
}

impl Before {
    fn new() -> Self {
        Before {
            time: 0,
            sequence: 0,
            args: Box::new([[0; SLOT_ARGS]; REMEMBERED]),
        }
    }
}

/// The low bits of a step's first byte say what it is; each of the others, that something is as it usually is.
const KIND: u8 = 7;
const WHOLE: u8 = 0;
const BEGIN: u8 = 1;
const NOTE: u8 = 2;
const END: u8 = 3;
const UNWOUND: u8 = 4;
const UNSEEN: u8 = 5;
const LOST: u8 = 6;
/// It is in the slot behind that of the step before.
const NEXT: u8 = 8;
/// The arguments are those that the function had before.
const SAME: u8 = 16;
/// It returned 0.
const ZERO: u8 = 32;
/// What is behind it is what was behind the last step that had something.
const AGAIN: u8 = 64;

/// Packs batches, each for itself.
pub struct Packer {
    out: Vec<u8>,
    before: Before,
    /// What was behind the last step that had something.
    payload: Vec<u8>,
    calls: u64,
}

/// What a batch was packed to.
pub struct Packed<'a> {
    pub bytes: &'a [u8],
    /// Calls in it, those that were lost too.
    pub calls: u64,
}

impl Default for Packer {
    fn default() -> Self {
        Packer {
            out: Vec::new(),
            before: Before::new(),
            payload: Vec::new(),
            calls: 0,
        }
    }
}

impl Packer {
    pub fn pack(&mut self, batch: &Batch) -> Packed<'_> {
        self.out.clear();
        self.calls = 0;
        (self.before.time, self.before.sequence) = (0, 0);
        self.before.args.fill([0; SLOT_ARGS]);
        self.payload.clear();
        for item in &batch.items {
            self.item(item, &batch.bytes);
        }
        Packed {
            bytes: &self.out,
            calls: self.calls,
        }
    }

    fn item(&mut self, item: &Item, bytes: &[u8]) {
        let kind = match &item.step {
            Step::Whole { .. } => WHOLE,
            Step::Begin { .. } => BEGIN,
            Step::Note { .. } => NOTE,
            Step::End { .. } => END,
            Step::Unwound { .. } => UNWOUND,
            Step::Unseen { .. } => UNSEEN,
            Step::Lost { .. } => LOST,
        };
        let first = self.out.len();
        self.out.push(kind);
        self.number(item.time.wrapping_sub(self.before.time));
        self.before.time = item.time;
        let expected = self.before.sequence.wrapping_add(1);
        self.before.sequence = item.sequence;
        self.calls += match item.step {
            Step::Whole { .. } | Step::Begin { .. } => 1,
            Step::Lost { count } => count,
            _ => 0,
        };
        let mut flags = match item.sequence == expected {
            true => NEXT,
            false => {
                // An end is in the slot where its call began; behind that are the slots of its payload.
                let further = item.sequence.wrapping_sub(expected).cast_signed();
                self.number(((further << 1) ^ (further >> 63)).cast_unsigned());
                0
            }
        };
        match &item.step {
            Step::Whole {
                exit,
                function,
                result,
                args,
                within,
            } => {
                self.number(exit.wrapping_sub(item.time));
                self.number(u64::from(*function));
                flags |= self.args(u32::from(*function), args);
                flags |= self.result(*result);
                self.out.push(within.to_byte());
            }
            Step::Begin {
                function,
                args,
                payload,
                complete,
                stack,
            } => {
                self.number(u64::from(*function));
                flags |= self.args(*function, args);
                flags |= self.payload(*payload, bytes);
                self.out.push(complete.map_or(0, Within::to_byte));
                self.number(u64::from(*stack));
            }
            Step::Note { note, payload } => {
                self.number(note.head());
                self.number(note.sizes());
                flags |= self.payload(*payload, bytes);
            }
            Step::End {
                enter,
                result,
                payload,
            } => {
                self.number(item.time.wrapping_sub(*enter));
                flags |= self.result(*result);
                flags |= self.payload(*payload, bytes);
            }
            Step::Unwound { enter } | Step::Unseen { enter } => {
                self.number(item.time.wrapping_sub(*enter));
            }
            Step::Lost { count } => self.number(*count),
        }
        self.out[first] |= flags;
    }

    /// Seven bits a byte, the lowest first; all but the last have the highest bit.
    #[inline]
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.out.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.out.push(number as u8);
    }

    fn args(&mut self, function: u32, args: &[u64; SLOT_ARGS]) -> u8 {
        let place = function as usize % REMEMBERED;
        let known = std::mem::replace(&mut self.before.args[place], *args);
        if known == *args {
            return SAME;
        }
        for (known, arg) in known.into_iter().zip(args) {
            self.number(arg ^ known);
        }
        0
    }

    fn result(&mut self, result: u32) -> u8 {
        if result == 0 {
            return ZERO;
        }
        self.number(u64::from(result));
        0
    }

    fn payload(&mut self, payload: PayloadRange, bytes: &[u8]) -> u8 {
        let payload = payload.of(bytes);
        if !payload.is_empty() && payload == self.payload {
            return AGAIN;
        }
        self.number(payload.len() as u64);
        if !payload.is_empty() {
            self.out.extend_from_slice(payload);
            self.payload.clear();
            self.payload.extend_from_slice(payload);
        }
        0
    }
}

/// Puts the steps that were packed into a batch that has none.
pub fn unpack(packed: &[u8], batch: &mut Batch) -> Result<(), Damaged> {
    let mut input = Unpacker {
        rest: packed,
        before: Before::new(),
        payload: PayloadRange::default(),
    };
    while let Some(&first) = input.rest.first() {
        input.rest = &input.rest[1..];
        let item = input.item(first, &mut batch.bytes)?;
        batch.items.push(item);
    }
    Ok(())
}

struct Unpacker<'a> {
    rest: &'a [u8],
    before: Before,
    payload: PayloadRange,
}

impl Unpacker<'_> {
    fn item(&mut self, first: u8, bytes: &mut Vec<u8>) -> Result<Item, Damaged> {
        let time = self.before.time.wrapping_add(self.number()?);
        self.before.time = time;
        let mut sequence = self.before.sequence.wrapping_add(1);
        if first & NEXT == 0 {
            let further = self.number()?;
            sequence = sequence.wrapping_add((further >> 1) ^ (further & 1).wrapping_neg());
        }
        self.before.sequence = sequence;
        let step = match first & KIND {
            WHOLE => {
                let exit = time.wrapping_add(self.number()?);
                let function = self.small()? as u16;
                Step::Whole {
                    exit,
                    function,
                    args: self.args(u32::from(function), first)?,
                    result: self.result(first)?,
                    within: Within::from_byte(self.byte()?).ok_or(Damaged)?,
                }
            }
            BEGIN => {
                let function = self.small()?;
                Step::Begin {
                    function,
                    args: self.args(function, first)?,
                    payload: self.payload(first, bytes)?,
                    complete: Within::from_byte(self.byte()?),
                    stack: self.small()?,
                }
            }
            NOTE => {
                let (head, sizes) = (self.number()?, self.number()?);
                Step::Note {
                    note: Note::from_words(head, sizes).ok_or(Damaged)?,
                    payload: self.payload(first, bytes)?,
                }
            }
            END => Step::End {
                enter: time.wrapping_sub(self.number()?),
                result: self.result(first)?,
                payload: self.payload(first, bytes)?,
            },
            UNWOUND => Step::Unwound {
                enter: time.wrapping_sub(self.number()?),
            },
            UNSEEN => Step::Unseen {
                enter: time.wrapping_sub(self.number()?),
            },
            LOST => Step::Lost {
                count: self.number()?,
            },
            _ => return Err(Damaged),
        };
        Ok(Item {
            time,
            sequence,
            step,
        })
    }

    fn byte(&mut self) -> Result<u8, Damaged> {
        let (&byte, rest) = self.rest.split_first().ok_or(Damaged)?;
        self.rest = rest;
        Ok(byte)
    }

    #[inline]
    fn number(&mut self) -> Result<u64, Damaged> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Damaged)
    }

    fn small(&mut self) -> Result<u32, Damaged> {
        u32::try_from(self.number()?).map_err(|_| Damaged)
    }

    fn args(&mut self, function: u32, first: u8) -> Result<[u64; SLOT_ARGS], Damaged> {
        let place = function as usize % REMEMBERED;
        let mut args = self.before.args[place];
        if first & SAME == 0 {
            for arg in &mut args {
                *arg ^= self.number()?;
            }
            self.before.args[place] = args;
        }
        Ok(args)
    }

    fn result(&mut self, first: u8) -> Result<u32, Damaged> {
        match first & ZERO {
            0 => self.small(),
            _ => Ok(0),
        }
    }

    fn payload(&mut self, first: u8, bytes: &mut Vec<u8>) -> Result<PayloadRange, Damaged> {
        if first & AGAIN != 0 {
            return Ok(self.payload);
        }
        let length = self.small()? as usize;
        if length == 0 {
            return Ok(PayloadRange::default());
        }
        let payload = self.rest.get(..length).ok_or(Damaged)?;
        self.rest = &self.rest[length..];
        let start = bytes.len();
        bytes.extend_from_slice(payload);
        self.payload = PayloadRange::since(start, bytes);
        Ok(self.payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Batch {
        let mut bytes = Vec::new();
        let mut piece = |text: &[u8]| {
            let start = bytes.len();
            bytes.extend_from_slice(text);
            PayloadRange::since(start, &bytes)
        };
        let whole = |function, result, args| Step::Whole {
            exit: 1_030,
            function,
            result,
            args,
            within: Within::from_flags(0x100),
        };
        let given = piece(b"what it was given");
        let back = piece(b"what came back");
        let steps = vec![
            (1_000, 7, whole(3, 0, [1, 2, 3, u64::MAX])),
            (1_040, 8, whole(3, 0, [1, 2, 3, u64::MAX])),
            (1_040, 9, whole(259, 700, [1, 0, 3, 9])),
            (1_041, 12, whole(3, u32::MAX, [1, 2, 3, u64::MAX])),
            (
                2_000,
                13,
                Step::Begin {
                    function: u32::MAX,
                    args: [5; 4],
                    payload: given,
                    complete: Some(Within::NONE),
                    stack: 9,
                },
            ),
            (
                2_001,
                14,
                Step::Begin {
                    function: 3,
                    args: [5; 4],
                    payload: PayloadRange::default(),
                    complete: None,
                    stack: 0,
                },
            ),
            (
                2_010,
                14,
                Step::End {
                    enter: 2_001,
                    result: 2,
                    payload: back,
                },
            ),
            (
                2_020,
                15,
                Step::End {
                    enter: 2_000,
                    result: 0,
                    payload: back,
                },
            ),
            // By a clock that went back.
            (1_990, 13, Step::Unwound { enter: 2_000 }),
            (u64::MAX, 0, Step::Unseen { enter: 0 }),
            (
                5,
                u64::MAX,
                Step::Note {
                    note: Note::Code {
                        code: 4,
                        name: 3,
                        file: 2,
                    },
                    payload: piece(b"fooa.py"),
                },
            ),
            (6, 1, Step::Lost { count: 1 << 40 }),
        ];
        let item = |(time, sequence, step)| Item {
            time,
            sequence,
            step,
        };
        Batch {
            ring: 1,
            items: steps.into_iter().map(item).collect(),
            bytes,
        }
    }

    #[test]
    fn what_is_unpacked_is_what_was_packed() {
        let batch = steps();
        let mut packer = Packer::default();
        for _ in 0..2 {
            let packed = packer.pack(&batch);
            let mut back = Batch::default();
            assert_eq!(packed.calls, (1 << 40) + 6);
            assert_eq!(unpack(packed.bytes, &mut back), Ok(()));
            assert_eq!((back.items, back.bytes), (steps().items, steps().bytes));
        }
    }

    #[test]
    fn a_call_like_the_one_before_takes_few_bytes() {
        let call = |number: u64| Item {
            time: 1_000_000 + 90 * number,
            sequence: number,
            step: Step::Whole {
                exit: 1_000_000 + 90 * number + 20,
                function: 3,
                result: 0,
                args: [0x7fff_1234_5678, 2, 3, 4],
                within: Within::from_flags(0),
            },
        };
        let batch = Batch {
            items: (0..1_000).map(call).collect(),
            ..Batch::default()
        };
        let bytes = Packer::default().pack(&batch).bytes.len();
        assert!(bytes < 5_100, "{bytes}");
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let batch = steps();
        let mut packer = Packer::default();
        let packed = packer.pack(&batch).bytes.to_vec();
        let mut refused = 0;
        for kept in 0..packed.len() {
            let mut back = Batch::default();
            refused += usize::from(unpack(&packed[..kept], &mut back).is_err());
        }
        assert!(refused > packed.len() / 2, "{refused}");
        for place in 0..packed.len() {
            let mut other = packed.clone();
            other[place] ^= 0xff;
            let _ = unpack(&other, &mut Batch::default());
        }
        assert_eq!(unpack(&[0xff; 40], &mut Batch::default()), Err(Damaged));
    }
}
