//! Every output of every recorded trace, as it was last looked at and found right.
//!
//! Short outputs are kept whole. Of long ones the beginning is kept, with the number of lines and
//! a hash of all: a change anywhere shows, and the files stay small enough to be read.

mod common;

use common::{PARTS, PARTS_OF_FRAMEWORKS, cutrace, repository};
use std::{fmt::Write as _, fs, path::Path, process::Command};

fn shown(arguments: &[&str]) -> String {
    let output = cutrace()
        .args(arguments)
        .current_dir(repository().join("fixtures/traces"))
        .env("COLUMNS", "80")
        .env("LC_ALL", "C.UTF-8")
        .output()
        .expect("cutrace runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// FNV-1a: the same in every version of Rust, which the standard hashers are not.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The first lines of a long output and what stands for the rest.
fn beginning(text: &str) -> String {
    const KEPT: usize = 60;
    let mut kept = String::new();
    for line in text.lines().take(KEPT) {
        let _ = writeln!(kept, "{line}");
    }
    let _ = write!(
        kept,
        "[{} lines, FNV-1a {:016x}]",
        text.lines().count(),
        hash(text)
    );
    kept
}

fn assert_fits(what: &str, text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{what}: too wide: {line}");
        assert!(!line.contains('\x1b'), "{what}: colours into a file");
    }
}

/// What Perfetto would draw, where its schema is installed.
fn drawn_by_perfetto(python: &Path, trace: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("trace.pftrace");
    shown(&["export", trace, "-o", file.to_str().expect("UTF-8")]);
    let read = Command::new(python)
        .arg(repository().join("tests/perfetto/check.py"))
        .arg(&file)
        .output()
        .expect("python runs");
    let said = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "{trace}: {said}");
    String::from_utf8(read.stdout).expect("UTF-8")
}

fn check(name: &str) {
    let trace = format!("{name}.jsonl");
    let of_frameworks = |part: &&str| PARTS_OF_FRAMEWORKS.contains(part);
    for part in PARTS.into_iter().filter(|part| !of_frameworks(part)) {
        let text = shown(&["report", part, &trace]);
        assert_fits(part, &text);
        insta::assert_snapshot!(format!("{name}_report_{part}"), text);
    }
    let timeline = shown(&["timeline", &trace, "--width", "80"]);
    assert_fits("timeline", &timeline);
    insta::assert_snapshot!(format!("{name}_timeline"), timeline);
    let folded = shown(&["export", &trace, "-f", "folded"]);
    insta::assert_snapshot!(format!("{name}_folded"), folded);
    let long = [
        ("replay", shown(&["replay", &trace])),
        ("chrome", shown(&["export", &trace, "-f", "chrome"])),
        ("csv", shown(&["export", &trace, "-f", "csv"])),
    ];
    for (output, text) in long {
        insta::assert_snapshot!(format!("{name}_{output}"), beginning(&text));
    }
    let python = repository().join("target/perfetto/bin/python");
    if !python.exists() {
        return common::skip("no Perfetto schema: run scripts/setup-perfetto");
    }
    let drawn = drawn_by_perfetto(&python, &trace);
    insta::assert_snapshot!(format!("{name}_perfetto"), beginning(&drawn));
}

macro_rules! golden {
    ($($name:ident)*) => {
        $(#[test] fn $name() { check(stringify!($name)); })*

        /// A trace that is added is looked at too.
        #[test]
        fn every_trace_is_here() {
            let known = [$(stringify!($name)),*];
            for entry in fs::read_dir(repository().join("fixtures/traces")).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.extension().is_some_and(|ending| ending == "jsonl") {
                    let name = path.file_stem().and_then(|name| name.to_str()).expect("UTF-8");
                    assert!(known.contains(&name), "{name} has no golden test");
                }
            }
        }
    };
}

golden!(layers demo demo_healthy h200_vector_add h200_graph h200_torch);
