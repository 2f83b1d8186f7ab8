//! Libraries that throw exceptions and jump through their functions: the program goes on.

use super::{common::cutrace, older::compile, read, ready};
use serde_json::Value;
use std::{fs, path::Path, process::Command};

const DRIVER: &str = "int cuInit(unsigned flags) { return 0; }";

const THROWS: &str = r#"
#include <stdexcept>
extern "C" {
__attribute__((noinline)) int deepest(int x) { if (x & 1) throw std::runtime_error("odd"); return x; }
__attribute__((noinline)) int middle(int x) { return deepest(x) + 1; }
__attribute__((noinline)) int fails(int x) { try { return middle(x); } catch (std::exception &) { return -1; } }
}
"#;

const JUMPS: &str = r#"
#include <setjmp.h>
jmp_buf place;
__attribute__((noinline)) void jumps(int x) { longjmp(place, x); }
__attribute__((noinline)) int leaves(int x) { if (x) jumps(x); return x; }
"#;

const PROGRAM: &str = r#"
#include <csetjmp>
#include <cstdio>
#include <exception>
extern "C" { extern jmp_buf place; int middle(int); int fails(int); int leaves(int); int cuInit(unsigned); }
int main() {
    int caught = 0, sum = 0;
    volatile int jumped = 0;
    cuInit(0);
    for (int i = 0; i < 200; i++) {
        try { sum += middle(i); } catch (std::exception &) { caught++; }
        sum += fails(i);
    }
    if (setjmp(place) < 1000) leaves(++jumped);
    std::printf("%d caught, %d jumps, %d\n", caught, jumped, sum);
}
"#;

fn compile_cpp(folder: &Path, name: &str, text: &str, flags: &[&str]) -> bool {
    let (source, to) = (folder.join(format!("{name}.cc")), folder.join(name));
    fs::write(&source, text).expect("written");
    let built = Command::new("c++")
        .args(["-O1", "-o"])
        .args([&to, &source])
        .args(flags)
        .output();
    built.is_ok_and(|built| built.status.success())
}

fn count(lines: &[Value], name: &str) -> usize {
    // The last jump's frames are left for good.
    let is_call = |line: &&Value| line["name"] == name && line["phase"] == "B";
    lines.iter().filter(is_call).count()
}

#[test]
fn exceptions_and_jumps_pass_through_probed_functions() {
    let Some(_turn) = ready() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let library = ["-shared", "-fPIC"];
    compile(folder, "libcuda.so.1", DRIVER, &library);
    compile(folder, "libjumps.so", JUMPS, &library);
    let here = format!("-L{}", folder.display());
    let found = format!("-Wl,-rpath,{}", folder.display());
    let links = [&*here, &*found, "-lthrows", "-ljumps", "-l:libcuda.so.1"];
    assert!(
        compile_cpp(folder, "libthrows.so", THROWS, &library),
        "a C++ compiler is needed"
    );
    assert!(compile_cpp(folder, "program", PROGRAM, &links));
    let program = folder.join("program");
    let plain = Command::new(&program).output().expect("started");
    assert!(plain.status.success(), "{plain:?}");
    for way in [None, Some("5.15")] {
        let trace = folder.join("trace.jsonl");
        let mut command = cutrace();
        command
            .args([
                "--method=ebpf",
                "--lib",
                "libthrows.so:*",
                "--lib",
                "libjumps.so:*",
            ])
            .args(["-e", "middle,deepest,fails,jumps,leaves", "-o"])
            .args([&trace, &program]);
        if let Some(way) = way {
            command.env("CUTRACE_PRETEND_KERNEL", way);
        }
        let output = command.output().expect("started");
        assert_eq!(output.status, plain.status, "{way:?}: {output:?}");
        assert_eq!(output.stdout, plain.stdout, "{way:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        let note =
            "libthrows.so: it can throw C++ exceptions, and a return probe would kill the program";
        assert!(said.contains(note), "{way:?}: {said}");
        let lines = read(&trace);
        // An older kernel's threads do not wait long enough for their probes.
        if way.is_none() {
            let counts = ["middle", "deepest", "fails", "jumps", "leaves"];
            let counts = counts.map(|name| count(&lines, name));
            assert_eq!(counts, [400, 400, 200, 1000, 1000]);
        }
        for line in lines.iter().filter(|line| line["phase"] == "E") {
            let is_throwing = ["middle", "deepest", "fails"]
                .iter()
                .any(|it| line["name"] == *it);
            let entry_only = line["details"]["entry_only"] == true;
            assert_eq!(entry_only, is_throwing, "{line}");
        }
        // The C library's returns are watched.
        assert!(lines.iter().any(|line| line["details"]["unwound"] == true) || way.is_some());
    }
}
