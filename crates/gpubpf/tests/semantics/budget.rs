//! Programs whose loops have no bound: what is accepted must stop where the reference does, after the same
//! number of rounds, and never leave its memory on the way.

use gpubpf::instruction::Raw;

use crate::batch::{Case, budgeted, compare};
use crate::generate::generate;
use crate::random::Random;

const PROGRAMS: u64 = 1_000;

/// Whether it is a jump back that may be taken or not.
fn is_branch_back(raw: &Raw) -> bool {
    matches!(raw.code & 7, 5 | 6) && !matches!(raw.code >> 4, 0 | 8 | 9) && raw.offset < 0
}

/// Takes away what bounds a loop: the number that is compared, the comparison, or what counts.
fn loosen(random: &mut Random, raw: &mut [Raw]) -> bool {
    let branches: Vec<usize> = (0..raw.len())
        .filter(|&at| is_branch_back(&raw[at]))
        .collect();
    if branches.is_empty() {
        return false;
    }
    let at = branches[random.below(branches.len() as u64) as usize];
    match random.below(6) {
        0 => raw[at].dst = random.below(10) as u8,
        1 => {
            raw[at].code |= 8;
            raw[at].src = random.below(10) as u8;
        }
        2 => raw[at].immediate = random.immediate(),
        3 => {
            raw[at].code =
                raw[at].code & 0x0f | [0x10, 0x20, 0x30, 0x50, 0xa0][random.below(5) as usize]
        }
        4 => raw[at].offset -= random.below(6) as i16,
        // The counter is counted by another number.
        _ => {
            let counter = raw[at].dst;
            let from = (at as i64 + i64::from(raw[at].offset)).max(0) as usize;
            let mut steps =
                (from..at).filter(|&at| raw[at].dst == counter && raw[at].code & 7 == 7);
            match steps.next_back() {
                Some(step) => raw[step].immediate = random.immediate(),
                None => return false,
            }
        }
    }
    true
}

#[test]
fn loops_without_bounds_stop_where_the_reference_does() {
    let mut accepted: Vec<Case> = Vec::new();
    let mut tried = 0;
    for number in 0..PROGRAMS {
        let seed = 5_000_000 + number;
        let mut random = Random(seed);
        let mut raw = generate(seed);
        if !loosen(&mut random, &mut raw) {
            continue;
        }
        tried += 1;
        if let Ok(case) = budgeted(number, raw, random.below(40)) {
            accepted.push(case);
        }
    }
    assert!(
        accepted.len() > 150,
        "{} of {tried} accepted",
        accepted.len()
    );
    for cases in accepted.chunks(256) {
        compare(cases);
    }
}
