//! `--hook PROBE=count` and `=hist(…)`: counted in the kernel, every call once, as bpftrace counts them.

use super::{
    common::{cutrace, program},
    older::compile,
    read, ready,
};
use serde_json::{Value, json};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// Its function is called by four threads, two of them of a child; nested, by itself, once in ten times.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static long count;
__attribute__((noinline)) int called(long value, long depth) {
    asm volatile("" : "+r"(value));
    return depth ? called(value, depth - 1) + 1 : (int)value;
}
static void *thread(void *unused) {
    for (long i = 0; i < count; i++) called(i % 37 - 3, i % 10 == 0);
    return unused;
}
int main(int words, char **word) {
    pthread_t threads[2];
    int child;
    count = words > 1 ? atol(word[1]) : 10;
    child = fork();
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, thread, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    if (child) wait(0);
    return 0;
}
"#;
const COUNT: u64 = 1000;
/// Of four threads, with those inside of others.
const CALLS: u64 = 4 * (COUNT + COUNT / 10);

fn built(folder: &Path) -> PathBuf {
    compile(folder, "program", PROGRAM, &["-pthread"])
}

fn record(hooks: &[String], trace: &Path, run: &[&str], masked: bool) -> Output {
    let mut command = cutrace();
    command.args(["--method=kernel", "-v", "-o"]).arg(trace);
    for hook in hooks {
        command.args(["--hook", hook]);
    }
    if masked {
        command.env("CUTRACE_PRETEND_KERNEL", "5.15");
    }
    let output = command.args(run).output().expect("started");
    assert!(output.status.success(), "{output:?}");
    output
}

/// What was counted of one thing, by key.
fn counted(lines: &[Value], of: &str) -> Vec<Value> {
    let all = lines.last().expect("a summary")["aggregates"].as_array();
    let all = all.cloned().unwrap_or_default();
    all.into_iter().filter(|one| one["of"] == of).collect()
}

/// From where to where, and how many.
fn buckets(aggregate: &Value) -> Vec<(Option<u64>, Option<u64>, u64)> {
    let all = aggregate["histogram"].as_array().expect("a histogram");
    all.iter()
        .map(|one| {
            (
                one["from"].as_u64(),
                one["to"].as_u64(),
                one["count"].as_u64().expect("a count"),
            )
        })
        .collect()
}

/// How often each bucket is hit by one argument of all calls.
fn expected_arguments() -> Vec<(Option<u64>, Option<u64>, u64)> {
    let mut values = Vec::new();
    for i in 0..COUNT as i64 {
        values.push(i % 37 - 3);
        if i % 10 == 0 {
            values.push(i % 37 - 3);
        }
    }
    let all = |wanted: &dyn Fn(i64) -> bool| {
        4 * values.iter().filter(|value| wanted(**value)).count() as u64
    };
    let mut found = vec![
        (None, Some(0), all(&|value| value < 0)),
        (Some(0), Some(1), all(&|value| value == 0)),
    ];
    for power in 0..6 {
        let (from, to) = (1i64 << power, 2i64 << power);
        let count = all(&|value| (from..to).contains(&value));
        found.push((Some(from as u64), Some(to as u64), count));
    }
    found
}

#[test]
fn every_call_is_counted_once_in_its_bucket() {
    let Some(_turn) = ready() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (program, trace) = (built(folder.path()), folder.path().join("t.jsonl"));
    let probe = format!("uprobe:{}:called", program.display());
    let hooks = [
        "count",
        "hist(duration)",
        "hist(arg0:i64)",
        "hist(retval:i32)",
    ]
    .map(|what| format!("{probe}={what}"));
    let count = COUNT.to_string();
    // Sessions, and what kernels of 5.15 have: a probe at the entry and one at the return.
    for masked in [false, true] {
        let run = [program.to_str().expect("UTF-8"), &*count];
        let output = record(&hooks, &trace, &run, masked);
        let said = String::from_utf8_lossy(&output.stderr);
        let way = if masked {
            "(uprobe)"
        } else {
            "(uprobe session)"
        };
        assert!(said.contains(way) || !masked, "{said}");
        let lines = read(&trace);
        let [one] = &counted(&lines, "count")[..] else {
            panic!("{said}");
        };
        assert_eq!((&one["key"], &one["count"]), (&json!(probe), &json!(CALLS)));
        let durations = counted(&lines, "duration_ns");
        assert_eq!(durations[0]["count"], json!(CALLS), "{masked}: {said}");
        let sum: u64 = buckets(&durations[0])
            .iter()
            .map(|(_, _, count)| count)
            .sum();
        assert_eq!(sum, CALLS);
        let arguments = counted(&lines, "arg0");
        assert_eq!(buckets(&arguments[0]), expected_arguments(), "{masked}");
        assert_eq!(arguments[0]["count"], json!(CALLS));
        assert_eq!(counted(&lines, "retval")[0]["count"], json!(CALLS));
        // Nothing else was recorded, and it is drawn at the end of the run and in reports.
        assert_eq!(lines.last().expect("a summary")["events"], json!(0));
        let drawn = format!("@arg0[{probe}]:\n(..., 0)");
        assert!(said.contains(&drawn), "{said}");
        let report = cutrace()
            .arg("report")
            .arg(&trace)
            .output()
            .expect("started");
        assert!(String::from_utf8_lossy(&report.stdout).contains(&drawn));
    }
}

/// The same numbers as bpftrace's, on runs of the same program.
#[test]
fn counts_are_those_of_bpftrace() {
    let Some(_turn) = ready() else {
        return;
    };
    if Command::new("bpftrace").arg("--version").output().is_err() {
        return super::skip("no bpftrace: type apt install bpftrace");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (program, trace) = (built(folder.path()), folder.path().join("t.jsonl"));
    let probe = format!("uprobe:{}:called", program.display());
    let run = [program.to_str().expect("UTF-8"), "500"];
    record(&[format!("{probe}=hist(arg0:i64)")], &trace, &run, false);
    let ours = cutrace()
        .arg("report")
        .arg(&trace)
        .output()
        .expect("started");
    let script = format!("{probe} {{ @arg0[probe] = hist((int64)arg0); }}");
    let theirs = Command::new("bpftrace")
        .args(["-q", "-c", &run.join(" "), "-e", &script])
        .output()
        .expect("started");
    let bars = |output: &Output| -> Vec<String> {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = text.lines().filter(|line| line.ends_with('|'));
        lines.map(str::to_owned).collect()
    };
    assert!(!bars(&theirs).is_empty(), "{theirs:?}");
    assert_eq!(bars(&ours), bars(&theirs));
}

/// Globs of paths, libraries without a version, what --sim supplies, a file on standard input.
#[test]
fn libraries_of_softgpu_are_hooked_by_globs() {
    let (Some(_turn), Some(program)) = (ready(), program("vector_add")) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("t.jsonl");
    let file = r#"
[[hook]]
name      = "copies"
probe     = "uprobe:libcudart.so:cudaMemcpy*"
aggregate = "hist(size)"
args      = { size = "arg2:u64" }
when      = "size > 1000"
"#;
    let mut child = cutrace()
        .args(["--sim", "--method=kernel", "--hooks", "-", "-o"])
        .arg(&trace)
        .args(["--hook", "uprobe:/lib/*/libcuda.so:cuMemAlloc*=count"])
        .args(["--hook", "uprobe:libcuda.so:cuLaunchKernel=time"])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(file.as_bytes()).expect("written");
    drop(input);
    let output = child.wait_with_output().expect("ended");
    assert!(output.status.success(), "{output:?}");
    let lines = read(&trace);
    let counts = counted(&lines, "count");
    let [one] = &counts[..] else {
        panic!("{counts:?}");
    };
    let key = one["key"].as_str().expect("a key");
    assert!(key.ends_with("/libcuda.so.1:cuMemAlloc_v2"), "{key}");
    assert_eq!(one["count"], json!(3));
    // Three copies of 4,000,000 bytes.
    let copies = counted(&lines, "size");
    assert_eq!(copies[0]["key"], json!("copies"));
    assert_eq!(buckets(&copies[0]), [(Some(1 << 21), Some(1 << 22), 3)]);
    assert_eq!(copies[0]["total"], json!(12_000_000));
    let launches = lines.iter().filter(|line| line["name"] == "cuLaunchKernel");
    let ended: Vec<&Value> = launches.filter(|line| line["phase"] == "E").collect();
    assert_eq!(ended.len(), 1);
    assert!(ended[0]["duration_us"].as_f64().is_some_and(|it| it > 0.0));
}

/// Of tracepoints, markers of the kernel's own: fields.
#[test]
fn tracepoints_are_counted_by_their_fields() {
    let Some(_turn) = ready() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("t.jsonl");
    let hooks =
        ["hist(count)", "count"].map(|what| format!("tracepoint:syscalls:sys_enter_write={what}"));
    let run = [
        "dd",
        "if=/dev/zero",
        "of=/dev/null",
        "bs=300",
        "count=50",
        "status=none",
    ];
    record(&hooks, &trace, &run, false);
    let lines = read(&trace);
    let all = counted(&lines, "count");
    let key = json!("tracepoint:syscalls:sys_enter_write");
    assert!(
        all.iter()
            .all(|one| one["key"] == key && one["count"] == json!(50))
    );
    assert_eq!(all.len(), 2);
    let histogram = all.iter().find(|one| !one["histogram"].is_null());
    let histogram = histogram.expect("a histogram");
    assert_eq!(buckets(histogram), [(Some(256), Some(512), 50)]);
    assert_eq!(histogram["total"], json!(50 * 300));
}

#[test]
fn a_hook_that_cannot_be_attached_ends_the_run_before_it_begins() {
    let Some(_turn) = ready() else {
        return;
    };
    for (hook, why) in [
        (
            "uprobe:/nowhere/*/libx.so:f=count",
            "no such file: /nowhere/*/libx.so",
        ),
        (
            "uprobe:libc.so.6:no_such_function",
            "no function of libc.so.6 matches",
        ),
        ("kprobe:nv_mem_alloc=count", "no driver has had it"),
        (
            "kprobe:nv_wait_for_*",
            "no driver for this architecture has had it",
        ),
        (
            "tracepoint:gpu:gpu_mem_total=count",
            "the real one is gpu_mem:gpu_mem_total",
        ),
        ("kprobe:f=sum(arg0)", "count, hist(duration)"),
    ] {
        let output = cutrace()
            .args(["--hook", hook, "echo", "begun"])
            .output()
            .expect("started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (&*output.stdout, output.status.code()),
            (&b""[..], Some(125)),
            "{said}"
        );
        assert!(said.contains(why), "{hook}: {said}");
    }
}
