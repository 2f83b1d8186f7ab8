//! Objects with programs for both sides: uprobes and tracepoints that the kernel runs, and probes inside
//! kernels, with maps that both use.

use super::{Ran, common::skip, cutrace, example, program, repository, run};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().expect("id");
    output.stdout == b"0\n"
}

/// False, and a word about it, where programs may not be loaded.
fn may_load() -> bool {
    if !is_root() {
        skip("eBPF needs root");
    }
    is_root()
}

fn shared(arguments: &str) -> Option<Ran> {
    let program = program("probed")?;
    let object = repository().join("crates/gpubpf/tests/objects/shared.v3.o");
    let ran = run(&["run", &object.display().to_string()], &program, arguments);
    assert!(ran.output.status.success(), "{}", ran.words());
    Some(ran)
}

#[test]
fn launchlate_measures_from_the_launch_to_the_kernel() {
    if !may_load() {
        return;
    }
    let Some(ran) = example("launchlate", "time 4 64 20") else {
        return;
    };
    let bins = ran.map("latency");
    // Nothing began before it was launched, and every launch is in a bin.
    assert!(bins.iter().all(|(key, _)| *key != 10), "{bins:?}");
    assert_eq!(ran.numbers("latency").iter().sum::<u64>(), 20);
    assert!(ran.numbers("launched")[0] > 0);
    assert!(ran.printed().contains("wrong 0"), "{}", ran.printed());
}

#[test]
fn what_a_uprobe_wrote_before_a_launch_is_seen_by_its_kernel() {
    if !may_load() {
        return;
    }
    let Some(ran) = shared("time 4 64 3") else {
        return;
    };
    // Each launch's 256 threads saw its number.
    let seen: Vec<(u64, u64)> = (ran.map("seen").iter())
        .map(|(key, values)| {
            let count = values[0].as_u64().expect("a count");
            (key.as_u64().expect("a number"), count)
        })
        .collect();
    assert_eq!(seen, [(1, 256), (2, 256), (3, 256)], "{}", ran.words());
    // Of the host alone: a hash, and one value for each processor.
    assert_eq!(ran.numbers("by_kind"), [3]);
    let returns = ran.map("returns");
    let values = returns[0].1.iter();
    assert_eq!(values.filter_map(|value| value.as_u64()).sum::<u64>(), 3);
    // Variables: one that the host counts, one that the GPU does.
    assert_eq!(ran.map(".bss")[0].1[0], serde_json::json!([3, 768]));
    // The calls are in the trace as ever, though a uprobe is where they are hooked otherwise.
    let text = std::fs::read_to_string(ran.folder.path().join("trace.jsonl")).expect("a trace");
    let calls = text.lines().filter(|line| {
        line.contains("\"name\":\"__cudaLaunchKernel\"") && line.contains("\"phase\":\"E\"")
    });
    assert_eq!(calls.count(), 3);
}

#[test]
fn a_uprobe_without_its_function_is_named() {
    if !may_load() {
        return;
    }
    let Some(program) = program("driver_api") else {
        return;
    };
    // A program of the driver's API has no runtime to hook.
    let object = repository().join("examples/gpu/objects/launchlate.bpf.o");
    let ran = run(
        &["run", &object.display().to_string()],
        &program,
        "--not-there",
    );
    let words = ran.words();
    assert!(
        words.contains("program launch did not run: no function cudaLaunchKernel in libcudart.so"),
        "{words}"
    );
}

#[test]
fn without_rights_it_is_said_and_nothing_runs() {
    let Some(program) = program("probed") else {
        return;
    };
    let object = repository().join("examples/gpu/objects/launchlate.bpf.o");
    let folder = tempfile::tempdir().expect("a folder");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).expect("set");
    let command = |more: &[&str]| {
        let mut command = cutrace();
        command.args(["gpu", "run"]).arg(&object).args(more);
        command
            .args(["--sim", "--no-summary", "-o"])
            .arg(folder.path().join("trace.jsonl"))
            .arg("--")
            .arg(&program)
            .args(["time", "2", "32", "2"])
            .env("XDG_CACHE_HOME", folder.path())
            .env("HOME", folder.path());
        if is_root() {
            command.uid(65534).gid(65534);
        }
        command.output().expect("cutrace runs")
    };
    let refused = command(&[]);
    let words = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(125), "{words}");
    assert!(
        words.contains("program launch (uprobe/libcudart.so:cudaLaunchKernel) runs on the host")
            && words.contains("eBPF needs root")
            && words.contains("--no-host"),
        "{words}"
    );
    assert_eq!(refused.stdout, b"", "the program must not run");
    let left_out = command(&["--no-host"]);
    let words = String::from_utf8_lossy(&left_out.stderr);
    assert!(left_out.status.success(), "{words}");
    assert!(words.contains("map latency"), "{words}");
}
