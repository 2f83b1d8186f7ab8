//! `cutrace export`: converting, merging, and what happens when it cannot.

mod common;

use common::{cutrace, repository};
use std::{fs, path::Path, process::Output};

fn example() -> String {
    let path = repository().join("fuzz/seeds/jsonl/example.jsonl");
    path.to_str().expect("UTF-8").to_owned()
}

fn export(arguments: &[&str], folder: &Path) -> Output {
    cutrace()
        .arg("export")
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("cutrace runs")
}

#[test]
fn there_and_back_again_is_the_same_trace() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let to_arrow = export(&[&example(), "-o", "trace.arrows"], folder.path());
    assert!(to_arrow.status.success(), "{to_arrow:?}");
    assert!(to_arrow.stdout.is_empty(), "own words go to stderr");
    let back = export(&["trace.arrows", "-o", "back.jsonl"], folder.path());
    assert!(back.status.success(), "{back:?}");
    let first = fs::read_to_string(example()).expect("read");
    let second = fs::read_to_string(folder.path().join("back.jsonl")).expect("read");
    assert_eq!(first, second);

    let stream = export(&["trace.arrows", "-f", "jsonl"], folder.path());
    assert_eq!(String::from_utf8_lossy(&stream.stdout), first);
}

#[test]
fn two_traces_become_one_with_all_their_events() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let merged = export(&[&example(), &example(), "-f", "jsonl"], folder.path());
    assert!(merged.status.success(), "{merged:?}");
    let count = |text: &str| {
        text.lines()
            .filter(|line| line.contains("\"event_id\""))
            .count()
    };
    let one = fs::read_to_string(example()).expect("read");
    assert_eq!(
        count(&String::from_utf8_lossy(&merged.stdout)),
        2 * count(&one)
    );
}

#[test]
fn what_cannot_be_done_is_said_with_status_2() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("noise.jsonl"), b"\xff\xfenot a trace\n").expect("written");
    let example = example();
    for (arguments, words) in [
        (vec!["missing.jsonl", "-f", "jsonl"], "missing.jsonl"),
        (vec!["noise.jsonl", "-o", "x.arrows"], "noise.jsonl"),
        (vec![&*example, "-o", "x.txt"], "FILE.jsonl"),
        (vec![&*example], "-f jsonl"),
        (vec![&*example, "-o", "/proc/x.jsonl"], "/proc"),
    ] {
        let output = export(&arguments, folder.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(
            said.contains(words),
            "{arguments:?} should mention {words}: {said}"
        );
        assert!(
            !folder.path().join("x.arrows").exists(),
            "{arguments:?} left a file"
        );
    }
}

/// `cutrace export … | head` with more to say than a pipe holds.
#[test]
fn a_reader_that_stops_early_is_no_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let inputs = vec![example(); 64];
    let mut child = cutrace()
        .args(["export", "-f", "jsonl"])
        .args(inputs)
        .current_dir(folder.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("cutrace runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("Broken pipe"));
}
