//! `--kernel`: ioctls are measured by eBPF where that works, and off-CPU time is no scheduler's call.

use super::{
    common::{cutrace, program},
    read, ready,
};
use serde_json::Value;
use std::path::Path;

fn traced(options: &[&str], trace: &Path, program: &Path) -> Vec<Value> {
    let output = cutrace()
        .args(["--sim", "-q", "-o"])
        .arg(trace)
        .args(options)
        .arg(program)
        .output()
        .expect("started");
    assert!(output.status.success(), "{output:?}");
    read(trace)
}

/// Names of requests in their order, and the time of all together in µs.
fn requests(lines: &[Value]) -> (Vec<String>, f64) {
    let ended = |line: &&Value| line["type"] == "ioctl" && line["phase"] == "E";
    let ended: Vec<&Value> = lines.iter().filter(ended).collect();
    let names = ended.iter().map(|line| line["name"].to_string()).collect();
    let time = ended
        .iter()
        .filter_map(|line| line["duration_us"].as_f64())
        .sum();
    (names, time)
}

#[test]
fn ioctls_are_measured_without_stopping_the_program() {
    let (Some(_turn), Some(program)) = (ready(), program("vector_add")) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("t.jsonl");
    let lines = traced(&["--kernel"], &trace, &program);
    let backends = lines[0]["backends"].to_string();
    assert!(backends.contains("ebpf system calls"), "{backends}");
    assert!(!backends.contains("\"syscall\""), "{backends}");
    let (ours, time) = requests(&lines);
    let lines_of_ptrace = traced(&["--method=syscall"], &trace, &program);
    let (theirs, stopped) = requests(&lines_of_ptrace);
    assert_eq!(ours, theirs);
    assert!(ours.len() > 100);
    // Every stop takes several microseconds.
    assert!(time * 4.0 < stopped, "{time} µs, by ptrace {stopped}");
    // Calls are preload's, each once.
    let calls = |lines: &[Value]| {
        let ended = |line: &&Value| line["name"] == "cudaMalloc" && line["phase"] == "E";
        lines.iter().filter(ended).count()
    };
    assert_eq!(calls(&lines), 3);
    let kinds: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["type"].as_str())
        .collect();
    assert!(kinds.contains(&"offcpu"), "threads waited");
    assert!(!kinds.contains(&"scheduler"));
}
