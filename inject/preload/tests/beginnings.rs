//! Where CUDA is found, and how early: constructors, libraries loaded later, static runtimes.

mod common;

use common::{Session, compile};
use std::process::Command;

#[test]
fn calls_of_constructors_are_seen() {
    compile(
        "driver.c",
        "libcuda.so.1",
        &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"],
    );
    let library = ["-DLIBRARY", "-shared", "-fPIC", "-l:libcuda.so.1"];
    compile("early.c", "libearly.so", &library);
    let later = compile("early.c", "libearly_later.so", &library);
    let program = compile(
        "early.c",
        "early",
        &["-Wl,--no-as-needed", "-learly", "-l:libcuda.so.1", "-ldl"],
    );
    for arguments in [vec![], vec![later]] {
        let session = Session::new("");
        let run = session.run(session.command(&program).args(arguments));
        assert!(run.status.success(), "{}", run.stderr);
        run.assert_counts();
    }
}

#[test]
fn a_static_runtime_is_found_by_its_symbols() {
    for (name, flags) in [
        ("static", &["-O0"][..]),
        ("static_fixed", &["-O0", "-no-pie"]),
    ] {
        let program = compile("static.c", name, flags);
        let session = Session::new("");
        let run = session.run(&mut session.command(&program));
        assert!(run.status.success(), "{}", run.stderr);
        run.assert_counts();
        assert_eq!(
            run.lines("library 0 hooked=2 exported=2 method=patch path=[program]")
                .len(),
            1
        );

        // Without symbols there is nothing to find, and nothing may happen.
        let stripped = program.with_extension("stripped");
        let done = Command::new("strip")
            .arg("-o")
            .arg(&stripped)
            .arg(&program)
            .status()
            .unwrap();
        assert!(done.success());
        let session = Session::new("");
        let run = session.run(&mut session.command(&stripped));
        assert!(run.status.success() && run.processes.is_empty());
    }
}

#[test]
fn a_program_without_cuda_is_left_alone() {
    let session = Session::new("");
    let run = session.run(
        session
            .command("/bin/sh")
            .args(["-c", "echo $((6 * 7)); exit 5"]),
    );
    assert_eq!(
        (run.stdout.as_str(), run.stderr.as_str(), run.status.code()),
        ("42\n", "", Some(5))
    );
    assert!(run.processes.is_empty() && run.drained.total() == 0);
}
