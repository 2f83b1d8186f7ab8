//! Loads, stores, atomics and warp operations: every combination of space, operation, vector and type is
//! tried, and whatever loads has a case of that very name. Words about caching and memory order are
//! not varied: they change nothing that a single thread could see.

use std::collections::BTreeSet;

use softgpu_machine::program::Program;

use crate::fixture::{Class, Fixture};

const TYPES: &str = "pred b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 bf16x2 \
    tf32 f32 f64 f32x2 u16x2 s16x2 e4m3x2 e5m2x2";
const SPACES: [&str; 6] = ["global", "shared", "local", "const", "param", ""];
const VECTORS: [(&str, usize); 4] = [("", 1), ("v2", 2), ("v4", 4), ("v8", 8)];

fn loads(instruction: &str) -> bool {
    let text = format!(
        ".version 8.6\n.target sm_90\n.address_size 64\n\
         .visible .entry kernel(.param .u64 inputs, .param .u64 outputs)\n{{\n\
         .reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n\
         .reg .b128 %q<9>;\n.param .align 16 .b8 data[16];\n{instruction};\nret;\n}}\n"
    );
    Program::build(&text).is_ok()
}

fn dotted(words: &[&str]) -> String {
    let words: Vec<&str> = words.iter().copied().filter(|w| !w.is_empty()).collect();
    words.join(".")
}

/// A register that a type fits, or a list of them.
fn registers(ty: &str, count: usize) -> String {
    let prefix = match ty {
        "pred" => "%p",
        "f16" | "bf16" | "b8" | "u8" | "s8" | "b16" | "u16" | "s16" | "e4m3x2" | "e5m2x2" => "%h",
        "b64" | "u64" | "s64" | "f64" | "f32x2" => "%d",
        "b128" => "%q",
        _ => "%r",
    };
    let names: Vec<String> = (0..count).map(|i| format!("{prefix}{i}")).collect();
    match &names[..] {
        [one] => one.clone(),
        _ => format!("{{{}}}", names.join(", ")),
    }
}

/// Forms by name, each with an instruction of it.
fn forms() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for ty in TYPES.split_whitespace() {
        for (vector, count) in VECTORS {
            let values = registers(ty, count);
            for space in SPACES {
                let at = if space == "shared" { "[%r8]" } else { "[%d8]" };
                for opcode in ["ld", "ldu", "st"] {
                    let name = dotted(&[opcode, space, vector, ty]);
                    let text = match (opcode, space) {
                        ("st", "param") => format!("{name} [data], {values}"),
                        ("st", _) => format!("{name} {at}, {values}"),
                        (_, "param") => format!("{name} {values}, [inputs]"),
                        _ => format!("{name} {values}, {at}"),
                    };
                    found.push((name, text));
                }
                for op in [
                    "add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas",
                ] {
                    let swap = if op == "cas" {
                        format!(", {values}")
                    } else {
                        String::new()
                    };
                    for flush in ["", "noftz"] {
                        let name = dotted(&["atom", space, op, flush, vector, ty]);
                        let text = format!("{name} {values}, {at}, {values}{swap}");
                        found.push((name, text));
                        let name = dotted(&["red", space, op, flush, vector, ty]);
                        let text = format!("{name} {at}, {values}{swap}");
                        found.push((name, text));
                    }
                }
            }
        }
        for op in ["add", "min", "max", "and", "or", "xor"] {
            for more in ["", "abs", "NaN", "abs.NaN"] {
                let name = dotted(&["redux.sync", op, more, ty]);
                found.push((name.clone(), format!("{name} %r0, %r1, -1")));
            }
        }
        for (sync, members) in [("sync", ", -1"), ("", "")] {
            for mode in ["all", "any", "uni", "ballot"] {
                let name = dotted(&["vote", sync, mode, ty]);
                let dst = if mode == "ballot" { "%r0" } else { "%p0" };
                found.push((name.clone(), format!("{name} {dst}, %p1{members}")));
            }
            for mode in ["up", "down", "bfly", "idx"] {
                let name = dotted(&["shfl", sync, mode, ty]);
                found.push((name.clone(), format!("{name} %r0, %r1, 1, 31{members}")));
            }
        }
        for mode in ["all", "any"] {
            let name = dotted(&["match", mode, "sync", ty]);
            found.push((
                name.clone(),
                format!("{name} %r0, {}, -1", registers(ty, 1)),
            ));
        }
    }
    found
}

#[test]
fn every_access_that_loads_has_a_hardware_answer() {
    let mut recorded = BTreeSet::new();
    for fixture in Fixture::all() {
        let machine = fixture.cases.iter().filter(|c| c.class == Class::Machine);
        recorded.extend(machine.map(|c| c.name.clone()));
    }
    let forms = forms();
    let known: BTreeSet<&String> = forms
        .iter()
        .filter(|(_, text)| loads(text))
        .map(|(name, _)| name)
        .collect();
    let unanswered: Vec<_> = known
        .iter()
        .filter(|name| !recorded.contains(**name))
        .collect();
    assert!(
        unanswered.is_empty(),
        "{} forms load that no set has a case of: {unanswered:?}",
        unanswered.len()
    );
    // What is tried here has not fallen behind: it finds all of the third set that is of its kind.
    let tried = |name: &str| {
        let operation = name.split('.').next().unwrap_or_default();
        forms.iter().any(|(form, _)| {
            (form.strip_prefix(operation)).is_some_and(|rest| rest.starts_with('.'))
        })
    };
    let third = Fixture::load("forms");
    let machine = third.cases.iter().filter(|c| c.class == Class::Machine);
    for case in machine.filter(|case| tried(&case.name)) {
        assert!(known.contains(&case.name), "{} does not load", case.name);
    }
    println!("{} of {} forms load", known.len(), forms.len());
}
