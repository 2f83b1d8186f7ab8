//! The one-instruction cases, straight through `alu::resolve`.

use softgpu_machine::alu::{self, Alu, Kind, Lanes, WARP};

use crate::fixture::{AREA, Case, Class, Fixture, ROUNDS, put};
use crate::report::{Report, compare};

fn resolve(name: &str) -> Result<Alu, alu::Unsupported> {
    let mut words = name.split('.').map(str::to_string);
    let opcode = words.next().unwrap_or_default();
    alu::resolve(&opcode, &words.collect::<Vec<_>>())
}

/// What a destination register of `width` bits holds of a value of this kind.
fn in_register(kind: Kind, width: u32, value: u64) -> u64 {
    let mask = if width == 1 {
        1
    } else {
        u64::MAX >> (64 - width)
    };
    match kind {
        Kind::Int { bits, signed: true } if u32::from(bits) < width => {
            let unused = 64 - u32::from(bits);
            ((value << unused) as i64 >> unused) as u64 & mask
        }
        _ => value & mask,
    }
}

/// A case's results.
pub fn results(fixture: &Fixture, case: &Case) -> Result<Vec<u8>, alu::Unsupported> {
    Ok(run(fixture, case, &resolve(&case.name)?))
}

/// Runs a case as 8 warps.
fn run(fixture: &Fixture, case: &Case, alu: &Alu) -> Vec<u8> {
    let mut area = vec![0; AREA];
    for warp in 0..ROUNDS / WARP {
        let mut sources: [Lanes; 4] = [[0; WARP]; 4];
        for (lanes, source) in sources.iter_mut().zip(&case.sources) {
            for (lane, value) in lanes.iter_mut().enumerate() {
                *value = fixture.operand(*source, warp * WARP + lane);
            }
        }
        let mut out = [[0; WARP]; 2];
        (alu.eval)(
            &mut out,
            [&sources[0], &sources[1], &sources[2], &sources[3]],
        );
        for (place, width) in case.results.iter().enumerate() {
            let kind = if place == 0 {
                alu.dst
            } else {
                alu.dst2.unwrap_or(Kind::Pred)
            };
            for (lane, value) in out[place].iter().enumerate() {
                put(
                    &mut area,
                    case,
                    place,
                    warp * WARP + lane,
                    in_register(kind, *width, *value),
                );
            }
        }
    }
    area
}

#[test]
fn every_instruction_gives_the_hardwares_answers() {
    let mut report = Report::default();
    for fixture in Fixture::all() {
        for case in fixture.cases.iter().filter(|c| c.class != Class::Machine) {
            match results(&fixture, case) {
                Ok(area) => compare(&fixture, case, &area, &mut report),
                Err(e) => report.fail(case, e.to_string()),
            }
        }
    }
    report.finish(2000);
}
