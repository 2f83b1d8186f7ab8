//! The one-instruction cases, straight through `alu::resolve`.

use std::collections::BTreeMap;

use softgpu::alu::{self, Alu, Kind, Lanes, WARP};

use crate::fixture::{Case, Class, Fixture, ROUNDS, result};
use crate::tolerance;

/// Mismatches shown a case.
const SHOWN: usize = 3;

fn resolve(name: &str) -> Result<Alu, alu::Unsupported> {
    let mut words = name.split('.').map(str::to_string);
    let opcode = words.next().unwrap_or_default();
    alu::resolve(&opcode, &words.collect::<Vec<_>>())
}

/// What a destination register of `width` bits holds of a value of this kind.
fn in_register(kind: Kind, width: u32, value: u64) -> u64 {
    let mask = if width == 1 { 1 } else { u64::MAX >> (64 - width) };
    match kind {
        Kind::Int { bits, signed: true } if u32::from(bits) < width => {
            let unused = 64 - u32::from(bits);
            ((value << unused) as i64 >> unused) as u64 & mask
        }
        _ => value & mask,
    }
}

/// Runs a case as 8 warps; gives [result][row].
fn run(fixture: &Fixture, case: &Case, alu: &Alu) -> Vec<Vec<u64>> {
    let mut results = vec![Vec::with_capacity(ROUNDS); case.results.len()];
    for warp in 0..ROUNDS / WARP {
        let mut sources: [Lanes; 4] = [[0; WARP]; 4];
        for (lanes, source) in sources.iter_mut().zip(&case.sources) {
            for (lane, value) in lanes.iter_mut().enumerate() {
                *value = fixture.operand(*source, warp * WARP + lane);
            }
        }
        let mut out = [[0; WARP]; 2];
        (alu.eval)(&mut out, [&sources[0], &sources[1], &sources[2], &sources[3]]);
        for (place, width) in case.results.iter().enumerate() {
            let kind = if place == 0 { alu.dst } else { alu.dst2.unwrap_or(Kind::Pred) };
            results[place].extend(out[place].iter().map(|v| in_register(kind, *width, *v)));
        }
    }
    results
}

#[test]
fn every_instruction_gives_the_hardwares_answers() {
    let fixture = Fixture::load();
    let mut failures = Vec::new();
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for case in fixture.cases.iter().filter(|c| c.class != Class::Machine) {
        let opcode = case.name.split('.').next().unwrap_or_default().to_string();
        let count = counts.entry(opcode).or_default();
        count.0 += 1;
        let alu = match resolve(&case.name) {
            Ok(alu) => alu,
            Err(e) => {
                failures.push(format!("case {}: {e}", case.number));
                continue;
            }
        };
        let got = run(&fixture, case, &alu);
        let mut wrong = Vec::new();
        for row in 0..ROUNDS {
            for (place, values) in got.iter().enumerate() {
                let expected = result(fixture.answers(case), case, place, row);
                if !tolerance::accepts(&fixture, case, row, expected, values[row]) {
                    let inputs: Vec<String> = case
                        .sources
                        .iter()
                        .map(|s| format!("{:x}", fixture.operand(*s, row)))
                        .collect();
                    wrong.push(format!(
                        "    row {row} result {place}: inputs {} expected {expected:x} got {:x}",
                        inputs.join(" "),
                        values[row]
                    ));
                }
            }
        }
        if wrong.is_empty() {
            count.1 += 1;
        } else {
            failures.push(format!(
                "case {} {}: {} of {} results differ\n{}",
                case.number,
                case.name,
                wrong.len(),
                ROUNDS * case.results.len(),
                wrong[..wrong.len().min(SHOWN)].join("\n")
            ));
        }
    }
    let mut total = 0;
    for (opcode, (cases, right)) in &counts {
        println!("{opcode}: {right} of {cases} cases");
        total += cases;
    }
    println!("{total} cases of {} instructions", counts.len());
    assert!(total >= 2000, "only {total} cases");
    assert!(failures.is_empty(), "{} cases fail\n{}", failures.len(), failures.join("\n"));
}
