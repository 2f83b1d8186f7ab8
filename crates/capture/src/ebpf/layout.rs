//! What BPF programs write into the ring, and the descriptions that tell them what to write:
//! `bpf/record.h` in Rust. A test compares the two.

/// Kinds of records.
pub const KIND_ENTER: u16 = 1;
pub const KIND_RETURN: u16 = 2;
pub const KIND_SYSCALL_ENTER: u16 = 3;
pub const KIND_SYSCALL_EXIT: u16 = 4;
pub const KIND_FORK: u16 = 5;
pub const KIND_EXEC: u16 = 6;
pub const KIND_EXIT: u16 = 7;
pub const KIND_LOADED: u16 = 8;
pub const KIND_INSTANT: u16 = 9;
pub const KIND_STACK: u16 = 10;

/// Something could not be read.
pub const FLAG_FAULT: u8 = 1;

/// The head of every record; a body may follow.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Head {
    /// CLOCK_MONOTONIC in nanoseconds.
    pub time: u64,
    pub process: u32,
    pub thread: u32,
    /// The low half of the probe's cookie.
    pub function: u32,
    pub kind: u16,
    /// Argument words that the body begins with.
    pub words: u8,
    pub flags: u8,
    /// The stack pointer at entry: joins the return with the beginning.
    pub key: u64,
    pub result: u64,
}

impl Head {
    /// A record's head and its body; None if the bytes are too few.
    pub fn split(bytes: &[u8]) -> Option<(Head, &[u8])> {
        let (head, body) = bytes.split_first_chunk::<{ size_of::<Head>() }>()?;
        let word = |at: usize| {
            let bytes = head[at..].first_chunk::<8>();
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let head = Head {
            time: word(0),
            process: word(8) as u32,
            thread: (word(8) >> 32) as u32,
            function: word(16) as u32,
            kind: (word(16) >> 32) as u16,
            words: head[22],
            flags: head[23],
            key: word(24),
            result: word(32),
        };
        Some((head, body))
    }
}

/// Bytes of the bodies that a record can have, by class.
pub const BODIES: [usize; 6] = [24, 48, 96, 192, 448, 2048];

pub const STEP_MEMORY: u8 = 1;
pub const STEP_TEXT: u8 = 2;
pub const STEP_TEXT_BEHIND: u8 = 3;
pub const STEP_ARRAY: u8 = 4;
pub const STEP_NESTED: u8 = 5;
pub const STEP_SUM: u8 = 6;
pub const STEP_GATHERED: u8 = 7;
pub const STEP_RESULT_TEXT: u8 = 8;
pub const STEP_POINT_TEXT: u8 = 9;

/// Pieces that vary in length begin with 8 bytes that say how long they are; this much is reserved.
pub const VARYING_ROOM: usize = 256;
pub const VARYING_MOST: usize = 248;
/// Bytes between the elements of a nested array, as they lie in the record.
pub const NESTED_STRIDE: usize = 48;
/// Instead of a word: the stack pointer at entry.
pub const WORD_STACK: u8 = 0xff;
/// In `count_bytes`: the word points to the count.
pub const COUNT_BEHIND: u8 = 0x80;

/// One thing to read of a call.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CopyStep {
    pub op: u8,
    pub word: u8,
    pub offset: u16,
    pub length: u16,
    /// Place in the body, words included.
    pub at: u16,
    pub stride: u16,
    pub count_word: u8,
    pub count_bytes: u8,
    pub kept: u16,
    pub count_offset: u16,
}

pub const COMPARE_EQUAL: u8 = 1;
pub const COMPARE_UNEQUAL: u8 = 2;
pub const COMPARE_LESS: u8 = 3;
pub const COMPARE_LESS_OR_EQUAL: u8 = 4;
pub const COMPARE_GREATER: u8 = 5;
pub const COMPARE_GREATER_OR_EQUAL: u8 = 6;
/// Any of these bits is set.
pub const COMPARE_BITS: u8 = 7;
/// No comparison: the next one is of these bits only.
pub const COMPARE_MASK: u8 = 8;

/// What a place in the body must be like for the call to be recorded.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Condition {
    pub at: u16,
    pub width: u8,
    pub compare: u8,
    pub is_signed: u8,
    /// Of its alternative.
    pub last: u8,
    pub reserved: [u8; 2],
    pub value: u64,
}

/// Frames of a call's stack, behind the one that called.
pub const MOST_FRAMES: usize = 64;

pub const MOST_WORDS: usize = 16;
pub const MOST_STEPS: usize = 32;
pub const MOST_CONDITIONS: usize = 8;

/// Beginnings only.
pub const SPEC_NO_RETURN: u8 = 1;
/// Recorded as an instant, no return.
pub const SPEC_INSTANT: u8 = 2;
/// In every process.
pub const SPEC_EVERYWHERE: u8 = 4;
/// With the stack it comes from.
pub const SPEC_STACK: u8 = 8;
/// An instant, at the return.
pub const SPEC_AT_RETURN: u8 = 16;
/// All that is read at the return is 4 or 8 bytes, by the word that is kept.
pub const SPEC_ONE_OUTPUT: u8 = 32;
/// Calls shorter than `Settings::shortest` are left out.
pub const SPEC_SHORT_NOT: u8 = 64;

/// One of `Settings::sample` calls is recorded.
pub const SPEC_SAMPLED: u8 = 128;

/// Calls are counted instead of recorded.
pub const AGGREGATE_COUNT: u8 = 1;
pub const AGGREGATE_HISTOGRAM: u8 = 2;

pub const MEASURE_DURATION: u8 = 1;
/// What was returned; of a count: calls count when they return.
pub const MEASURE_RESULT: u8 = 2;
/// The argument word of number `measured`.
pub const MEASURE_WORD: u8 = 3;
/// At the place `measured` of the body.
pub const MEASURE_BODY: u8 = 4;

/// What to record of a function's calls.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Spec {
    /// 3, 6, 12 or 16.
    pub words: u8,
    pub enter_class: u8,
    pub return_class: u8,
    pub enter_steps: u8,
    /// After the `enter_steps` in `steps`.
    pub return_steps: u8,
    pub conditions: u8,
    pub flags: u8,
    /// 1 + the word that all return steps go by; 0: more than one.
    pub kept: u8,
    pub aggregate: u8,
    pub measure: u8,
    /// Of what is measured: 1, 2, 4 or 8.
    pub width: u8,
    pub is_signed: u8,
    pub measured: u16,
    /// A beginning's result is the address that the call returns to.
    pub caller: u8,
    pub unused: u8,
    pub when: [Condition; MOST_CONDITIONS],
    pub steps: [CopyStep; MOST_STEPS],
}

pub const OPERAND_NONE: u8 = 0;
pub const OPERAND_CONSTANT: u8 = 1;
pub const OPERAND_REGISTER: u8 = 2;
pub const OPERAND_MEMORY: u8 = 3;

pub const MOST_OPERANDS: usize = 12;
/// Instead of a register.
pub const REGISTER_NONE: u8 = 0xff;

/// Where a marker's argument is.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Operand {
    pub kind: u8,
    pub size: u8,
    pub is_signed: u8,
    /// Bits: of a register to the right, of an index to the left.
    pub shift: u8,
    /// Registers by their places in `struct pt_regs`, in words.
    pub base: u8,
    pub index: u8,
    pub reserved: [u8; 2],
    pub value: u64,
}

/// The arguments of a marker at one of its places.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Site {
    pub at: [Operand; MOST_OPERANDS],
}

pub const FILTER_TREE: u32 = 1;
pub const FILTER_CGROUP: u32 = 2;
pub const FILTER_USER: u32 = 4;

/// Bytes of a beginning that is held back.
pub const HELD: usize = size_of::<Head>() + BODIES[BODIES.len() - 1];

/// What is kept of a call until it returns is found by this.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CallKey {
    pub stack: u64,
    pub thread: u32,
    /// One may jump into another with its own frame.
    pub function: u32,
}

impl Plain for CallKey {}

/// Whose calls are recorded.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// CLOCK_MONOTONIC; later calls are left out.
    pub until: u64,
    pub cgroup: u64,
    /// Bytes in the ring from which on no new calls are taken.
    pub enough: u64,
    /// Nanoseconds that a loading thread waits for an answer, at most.
    pub hold: u64,
    /// Nanoseconds; 0: all calls are reported when they begin.
    pub shortest: u64,
    pub filter: u32,
    pub disabled: u32,
    pub user: u32,
    /// The tracer itself is never traced.
    pub own: u32,
    /// A traced process that need not be looked for in the tree.
    pub first: u32,
    /// One of so many calls is recorded; 0 and 1: all.
    pub sample: u32,
}

/// How many values there were from each power of two to the next.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Histogram {
    pub total: u64,
    pub negative: u64,
    pub zero: u64,
    pub powers: [u64; 64],
}

impl Histogram {
    pub const EMPTY: Self = Histogram {
        total: 0,
        negative: 0,
        zero: 0,
        powers: [0; 64],
    };

    pub fn add(&mut self, more: &Self) {
        self.total = self.total.wrapping_add(more.total);
        self.negative += more.negative;
        self.zero += more.zero;
        for (sum, power) in self.powers.iter_mut().zip(more.powers) {
            *sum += power;
        }
    }
}

/// Calls of one function of the kernel that are measured at their return, in one thread.
pub const MOST_NESTED: usize = 8;
/// Bytes of what is kept of them.
pub const STARTED: usize = 8 + 8 * MOST_NESTED;

pub const COUNT_LOST: usize = 0;
pub const COUNT_LOST_ENDS: usize = 1;
pub const COUNT_FAULTS: usize = 2;
pub const COUNT_UNSAVED: usize = 3;
pub const COUNT_UNWANTED: usize = 4;
pub const COUNT_LATE: usize = 5;
pub const COUNT_LOST_SYSTEM: usize = 6;
pub const COUNT_LOST_INSTANT: usize = 7;
pub const COUNT_SHORT: usize = 8;
pub const COUNT_UNSAMPLED: usize = 9;
pub const COUNTERS: usize = 16;

/// Bytes of structs that go to and from maps.
pub trait Plain: Copy {
    fn bytes(&self) -> &[u8] {
        // SAFETY: implemented for structs without padding only, see the test of their sizes.
        unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(self).cast::<u8>(), size_of::<Self>())
        }
    }
}

impl Plain for Spec {}
impl Plain for Settings {}
impl Plain for Site {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const HEADER: &str = include_str!("../../../../bpf/record.h");

    /// The numbers that the header defines.
    fn defined() -> HashMap<&'static str, u64> {
        let lines = HEADER.lines().filter_map(|line| {
            let mut words = line.strip_prefix("#define ")?.split_whitespace();
            let (name, value) = (words.next()?, words.next()?);
            let number = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => value.parse(),
            };
            Some((name, number.ok()?))
        });
        lines.collect()
    }

    /// The fields of a struct of the header: names with their offsets, and the size of it all.
    fn fields(name: &str) -> (Vec<(String, usize)>, usize) {
        let numbers = defined();
        let begin = format!("struct {name} {{");
        let mut text = String::new();
        for (place, part) in HEADER.split("/*").enumerate() {
            let said = part.split_once("*/").filter(|_| place > 0);
            text.push_str(said.map_or(part, |(_, rest)| rest));
        }
        let text = text.split(&begin).nth(1).expect("there");
        let text = text.split("};").next().expect("closed");
        let (mut found, mut at, mut widest) = (Vec::new(), 0usize, 1);
        for field in text.split(';').map(str::trim) {
            let Some((kind, rest)) = field.rsplit_once(' ') else {
                continue;
            };
            let (size, align) = match kind.trim() {
                "__u8" => (1, 1),
                "__u16" => (2, 2),
                "__u32" => (4, 4),
                "__u64" => (8, 8),
                "struct condition" => (fields("condition").1, 8),
                "struct step" => (fields("step").1, 2),
                "struct operand" => (fields("operand").1, 8),
                other => panic!("{other}"),
            };
            let (field, count) = match rest.split_once('[') {
                Some((field, count)) => {
                    let count = count.trim_end_matches(']');
                    let number = count.parse().ok();
                    (field, number.unwrap_or_else(|| numbers[count] as usize))
                }
                None => (rest, 1),
            };
            at = at.next_multiple_of(align);
            widest = widest.max(align);
            found.push((field.to_owned(), at));
            at += size * count;
        }
        (found, at.next_multiple_of(widest))
    }

    macro_rules! same_struct {
        ($name:literal, $kind:ty, $($field:ident),*) => {{
            let (fields, size) = fields($name);
            let ours = vec![$((stringify!($field).to_owned(), std::mem::offset_of!($kind, $field))),*];
            assert_eq!((fields, size), (ours, size_of::<$kind>()), $name);
        }};
    }

    #[test]
    fn structs_are_those_of_the_header() {
        same_struct!(
            "record", Head, time, process, thread, function, kind, words, flags, key, result
        );
        same_struct!(
            "step",
            CopyStep,
            op,
            word,
            offset,
            length,
            at,
            stride,
            count_word,
            count_bytes,
            kept,
            count_offset
        );
        same_struct!(
            "condition",
            Condition,
            at,
            width,
            compare,
            is_signed,
            last,
            reserved,
            value
        );
        same_struct!(
            "spec",
            Spec,
            words,
            enter_class,
            return_class,
            enter_steps,
            return_steps,
            conditions,
            flags,
            kept,
            aggregate,
            measure,
            width,
            is_signed,
            measured,
            caller,
            unused,
            when,
            steps
        );
        same_struct!(
            "settings", Settings, until, cgroup, enough, hold, shortest, filter, disabled, user,
            own, first, sample
        );
        same_struct!(
            "operand", Operand, kind, size, is_signed, shift, base, index, reserved, value
        );
        same_struct!("site", Site, at);
        same_struct!("histogram", Histogram, total, negative, zero, powers);
        same_struct!("call_key", CallKey, stack, thread, function);
        // No padding anywhere: what goes into maps is all ours.
        assert_eq!(size_of::<Head>(), 40);
        assert_eq!(
            size_of::<Spec>(),
            16 + 16 * MOST_CONDITIONS + 16 * MOST_STEPS
        );
        assert_eq!(fields("started").1, STARTED);
        assert_eq!(size_of::<Settings>(), 64);
        assert_eq!(size_of::<Site>(), 16 * MOST_OPERANDS);
    }

    macro_rules! same_numbers {
        ($($name:ident),*) => {{
            let numbers = defined();
            $(assert_eq!(numbers[stringify!($name)], $name as u64, stringify!($name));)*
        }};
    }

    #[test]
    fn numbers_are_those_of_the_header() {
        same_numbers!(
            KIND_ENTER,
            KIND_RETURN,
            KIND_SYSCALL_ENTER,
            KIND_SYSCALL_EXIT,
            KIND_FORK,
            KIND_EXEC,
            KIND_EXIT,
            KIND_LOADED,
            KIND_INSTANT,
            KIND_STACK,
            FLAG_FAULT,
            STEP_MEMORY,
            STEP_TEXT,
            STEP_TEXT_BEHIND,
            STEP_ARRAY,
            STEP_NESTED,
            STEP_SUM,
            STEP_GATHERED,
            STEP_RESULT_TEXT,
            STEP_POINT_TEXT,
            VARYING_ROOM,
            VARYING_MOST,
            WORD_STACK,
            COUNT_BEHIND,
            COMPARE_EQUAL,
            COMPARE_UNEQUAL,
            COMPARE_LESS,
            COMPARE_LESS_OR_EQUAL,
            COMPARE_GREATER,
            COMPARE_GREATER_OR_EQUAL,
            COMPARE_BITS,
            COMPARE_MASK,
            MOST_FRAMES,
            MOST_WORDS,
            MOST_STEPS,
            MOST_CONDITIONS,
            SPEC_NO_RETURN,
            SPEC_INSTANT,
            SPEC_EVERYWHERE,
            SPEC_STACK,
            SPEC_AT_RETURN,
            SPEC_ONE_OUTPUT,
            SPEC_SHORT_NOT,
            SPEC_SAMPLED,
            AGGREGATE_COUNT,
            AGGREGATE_HISTOGRAM,
            MEASURE_DURATION,
            MEASURE_RESULT,
            MEASURE_WORD,
            MEASURE_BODY,
            MOST_NESTED,
            OPERAND_NONE,
            OPERAND_CONSTANT,
            OPERAND_REGISTER,
            OPERAND_MEMORY,
            MOST_OPERANDS,
            REGISTER_NONE,
            FILTER_TREE,
            FILTER_CGROUP,
            FILTER_USER,
            COUNT_LOST,
            COUNT_LOST_ENDS,
            COUNT_FAULTS,
            COUNT_UNSAVED,
            COUNT_UNWANTED,
            COUNT_LATE,
            COUNT_LOST_SYSTEM,
            COUNT_LOST_INSTANT,
            COUNT_SHORT,
            COUNT_UNSAMPLED,
            COUNTERS
        );
        let numbers = defined();
        for (class, bytes) in BODIES.iter().enumerate() {
            assert_eq!(numbers[&*format!("BODY_{class}")], *bytes as u64);
        }
    }

    #[test]
    fn heads_are_split_off() {
        let mut bytes = vec![0; 48];
        bytes[..8].copy_from_slice(&7u64.to_le_bytes());
        bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
        bytes[12..16].copy_from_slice(&2u32.to_le_bytes());
        bytes[16..20].copy_from_slice(&3u32.to_le_bytes());
        bytes[20..24].copy_from_slice(&[4, 0, 5, 6]);
        bytes[24..32].copy_from_slice(&8u64.to_le_bytes());
        bytes[32..40].copy_from_slice(&9u64.to_le_bytes());
        let (head, body) = Head::split(&bytes).expect("long enough");
        let expected = Head {
            time: 7,
            process: 1,
            thread: 2,
            function: 3,
            kind: 4,
            words: 5,
            flags: 6,
            key: 8,
            result: 9,
        };
        assert_eq!((head, body.len()), (expected, 8));
        assert_eq!(Head::split(&bytes[..39]), None);
    }
}
