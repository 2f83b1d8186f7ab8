//! Several threads, several processes, and processes that die.

use super::{Run, compile, path, program, record};
use crate::common::skip;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Records are in the order of time and none is lost. Where a starved machine holds a thread up
/// between its looking at the clock and its writing, its record comes late, and that is said; the
/// records of one thread are in order whatever happens.
fn assert_ordered(run: &Run) {
    let mut latest: BTreeMap<Option<u64>, f64> = BTreeMap::new();
    for line in &run.lines {
        if let Some(time) = line["ts"].as_f64() {
            let latest = latest.entry(line["tid"].as_u64()).or_default();
            assert!(time >= *latest, "{line} after {latest}");
            *latest = time;
        }
    }
    let times = run.lines.iter().filter_map(|line| line["ts"].as_f64());
    let said = run.stderr().contains("out of time order");
    assert_eq!(times.is_sorted(), !said, "{}", run.stderr());
    assert_eq!(run.summary()["lost"], 0);
}

/// Every call's beginning has its end, and calls of a thread are properly nested.
fn assert_nested(run: &Run) {
    let mut open: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
    for line in run.of_type("userspace") {
        let number = |name: &str| {
            line[name]
                .as_u64()
                .unwrap_or_else(|| panic!("{name}: {line}"))
        };
        let stack = open.entry((number("pid"), number("tid"))).or_default();
        if line["phase"] == "B" {
            assert_eq!(number("depth") as usize, stack.len(), "{line}");
            assert_eq!(line["parent"].as_u64(), stack.last().copied(), "{line}");
            stack.push(number("op_id"));
        } else {
            assert_eq!(stack.pop(), Some(number("op_id")), "{line}");
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
}

#[test]
fn eight_threads_at_once() {
    let Some(program) = program("threads8") else {
        return;
    };
    let run = record(&[], &[path(&program)]);
    assert!(run.output.status.success(), "{}", run.stderr());
    assert_ordered(&run);
    assert_nested(&run);
    let launching: BTreeSet<_> = run
        .of_type("kernel")
        .map(|line| line["tid"].as_u64())
        .collect();
    assert!(launching.len() >= 8, "{launching:?}");
    // Eight threads, five rounds, with a stream each and without.
    assert_eq!(run.of_type("kernel").count(), 80);
}

#[test]
fn children_are_followed_through_a_shell() {
    let Some(program) = program("vector_add") else {
        return;
    };
    let script = "\"$0\" 1000 & \"$0\" 2000 & wait; sh -c '\"$0\" 3000; exit 9' \"$0\"";
    let run = record(&[], &["sh", "-c", script, path(&program)]);
    assert_eq!(run.output.status.code(), Some(9), "{}", run.stderr());
    assert_ordered(&run);
    assert_nested(&run);
    let mut by_process: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    for line in run.of_type("transfer") {
        by_process
            .entry(line["pid"].as_u64().expect("a pid"))
            .or_default()
            .push(&line["size"]);
    }
    let mut sizes: Vec<_> = by_process.into_values().collect();
    sizes.sort_by_key(|sizes| sizes[0].as_u64());
    assert_eq!(sizes, [[4000; 3], [8000; 3], [12000; 3]]);
}

#[test]
fn a_program_that_is_killed_leaves_a_whole_trace() {
    let Some(program) = program("matmul_tiled") else {
        return;
    };
    let run = record(
        &[],
        &[
            "sh",
            "-c",
            "\"$0\" 2048 & sleep 0.5; kill -9 $!; wait $!",
            path(&program),
        ],
    );
    assert_eq!(run.output.status.code(), Some(137), "{}", run.stderr());
    assert_ordered(&run);
    assert_eq!(run.summary()["exit"], 137);
    let phases = |phase: &str| {
        run.of_type("userspace")
            .filter(|line| line["phase"] == phase)
            .count()
    };
    let open = run.summary()["open"].as_u64().expect("a count");
    assert_eq!(
        phases("B") as u64,
        phases("E") as u64 + open,
        "the call in flight is open"
    );
}

/// Fork without exec, exec without fork, a child of a child: each has its own functions and ring.
#[test]
fn processes_that_fork_and_replace_themselves_are_followed() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skip("python3 is not installed");
    }
    let script = r#"
import ctypes, os, subprocess, sys
cuda = ctypes.CDLL("libcuda.so.1")
version = ctypes.c_int()
def calls(count):
    for _ in range(count):
        cuda.cuDriverGetVersion(ctypes.byref(version))
if sys.argv[1] == "first":
    calls(10)
    child = os.fork()
    if child == 0:
        calls(20)
        os._exit(0)
    os.waitpid(child, 0)
    subprocess.run([sys.executable, "-c", sys.argv[2], "child"], check=True)
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[2], "last"])
calls({"child": 30, "last": 40}[sys.argv[1]])
"#;
    let run = record(&[], &["python3", "-c", script, "first", script]);
    assert!(run.output.status.success(), "{}", run.stderr());
    assert_ordered(&run);
    let mut by_process: BTreeMap<u64, u64> = BTreeMap::new();
    for call in run.calls("cuDriverGetVersion") {
        *by_process
            .entry(call["pid"].as_u64().expect("a pid"))
            .or_default() += 1;
    }
    let mut counts: Vec<u64> = by_process.into_values().collect();
    counts.sort_unstable();
    assert_eq!(counts, [20, 30, 50], "{}", run.stderr());
}

/// Killed at any moment: every call that returned is in the trace, and none is lost.
#[test]
fn no_call_of_a_killed_program_is_missing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compile("killed", folder.path());
    for moment in ["0.15", "0.22", "0.31"] {
        let counts = folder.path().join(moment);
        let script = "\"$0\" \"$1\" & sleep $2; kill -9 $!; wait $!";
        let run = record(
            &[],
            &["sh", "-c", script, path(&program), path(&counts), moment],
        );
        assert_eq!(run.output.status.code(), Some(137), "{}", run.stderr());
        assert_ordered(&run);
        let counted = std::fs::read(&counts).unwrap_or_default();
        let words = counted
            .chunks_exact(8)
            .filter_map(|word| word.try_into().ok());
        let returned: u64 = words.map(u64::from_ne_bytes).sum();
        let ended = run
            .of_type("userspace")
            .filter(|line| line["phase"] == "E")
            .count() as u64;
        // A thread may have been killed between a return and the counting of it.
        let more = ended.checked_sub(returned);
        assert!(
            more.is_some_and(|more| more <= 4),
            "{returned} returned, {ended} in the trace"
        );
        let begun = run.of_type("userspace").count() as u64 - ended;
        assert_eq!(
            begun - ended,
            run.summary()["open"].as_u64().expect("a count")
        );
    }
}

/// A ring grows as it fills and is used again and again: 160,000 slots pass through it here.
#[test]
fn bursts_that_a_ring_can_hold_are_kept_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compile("bursts", folder.path());
    let run = record(&[], &[path(&program)]);
    assert!(run.output.status.success(), "{}", run.stderr());
    assert_ordered(&run);
    assert_eq!(run.summary()["counts"]["userspace"], 40_000);
}
