//! `record --method=ebpf`: what the kernel sees is what preload and ptrace see.

mod aggregates;
mod attached;
#[path = "../common/mod.rs"]
mod common;
mod kernel;
mod loader;
mod markers;
mod older;
mod patched;
mod rights;
mod sample;
mod stacks;
mod throwing;
mod watched;
mod whose;

use common::{cutrace, program, read, skip};
use serde_json::Value;
use std::{
    collections::HashMap,
    path::Path,
    process::Command,
    sync::{Mutex, MutexGuard},
};

/// None, and a word about it, where programs may not be loaded. The tests take turns: probes of one
/// in everybody's libraries would be found there by another's preload.
fn ready() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    let output = Command::new("id").arg("-u").output().expect("id");
    if output.stdout != b"0\n" {
        skip("eBPF needs root");
        return None;
    }
    Some(TURN.lock().unwrap_or_else(|held| held.into_inner()))
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
    read(&path)
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
        "op",
        "size",
        "kernel",
        "direction",
    ];
    // What a call was given is told with its beginning, or with its end if it took long.
    let mut given = HashMap::new();
    for line in lines.iter().filter(|line| line["phase"] == "B") {
        given.insert(line["op_id"].as_u64(), &line["details"]);
    }
    let whole = |line: &Value| {
        let mut details = line["details"].as_object().cloned().unwrap_or_default();
        let begun = given.get(&line["op_id"].as_u64());
        let begun = begun.and_then(|details| details.as_object());
        details.extend(begun.cloned().unwrap_or_default());
        Value::from(details)
    };
    let shown = |line: &Value| {
        let plain = keys.iter().map(|key| line[*key].clone());
        let all = plain.chain([whole(line)]);
        all.map(|value| without_addresses(&value)).collect()
    };
    lines.iter().filter(told).map(shown).collect()
}

fn requests(lines: &[Value]) -> Vec<[Value; 3]> {
    let told = |line: &&Value| line["phase"] == "E" && line["type"] == "ioctl";
    let shown = |line: &Value| {
        let decoded = &line["decoded"];
        [&line["cmd"], &decoded["name"], &decoded["status"]].map(Clone::clone)
    };
    lines.iter().filter(told).map(shown).collect()
}

#[test]
fn calls_and_requests_are_those_that_others_see() {
    let Some(_turn) = ready() else {
        return;
    };
    let Some(program) = program("vector_add") else {
        return;
    };
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
    let Some(_turn) = ready() else {
        return;
    };
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

#[test]
fn a_runtime_inside_of_the_program_is_found_by_its_symbols() {
    let Some(_turn) = ready() else {
        return;
    };
    let Some(program) = program("static/vector_add") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("static.jsonl");
    // NVIDIA's own runtime asks softgpu for what only NVIDIA's driver has, and gives up: that is an
    // answer like any other.
    let output = cutrace()
        .args(["--sim", "-q", "--method=ebpf", "-o"])
        .arg(&path)
        .arg(&program)
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = read(&path);
    let ended = |line: &&Value| line["phase"] == "E" && line["layer"] == "runtime";
    let runtime: Vec<&Value> = lines.iter().filter(ended).collect();
    let named = |part: &str| {
        let is_it = |line: &&&Value| line["name"].as_str().is_some_and(|it| it.starts_with(part));
        runtime.iter().filter(is_it).count()
    };
    assert!(named("__cudaRegisterFatBinary") > 0, "{said}");
    assert!(named("cudaGetDeviceProperties") > 0, "{said}");
    // The driver's calls are inside of the runtime's.
    let inside = |line: &&Value| line["layer"] == "driver" && line["depth"].as_u64() > Some(0);
    assert!(lines.iter().filter(inside).count() > 0, "{said}");
}

#[test]
fn a_process_that_ends_while_it_is_watched() {
    let Some(_turn) = ready() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ended.jsonl");
    let watched = |seconds: &str| {
        let mut target = Command::new("sleep").arg(seconds).spawn();
        let target = target.as_mut().expect("started");
        let pid = target.id().to_string();
        std::thread::scope(|threads| {
            // Somebody has to take note of its end, or it stays.
            let waiting = threads.spawn(|| target.wait());
            let output = cutrace()
                .args(["-q", "--method=ebpf", "-p", &pid, "-o"])
                .arg(&path)
                .output()
                .expect("started");
            assert!(waiting.join().expect("waited").is_ok_and(|it| it.success()));
            output
        })
    };
    let mut output = watched("1");
    if String::from_utf8_lossy(&output.stderr).contains("does not exist") {
        // On a machine that has other things to do, it had ended before.
        output = watched("20");
    }
    assert!(output.status.success(), "{output:?}");
    let kinds: Vec<Value> = read(&path)
        .iter()
        .map(|line| line["type"].clone())
        .collect();
    assert_eq!(kinds, ["meta", "summary"]);
}
