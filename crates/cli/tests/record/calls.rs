//! What a recording holds and says: counts, filters, one-liners, formats.

use super::{path, program, read, record};
use crate::common::{cutrace, skip};
use std::process::Command;

#[test]
fn the_summary_counts_what_the_program_did() {
    let Some(program) = program("vector_add") else {
        return;
    };
    let run = record(&[], &[path(&program), "1000"]);
    let stderr = run.stderr();
    let expected = "  Kernel launches: 1\n  Memory allocations: 3\n  Total memory allocated: \
        12000 bytes (0.01 MB)\n  Memory transfers: 3\n  Total data transferred: 12000 bytes (0.01 MB)\n";
    assert!(
        stderr.contains("=== TRACE SUMMARY ===\n\nGPU (measured, softgpu):\n")
            && stderr.contains("\n\nUSERSPACE (libcuda.so, libcudart.so):\n"),
        "{stderr}"
    );
    assert!(stderr.contains(expected), "{stderr}");
    assert!(stderr.contains("\nEvents lost: 0\n"), "{stderr}");
    // Every number can be found in the trace.
    let ended = run
        .of_type("userspace")
        .filter(|line| line["phase"] == "E")
        .count();
    assert!(
        stderr.contains(&format!("Total CUDA API calls: {ended}\n")),
        "{stderr}"
    );
    assert_eq!(run.summary()["counts"]["userspace"], ended);
    assert_eq!(run.calls("cudaMalloc").count(), 3);
    assert_eq!(
        run.calls("cuMemAlloc_v2").count(),
        3,
        "each inside of one of the runtime's"
    );
    let meta = &run.lines[0];
    assert_eq!(meta["type"], "meta");
    assert_eq!(meta["gpus"][0]["simulated"], true);
    // What was hooked when the first record was written: the driver may not have been loaded yet.
    let hooks = &meta["hooks"];
    assert!(hooks["attached"].as_u64() > Some(400), "{hooks}");
    assert_eq!(hooks["attached"], hooks["total"]);
    let hooked = stderr.split("Hooked ").nth(1);
    let mut words = hooked.unwrap_or_default().split(' ');
    let (attached, total) = (words.next(), words.nth(1));
    let attached_count = attached.and_then(|count| count.replace(',', "").parse().ok());
    assert!(attached_count > Some(1000u64), "{stderr}");
    assert_eq!(attached, total, "{stderr}");
    let overhead = &run.summary()["overhead"];
    assert!(overhead["per_event_ns"].as_f64() > Some(1.0), "{overhead}");
    assert!(
        stderr.contains("Overhead in the program: "),
        "measured where the program ran: {stderr}"
    );
}

/// The one-liners that docs promise of any trace.
#[test]
fn the_one_liners_give_sensible_answers() {
    let Some(program) = program("vector_add") else {
        return;
    };
    let run = record(&[], &[path(&program), "1000"]);
    let shell = |script: &str| {
        let output = Command::new("sh")
            .args(["-c", script])
            .env("T", run.trace())
            .output()
            .expect("sh runs");
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    if !shell("command -v jq || true").contains("jq") {
        return skip("jq is not installed");
    }
    let types = shell("jq -r .type $T | sort | uniq -c");
    for kind in [
        " 6 memory",
        " 3 transfer",
        " 1 kernel",
        " 1 meta",
        " 1 summary",
    ] {
        assert!(types.contains(kind), "{kind}: {types}");
    }
    let longest = shell(
        "jq 'select(.duration_us)|{name,duration_us}' $T | jq -s 'sort_by(.duration_us)|reverse|.[0:10]'",
    );
    assert_eq!(longest.matches("duration_us").count(), 10, "{longest}");
    let allocated = shell("jq 'select(.type==\"memory\")' $T | jq -s 'map(.size)|add'");
    assert_eq!(allocated.trim(), "12000");
    let launches = shell("jq 'select(.type==\"kernel\" and .op==\"launch\")|.ts' $T");
    assert_eq!(launches.lines().count(), 1, "{launches}");
}

/// Whichever function a program calls to launch a kernel: each launch has one line, of one name.
#[test]
fn every_launch_is_a_cu_launch_kernel() {
    for (name, launches) in [
        ("streams_overlap", 30),
        ("coop_groups", 0),
        ("grid_sync", 0),
        ("driver_api", 0),
    ] {
        let Some(program) = program(name) else {
            return;
        };
        let run = record(&[], &[path(&program)]);
        let lines: Vec<&serde_json::Value> = run.of_type("kernel").collect();
        assert!(
            !lines.is_empty() && (launches == 0 || lines.len() == launches),
            "{name}: {}",
            lines.len()
        );
        for line in lines {
            assert_eq!(
                (&line["name"], &line["op"]),
                (&"cuLaunchKernel".into(), &"launch".into())
            );
            let call = line["call"].as_str().expect("a function");
            let called = run.calls(call).any(|begun| begun["op_id"] == line["op_id"]);
            assert!(called, "{name}: {line}");
        }
    }
}

#[test]
fn filters_leave_out_what_was_not_asked_for() {
    let Some(program) = program("vector_add") else {
        return;
    };
    let run = record(&["-e", "memory"], &[path(&program), "1000"]);
    let calls: Vec<_> = run.of_type("userspace").collect();
    assert!(!calls.is_empty(), "{}", run.stderr());
    assert!(
        calls.iter().all(|line| line["category"] == "memory"),
        "{calls:?}"
    );
    assert_eq!(run.of_type("memory").count(), 6);

    let launches = record(&["-e", "cudaLaunchKernel"], &[path(&program), "1000"]);
    assert_eq!(
        launches.of_type("userspace").count(),
        2,
        "one call, and nothing else"
    );
    let kernels: Vec<_> = launches
        .of_type("kernel")
        .map(|line| &line["kernel"])
        .collect();
    assert_eq!(
        kernels,
        ["vectorAdd(float const*, float const*, float*, int)"]
    );
    // Only exclusions: everything else is there, and the note does not say otherwise.
    let most = record(&["-e", "!cudaMalloc"], &[path(&program), "1000"]);
    let named = |name: &str| {
        let calls = most.of_type("userspace");
        calls.filter(|line| line["name"] == name).count()
    };
    assert_eq!((named("cudaMalloc"), named("cudaFree")), (0, 6));
    let said = most.stderr();
    let note = "-e !cudaMalloc: calls that do not match were left out";
    assert!(said.contains(note), "{said}");

    let misspelt = record(&["-e", "memry"], &[path(&program), "1000"]);
    assert!(
        misspelt.stderr().contains("-e memry: no category"),
        "{}",
        misspelt.stderr()
    );

    let long = record(&["--min-duration", "20us"], &[path(&program), "1000"]);
    let ended: Vec<_> = long
        .of_type("userspace")
        .filter(|line| line["phase"] == "E")
        .collect();
    assert!(!ended.is_empty());
    assert!(
        ended
            .iter()
            .all(|line| line["duration_us"].as_f64() >= Some(20.0)),
        "{ended:?}"
    );
    assert_eq!(
        ended.len() * 2,
        long.of_type("userspace").count(),
        "no half of a short call is left"
    );
}

#[test]
fn arrow_traces_hold_the_same() {
    let Some(program) = program("vector_add") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let arrows = folder.path().join("trace.arrows");
    let jsonl = folder.path().join("trace.jsonl");
    let recorded = cutrace()
        .args(["--sim", "-q", "-o"])
        .arg(&arrows)
        .arg(&program)
        .arg("1000")
        .output()
        .expect("cutrace runs");
    assert!(
        recorded.status.success() && recorded.stderr.is_empty(),
        "{recorded:?}"
    );
    let exported = cutrace()
        .arg("export")
        .arg(&arrows)
        .arg("-o")
        .arg(&jsonl)
        .output()
        .expect("cutrace runs");
    let stderr = String::from_utf8_lossy(&exported.stderr);
    assert!(
        exported.status.success() && !stderr.contains("warning"),
        "{stderr}"
    );
    let lines = read(&jsonl);
    let count = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    assert_eq!(
        (count("memory"), count("transfer"), count("kernel")),
        (6, 3, 1)
    );
}
