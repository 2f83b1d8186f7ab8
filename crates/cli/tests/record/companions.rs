//! Sanitizers and other allocators, linked in or preloaded: they work as without us, and so do we.

use super::{Run, path, record_with};
use crate::common::{cutrace, skip};
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

const CALLS: usize = 400;

/// The program, built by this compiler; None where it cannot.
fn build(folder: &Path, name: &str, compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    let program = folder.join(name);
    let source = format!("{}/tests/record/companion.c", env!("CARGO_MANIFEST_DIR"));
    let built = Command::new(compiler)
        .args(["-g", "-O1", "-w", "-o"])
        .arg(&program)
        .arg(source)
        .args(flags)
        .args(["-ldl", "-lpthread"])
        .output();
    match built {
        Ok(output) if output.status.success() => Some(program),
        _ => {
            skip(&format!(
                "{compiler} {flags:?} builds nothing here; type: scripts/setup-packages test"
            ));
            None
        }
    }
}

fn untraced(words: &[&str], preload: Option<&str>) -> Output {
    let mut command = cutrace();
    command.args(["softgpu", "--"]).args(words);
    preload.map(|library| command.env("LD_PRELOAD", library));
    command.output().expect("cutrace runs")
}

fn traced(options: &[&str], words: &[&str], preload: Option<&str>) -> Run {
    let mut all = vec!["--no-summary"];
    all.extend(options);
    record_with(&all, words, |cutrace| {
        preload.map(|library| cutrace.env("LD_PRELOAD", library));
    })
}

/// The same output and status, and all calls, with the injected library and with GPU times.
fn is_the_same(words: &[&str], preload: Option<&str>) {
    let plain = untraced(words, preload);
    if plain.status.code() != Some(3) {
        let said = String::from_utf8_lossy(&plain.stderr);
        return skip(&format!("{words:?} does not run here by itself: {said}"));
    }
    for options in [&["--method=preload"][..], &[]] {
        let run = traced(options, words, preload);
        let name = format!("{words:?} {preload:?} {options:?}: {}", run.stderr());
        assert_eq!(run.output.status, plain.status, "{name}");
        assert_eq!(run.output.stdout, plain.stdout, "{name}");
        assert_eq!(run.output.stderr, plain.stderr, "{name}");
        assert_eq!(run.calls("cuDeviceGetCount").count(), CALLS, "{name}");
    }
}

fn clang_libraries() -> String {
    let asked = Command::new("clang-14").arg("-print-resource-dir").output();
    let folder = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    format!("-Wl,-rpath,{}/lib/linux", folder.unwrap_or_default())
}

#[test]
fn sanitized_programs_run_as_without_us() {
    let folder = tempfile::tempdir().expect("a folder");
    let shared = clang_libraries();
    let flavours: &[(&str, &str, &[&str])] = &[
        ("gcc-address", "gcc", &["-fsanitize=address"]),
        ("gcc-thread", "gcc", &["-fsanitize=thread"]),
        ("gcc-undefined", "gcc", &["-fsanitize=undefined"]),
        ("gcc-leak", "gcc", &["-fsanitize=leak"]),
        ("gcc-both", "gcc", &["-fsanitize=address,undefined"]),
        (
            "gcc-static",
            "gcc",
            &["-fsanitize=address", "-static-libasan"],
        ),
        ("gcc-own", "gcc", &["-fsanitize=address", "-DOWN_OPTIONS"]),
        ("clang-address", "clang-14", &["-fsanitize=address"]),
        (
            "clang-shared",
            "clang-14",
            &["-fsanitize=address", "-shared-libasan", &shared],
        ),
        (
            "clang-shared-own",
            "clang-14",
            &[
                "-fsanitize=address",
                "-shared-libasan",
                &shared,
                "-DOWN_OPTIONS",
            ],
        ),
        ("clang-thread", "clang-14", &["-fsanitize=thread"]),
        ("clang-undefined", "clang-14", &["-fsanitize=undefined"]),
    ];
    for (name, compiler, flags) in flavours {
        if let Some(program) = build(folder.path(), name, compiler, flags) {
            is_the_same(&[path(&program)], None);
        }
    }
}

#[test]
fn what_address_sanitizer_finds_it_still_finds() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = build(folder.path(), "asan", "gcc", &["-fsanitize=address"]) else {
        return;
    };
    let plain = untraced(&[path(&program), "wrong"], None);
    for options in [&["--method=preload"][..], &[]] {
        let run = traced(options, &[path(&program), "wrong"], None);
        let said = run.stderr();
        assert_eq!(run.output.status, plain.status, "{said}");
        for words in ["heap-use-after-free", "companion.c:"] {
            assert!(said.contains(words), "{said}");
        }
    }
}

/// Started by a shell and by a script, which have no sanitizer, and with their own variables.
#[test]
fn sanitized_children_run_as_without_us() {
    let folder: TempDir = tempfile::tempdir().expect("a folder");
    let Some(program) = build(folder.path(), "asan", "gcc", &["-fsanitize=address"]) else {
        return;
    };
    is_the_same(&["sh", "-c", "\"$0\"; exit $?", path(&program)], None);
    let options = "ASAN_OPTIONS=detect_leaks=1:halt_on_error=1 \"$0\"";
    is_the_same(&["sh", "-c", options, path(&program)], None);
    // As those do who preload it themselves.
    let library = Command::new("gcc")
        .arg("-print-file-name=libasan.so")
        .output();
    let library = String::from_utf8_lossy(&library.expect("gcc").stdout)
        .trim()
        .to_owned();
    is_the_same(&[path(&program)], Some(&library));
}

#[test]
fn other_allocators_run_as_without_us() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(plain) = build(folder.path(), "plain", "cc", &[]) else {
        return;
    };
    for (name, library) in [
        ("jemalloc", "libjemalloc.so.2"),
        ("tcmalloc", "libtcmalloc.so.4"),
        ("mimalloc", "libmimalloc.so.2"),
    ] {
        let link = format!("-Wl,--no-as-needed,-l{name}");
        if let Some(program) = build(folder.path(), name, "cc", &[&link]) {
            is_the_same(&[path(&program)], None);
            is_the_same(&[path(&plain)], Some(library));
        }
    }
}
