//! Programs that must be accepted, and what is learnt about them.

use gpubpf::TranslateOptions;

use crate::assemble::*;

fn corpus() -> Vec<(&'static str, Vec<Code>)> {
    vec![
        ("nothing", vec![end()]),
        (
            "value",
            vec![found(ARRAY), load(8, 1, 0, 8), store(8, 0, 0, 1), end()],
        ),
        (
            "a record without the context",
            vec![
                put(8, 10, -8, 0),
                set(1, 0),
                map(2, RING),
                set(3, 0),
                copy(4, 10),
                add(4, -8),
                set(5, 8),
                call(25),
                end(),
            ],
        ),
        (
            "one of two texts",
            vec![
                load(8, 6, 1, 0),
                put(4, 10, -8, 0x0061_6261),
                if_equal(6, 0, 1),
                put(4, 10, -8, 0x0062_6261),
                copy(1, 10),
                add(1, -8),
                call(501),
                end(),
            ],
        ),
        (
            "the copy of a checked value",
            vec![
                lookup(ARRAY),
                copy(6, 0),
                if_equal(0, 0, 1),
                load(8, 1, 6, 0),
                end(),
            ],
        ),
        (
            "a value that was spilled before its check",
            vec![
                lookup(ARRAY),
                store(8, 10, -16, 0),
                if_equal(0, 0, 2),
                load(8, 1, 10, -16),
                load(8, 2, 1, 0),
                end(),
            ],
        ),
        (
            "value by a masked index",
            vec![
                copy(6, 1),
                found(ARRAY),
                load(8, 2, 6, 0),
                and(2, 15),
                plus(0, 2),
                load(1, 0, 0, 0),
                end(),
            ],
        ),
        (
            "value by a compared index",
            vec![
                copy(6, 1),
                found(ARRAY),
                load(8, 2, 6, 0),
                if_above(2, 8, 2),
                plus(0, 2),
                load(8, 0, 0, 0),
                end(),
            ],
        ),
        (
            "value by a 32-bit index compared with its sign, twice",
            vec![
                copy(6, 1),
                found(ARRAY),
                load(4, 2, 6, 0),
                // w2 s> 15, w2 s< 0
                one(0x66, 2, 0, 4, 15),
                one(0xc6, 2, 0, 3, 0),
                one(0xbc, 2, 2, 0, 0),
                plus(0, 2),
                load(1, 0, 0, 0),
                end(),
            ],
        ),
        (
            "an index by shifts",
            vec![
                copy(6, 1),
                found(ARRAY),
                load(8, 2, 6, 0),
                one(0x77, 2, 0, 0, 62),
                one(0x67, 2, 0, 0, 2),
                plus(0, 2),
                load(4, 0, 0, 0),
                end(),
            ],
        ),
        (
            "an index by a remainder",
            vec![
                copy(6, 1),
                found(ARRAY),
                load(8, 2, 6, 0),
                one(0x97, 2, 0, 0, 9),
                plus(0, 2),
                load(8, 0, 0, 0),
                end(),
            ],
        ),
        (
            "a loop over the stack",
            vec![
                set(2, 0),
                copy(3, 10),
                plus(3, 2),
                put(1, 3, -64, 7),
                add(2, 1),
                if_below(2, 64, -5),
                end(),
            ],
        ),
        (
            "a loop that ends early",
            vec![
                copy(6, 1),
                found(COUNTERS),
                set(2, 0),
                load(8, 1, 0, 0),
                if_equal(1, 5, 2),
                add(2, 1),
                if_below(2, 100, -4),
                end(),
            ],
        ),
        (
            "a bounded number of tries",
            vec![
                found(COUNTERS),
                copy(6, 0),
                set(7, 0),
                set(0, 0),
                set(1, 1),
                atomic(8, 6, 0, 1, 0xf1),
                if_equal(0, 0, 2),
                add(7, 1),
                if_below(7, 16, -6),
                end(),
            ],
        ),
        (
            "a bound that is a parameter, compared",
            vec![
                load(8, 2, 1, 0),
                if_above(2, 200, 4),
                set(3, 0),
                add(3, 1),
                one(0x1d, 3, 2, 1, 0),
                if_below(3, 201, -3),
                end(),
            ],
        ),
        (
            "difference of addresses",
            vec![
                copy(2, 10),
                copy(3, 10),
                add(3, -8),
                one(0x1f, 2, 3, 0, 0),
                copy(0, 2),
                exit(),
            ],
        ),
        (
            "a record whose size varies",
            vec![
                copy(6, 1),
                load(8, 5, 1, 0),
                and(5, 15),
                add(5, 1),
                put(8, 10, -8, 0),
                put(8, 10, -16, 0),
                copy(1, 6),
                map(2, RING),
                set(3, 0),
                copy(4, 10),
                add(4, -16),
                call(25),
                end(),
            ],
        ),
        (
            "a key that is not aligned",
            vec![
                put(8, 10, -16, 0),
                put(4, 10, -8, 0),
                copy(2, 10),
                add(2, -12),
                map(1, HASH),
                call(1),
                if_equal(0, 0, 2),
                set(1, 3),
                store(8, 0, 0, 1),
                end(),
            ],
        ),
        (
            "constants printed",
            vec![
                data(1, RODATA, 0),
                set(2, 5),
                set(3, 42),
                call(6),
                data(1, RODATA, 5),
                set(2, 3),
                data(3, RODATA, 0),
                call(6),
                end(),
            ],
        ),
        (
            "a function that gives back a value's address",
            vec![
                set(1, 0),
                call_function(4),
                if_equal(0, 0, 1),
                load(8, 1, 0, 0),
                end(),
                lookup(COUNTERS),
                exit(),
            ],
        ),
        (
            "a function that writes its caller's stack",
            vec![
                copy(1, 10),
                add(1, -8),
                call_function(2),
                load(8, 0, 10, -8),
                exit(),
                put(8, 1, 0, 5),
                end(),
            ],
        ),
        (
            "a thread's own value",
            vec![
                found(THREADS),
                load(8, 1, 0, 0),
                add(1, 1),
                store(8, 0, 0, 1),
                end(),
            ],
        ),
        (
            "histogram",
            vec![map(1, COUNTERS), set(2, 1000), call(601), end()],
        ),
        (
            "global data",
            vec![
                data(1, BSS, 8),
                load(4, 2, 1, 0),
                add(2, 1),
                store(4, 1, 0, 2),
                end(),
            ],
        ),
    ]
}

#[test]
fn good_programs_are_accepted() {
    for (name, code) in corpus() {
        for options in every_option() {
            loads(name, &code, &options);
        }
    }
}

fn every_option() -> Vec<TranslateOptions> {
    let mut all = Vec::new();
    for bits in 0..8 {
        all.push(TranslateOptions {
            promote_stack: bits & 1 != 0,
            aggregate: bits & 2 != 0,
            inline_helpers: bits & 4 != 0,
            ..TranslateOptions::default()
        });
    }
    all
}

/// The program is accepted, and what it becomes loads on the software device.
fn loads(name: &str, code: &[Code], options: &TranslateOptions) {
    let outcome = outcome(code, |verified| {
        let translated = gpubpf::translate(verified, options);
        let mut text = String::from(
            ".version 8.0\n.target sm_75\n.address_size 64\n.global .align 16 .b8 __cutrace_maps[1024];\n",
        );
        for helper in &translated.helpers {
            let name = gpubpf::helper_name(*helper);
            text.push_str(&format!(
                    ".func (.reg .b64 %r) {name} (.reg .b64 %a, .reg .b64 %b, .reg .b64 %c, .reg .b64 %d, \
                     .reg .b64 %e) {{ mov.b64 %r, 0; ret; }}\n"
                ));
        }
        text + &translated.functions
    });
    let text = outcome.unwrap_or_else(|refused| panic!("{name}: {refused}"));
    if let Err(error) = softgpu_machine::program::Program::build(&text) {
        panic!("{name}: {error}\n{text}");
    }
}

#[test]
fn many_ways_do_not_multiply() {
    // 64 times: if a parameter is 5, add 1. Told apart, there would be 2^64 ways.
    let mut code = vec![set(0, 0)];
    for index in 0..64 {
        code.push(load(8, 2, 1, index * 8));
        code.push(if_not(2, 5, 1));
        code.push(add(0, 1));
    }
    code.push(exit());
    let looked_at = outcome(&code, |verified| verified.looked_at).expect("accepted");
    assert!(looked_at < 5_000, "{looked_at}");
}

#[test]
fn the_longest_path_is_told() {
    let rounds = vec![set(2, 0), add(2, 1), if_below(2, 10, -2), end()];
    assert_eq!(outcome(&rounds, |it| it.longest_path).unwrap(), 1 + 20 + 2);
    let ways = vec![
        load(8, 2, 1, 0),
        if_equal(2, 0, 3),
        set(3, 1),
        set(3, 2),
        set(3, 3),
        end(),
    ];
    assert_eq!(outcome(&ways, |it| it.longest_path).unwrap(), 7);
}
