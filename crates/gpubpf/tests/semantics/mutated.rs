//! Programs with random damage: most are refused. What is accepted must run as in the reference, which
//! stops at every access outside of its memory: so this is a test of the verifier, too.

use gpubpf::instruction::Raw;

use crate::batch::{Case, compare, translated};
use crate::generate::generate;
use crate::random::Random;

const PROGRAMS: u64 = 2_500;

fn damage(random: &mut Random, raw: &mut Vec<Raw>) {
    for _ in 0..1 + random.below(3) {
        let at = random.below(raw.len() as u64) as usize;
        match random.below(8) {
            0 => raw[at].dst = random.below(11) as u8,
            1 => raw[at].src = random.below(11) as u8,
            2 => raw[at].offset = raw[at].offset.wrapping_add(random.below(17) as i16 - 8),
            3 => raw[at].immediate = random.immediate(),
            4 => raw[at].code ^= 1 << random.below(8),
            5 => {
                raw.remove(at);
            }
            6 => raw.insert(at, raw[random.below(raw.len() as u64) as usize]),
            _ => raw[at].offset = random.below(600) as i16 - 300,
        }
    }
}

/// Whether the reference knows everything the program calls and names.
fn is_known(raw: &[Raw]) -> bool {
    raw.iter().all(|raw| match raw.code {
        0x85 => raw.src == 1 || (raw.src == 0 && raw.immediate == 1),
        0x18 => raw.src == 0 || raw.src == 1,
        _ => true,
    })
}

#[test]
fn damaged_programs_are_refused_or_run_right() {
    let mut accepted: Vec<Case> = Vec::new();
    for number in 0..PROGRAMS {
        let seed = 1_000_000 + number;
        let mut random = Random(seed);
        let mut raw = generate(seed);
        damage(&mut random, &mut raw);
        if raw.is_empty() || !is_known(&raw) {
            continue;
        }
        if let Ok(case) = translated(number, raw) {
            accepted.push(case);
        }
    }
    assert!(accepted.len() > 300, "only {} accepted", accepted.len());
    assert!(accepted.len() < PROGRAMS as usize, "nothing was refused");
    for cases in accepted.chunks(256) {
        compare(cases);
    }
}
