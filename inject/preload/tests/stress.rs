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
fn stacks_change_nothing_of_it() {
    let program = stress("stress.cpp", "stress");
    let session = Session::new("stack\nlib libstress.so:s_*\n");
    let run = session.run(session.command(&program).args(["500", "40"]));
    assert!(run.status.success(), "{}", run.stderr);
    assert!(run.stderr.contains("0 failures"));
    run.assert_counts();
    assert_eq!(run.drained.unwound, 100 + 101 + 1);
    // Each call has its own, those in forked children and in signal handlers too.
    assert_eq!(run.drained.stacks, run.drained.total());
}

#[test]
fn times_can_be_the_kernels() {
    let program = stress("stress.cpp", "stress");
    let session = Session::new("clock host\nlib libstress.so:s_*\n");
    let monotonic = || -> u64 {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: writes the timespec and nothing else.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        now.tv_sec as u64
    };
    let before = monotonic();
    let run = session.run(session.command(&program).args(["50", "4"]));
    assert!(run.status.success(), "{}", run.stderr);
    run.assert_counts();
    let seconds = before..monotonic() + 1;
    for call in &run.drained.calls {
        assert!(
            seconds.contains(&(call.enter / 1_000_000_000)),
            "{call:?} not in {seconds:?}"
        );
        assert!(call.exit == 0 || (call.enter..call.enter + 10_000_000_000).contains(&call.exit));
    }
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

#[test]
fn a_stand_in_that_leads_back_to_itself_is_turned_off() {
    let flags = [
        "-shared",
        "-fPIC",
        "-DDRIVER",
        "-Wl,-soname,libcuda_runaway.so",
    ];
    common::compile("runaway.c", "libcuda_runaway.so", &flags);
    let flags = ["-shared", "-fPIC", "-DSTAND_IN", "-ldl"];
    let stand_in = common::compile("runaway.c", "libstandin.so", &flags);
    let flags = ["-lcuda_runaway", "-ldl"];
    let program = common::compile("runaway.c", "runaway", &flags);
    let session = common::Session::new("");
    let mut command = session.command(&program);
    let preloaded = format!("{}:{}", common::library().display(), stand_in.display());
    let run = session.run(command.env("LD_PRELOAD", preloaded));
    assert!(run.status.success(), "{} {}", run.status, run.stderr);
    assert_eq!(run.stdout, "result 0\n");
    let notes = run.lines("note ");
    assert!(
        notes.iter().any(|note| note.contains("led back to itself")),
        "{notes:?}"
    );
}
