//! The time that was watched, and whose processes: `-p`, `-a`, `-d`.

use super::{
    common::cutrace,
    patched::{Programs, limited},
    read, ready,
};
use serde_json::Value;
use std::{path::Path, process::Command};

/// Nanoseconds from the trace's start: from when to when it was watched.
fn watched(lines: &[Value]) -> Option<(i64, i64)> {
    let began = lines.first()?["start_ns"].as_i64()?;
    let watched = &lines.last()?["watched"];
    let since = |name: &str| Some(watched[name].as_i64()? - began);
    Some((since("start_ns")?, since("end_ns")?))
}

/// When calls of the program began, in nanoseconds from the trace's start.
fn begun(lines: &[Value]) -> Vec<i64> {
    let calls = lines.iter().filter(|line| line["phase"] == "B");
    let at = |line: &Value| (line["ts"].as_f64().expect("a time") * 1e6) as i64;
    calls.map(at).collect()
}

fn record(options: &[&str], trace: &Path) -> Vec<Value> {
    let mut command = cutrace();
    let output = command
        .args(["-q", "--method=ebpf", "-o"])
        .arg(trace)
        .args(options)
        .output();
    let output = output.expect("started");
    assert!(output.status.success(), "{output:?}");
    read(trace)
}

const SECOND: i64 = 1_000_000_000;

/// It was watched for a second, and the busy program was seen to be busy all through it.
fn is_a_second_of_calls(lines: &[Value]) {
    let (start, end) = watched(lines).expect("watched");
    assert!(
        (SECOND..SECOND * 13 / 10).contains(&(end - start)),
        "{start} {end}"
    );
    let calls = begun(lines);
    let in_time = |call: &&i64| (start..=end).contains(*call);
    assert!(
        calls.iter().filter(in_time).count() > 50,
        "{start} {end}: {calls:?}"
    );
    let first = calls.iter().min().expect("calls");
    assert!(*first >= start, "{first} is before {start}");
    let last = calls.iter().max().expect("calls");
    assert!(*last <= end, "{last} is after {end}");
    // It calls every millisecond; a busy machine may hold it up for a while.
    assert!(end - last < SECOND / 4, "nothing after {last} of {end}");
}

#[test]
fn a_process_and_the_machine_are_watched_for_as_long_as_is_said() {
    let Some(_turn) = ready() else {
        return;
    };
    let programs = Programs::new();
    let trace = programs.path("watched.jsonl");
    let running = programs.start(limited(), "200", "none");
    let program = child_of(running.child.id());
    let lines = record(&["-a", "-d", "1"], &trace);
    is_a_second_of_calls(&lines);
    // Nobody's command, and everybody's names.
    assert_eq!(lines[0]["command"], serde_json::json!([]));
    let processes = lines.last().expect("a summary")["processes"].as_array();
    let is_it = |process: &Value| process["pid"] == program && process["name"] == "program";
    assert!(processes.expect("names").iter().any(is_it), "{processes:?}");
    let lines = record(&["-p", &program.to_string(), "-d", "1"], &trace);
    is_a_second_of_calls(&lines);
    // Who it was.
    let head = &lines[0];
    assert_eq!(head["pid"].as_u64(), Some(program.into()));
    let command = head["command"].as_array().expect("a command");
    assert!(
        command[0]
            .as_str()
            .is_some_and(|it| it.ends_with("/program")),
        "{head}"
    );
    assert_eq!(command.len(), 4);
    let processes = &lines.last().expect("a summary")["processes"];
    assert_eq!(processes[0]["pid"].as_u64(), Some(program.into()));
    assert_eq!(processes[0]["name"], "program");
}

/// The program that `timeout` runs.
fn child_of(pid: u32) -> u32 {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).expect("readable");
    children.trim().parse().expect("one child")
}

#[test]
fn a_command_is_watched_from_its_beginning() {
    let Some(_turn) = ready() else {
        return;
    };
    let programs = Programs::new();
    let run = |options: &[&str]| {
        let trace = programs.path("command.jsonl");
        let mut command = cutrace();
        command.args(["-q", "-o"]).arg(&trace).args(options);
        programs.start(command, "12", "none").finish();
        read(&trace)
    };
    // The whole of it.
    let lines = run(&["--method=preload"]);
    assert_eq!(lines.last().expect("a summary")["watched"], Value::Null);
    let pid = lines[0]["pid"].as_u64().expect("a process");
    assert!(begun(&lines).len() > 1_000);
    let processes = &lines.last().expect("a summary")["processes"];
    assert_eq!(
        (&processes[0]["pid"], &processes[0]["name"]),
        (&pid.into(), &"program".into())
    );
    assert_eq!(processes[0]["command"][2], "12");
    // A part of it.
    for method in ["preload", "ebpf", "syscall", "preload,ebpf"] {
        let lines = run(&["-d", "0.5", "--method", method]);
        let (start, end) = watched(&lines).unwrap_or_else(|| panic!("{method}: watched"));
        assert_eq!(end - start, SECOND / 2, "{method}");
        let calls = begun(&lines);
        assert_eq!(calls.is_empty(), method == "syscall", "{method}");
        assert!(calls.iter().all(|call| *call <= end), "{method}: {calls:?}");
    }
    // Probes take their time to be attached, and the program begins only then.
    let lines = run(&["--method=ebpf"]);
    let (start, end) = watched(&lines).expect("watched");
    assert!(start > 0 && end > start + SECOND, "{start} {end}");
    assert!(begun(&lines).iter().all(|call| *call >= start));
}

#[test]
fn children_have_names_also_when_they_are_gone() {
    let Some(_turn) = ready() else {
        return;
    };
    let programs = Programs::new();
    let trace = programs.path("children.jsonl");
    let (program, driver) = (programs.path("program"), programs.path("libcuda.so.1"));
    let script = format!(
        "{0} {1} 1 none; {0} {1} 2 none",
        program.display(),
        driver.display()
    );
    for method in ["preload", "ebpf"] {
        let mut command = cutrace();
        command.args(["-q", "--method", method, "-o"]).arg(&trace);
        let output = command
            .args(["sh", "-c", &script])
            .output()
            .expect("started");
        assert!(output.status.success(), "{method}: {output:?}");
        let lines = read(&trace);
        let processes = lines.last().expect("a summary")["processes"].clone();
        let processes = processes.as_array().cloned().unwrap_or_default();
        let programs: Vec<&Value> = (processes.iter())
            .filter(|process| process["name"] == "program")
            .collect();
        assert_eq!(programs.len(), 2, "{method}: {processes:?}");
        let shell = lines[0]["pid"].clone();
        for (process, tenths) in programs.iter().zip(["1", "2"]) {
            assert_eq!(process["command"][2], tenths, "{method}");
            assert_eq!(process["parent"], shell, "{method}");
        }
        assert!(
            processes
                .iter()
                .any(|it| it["name"] == "sh" && it["pid"] == shell),
            "{method}"
        );
    }
}

#[test]
fn secrets_in_command_lines_stay_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("redacted.jsonl");
    let mut command: Command = cutrace();
    command
        .args(["-q", "--redact", "--method=preload", "-o"])
        .arg(&trace);
    let output = command
        .args(["sh", "-c", "true hunter2; true"])
        .output()
        .expect("started");
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&trace).expect("a trace");
    assert!(!text.contains("hunter2"), "{text}");
    let lines = read(&trace);
    let processes = &lines.last().expect("a summary")["processes"];
    assert_eq!(processes[0]["name"], "sh", "{processes}");
}
