//! `record --method=ebpf`: what the kernel sees is what preload and ptrace see.

mod common;

use common::{cutrace, repository, skip};
use serde_json::Value;
use std::{path::Path, process::Command};

/// False, and a word about it, where programs may not be loaded.
fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().expect("id");
    let root = output.stdout == b"0\n";
    if !root {
        skip("eBPF needs root");
    }
    root
}

fn trace(folder: &Path, method: &str, program: &Path) -> Vec<Value> {
    let path = folder.join(format!("{method}.jsonl"));
    let status = cutrace()
        .args(["--sim", "-q", "--method", method, "-o"])
        .arg(&path)
        .arg(program)
        .output()
        .expect("started");
    assert!(status.status.success(), "{method}: {status:?}");
    let text = std::fs::read_to_string(path).expect("written");
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Addresses differ from run to run.
fn without_addresses(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with("0x") => "0x".into(),
        Value::Array(all) => all.iter().map(without_addresses).collect(),
        Value::Object(all) => (all.iter())
            .map(|(name, value)| (name.clone(), without_addresses(value)))
            .collect(),
        other => other.clone(),
    }
}

fn calls(lines: &[Value]) -> Vec<Value> {
    let told = |line: &&Value| {
        line["phase"] == "E" && line["type"] == "userspace"
            || matches!(line["type"].as_str(), Some("memory" | "transfer"))
            || line["op"] == "launch"
    };
    let keys = [
        "type",
        "name",
        "status",
        "depth",
        "details",
        "op",
        "size",
        "kernel",
        "direction",
    ];
    let shown = |line: &Value| {
        keys.iter()
            .map(|key| without_addresses(&line[*key]))
            .collect()
    };
    lines.iter().filter(told).map(shown).collect()
}

fn requests(lines: &[Value]) -> Vec<(Value, Value)> {
    let told = |line: &&Value| line["phase"] == "E" && line["type"] == "ioctl";
    let shown = |line: &Value| (line["cmd"].clone(), line["decoded"]["name"].clone());
    lines.iter().filter(told).map(shown).collect()
}

#[test]
fn calls_and_requests_are_those_that_others_see() {
    if !is_root() {
        return;
    }
    let program = repository().join("target/programs/vector_add");
    if !program.exists() {
        return skip("target/programs is not built: make programs");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let of = |method: &str| trace(folder.path(), method, &program);
    let (preload, ebpf, syscall) = (of("preload"), of("ebpf"), of("syscall"));
    assert!(calls(&ebpf).len() > 500);
    assert_eq!(calls(&ebpf), calls(&preload));
    assert!(requests(&ebpf).len() > 300);
    assert_eq!(requests(&ebpf), requests(&syscall));
    // An ioctl is inside of the call that made it.
    let inside = |line: &&Value| line["type"] == "ioctl" && line["depth"].as_u64() > Some(0);
    assert!(ebpf.iter().filter(inside).count() > 300);
}

#[test]
fn the_stream_goes_to_a_pipe_and_errors_are_said() {
    if !is_root() {
        return;
    }
    let output = cutrace()
        .args(["--method=ebpf", "-q", "-o", "-", "true"])
        .output()
        .expect("started");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let kinds: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["type"].clone())
        .collect();
    assert_eq!(kinds, ["meta", "summary"]);
    let gone = cutrace()
        .args(["-p", "4194303", "-d", "1", "-o", "-"])
        .output()
        .expect("started");
    assert_eq!(gone.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("4194303 does not exist"));
}
