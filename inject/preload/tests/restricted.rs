//! Programs that give up system calls (seccomp): a call of ours would be their last.

mod common;

use common::{Session, compile, stress};

/// Calls that the program says it made, and what came of it: (said, recorded, lost).
fn run(way: &str, threads: &str, options: &str) -> (u64, u64, u64) {
    let program = stress("seccomp.c", "seccomp");
    // Room for all: what is lost is lost for want of a ring, not of a quick reader.
    let session = Session::new(&format!("lib libstress.so:s_*\nring 131072\n{options}"));
    let run = session.run(session.command(&program).args([way, threads]));
    assert!(run.status.success(), "{way}: {} {}", run.status, run.stderr);
    assert_eq!(
        run.lines("note the program installed a strict seccomp filter")
            .len(),
        1,
        "{way}"
    );
    let said = run.stdout.trim().rsplit(' ').next().unwrap_or_default();
    (
        said.parse().expect("a count"),
        run.drained.total(),
        run.drained.dropped(),
    )
}

#[test]
fn threads_of_before_and_after_are_recorded() {
    for way in ["prctl", "syscall"] {
        // The child's one call cannot be.
        let (said, recorded, lost) = run(way, "5", "");
        assert_eq!((recorded, lost), (said, 1), "{way}");
    }
}

#[test]
fn threads_beyond_what_was_made_ready_are_counted_as_lost() {
    let (said, recorded, lost) = run("prctl", "7", "spare 3\n");
    assert_eq!((recorded, lost), (said - 4000, 4001));
}

#[test]
fn without_a_clock_nothing_more_is_recorded_and_the_program_lives() {
    let (_, recorded, _) = run("syscall", "3", "clock host\n");
    assert_eq!(recorded, 50_000);
}

/// The processor's counter is gone, too: nothing more is recorded, and what is not is counted.
#[test]
fn without_the_counter_the_program_lives_and_calls_are_counted_as_lost() {
    let program = stress("strict.c", "strict");
    for way in ["prctl", "syscall", "seccomp", "tsc", "after"] {
        let session = Session::new("lib libstress.so:s_*\nring 131072\n");
        let run = session.run(session.command(&program).arg(way));
        assert_eq!(
            run.status.code(),
            Some(4),
            "{way}: {} {}",
            run.status,
            run.stderr
        );
        assert_eq!(run.stdout, "done\n", "{way}");
        assert_eq!(
            (run.drained.total(), run.drained.dropped()),
            (50_000, 50_000),
            "{way}"
        );
    }
}

#[test]
fn a_program_that_restricts_itself_before_it_loads_cuda_is_left_alone() {
    let flags = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"];
    let library = compile("driver.c", "libcuda.so.1", &flags);
    let program = compile("sandbox.c", "sandbox", &["-ldl"]);
    let session = Session::new("");
    let run = session.run(session.command(&program).arg(&library));
    assert!(run.status.success(), "{} {}", run.status, run.stderr);
    assert!(run.processes.is_empty() && run.drained.total() == 0);
}
