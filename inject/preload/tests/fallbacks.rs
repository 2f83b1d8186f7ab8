//! Functions and processes whose code cannot be changed: other ways are taken by themselves.

mod common;

use common::{Run, Session, compile};

/// The short functions are the driver here.
fn program() -> std::path::PathBuf {
    let flags = ["-shared", "-fPIC", "-Wl,-soname,libcuda_short.so"];
    compile("short.c", "libcuda_short.so", &flags);
    let flags = ["-Wl,--no-as-needed", "-lcuda_short", "-ldl"];
    compile("restrained.c", "restrained", &flags)
}

fn library_line(run: &Run) -> String {
    let lines = run.lines("library 0 ");
    let line = lines
        .first()
        .unwrap_or_else(|| panic!("nothing hooked: {}", run.stderr));
    line.split(" path=").next().unwrap_or_default().to_owned()
}

#[test]
fn functions_too_short_for_a_jump_are_hooked_by_their_symbols() {
    let program = program();
    let session = Session::new("");
    let run = session.run(&mut session.command(&program));
    assert!(run.status.success(), "{} {}", run.status, run.stderr);
    run.assert_counts();
    assert_eq!(
        library_line(&run),
        "library 0 hooked=4 exported=4 method=patch+symbols"
    );
}

#[test]
fn a_process_that_may_not_change_code_is_hooked_by_symbols() {
    let program = program();
    let session = Session::new("");
    let run = session.run(session.command(&program).arg("harden"));
    assert!(run.status.success(), "{} {}", run.status, run.stderr);
    if run.stdout.contains("cannot harden") {
        eprintln!("skipped: this kernel has no PR_SET_MDWE");
        assert!(
            std::env::var_os("CUTRACE_REQUIRE_ALL").is_none(),
            "must not be skipped here"
        );
        return;
    }
    run.assert_counts();
    let lines = run.lines("library 0 hooked=4 exported=4 method=symbols path=");
    assert_eq!(lines.len(), 1, "{:?}", run.processes);
}
