//! When work ran, without CUPTI: by events around it. The program must not notice.

use super::{
    Run, compile,
    gpu_times::{Work, causes, check_shapes, untimed, work},
    path, program, record, record_with,
};
use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const EVENTS: [&str; 2] = ["--method", "preload,events"];

fn said(output: &Output) -> (String, Option<i32>) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text, output.status.code())
}

/// Functions that only we call in programs that use none of them.
const OURS: [&str; 6] = [
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventElapsedTime",
    "cuStreamIsCapturing",
    "cuThreadExchangeStreamCaptureMode",
];

fn check_times(run: &Run) {
    let causes = causes(run);
    for work in work(run) {
        let details = &work.begun["details"];
        assert_eq!(details["source"], "events", "{}", work.begun);
        assert!(details["error_ns"].as_u64() > Some(0), "{}", work.begun);
        let id = work.begun["correlation"].as_u64().expect("a call");
        let call = causes.get(&id).expect("the call is in the trace");
        let (called, start) = (call["ts"].as_f64(), work.begun["ts"].as_f64());
        assert!(called <= start, "{call} {}", work.begun);
        assert!(start <= Some(work.end));
        assert_eq!(call["layer"], "driver");
    }
}

fn of(work: &[Work<'_>], category: &str) -> usize {
    let of_category = |work: &&Work| work.begun["category"] == category;
    work.iter().filter(of_category).count()
}

#[test]
fn work_is_counted_and_has_its_calls_and_names() {
    for (name, kernels, copies, memsets, graphs) in [
        ("vector_add", 1, 3, 0, 0),
        ("threads8", 80, 160, 0, 0),
        ("threads8_ptds", 80, 160, 0, 0),
        ("graph", 0, 0, 0, 8),
    ] {
        let Some(program) = program(name) else {
            return;
        };
        let run = record(&EVENTS, &[path(&program)]);
        let found = work(&run);
        // Beside graphs some programs copy by hand.
        let copied = if graphs > 0 {
            0
        } else {
            of(&found, "transfer")
        };
        let counts = [
            of(&found, "kernel"),
            copied,
            of(&found, "memory"),
            of(&found, "graph"),
        ];
        let expected = [kernels, copies, memsets, graphs];
        let missing = expected.iter().sum::<usize>() - counts.iter().sum::<usize>();
        let told = untimed(&run);
        assert!(
            missing == told || graphs > 0 && missing < told,
            "{name}: {counts:?} {}",
            run.stderr()
        );
        let at_most = counts.iter().zip(expected).all(|(it, most)| *it <= most);
        assert!(at_most, "{name}: {counts:?}");
        check_times(&run);
        // That with graphs has events of its own.
        for function in OURS.iter().filter(|_| graphs == 0) {
            assert_eq!(run.calls(function).count(), 0, "{name}: {function}");
        }
        for one in &found {
            let name = one.begun["name"].as_str().unwrap_or_default();
            let call = run
                .lines
                .iter()
                .filter(|line| line["op_id"] == one.begun["correlation"]);
            assert!(
                name != "a kernel" && name != "memcpy",
                "{} {:?}",
                one.begun,
                call.collect::<Vec<_>>()
            );
        }
        let mut report = super::cutrace();
        let report = report.args(["report", "gpu"]).arg(run.trace()).output();
        let told = String::from_utf8_lossy(&report.expect("cutrace runs").stdout).into_owned();
        let words = format!("{} of them were timed with CUDA events", found.len());
        assert!(told.contains(&words), "{told}");
        let clocks = run.summary()["clocks"].as_array().expect("clocks");
        assert!(
            clocks.iter().any(|clock| clock["source"] == "events"),
            "{clocks:?}"
        );
    }
}

#[test]
fn programs_do_what_they_do_without() {
    for name in [
        "coop_groups",
        "driver_api",
        "error",
        "events",
        "graph",
        "managed",
        "printf_assert",
        "streams_overlap",
        "two_contexts",
    ] {
        let Some(program) = program(name) else {
            return;
        };
        let plain = record(&["--method", "preload"], &[path(&program)]);
        let timed = record(&EVENTS, &[path(&program)]);
        assert_eq!(said(&timed.output), said(&plain.output), "{name}");
        check_times(&timed);
        // The same calls with the same results, none of them ours.
        let calls = |run: &Run| {
            let ended = run.of_type("userspace").filter(|line| line["phase"] == "E");
            let mut calls: Vec<String> = ended
                .filter(|line| line["category"] != "query" && line["name"] != "cuEventQuery")
                .map(|line| format!("{} {}", line["name"], line["status"]))
                .collect();
            calls.sort();
            calls
        };
        assert_eq!(calls(&timed), calls(&plain), "{name}");
    }
}

#[test]
fn launches_of_many_threads_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let launches = compile("launches", folder.path());
    let run = record(
        &["--method", "preload,events", "-e", "kernel"],
        &[path(&launches), "8", "250"],
    );
    assert!(run.output.status.success(), "{}", run.stderr());
    check_shapes(&run, 2_000);
}

/// softgpu's libraries but libcupti, in a folder of their own.
fn without_cupti(folder: &Path) {
    let mut command = super::cutrace();
    command.args(["softgpu", "--", "sh", "-c", "echo $LD_LIBRARY_PATH"]);
    let output = command.output().expect("cutrace runs");
    let path = String::from_utf8_lossy(&output.stdout).into_owned();
    let whole = path.trim().split(':').next().expect("a folder").to_owned();
    for entry in std::fs::read_dir(whole).expect("softgpu's libraries") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_owned();
        if !name.as_encoded_bytes().starts_with(b"libcupti") {
            symlink(&path, folder.join(name)).expect("writable");
        }
    }
}

/// The program goes on after tracing has ended, and nothing is left of it but jumps.
#[test]
fn collecting_ends_with_the_time_that_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let launches = compile("launches", folder.path());
    let of = |method: &str, seconds: &str| {
        let options = ["--method", method, "-e", "kernel", "-d", seconds];
        let run = record(&options, &[path(&launches), "2", "50", "on"]);
        let said = String::from_utf8_lossy(&run.output.stdout).into_owned();
        (run, said)
    };
    for method in ["preload,cupti", "preload,events"] {
        let (mut run, mut said) = of(method, "4");
        if said.starts_with("not watched") {
            // A machine that has other things to do: the time was over before the program got there.
            (run, said) = of(method, "20");
        }
        assert_eq!(
            said,
            "watched, then no more\n",
            "{method}: {}",
            run.stderr()
        );
        check_shapes(&run, 100);
        assert!(!run.stderr().contains("in order"), "{}", run.stderr());
    }
}

#[test]
fn without_a_libcupti_it_is_said_and_events_are_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let launches = compile("launches", folder.path());
    without_cupti(folder.path());
    let mut command = super::cutrace();
    let trace = folder.path().join("trace.jsonl");
    command.args(["record", "-o"]).arg(&trace).arg("--");
    command.arg(&launches).args(["2", "50"]);
    command.env("LD_LIBRARY_PATH", folder.path());
    let output = command.output().expect("cutrace runs");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let found = super::read(&trace);
    let began = (found.iter()).filter(|line| line["type"] == "gpu" && line["phase"] == "B");
    assert_eq!(began.count(), 100, "{words}");
    assert!(words.contains("GPU times come from CUDA events"), "{words}");
}

fn fake_cupti(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let library = folder.join(name);
    let source = format!("{}/tests/record/fake_cupti.c", env!("CARGO_MANIFEST_DIR"));
    let built = Command::new(std::env::var_os("CC").unwrap_or("cc".into()))
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .args(options)
        .arg(source)
        .status();
    assert!(built.is_ok_and(|status| status.success()), "it is built");
    library
}

#[test]
fn a_cupti_that_refuses_is_told_in_words_and_the_rest_is_unaffected() {
    let folder = tempfile::tempdir().expect("a folder");
    let launches = compile("launches", folder.path());
    for (name, options, words) in [
        ("libcupti.so.99", &[][..], "cuptiGetTimestamp is missing"),
        (
            "libcupti.so.13",
            &["-DALL", "-DENABLE=35"],
            "ERR_NVGPUCTRPERM",
        ),
        (
            "libcupti.so.12",
            &["-DALL", "-DENABLE=14"],
            "does not match the driver",
        ),
        (
            "libcupti.so.11",
            &["-DALL", "-DSUBSCRIBE=39"],
            "another tool uses CUPTI",
        ),
    ] {
        let library = fake_cupti(folder.path(), name, options);
        let run = record_with(
            &[],
            &[path(&launches), "2", "50", "load", path(&library)],
            |_| {},
        );
        assert!(run.output.status.success(), "{name}: {}", run.stderr());
        assert!(run.stderr().contains(words), "{name}: {}", run.stderr());
        assert_eq!(run.calls("cuLaunchKernel").count(), 100, "{name}");
        check_shapes(&run, 100);
        check_times(&run);
    }
}
