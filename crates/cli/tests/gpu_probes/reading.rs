//! Maps of programs that do not end by themselves: read when Ctrl-C comes, and every so often while they run.

use super::{common::cutrace, interrupted::Group, program, repository};
use std::{
    io::{BufRead, BufReader, Read},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

struct Interrupted {
    status: ExitStatus,
    said: String,
    took: Duration,
}

/// Runs `endless` with probes until it is ready, and a moment longer; then a signal goes to whom it may concern.
fn interrupted(
    words: &[&str],
    how: &str,
    moment: Duration,
    signal: impl FnOnce(&Group),
) -> Option<Interrupted> {
    let program = program("endless")?;
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = cutrace();
    command
        .arg("gpu")
        .args(words)
        .args(["--sim", "--no-summary", "-o"])
        .arg(folder.path().join("trace.jsonl"))
        .arg("--")
        .arg(&program)
        .args([how, "8", "64", "5"])
        .env("XDG_CACHE_HOME", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut group = Group(command.spawn().expect("started"));
    let mut printed = BufReader::new(group.0.stdout.take().expect("piped"));
    let mut line = String::new();
    while line != "ready\n" {
        line.clear();
        let bytes = printed.read_line(&mut line).expect("readable");
        assert!(bytes > 0, "it ended before it was ready");
    }
    sleep(moment);
    let began = Instant::now();
    signal(&group);
    let mut said = String::new();
    let mut errors = group.0.stderr.take().expect("piped");
    errors.read_to_string(&mut said).expect("readable");
    let status = group.0.wait().expect("ended");
    let took = began.elapsed();
    Some(Interrupted { status, said, took })
}

/// What a terminal does.
fn ctrl_c(group: &Group) {
    group.signal(libc::SIGINT);
}

/// 5 launches of 8 blocks of 64 threads.
const ALL: &str = "2,560 threads that entered\n";

#[test]
fn maps_are_read_before_ctrl_c_ends_the_program() {
    for how in ["wait", "kernel"] {
        let Some(ran) = interrupted(&["count", "vectorAdd"], how, Duration::ZERO, ctrl_c) else {
            return;
        };
        let said = &ran.said;
        assert_eq!(ran.status.signal(), Some(libc::SIGINT), "{how}: {said}");
        assert!(said.contains(ALL), "{how}: {said}");
        assert!(said.contains("2,560 threads that left\n"), "{how}: {said}");
        let note = ": its maps were read when the signal arrived";
        assert!(
            said.contains("Note: SIGINT ended process "),
            "{how}: {said}"
        );
        assert!(said.contains(note), "{how}: {said}");
        assert!(ran.took < Duration::from_secs(20), "{how}: {:?}", ran.took);
    }
}

#[test]
fn a_handler_of_the_programs_own_gets_its_signal() {
    let words = ["count", "vectorAdd"];
    let Some(ran) = interrupted(&words, "handler", Duration::ZERO, ctrl_c) else {
        return;
    };
    assert_eq!(ran.status.code(), Some(3), "{}", ran.said);
    assert!(ran.said.contains(ALL), "{}", ran.said);
    // It has ended in order, and its maps were read then.
    assert!(!ran.said.contains("SIGINT ended"), "{}", ran.said);
}

#[test]
fn maps_are_read_before_another_signal_ends_the_program() {
    let words = ["count", "vectorAdd"];
    // As `timeout` and `kill` do: to cutrace, which sends it on.
    let terminate = |group: &Group| {
        // SAFETY: a child that has not been waited for.
        unsafe { libc::kill(group.0.id() as i32, libc::SIGTERM) };
    };
    let Some(ran) = interrupted(&words, "wait", Duration::ZERO, terminate) else {
        return;
    };
    assert_eq!(ran.status.signal(), Some(libc::SIGTERM), "{}", ran.said);
    assert!(ran.said.contains(ALL), "{}", ran.said);
    assert!(ran.said.contains("Note: SIGTERM ended"), "{}", ran.said);
}

#[test]
fn maps_are_printed_every_interval() {
    let words = ["count", "vectorAdd", "--every", "200ms"];
    let moment = Duration::from_millis(1500);
    let Some(ran) = interrupted(&words, "loop", moment, ctrl_c) else {
        return;
    };
    let counts: Vec<u64> = (ran.said.lines())
        .filter_map(|line| line.strip_suffix(" threads that entered"))
        .map(|number| number.trim().replace(',', "").parse().expect("a number"))
        .collect();
    let titles = ran.said.matches("--- after ").count();
    assert!(titles >= 2, "{}", ran.said);
    assert_eq!(counts.len(), titles + 1, "one each, and one at the end");
    assert!(counts.is_sorted(), "{counts:?}");
    assert!(counts[0] < counts[titles], "{counts:?}");
}

#[test]
fn what_was_read_last_is_shown_of_a_program_that_was_killed() {
    let words = ["count", "vectorAdd", "--every", "100ms"];
    let kill = |group: &Group| {
        let program = group.program().expect("the program");
        // SAFETY: a process of ours.
        unsafe { libc::kill(program as i32, libc::SIGKILL) };
    };
    let moment = Duration::from_millis(1500);
    let Some(ran) = interrupted(&words, "wait", moment, kill) else {
        return;
    };
    assert_eq!(ran.status.signal(), Some(libc::SIGKILL), "{}", ran.said);
    let end = ran
        .said
        .split("=== GPU PROBES ===")
        .nth(1)
        .expect("a report");
    assert!(end.contains(ALL), "{}", ran.said);
    let note = " ended before its maps could be read: the maps shown are ";
    assert!(end.contains(note), "{}", ran.said);
}

#[test]
fn maps_are_read_beside_a_capture_and_leave_it_alone() {
    let Some(program) = program("endless") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let object = repository().join("examples/gpu/objects/threadhist.bpf.o");
    let output = cutrace()
        .args([
            "gpu",
            "run",
            "--every",
            "100ms",
            "--threads",
            "1024",
            "--sim",
            "--no-summary",
            "-o",
        ])
        .arg(folder.path().join("trace.jsonl"))
        .args([&object, std::path::Path::new("--"), &program])
        .args(["capture", "2", "64", "5"])
        .output()
        .expect("cutrace runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // 5 launches before it is captured, 5 of the graph.
    let (meanwhile, end) = said.split_once("=== GPU PROBES ===").expect("a report");
    let each = |launches: u32| format!("    threads 0 to 127, each: {launches}\n");
    assert!(meanwhile.matches(&each(5)).count() >= 2, "{said}");
    assert!(end.contains("  0: 128 threads, 1,280 in total\n"), "{said}");
    assert!(end.contains(&each(10)), "{said}");
}
