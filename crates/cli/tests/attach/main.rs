//! Attaching to processes that run already, without root: what is recorded, what is left behind, and what is refused.

#[path = "../common/mod.rs"]
mod common;
mod target;
mod unrelocated;

use common::{cutrace, read, skip};
use serde_json::Value;
use std::process::{Command, Output};
use target::{NOBODY, Target, compile};

/// A program that ends with its standard input.
const WAITS: &str =
    "#include <unistd.h>\nint main(void) { char byte; return read(0, &byte, 1) != 0; }\n";

fn is_root() -> bool {
    // SAFETY: a question without side effects.
    unsafe { libc::geteuid() == 0 }
}

/// Attaches with these options.
fn attach(target: &Target, options: &[&str]) -> (Output, Vec<Value>) {
    let trace = target.folder.path().join("trace.jsonl");
    let mut command = target.as_user(cutrace());
    command
        .args(["-v", "-d", "0.5", "-p", &target.pid.to_string(), "-o"])
        .arg(&trace)
        .args(options);
    let output = command.output().expect("started");
    (output, read(&trace))
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn calls(lines: &[Value], name: &str) -> usize {
    let of_name = lines.iter().filter(|line| line["name"] == name);
    let calls = of_name.filter(|line| line["type"] == "userspace");
    calls.filter(|line| line["phase"] != "B").count()
}

/// Attaches twice, and looks at the process before and afterwards.
fn records_and_leaves(target: Target) {
    let before = target.threads_and_files();
    for round in 0..2 {
        let (output, lines) = attach(&target, &["--method=preload,cupti"]);
        let said = words(&output);
        assert!(output.status.success(), "{round}: {said}");
        assert!(said.contains("attached by loading a library"), "{said}");
        assert!(said.contains("Events lost: 0"), "{said}");
        // One of each in every turn of the program's loop.
        let counts =
            ["cuMemAlloc_v2", "cuMemFree_v2", "cuCtxGetCurrent"].map(|name| calls(&lines, name));
        let (least, most) = (counts.iter().min(), counts.iter().max());
        let (least, most) = (*least.expect("three"), *most.expect("three"));
        assert!(least > 5 && most - least <= 2, "{round}: {counts:?}");
        let sizes = lines
            .iter()
            .filter(|line| line["details"]["bytesize"] == 4096);
        assert!(sizes.count() >= least, "{round}");
        assert_eq!(target.settled(before), before, "{round}");
        assert!(!target.has_jumps(), "{round}");
    }
    target.ends_well();
}

#[test]
fn calls_are_recorded_and_nothing_is_left_behind() {
    if let Some(target) = Target::start(None) {
        records_and_leaves(target);
    }
}

/// A thread of the program may call them while another still loads the library.
#[test]
fn the_gpu_times_library_can_be_called_before_it_is_relocated() {
    let Some(target) = Target::start(None) else {
        return;
    };
    let (output, _) = attach(&target, &["--method=preload,cupti"]);
    assert!(output.status.success(), "{}", words(&output));
    unrelocated::stand_ins_need_no_relocation(&target.loaded("libcutrace_gpu_times.so"));
    target.ends_well();
}

/// A static program has no loader that could load the library.
#[test]
fn what_cannot_be_entered_is_refused_and_it_is_said_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compile(folder.path(), "alone", WAITS, &["-static"]) else {
        return skip("no static C library");
    };
    let mut child = Command::new(program)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let pid = child.id().to_string();
    let output = cutrace()
        .args(["--method=preload", "-d", "1", "-p", &pid, "-o"])
        .arg(folder.path().join("trace.jsonl"))
        .output()
        .expect("started");
    let said = words(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("is statically linked"), "{said}");
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn an_ordinary_user_attaches_to_their_own_process() {
    if !is_root() {
        return skip(
            "becoming another user needs root; the test beside it runs as an ordinary user here",
        );
    }
    if let Some(target) = Target::start(Some(NOBODY)) {
        records_and_leaves(target);
    }
}

#[test]
fn a_process_of_another_user_is_refused_with_advice() {
    if !is_root() {
        return skip("becoming another user needs root");
    }
    let Some(mut target) = Target::start(None) else {
        return;
    };
    target.tracer = Some(NOBODY);
    let (output, _) = attach(&target, &["--method=preload"]);
    assert_eq!(output.status.code(), Some(125));
    let said = words(&output);
    assert!(
        said.contains("belongs to user 0: run cutrace as that user, or with sudo"),
        "{said}"
    );
    target.tracer = None;
    target.ends_well();
}

#[test]
fn one_cutrace_at_a_time() {
    let Some(target) = Target::start(None) else {
        return;
    };
    let trace = target.folder.path().join("first.jsonl");
    let mut first = cutrace()
        .args([
            "-q",
            "--method=preload",
            "-d",
            "4",
            "-p",
            &target.pid.to_string(),
            "-o",
        ])
        .arg(&trace)
        .spawn()
        .expect("started");
    target.wait_for_jumps();
    let (second, _) = attach(&target, &["--method=preload"]);
    let said = words(&second);
    assert_eq!(second.status.code(), Some(125), "{said}");
    assert!(said.contains("already attached"), "{said}");
    assert!(first.wait().expect("it ends").success());
    assert!(calls(&read(&trace), "cuMemAlloc_v2") > 5);
    target.ends_well();
}

/// The program runs on with the hooks of a tracer that was killed, and the next tracer takes them over.
#[test]
fn what_a_killed_tracer_left_is_taken_over() {
    let Some(target) = Target::start(None) else {
        return;
    };
    let trace = target.folder.path().join("first.jsonl");
    let mut first = cutrace()
        .args([
            "-q",
            "--method=preload",
            "-p",
            &target.pid.to_string(),
            "-o",
        ])
        .arg(&trace)
        .spawn()
        .expect("started");
    target.wait_for_jumps();
    first.kill().expect("killed");
    first.wait().expect("it ends");
    let (output, lines) = attach(&target, &["--method=preload"]);
    assert!(output.status.success(), "{}", words(&output));
    assert!(calls(&lines, "cuMemAlloc_v2") > 5);
    assert!(!target.has_jumps());
    target.ends_well();
}

#[test]
fn a_stopped_process_is_refused() {
    let Some(target) = Target::start(None) else {
        return;
    };
    target.signal(libc::SIGSTOP);
    let (output, _) = attach(&target, &["--method=preload"]);
    target.signal(libc::SIGCONT);
    let said = words(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.contains(&format!("kill -CONT {}", target.pid)),
        "{said}"
    );
    target.ends_well();
}

#[test]
fn a_static_program_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compile(folder.path(), "alone", WAITS, &["-static"]) else {
        return skip("no static C library");
    };
    let mut child = Command::new(program)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let output = cutrace()
        .args(["--method=preload", "-d", "1", "-p", &child.id().to_string()])
        .output()
        .expect("started");
    let said = words(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("is statically linked"), "{said}");
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
}
