//! The program of `cutrace demo` as it is recorded now: its planted faults are found.

use super::{record_with, repository};
use analyse::Analysis;
use std::process::Command;

#[test]
fn all_three_planted_faults_are_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("demo");
    let sources = repository().join("crates/cli/demo");
    let built = Command::new(std::env::var_os("CC").unwrap_or("cc".into()))
        .args(["-O2", "-std=gnu11", "-o"])
        .arg(&program)
        .arg(format!("-Wa,-I{}", sources.display()))
        .arg(sources.join("demo.c"))
        .args(["-ldl", "-lm"])
        .status();
    assert!(built.is_ok_and(|status| status.success()), "it is built");
    // On a machine that is busy with other things the GPU's time is mostly waiting, and copies are not
    // what takes it: then another run must show it.
    let mut seen = Vec::new();
    for _ in 0..5 {
        let found = findings(program.to_str().expect("a plain path"));
        if (PLANTED.iter()).all(|planted| found.iter().any(|id| id == planted)) {
            return;
        }
        seen.push(found);
    }
    panic!("not all of {PLANTED:?} in any of {seen:#?}");
}

const PLANTED: [&str; 3] = ["transfer-bound", "pauses", "leak"];

/// What one run of it shows.
fn findings(program: &str) -> Vec<String> {
    let run = record_with(&[], &[program], |_| {});
    assert!(run.output.status.success(), "{}", run.stderr());
    let mut reader = trace::open(run.trace()).expect("the trace opens");
    let mut analysis = Analysis::new(reader.meta());
    for record in reader.by_ref() {
        analysis.add(&record.expect("readable"));
    }
    let found = analysis.finish(reader.summary()).findings;
    found.iter().map(|finding| finding.id.to_string()).collect()
}
