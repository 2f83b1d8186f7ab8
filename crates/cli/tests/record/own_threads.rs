//! Threads of ours in a program: it runs, and ends, as without them.

use super::{compile, path, record};
use crate::common::cutrace;

/// With GPU times there is a thread of ours.
const METHODS: [&str; 2] = ["preload,cupti", "preload,events"];
/// A program that never ends must not keep the tests from it.
const LIMIT: [&str; 4] = ["timeout", "-s", "KILL", "30"];

#[test]
fn the_programs_handlers_run_on_its_own_threads_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("own_threads", folder.path());
    // The moment at which a thread begins is short.
    for method in METHODS.repeat(10) {
        let command = [&LIMIT[..], &[path(&program), "signals"]].concat();
        let run = record(&["-q", "--method", method], &command);
        assert_eq!(run.output.status.code(), Some(0), "{method}");
        assert!(run.calls("cuInit").count() == 1, "{method}");
    }
}

#[test]
fn a_program_ends_with_the_last_of_its_own_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("own_threads", folder.path());
    let command = [&LIMIT[..], &[path(&program), "exit"]].concat();
    let plain = cutrace()
        .args(["softgpu", "--"])
        .args(&command)
        .output()
        .expect("cutrace runs");
    let said = b"the last thread ends\nexit handlers run\n";
    assert_eq!((plain.status.code(), &*plain.stdout), (Some(0), &said[..]));
    for method in METHODS {
        let run = record(&["-q", "--method", method], &command);
        let output = &run.output;
        assert_eq!(output.status.code(), Some(0), "{method}: {output:?}");
        assert_eq!(output.stdout, plain.stdout, "{method}: {output:?}");
        assert_eq!(run.calls("cuDriverGetVersion").count(), 1, "{method}");
    }
}
