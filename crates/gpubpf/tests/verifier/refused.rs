//! Programs that must be refused.

use gpubpf::{Attach, Reason};

use crate::assemble::*;

struct Bad {
    name: &'static str,
    reason: Reason,
    /// What the words must have in them.
    says: &'static str,
    code: Vec<Code>,
}

fn corpus() -> Vec<Bad> {
    use Reason as R;
    let bad = |name, reason, says, code| Bad {
        name,
        reason,
        says,
        code,
    };
    vec![
        bad("no result", R::UninitialisedRegister, "r0", vec![exit()]),
        bad(
            "register never written",
            R::UninitialisedRegister,
            "r3",
            vec![copy(0, 3), exit()],
        ),
        bad(
            "register lost in a call",
            R::UninitialisedRegister,
            "r1",
            vec![call(502), copy(0, 1), exit()],
        ),
        bad(
            "register written on one way only",
            R::UninitialisedRegister,
            "r5",
            vec![
                load(8, 2, 1, 0),
                if_equal(2, 0, 1),
                set(5, 1),
                copy(0, 5),
                exit(),
            ],
        ),
        bad(
            "stack never written",
            R::UninitialisedStack,
            "-8",
            vec![load(8, 0, 10, -8), exit()],
        ),
        bad(
            "half of the stack's word never written",
            R::UninitialisedStack,
            "-4",
            vec![put(4, 10, -8, 1), load(8, 0, 10, -8), exit()],
        ),
        bad(
            "stack of a helper never written",
            R::UninitialisedStack,
            "never written",
            vec![copy(2, 10), add(2, -4), map(1, ARRAY), call(1), end()],
        ),
        bad(
            "below the stack",
            R::OutOfBounds,
            "-520",
            vec![put(8, 10, -520, 0), end()],
        ),
        bad(
            "above the stack",
            R::OutOfBounds,
            "stack",
            vec![put(8, 10, -4, 0), end()],
        ),
        bad(
            "stack by an unknown index",
            R::OutOfBounds,
            "stack",
            vec![
                load(8, 2, 1, 0),
                copy(3, 10),
                plus(3, 2),
                put(1, 3, 0, 0),
                end(),
            ],
        ),
        bad(
            "stack by an index one too large",
            R::OutOfBounds,
            "-8 to 0",
            vec![
                load(8, 2, 1, 0),
                if_above(2, 8, 3),
                copy(3, 10),
                plus(3, 2),
                put(1, 3, -8, 0),
                end(),
            ],
        ),
        bad(
            "behind a value",
            R::OutOfBounds,
            "16 bytes",
            vec![found(ARRAY), load(8, 0, 0, 9), end()],
        ),
        bad(
            "before a value",
            R::OutOfBounds,
            "offset -1",
            vec![found(ARRAY), load(1, 0, 0, -1), end()],
        ),
        bad(
            "value by an unknown index",
            R::OutOfBounds,
            "value of array",
            vec![
                copy(6, 1),
                found(ARRAY),
                load(8, 2, 6, 0),
                plus(0, 2),
                load(1, 0, 0, 0),
                end(),
            ],
        ),
        bad(
            "value by an index with a sign",
            R::OutOfBounds,
            "value of array",
            vec![
                copy(6, 1),
                found(ARRAY),
                load(8, 2, 6, 0),
                // Below 8, but with a sign: it may be negative.
                one(0x65, 2, 0, 2, 7),
                plus(0, 2),
                load(1, 0, 0, 0),
                end(),
            ],
        ),
        bad(
            "behind global data",
            R::OutOfBounds,
            ".bss",
            vec![data(2, BSS, 8), load(8, 0, 2, 0), exit()],
        ),
        bad(
            "value not checked for NULL",
            R::MayBeNull,
            "NULL",
            vec![lookup(ARRAY), load(8, 0, 0, 0), exit()],
        ),
        bad(
            "value checked the wrong way round",
            R::MayBeNull,
            "NULL",
            vec![
                lookup(ARRAY),
                if_not(0, 0, 2),
                load(8, 0, 0, 0),
                exit(),
                end(),
            ],
        )
        .expecting(R::NoAddress, "number"),
        bad(
            "arithmetic before the check",
            R::MayBeNull,
            "NULL",
            vec![lookup(ARRAY), add(0, 8), end()],
        ),
        bad(
            "another lookup checked",
            R::MayBeNull,
            "NULL",
            vec![
                lookup(ARRAY),
                copy(6, 0),
                lookup(ARRAY),
                if_equal(0, 0, 1),
                load(8, 1, 6, 0),
                end(),
            ],
        ),
        bad(
            "a number as an address",
            R::NoAddress,
            "number",
            vec![set(2, 64), load(8, 0, 2, 0), exit()],
        ),
        bad(
            "a parameter as an address",
            R::NoAddress,
            "number",
            vec![load(8, 2, 1, 0), load(8, 0, 2, 0), exit()],
        ),
        bad(
            "a map as memory",
            R::NoAddress,
            "map array",
            vec![map(2, ARRAY), load(8, 0, 2, 0), exit()],
        ),
        bad(
            "product of an address",
            R::PointerArithmetic,
            "+ and -",
            vec![copy(2, 10), one(0x27, 2, 0, 0, 2), end()],
        ),
        bad(
            "32-bit arithmetic on an address",
            R::PointerArithmetic,
            "32-bit",
            vec![copy(2, 10), one(0x04, 2, 0, 0, -8), end()],
        ),
        bad(
            "sum of addresses",
            R::PointerArithmetic,
            "two addresses",
            vec![copy(2, 10), plus(2, 1), end()],
        ),
        bad(
            "negation of an address",
            R::PointerArithmetic,
            "+ and -",
            vec![copy(2, 10), one(0x87, 2, 0, 0, 0), end()],
        ),
        bad(
            "address returned",
            R::PointerEscapes,
            "returned",
            vec![copy(0, 10), exit()],
        ),
        bad(
            "address in a value",
            R::PointerEscapes,
            "others",
            vec![found(ARRAY), store(8, 0, 0, 10), end()],
        ),
        bad(
            "address in a record",
            R::PointerEscapes,
            "address",
            vec![
                copy(6, 1),
                store(8, 10, -8, 10),
                copy(1, 6),
                map(2, RING),
                set(3, 0),
                copy(4, 10),
                add(4, -8),
                set(5, 8),
                call(25),
                end(),
            ],
        ),
        bad(
            "part of an address read back",
            R::PointerArithmetic,
            "part of an address",
            vec![store(8, 10, -8, 10), load(4, 0, 10, -8), exit()],
        ),
        bad(
            "context written",
            R::ReadOnly,
            "context",
            vec![put(8, 1, 0, 0), end()],
        ),
        bad(
            "constants written",
            R::ReadOnly,
            ".rodata",
            vec![data(2, RODATA, 0), put(1, 2, 0, 0), end()],
        ),
        bad(
            "context of no size",
            R::OutOfBounds,
            "context",
            vec![load(1, 0, 1, 32764), exit()],
        ),
        bad(
            "context from below",
            R::OutOfBounds,
            "context",
            vec![load(1, 0, 1, -1), exit()],
        ),
        bad(
            "atomic that is not aligned",
            R::Misaligned,
            "multiple of 8",
            vec![found(ARRAY), set(1, 1), atomic(8, 0, 4, 1, 0), end()],
        ),
        bad(
            "helper of the kernel's",
            R::UnknownHelper,
            "113",
            vec![call(113), end()],
        ),
        bad(
            "no such helper",
            R::UnknownHelper,
            "999999",
            vec![call(999_999), end()],
        ),
        bad(
            "lookup in a ring",
            R::BadMap,
            "array or a hash",
            vec![
                put(4, 10, -4, 0),
                copy(2, 10),
                add(2, -4),
                map(1, RING),
                call(1),
                end(),
            ],
        ),
        bad(
            "record into an array",
            R::BadMap,
            "1527",
            vec![
                put(8, 10, -8, 0),
                map(2, ARRAY),
                set(3, 0),
                copy(4, 10),
                add(4, -8),
                set(5, 8),
                call(25),
                end(),
            ],
        ),
        bad(
            "histogram in values of 16 bytes",
            R::BadMap,
            "8-byte",
            vec![map(1, ARRAY), set(2, 5), call(601), end()],
        ),
        bad(
            "a map of the kernel's",
            R::BadMap,
            "type 27",
            vec![map(1, KERNEL_RING), end()],
        ),
        bad(
            "a number as a map",
            R::BadArgument,
            "must be a map",
            vec![
                put(4, 10, -4, 0),
                copy(2, 10),
                add(2, -4),
                set(1, 0),
                call(1),
                end(),
            ],
        ),
        bad(
            "a number as a key",
            R::NoAddress,
            "number",
            vec![map(1, ARRAY), set(2, 0), call(1), end()],
        ),
        bad(
            "a key of eight bytes in four",
            R::OutOfBounds,
            "stack",
            vec![
                put(4, 10, -4, 0),
                copy(2, 10),
                add(2, -4),
                map(1, HASH),
                call(1),
                end(),
            ],
        ),
        bad(
            "a value too short",
            R::UninitialisedStack,
            "never written",
            vec![
                put(4, 10, -4, 0),
                put(8, 10, -24, 0),
                map(1, ARRAY),
                copy(2, 10),
                add(2, -4),
                copy(3, 10),
                add(3, -24),
                set(4, 0),
                call(2),
                end(),
            ],
        ),
        bad(
            "a record larger than the ring's",
            R::OutOfBounds,
            "ring",
            vec![
                copy(6, 1),
                put(8, 10, -8, 0),
                put(8, 10, -16, 0),
                put(8, 10, -24, 0),
                put(8, 10, -32, 0),
                put(8, 10, -40, 0),
                copy(1, 6),
                map(2, RING),
                set(3, 0),
                copy(4, 10),
                add(4, -40),
                set(5, 40),
                call(25),
                end(),
            ],
        ),
        bad(
            "a record of no size",
            R::BadArgument,
            "size",
            vec![
                put(8, 10, -8, 0),
                map(2, RING),
                set(3, 0),
                copy(4, 10),
                add(4, -8),
                set(5, 0),
                call(25),
                end(),
            ],
        ),
        bad(
            "a record of unknown size",
            R::BadArgument,
            "size",
            vec![
                load(8, 5, 1, 0),
                put(8, 10, -8, 0),
                map(2, RING),
                set(3, 0),
                copy(4, 10),
                add(4, -8),
                call(25),
                end(),
            ],
        ),
        bad(
            "a record without the context",
            R::BadArgument,
            "the context",
            vec![
                put(8, 10, -8, 0),
                copy(1, 10),
                map(2, RING),
                set(3, 0),
                copy(4, 10),
                add(4, -8),
                set(5, 8),
                call(25),
                end(),
            ],
        ),
        bad(
            "thread index into constants",
            R::ReadOnly,
            ".rodata",
            vec![
                data(1, RODATA, 0),
                copy(2, 10),
                add(2, -8),
                copy(3, 10),
                add(3, -16),
                call(505),
                end(),
            ],
        ),
        bad(
            "thread index at an odd place",
            R::Misaligned,
            "multiple of 8",
            vec![
                copy(1, 10),
                add(1, -12),
                copy(2, 10),
                add(2, -24),
                copy(3, 10),
                add(3, -32),
                call(505),
                end(),
            ],
        ),
        bad(
            "a format nobody knows",
            R::BadFormat,
            "known in advance",
            vec![
                load(8, 3, 1, 0),
                store(8, 10, -8, 3),
                copy(1, 10),
                add(1, -8),
                set(2, 8),
                call(6),
                end(),
            ],
        ),
        bad(
            "a format with a conversion cut off",
            R::BadFormat,
            "in the middle",
            vec![data(1, RODATA, 8), set(2, 9), call(6), end()],
        ),
        bad(
            "a text without an end",
            R::BadFormat,
            "known in advance",
            vec![data(1, RODATA, 22), call(501), end()],
        )
        .expecting(R::BadFormat, "known"),
        bad(
            "a text that is none",
            R::BadFormat,
            "UTF-8",
            vec![data(1, RODATA, 17), call(501), end()],
        ),
        bad(
            "a value for a format that was never written",
            R::UninitialisedRegister,
            "r3",
            vec![data(1, RODATA, 0), set(2, 5), call(6), end()],
        ),
        bad(
            "an address printed",
            R::PointerEscapes,
            "printed",
            vec![data(1, RODATA, 0), set(2, 5), copy(3, 10), call(6), end()],
        ),
        bad(
            "a context that is a number",
            R::BadArgument,
            "the context",
            vec![
                put(8, 10, -8, 0),
                set(1, 5),
                map(2, RING),
                set(3, 0),
                copy(4, 10),
                add(4, -8),
                set(5, 8),
                call(25),
                end(),
            ],
        ),
        bad(
            "a format on one path, its beginning on another",
            R::BadFormat,
            "a prefix of another",
            vec![
                load(8, 6, 1, 0),
                data(1, RODATA, 20),
                set(2, 4),
                if_equal(6, 0, 1),
                set(2, 2),
                call(6),
                end(),
            ],
        ),
        bad(
            "formats with different numbers of values",
            R::BadFormat,
            "numbers of values",
            vec![
                load(8, 6, 1, 0),
                data(1, RODATA, 0),
                set(2, 5),
                set(3, 0),
                if_equal(6, 0, 3),
                data(1, RODATA, 20),
                set(2, 4),
                call(6),
                end(),
            ],
        ),
        bad(
            "a text on one path, a number on another",
            R::BadFormat,
            "a number on another",
            vec![
                load(8, 6, 1, 0),
                data(1, RODATA, 0),
                set(2, 5),
                set(3, 0),
                if_equal(6, 0, 5),
                data(1, RODATA, 5),
                set(2, 3),
                data(3, RODATA, 5),
                call(6),
                end(),
            ],
        ),
        bad(
            "a loop for ever",
            R::UnboundedLoop,
            "bound",
            vec![set(0, 0), jump(-1), exit()],
        ),
        bad(
            "a loop that counts nothing",
            R::UnboundedLoop,
            "bound",
            vec![
                load(8, 2, 1, 0),
                set(3, 0),
                set(3, 0),
                if_not(2, 5, -2),
                end(),
            ],
        ),
        bad(
            "a loop of unknown rounds",
            R::UnboundedLoop,
            "bound",
            vec![load(8, 2, 1, 0), add(2, -1), if_not(2, 0, -2), end()],
        ),
        bad(
            "a loop of a million rounds",
            R::TooComplex,
            "reasonably small bound",
            vec![set(2, 1_000_000), add(2, -1), if_not(2, 0, -2), end()],
        ),
        bad(
            "a lock",
            R::Spins,
            "lanes",
            vec![
                found(COUNTERS),
                copy(6, 0),
                set(0, 0),
                set(1, 1),
                atomic(8, 6, 0, 1, 0xf1),
                if_not(0, 0, -4),
                end(),
            ],
        ),
        bad(
            "a flag that is waited for",
            R::Spins,
            "lanes",
            vec![found(COUNTERS), load(8, 1, 0, 0), if_equal(1, 0, -2), end()],
        ),
        bad(
            "recursion",
            R::TooManyCalls,
            "nested",
            vec![
                set(1, 0),
                call_function(1),
                exit(),
                call_function(-1),
                exit(),
            ],
        ),
        bad(
            "stacks too large together",
            R::StackTooLarge,
            "512",
            vec![
                put(8, 10, -400, 0),
                set(1, 0),
                call_function(1),
                exit(),
                put(8, 10, -400, 0),
                end(),
            ],
        ),
        bad(
            "address of a stack that is gone",
            R::PointerEscapes,
            "returned",
            vec![
                set(1, 0),
                call_function(2),
                set(0, 0),
                exit(),
                copy(0, 10),
                exit(),
            ],
        ),
        bad(
            "runs off its end",
            R::BadJump,
            "without exit",
            vec![set(0, 0)],
        ),
        bad(
            "address of a stack that is gone, left in the caller's",
            R::UninitialisedRegister,
            "r2",
            vec![
                put(8, 10, -8, 0),
                copy(1, 10),
                add(1, -8),
                call_function(4),
                load(8, 2, 10, -8),
                load(8, 0, 2, -8),
                set(0, 0),
                exit(),
                put(8, 10, -8, 1),
                store(8, 1, 0, 10),
                end(),
            ],
        ),
        bad(
            "atomic on stack or value",
            R::NoAddress,
            "stack on one path",
            vec![
                load(8, 6, 1, 0),
                put(8, 10, -16, 0),
                found(COUNTERS),
                if_equal(6, 0, 2),
                copy(0, 10),
                add(0, -16),
                set(1, 1),
                atomic(8, 0, 0, 1, 0),
                end(),
            ],
        ),
    ]
}

impl Bad {
    fn expecting(mut self, reason: Reason, says: &'static str) -> Bad {
        (self.reason, self.says) = (reason, says);
        self
    }
}

#[test]
fn bad_programs_are_refused_for_their_reason() {
    let corpus = corpus();
    assert!(corpus.len() >= 60);
    for bad in corpus {
        let Err(refused) = outcome(&bad.code, |_| ()) else {
            panic!("{}: accepted", bad.name);
        };
        assert_eq!(refused.reason, bad.reason, "{}: {refused}", bad.name);
        assert!(
            refused.text.contains(bad.says),
            "{}: {refused} does not say {:?}",
            bad.name,
            bad.says
        );
    }
}

#[test]
fn contexts_have_the_size_of_their_probe() {
    let reads = |offset| vec![load(8, 0, 1, offset), exit()];
    let memory = |offset| outcome_at(Attach::Memory, &reads(offset), |it| it.context_bytes);
    assert_eq!(memory(24).unwrap(), 32);
    assert_eq!(memory(25).unwrap_err().reason, Reason::OutOfBounds);
    let direct = outcome_at(Attach::Direct, &reads(0), |_| ());
    assert_eq!(direct.unwrap_err().reason, Reason::OutOfBounds);
    let entry = outcome(&reads(16), |it| it.context_bytes);
    assert_eq!(entry.unwrap(), 24);
}
