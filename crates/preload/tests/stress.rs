//! Calls that are awkward to call through: every result right, every call counted.

mod common;

use common::{Session, stress};
use std::process::Command;

const OPTIONS: &str = "lib libstress.so:s_*\n";

#[test]
fn every_kind_of_call_works_and_is_counted() {
    let program = stress("stress.cpp", "stress");
    let plain = Command::new(&program).args(["10", "4"]).output().unwrap();
    assert!(plain.status.success(), "the program fails by itself");

    let session = Session::new(OPTIONS);
    let run = session.run(session.command(&program).args(["2000", "40"]));
    assert!(run.status.success(), "{}", run.stderr);
    assert!(run.stderr.contains("0 failures"));
    run.assert_counts();
    // Of the exceptions, the jumps, and the call an exception went through.
    assert_eq!(run.drained.unwound, 100 + 101 + 1);
    assert_eq!(
        run.lines("library 0 hooked=18 exported=18 method=patch")
            .len(),
        4
    );
}

#[test]
fn without_a_session_the_library_does_nothing() {
    let program = stress("stress.cpp", "stress");
    let session = Session::new(OPTIONS);
    let run = session.run(
        session
            .command(&program)
            .args(["10", "4"])
            .env_remove("CUTRACE_SESSION"),
    );
    assert!(run.status.success(), "{}", run.stderr);
    assert!(run.processes.is_empty() && run.drained.total() == 0);
}
