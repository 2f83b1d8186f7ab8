//! What is wrong with a command line is said before the program starts, with the nearest right word.

mod common;

use common::cutrace;
use std::{fs, path::Path, process::Command};
use tempfile::TempDir;

/// A program that leaves a mark when it runs, started with these options.
struct Attempt {
    folder: TempDir,
}

impl Attempt {
    fn new() -> Self {
        Attempt {
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    fn run(&self, options: &[&str]) -> (Option<i32>, String, bool) {
        self.run_with(options, |_| {})
    }

    /// The status, what was said, and whether the program ran.
    fn run_with(
        &self,
        options: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> (Option<i32>, String, bool) {
        let mark = self.folder.path().join("mark");
        let _ = fs::remove_file(&mark);
        let mut command = cutrace();
        command
            .current_dir(self.folder.path())
            .arg("record")
            .args(options);
        command.args(["--", "touch"]).arg(&mark);
        prepare(&mut command);
        let output = command.output().expect("cutrace runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said, mark.exists())
    }

    fn refuses(&self, options: &[&str], words: &str) {
        let (code, said, ran) = self.run(options);
        assert_eq!((code, ran), (Some(125), false), "{options:?}: {said}");
        assert!(said.contains(words), "{options:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{options:?}: {said}");
        assert!(!self.folder.path().join("traces").exists(), "{options:?}");
    }

    fn takes(&self, options: &[&str]) {
        let (code, said, ran) = self.run(options);
        assert_eq!((code, ran), (Some(0), true), "{options:?}: {said}");
        let _ = fs::remove_dir_all(self.folder.path().join("traces"));
    }
}

#[test]
fn selections_mean_something() {
    let attempt = Attempt::new();
    attempt.refuses(&["-e", "memroy"], "did you mean memory?");
    attempt.refuses(&["-e", "memory,cuMemAloc"], "-e cuMemAloc: ");
    attempt.refuses(&["-e", "cuMemAloc"], "did you mean cuMemAlloc?");
    attempt.refuses(&["-e", "!qurey"], "did you mean query?");
    attempt.refuses(&["-e", "nonsense*"], "categories are ");
    attempt.refuses(&["--stack=bogus"], "--stack=bogus: no category");
    attempt.refuses(&["--stack=memroy"], "did you mean memory?");
    attempt.refuses(
        &["-e", "memory,!memory"],
        "this excludes everything it includes",
    );
    for good in [
        "memory",
        "cuLaunch*,!query",
        "driver",
        "nvtx*",
        "cuMemAlloc",
        "runtime,!cudaFree",
    ] {
        attempt.takes(&["-q", "-e", good]);
    }
    attempt.takes(&["-q", "--stack"]);
    // Other libraries' functions are nobody's to know.
    attempt.takes(&["-q", "-e", "puts", "--lib", "libc.so*:put*"]);
}

#[test]
fn libraries_are_found_or_insisted_on() {
    let attempt = Attempt::new();
    attempt.refuses(
        &["--lib", "libnosuch:*"],
        "--lib libnosuch: no such library",
    );
    attempt.refuses(&["--lib", "libnosuch.so*:*"], "--allow-missing-lib");
    attempt.refuses(&["--lib", "libpthraed.so:*"], "did you mean libpthread.so?");
    attempt.refuses(&["--lib", "/usr/lib/libc.so.6:*"], "--lib 'libc.so.6:GLOB'");
    attempt.takes(&["-q", "--lib", "libnosuch:*", "--allow-missing-lib"]);
    attempt.takes(&["-q", "--lib", "libc.so*:getpid"]);
    attempt.takes(&["-q", "--sim", "--lib", "libcuda.so*:cu*"]);
    // Where the loader looks for this run; and beside what the command names.
    let own = attempt.folder.path().join("own");
    fs::create_dir(&own).expect("made");
    fs::write(own.join("libnosuch.so.3"), "").expect("written");
    let (code, said, ran) = attempt.run_with(&["-q", "--lib", "libnosuch:*"], |command| {
        command.env("LD_LIBRARY_PATH", &own);
    });
    assert_eq!((code, ran), (Some(0), true), "{said}");
    let script = format!("test -e {}/libnosuch.so.3", own.display());
    let output = cutrace()
        .args(["-q", "--lib", "libnosuch:*", "sh", "-c", &script])
        .current_dir(attempt.folder.path())
        .output()
        .expect("cutrace runs");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_library_that_a_program_finds_by_itself_is_found() {
    let attempt = Attempt::new();
    let folder = attempt.folder.path();
    let compile = |words: &[&str], source: &str| {
        let file = folder.join("source.c");
        fs::write(&file, source).expect("written");
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
        let built = compiler
            .args(words)
            .arg(&file)
            .args(["-L.", "-Wl,-rpath,$ORIGIN/deep"]);
        let built = built.current_dir(folder).status();
        assert!(built.is_ok_and(|status| status.success()), "{words:?}");
    };
    fs::create_dir(folder.join("deep")).expect("made");
    compile(
        &["-shared", "-fPIC", "-o", "deep/libsunk.so"],
        "int sunk(void) { return 0; }",
    );
    let mut program = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
    fs::write(
        folder.join("main.c"),
        "int sunk(void); int main(void) { return sunk(); }",
    )
    .expect("written");
    program.args([
        "-o",
        "program",
        "main.c",
        "-Ldeep",
        "-lsunk",
        "-Wl,-rpath,$ORIGIN/deep",
    ]);
    assert!(
        program
            .current_dir(folder)
            .status()
            .is_ok_and(|status| status.success())
    );
    let output = cutrace()
        .args(["-q", "--lib", "libsunk:*", "./program"])
        .current_dir(folder)
        .output()
        .expect("cutrace runs");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn contradictions_are_refused() {
    let attempt = Attempt::new();
    let own = std::process::id().to_string();
    for (options, words) in [
        (
            &["--waits", "--method=preload"][..],
            "--method=preload,cupti",
        ),
        (
            &["--stack", "--method=syscall"],
            "--stack and --method=syscall",
        ),
        (
            &["--lib", "libc.so:*", "--method=syscall"],
            "--lib and --method=syscall",
        ),
        (&["-e", "memory", "--method=nvml"], "-e and --method=nvml"),
    ] {
        attempt.refuses(options, words);
    }
    let output = cutrace()
        .args(["--sim", "-p", &own])
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("--sim and -p: "), "{said}");
}

#[test]
fn folders_are_there_or_under_the_current_one() {
    let attempt = Attempt::new();
    let folder = attempt.folder.path();
    attempt.refuses(&["-o", "/nonexist/x.jsonl"], "there is no folder /nonexist");
    assert!(!Path::new("/nonexist").exists());
    fs::create_dir(folder.join("results")).expect("made");
    let slip = folder.join("reslts/deeper/x.jsonl");
    let slip = slip.to_str().expect("UTF-8");
    attempt.refuses(&["-o", slip], "/results?");
    attempt.takes(&["-q", "-o", "new/and/deep.jsonl"]);
    assert!(folder.join("new/and/deep.jsonl").exists());
}

#[test]
fn other_tools_names_lead_to_methods() {
    let attempt = Attempt::new();
    for (method, words) in [
        ("bcc", "--method=ebpf"),
        ("bpftrace", "--method=ebpf"),
        ("uprobe", "--method=ebpf"),
        ("strace", "--method=syscall"),
        ("ltrace", "--method=preload"),
        ("nsys", "--method=preload,cupti"),
        ("prelaod", "did you mean preload?"),
    ] {
        let (code, said, ran) = attempt.run(&["--method", method]);
        assert_eq!((code, ran), (Some(2), false), "{said}");
        assert!(said.contains(words), "{method}: {said}");
    }
}

#[test]
fn a_trace_is_no_program() {
    let attempt = Attempt::new();
    let trace = attempt.folder.path().join("a.jsonl");
    fs::write(&trace, "{}\n").expect("written");
    for name in ["a.jsonl", "./a.jsonl"] {
        let output = cutrace()
            .arg(name)
            .current_dir(attempt.folder.path())
            .output();
        let output = output.expect("cutrace runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains(&format!("did you mean: cutrace report {name}")),
            "{said}"
        );
    }
}
