//! Loops that only a budget stops: which programs may run so, which may not.

use gpubpf::{Reason, TranslateOptions, translate};

use crate::assemble::*;

/// r2 and r3 are numbers of the context: nobody knows them.
fn numbers() -> Code {
    [load(8, 2, 1, 0), load(8, 3, 1, 8)].concat()
}

fn translated(code: &[Code]) -> String {
    let text = outcome_or_budget(code, |verified| {
        assert!(verified.is_budgeted);
        translate(verified, &TranslateOptions::default()).functions
    });
    text.unwrap_or_else(|refused| panic!("{refused}"))
}

/// Every jump back is paid for.
fn assert_paid(text: &str, jumps: usize) {
    let paid = text.matches("sub.s64 %left, %left, 1").count();
    assert_eq!(paid, jumps, "{text}");
}

#[test]
fn a_bound_that_is_not_known_is_a_matter_of_budget() {
    let rounds_of_context = [numbers(), add(2, -1), if_not(2, 0, -2), end()];
    assert_paid(&translated(&rounds_of_context), 1);
    // A bound that a map holds.
    let rounds_of_map = [
        found(COUNTERS),
        load(8, 2, 0, 0),
        set(3, 0),
        add(3, 1),
        one(0xad, 3, 2, -2, 0),
        end(),
    ];
    assert_paid(&translated(&rounds_of_map), 1);
    // More rounds than anybody walks.
    let many = [set(2, 10_000_000), add(2, -1), if_not(2, 0, -2), end()];
    assert_paid(&translated(&many), 1);
}

#[test]
fn what_has_bounds_pays_nothing() {
    let code = [set(2, 100), add(2, -1), if_not(2, 0, -2), end()];
    let text = outcome_or_budget(&code, |verified| {
        assert!(!verified.is_budgeted);
        translate(verified, &TranslateOptions::default()).functions
    });
    assert!(
        !text
            .unwrap_or_else(|refused| panic!("{refused}"))
            .contains("%left")
    );
}

#[test]
fn loops_in_loops_and_in_functions_pay_from_one_purse() {
    let nested = [
        numbers(),
        copy(4, 3),
        add(4, -1),
        if_not(4, 0, -2),
        add(2, -1),
        if_not(2, 0, -5),
        end(),
    ];
    assert_paid(&translated(&nested), 2);
    // r6 rounds, each of which calls a function that goes round r1 times.
    let called = [
        load(8, 6, 1, 0),
        load(8, 7, 1, 8),
        copy(1, 7),
        call_function(4),
        add(6, -1),
        if_not(6, 0, -4),
        set(0, 0),
        exit(),
        add(1, -1),
        if_not(1, 0, -2),
        end(),
    ];
    let text = translated(&called);
    assert_paid(&text, 2);
    // The caller looks after each call, and both have the same memory.
    assert_eq!(
        text.matches("ld.u64 %left, [%left_at]").count(),
        3,
        "{text}"
    );
    assert!(
        text.contains("(%r1, %r2, %r3, %r4, %r5, %left_at)"),
        "{text}"
    );
}

#[test]
fn an_index_that_grows_is_followed_to_its_check() {
    // for (r3 = 0; r3 < r2; r3++) if (r3 < 16) value[r3] = 0;
    let code = [
        copy(6, 1),
        found(ARRAY),
        load(8, 2, 6, 0),
        set(3, 0),
        if_above(3, 15, 3),
        copy(4, 0),
        plus(4, 3),
        put(1, 4, 0, 0),
        add(3, 1),
        one(0xad, 3, 2, -6, 0),
        end(),
    ];
    assert_paid(&translated(&code), 1);
}

#[test]
fn a_budget_is_no_licence() {
    use Reason as R;
    let bad: [(&str, R, Vec<Code>); 9] = [
        (
            "no way out",
            R::UnboundedLoop,
            vec![set(0, 0), jump(-1), exit()],
        ),
        (
            "no way out that is ever taken",
            R::UnboundedLoop,
            vec![set(2, 1), set(0, 0), if_not(2, 0, -2), exit()],
        ),
        (
            "a lock",
            R::Spins,
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
        (
            "an index that grows past the value's end",
            R::OutOfBounds,
            vec![
                copy(6, 1),
                found(ARRAY),
                load(8, 2, 6, 0),
                set(3, 0),
                copy(4, 0),
                plus(4, 3),
                put(1, 4, 0, 0),
                add(3, 1),
                one(0xad, 3, 2, -5, 0),
                end(),
            ],
        ),
        (
            "an address that grows",
            R::OutOfBounds,
            vec![
                copy(6, 1),
                found(ARRAY),
                load(8, 2, 6, 0),
                put(1, 0, 0, 0),
                add(0, 1),
                add(2, -1),
                if_not(2, 0, -4),
                end(),
            ],
        ),
        (
            "a store further and further down the stack",
            R::OutOfBounds,
            vec![
                numbers(),
                copy(4, 10),
                add(4, -8),
                put(8, 4, 0, 0),
                add(2, -1),
                if_not(2, 0, -4),
                end(),
            ],
        ),
        (
            "a register that only the first round has",
            R::UninitialisedRegister,
            vec![
                load(8, 6, 1, 0),
                set(3, 0),
                copy(0, 3),
                call(7),
                add(6, -1),
                if_not(6, 0, -4),
                end(),
            ],
        ),
        (
            "a value that is NULL from the second round on",
            R::MayBeNull,
            vec![
                load(8, 6, 1, 0),
                found(ARRAY),
                copy(7, 0),
                load(8, 1, 7, 0),
                lookup(ARRAY),
                copy(7, 0),
                add(6, -1),
                if_not(6, 0, -10),
                end(),
            ],
        ),
        (
            "an address that leaves in a later round",
            R::PointerEscapes,
            vec![
                load(8, 6, 1, 0),
                set(7, 0),
                store(8, 10, -16, 7),
                found(COUNTERS),
                load(8, 1, 10, -16),
                store(8, 0, 0, 1),
                copy(7, 10),
                add(6, -1),
                if_not(6, 0, -15),
                end(),
            ],
        ),
    ];
    for (name, reason, code) in bad {
        match outcome_or_budget(&code, |_| ()) {
            Ok(()) => panic!("{name} is accepted"),
            Err(refused) => assert_eq!(refused.reason, reason, "{name}: {refused}"),
        }
    }
}
