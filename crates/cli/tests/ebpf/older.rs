//! Older kernels, as far as this one can play them: without the ways to attach that came after 5.15.

use super::{common::cutrace, read, ready};
use serde_json::Value;
use std::{fs, path::Path, process::Command};

const DRIVER: &str = r#"
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 12040; return 0; }
"#;

/// It waits before its first call: there a thread that loads is held for some milliseconds only.
const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) {
    void *driver = dlopen(words[1], RTLD_NOW);
    int (*init)(unsigned) = dlsym(driver, "cuInit"), (*version)(int *) = dlsym(driver, "cuDriverGetVersion");
    int found = 0;
    sleep(atoi(words[2]));
    init(0);
    for (int i = 0; i < 5; i++) version(&found);
    return found != 12040 || count != 3;
}
"#;

pub fn compile(folder: &Path, name: &str, text: &str, flags: &[&str]) -> std::path::PathBuf {
    let (source, to) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&source, text).expect("written");
    let mut command = Command::new("cc");
    command.args(["-O1", "-o"]).args([&to, &source]).args(flags);
    let built = command.output().expect("a compiler");
    assert!(built.status.success(), "{built:?}");
    to
}

/// Their names, and what they returned.
fn calls_of(lines: &[Value]) -> Vec<(&Value, &Value)> {
    let ended = lines.iter().filter(|line| line["phase"] == "E");
    ended
        .filter(|line| line["type"] == "userspace")
        .map(|line| (&line["name"], &line["details"]["driverVersion"]))
        .collect()
}

#[test]
fn calls_are_seen_without_anything_newer_than_5_15() {
    let Some(_turn) = ready() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let driver = compile(folder, "libcuda.so.1", DRIVER, &["-shared", "-fPIC"]);
    let program = compile(folder, "program", PROGRAM, &["-ldl"]);
    let trace = folder.join("trace.jsonl");
    let traced = |seconds: &str| {
        let output = cutrace()
            .args(["-v", "--method=ebpf", "-e", "cu*", "-o"])
            .args([&trace, &program, &driver, Path::new(seconds)])
            .env("CUTRACE_PRETEND_KERNEL", "5.15")
            .output()
            .expect("started");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    const ATTACHED: &str = "2 of 2 functions hooked (uprobe)";
    let mut said = traced("3");
    if calls_of(&read(&trace)).len() < 6 || !said.contains(ATTACHED) {
        // A machine that has other things to do takes longer.
        said = traced("20");
    }
    assert!(said.contains(ATTACHED), "{said}");
    let lines = read(&trace);
    let calls = calls_of(&lines);
    assert_eq!(calls.len(), 6, "{calls:?} {said}");
    assert_eq!(calls[0].0, "cuInit");
    for call in &calls[1..] {
        assert_eq!(
            *call,
            (&"cuDriverGetVersion".into(), &12040.into()),
            "{said}"
        );
    }
}

#[test]
fn a_version_that_is_none_is_said() {
    let Some(_turn) = ready() else {
        return;
    };
    let output = cutrace()
        .args(["--method=ebpf", "-q", "-o", "-", "echo", "begun"])
        .env("CUTRACE_PRETEND_KERNEL", "old")
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("CUTRACE_PRETEND_KERNEL is 'old'"), "{said}");
}
