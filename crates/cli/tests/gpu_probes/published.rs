//! What published programs do (records without a context, texts that a branch chooses, loops whose bound a
//! map holds, sections named after stubs), and the options that say what their loaders would.

use super::{Ran, common::skip, cutrace, program, repository, run};
use std::process::Command;

fn object(name: &str) -> String {
    let folder = repository().join("crates/gpubpf/tests/objects");
    folder.join(name).display().to_string()
}

/// `published`, in two blocks of four threads.
fn published(options: &[&str], arguments: &str) -> Option<Ran> {
    let program = program("probed")?;
    let object = object("published.v3.o");
    let mut words = vec!["run", &*object];
    words.extend(options);
    let ran = run(&words, &program, arguments);
    assert!(ran.output.status.success(), "{}", ran.words());
    Some(ran)
}

#[test]
fn records_need_no_context_and_branches_choose_texts() {
    let Some(ran) = published(&["--no-host"], "vaddn 2 4 1") else {
        return;
    };
    let mut records: Vec<(u64, u64)> = (ran.events().iter())
        .filter(|event| event["name"] == "event")
        .map(|event| {
            let of = |name: &str| event["details"][name].as_u64().expect("a number");
            (of("block"), of("thread"))
        })
        .collect();
    records.sort_unstable();
    assert_eq!(records, [(0, 0), (0, 1), (1, 0), (1, 1)]);
    let mut lines: Vec<String> = (ran.events().iter())
        .filter_map(|event| event["details"]["text"].as_str())
        .map(|text| text.trim_end().to_owned())
        .collect();
    lines.sort();
    let expected = [
        "first of 0..",
        "first of 1..",
        "other of 0..",
        "other of 1..",
        "third of 0..",
        "third of 1..",
    ];
    assert_eq!(lines, expected);
    let note = "cuda__Z9vectorAddPKfS0_Pfi is read as the kernel vectorAdd(";
    assert!(ran.words().contains(note), "{}", ran.words());
}

/// Threads of a program that were stopped, as the trace has it.
fn stopped(ran: &Ran) -> Vec<(String, u64, u64)> {
    let mut all: Vec<_> = (ran.events().iter())
        .filter(|event| event["name"] == "stopped")
        .map(|event| {
            let details = &event["details"];
            let program = details["program"].as_str().expect("a name").to_owned();
            let number = |name: &str| details[name].as_u64().expect("a number");
            (program, number("threads"), number("budget"))
        })
        .collect();
    all.sort();
    all
}

#[test]
fn loops_end_where_their_map_says() {
    let Some(ran) = published(&["--no-host", "--set", "limit[0]=5"], "vaddn 2 4 1") else {
        return;
    };
    // Every second thread goes round twice as often; in the last program, in each round as often again.
    assert_eq!(ran.numbers("rounds"), [4 * 5 + 4 * 10, 8, 8 * 5 * 5]);
    assert_eq!(stopped(&ran), []);
    assert!(!ran.words().contains("stopped"), "{}", ran.words());
}

#[test]
fn a_budget_stops_threads_and_counts_them() {
    let options = ["--no-host", "--set", "limit[0]=5", "--budget", "8"];
    let Some(ran) = published(&options, "vaddn 2 4 1") else {
        return;
    };
    // Five rounds are four jumps back, ten are nine: one too many. Functions use up the same budget: the
    // second of the five calls does not come back.
    assert_eq!(ran.numbers("rounds"), [4 * 5 + 4 * 9, 4, 8 * 5]);
    let expected = [("cuda__calls", 8, 8), ("cuda__rounds", 4, 8)];
    let found = stopped(&ran);
    let found: Vec<(&str, u64, u64)> = found.iter().map(|(a, b, c)| (&**a, *b, *c)).collect();
    assert_eq!(found, expected);
    let note = "program cuda__rounds was stopped in 4 threads after 8 loop iterations";
    assert!(ran.words().contains(note), "{}", ran.words());
    // The kernel went on: its results are right.
    assert!(ran.printed().contains("wrong 0"), "{}", ran.printed());
    // cutrace's own map is nobody else's.
    let pinned = ran.pinned();
    let maps = pinned["maps"].as_array().expect("maps");
    assert!(
        maps.iter()
            .all(|map| map["name"] != "threads stopped by --rounds")
    );
}

#[test]
fn check_says_what_runs_under_a_budget() {
    let output = cutrace()
        .args(["gpu", "check", &object("published.v3.o"), "--budget", "99"])
        .output()
        .expect("cutrace runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("runs under a budget").count(), 2, "{text}");
    assert!(text.contains("stops after 99 iterations"), "{text}");
    assert!(text.contains("at most 31 executed"), "{text}");
}

#[test]
fn a_bare_uprobe_goes_to_launches_or_where_it_is_told() {
    let output = Command::new("id").arg("-u").output().expect("id");
    if output.stdout != b"0\n" {
        return skip("eBPF needs root");
    }
    let Some(ran) = published(&[], "vaddn 2 4 3") else {
        return;
    };
    assert_eq!(ran.numbers("launches"), [3], "{}", ran.words());
    let note = "names no function, so it is attached to uprobe:cudaLaunchKernel";
    assert!(ran.words().contains(note), "{}", ran.words());
    let place = "launched_by_cudaLaunchKernel=uprobe:libcudart.so:cudaDeviceSynchronize";
    let Some(ran) = published(&["--attach", place], "vaddn 2 4 3") else {
        return;
    };
    let text = std::fs::read_to_string(ran.folder.path().join("trace.jsonl")).expect("a trace");
    let calls = text.lines().filter(|line| {
        line.contains("\"name\":\"cudaDeviceSynchronize\"") && line.contains("\"phase\":\"E\"")
    });
    let calls = calls.count() as u64;
    assert!(calls > 0, "the program waits");
    assert_eq!(ran.numbers("launches"), [calls], "{}", ran.words());
}

#[test]
fn a_program_of_the_gpu_goes_to_another_kernel() {
    let options = ["--no-host", "--attach", "cuda__record=kretprobe:nothing*"];
    let Some(ran) = published(&options, "vaddn 2 4 1") else {
        return;
    };
    assert!(
        ran.words().contains("no kernel nothing* was loaded"),
        "{}",
        ran.words()
    );
    assert!(ran.events().iter().all(|event| event["name"] != "event"));
}

#[test]
fn one_kernel_of_an_object_runs_with_the_size_it_needs() {
    let object = object("direct.v3.o");
    let words = [
        "exec",
        &object,
        "--program",
        "cuda__product",
        "--block",
        "32,32",
        "--set",
        "a[0..1024]=2",
        "--set",
        "b[0..1024]=3",
    ];
    let ran = run(&words, std::path::Path::new(""), "");
    assert!(ran.output.status.success(), "{}", ran.words());
    let product = ran.numbers("c");
    assert_eq!(product, [2 * 3 * 32; 1024], "{}", ran.words());
}

#[test]
fn options_that_name_nothing_say_what_there_is() {
    let object = object("published.v3.o");
    for (option, value, says) in [
        ("--attach", "nobody=uprobe:f", "it has cuda__record"),
        ("--attach", "cuda__say=uprobe:f", "runs on the GPU"),
        ("--attach", "cuda__say", "PROGRAM=uprobe"),
        ("--set", "nothing[0]=1", "it has events, limit"),
        ("--set", "limit[4]=1", "it has 4 entries"),
        ("--set", "events[0]=1,2,3", "only arrays"),
        ("--budget", "0", "0 is not in 1.."),
    ] {
        let output = cutrace()
            .args(["gpu", "run", &object, option, value, "--sim", "--", "true"])
            .output()
            .expect("cutrace runs");
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{option} {value}");
        assert!(words.contains(says), "{option} {value}: {words}");
    }
    let output = cutrace()
        .args([
            "gpu",
            "exec",
            &self::object("direct.v3.o"),
            "--program",
            "x",
            "--sim",
        ])
        .output()
        .expect("cutrace runs");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("there are cuda__product"), "{words}");
}
