//! Traces fit on a disk: those without a name become Arrow when they grow, and recording stops before it fills
//! what it was given.

use super::{Run, compile, losses, path};
use crate::common::cutrace;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

/// Makes so many calls in a folder of its own.
pub(super) fn calls(
    options: &[&str],
    calls: u32,
    prepare: impl FnOnce(&mut Command),
) -> (TempDir, Output) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("losses", folder.path());
    let mut command = cutrace();
    command
        .args(["record", "--sim", "--method=preload"])
        .args(options)
        .arg("--")
        .args([path(&program), "many", &calls.to_string()])
        .current_dir(folder.path());
    prepare(&mut command);
    let output = command.output().expect("cutrace runs");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with(&format!("made {calls} ")), "{said}");
    (folder, output)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| !path.is_symlink()).collect()
}

/// Its lines, as `cutrace cat` prints them, without a warning.
fn cat(trace: &Path) -> Vec<serde_json::Value> {
    let output = cutrace().arg("cat").arg(trace).output().expect("runs");
    assert_eq!(stderr(&output), "", "{}", trace.display());
    String::from_utf8(output.stdout)
        .expect("UTF-8")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Calls that are in a trace; its numbers are those of its lines, and its tail says what is lost.
fn kept(trace: &Path) -> (u64, u64) {
    let lines = cat(trace);
    let (head, tail) = (&lines[0], &lines[lines.len() - 1]);
    assert_eq!(
        (&head["type"], &tail["type"]),
        (&"meta".into(), &"summary".into())
    );
    for (number, line) in (1u64..).zip(&lines[1..lines.len() - 1]) {
        assert_eq!(line["event_id"], number, "{line}");
    }
    let calls = lines
        .iter()
        .filter(|line| line["name"] == "cuCtxGetCurrent" && line["phase"] == "B");
    let (calls, lost) = (
        calls.count() as u64,
        tail["lost"].as_u64().expect("a number"),
    );
    assert_eq!(losses::reported(trace), lost);
    (calls, lost)
}

fn past_a_megabyte(command: &mut Command) {
    command.env("CUTRACE_LINES_UP_TO", "1000000");
}

#[test]
fn a_large_trace_becomes_arrow() {
    let (folder, output) = calls(&[], 60_000, past_a_megabyte);
    let traces = files(&folder.path().join("traces"));
    let [trace] = &*traces else {
        panic!("one trace, and nothing else: {traces:?}");
    };
    assert!(trace.extension().is_some_and(|name| name == "arrows"));
    let name = trace.file_name().expect("a name").to_str().expect("UTF-8");
    let words = format!(
        "Trace: traces/{name} (past 1 MB, so written as Arrow; `cutrace cat` prints it as JSON lines)\n"
    );
    assert!(stderr(&output).contains(&words), "{}", stderr(&output));
    assert_eq!(kept(trace), (60_000, 0));
    // The newest trace is found by its new name.
    let report = cutrace().arg("report").current_dir(folder.path()).output();
    let report = report.expect("runs");
    assert!(report.status.success(), "{}", stderr(&report));
    assert!(stderr(&report).contains(&format!("reading traces/{name}")));
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(trace).expect("there"));
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn small_traces_and_named_ones_stay_as_they_are() {
    let (folder, _) = calls(&[], 100, past_a_megabyte);
    let traces = files(&folder.path().join("traces"));
    assert!(traces[0].extension().is_some_and(|name| name == "jsonl"));
    assert_eq!(kept(&traces[0]), (100, 0));
    let (folder, _) = calls(&["-o", "mine.jsonl"], 20_000, past_a_megabyte);
    let trace = folder.path().join("mine.jsonl");
    assert!(fs::metadata(&trace).expect("there").len() > 5_000_000);
    assert_eq!(kept(&trace), (20_000, 0));
}

#[test]
fn a_run_that_ends_on_the_way_to_arrow_is_whole() {
    // As soon as there is anything: the program has ended long before all is converted.
    for (size, count) in [("1", 30_000), ("300000", 3_000)] {
        let (folder, _) = calls(&[], count, |command| {
            command.env("CUTRACE_LINES_UP_TO", size);
        });
        let traces = files(&folder.path().join("traces"));
        assert_eq!(traces.len(), 1, "{traces:?}");
        assert_eq!(kept(&traces[0]), (count.into(), 0), "{traces:?}");
    }
}

#[test]
fn a_size_is_not_exceeded_and_what_is_left_out_is_lost() {
    for (name, made) in [
        (Some("x.jsonl"), 20_000),
        (Some("x.arrows"), 500_000),
        (None, 500_000),
    ] {
        let mut options = vec!["--max-size", "1.5MB"];
        options.extend(name.iter().flat_map(|name| ["-o", *name]));
        let (folder, output) = calls(&options, made, |_| {});
        let trace = match name {
            Some(name) => folder.path().join(name),
            None => files(&folder.path().join("traces")).remove(0),
        };
        let size = fs::metadata(&trace).expect("there").len();
        let said = stderr(&output);
        assert!(
            (1_000_000..=1_500_000).contains(&size),
            "{name:?}: {size} bytes; {said}"
        );
        let (calls, lost) = kept(&trace);
        assert_eq!(calls + lost, u64::from(made), "{name:?}: {said}");
        assert!(calls > 1000 && lost > 1000, "{name:?}: {calls} calls");
        assert!(said.contains(&format!("Events lost: {lost}\n")), "{said}");
        let words = format!(
            "the trace reached --max-size 1.5 MB: the {lost} events after that are missing and \
             count as lost\n"
        );
        assert!(said.contains("Note: recording stopped at 1."), "{said}");
        assert!(said.contains(&words), "{said}");
    }
}

#[test]
fn a_quiet_run_says_that_it_stopped_all_the_same() {
    let (_folder, output) = calls(
        &["-q", "--max-size", "1MB", "-o", "x.jsonl"],
        20_000,
        |_| {},
    );
    let said = stderr(&output);
    assert!(said.starts_with("cutrace: recording stopped at "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn some_of_a_disk_is_left_to_others() {
    let Some(mut small) = losses::Small::new("losses") else {
        return;
    };
    small.left_free = "5";
    let disk = small.folder.path().join("disk");
    fs::create_dir(&disk).expect("a folder");
    // A call takes four bytes of an Arrow trace.
    for (name, disk_size, bytes, made) in [
        ("trace.jsonl", "4m", 4 << 20, 40_000),
        ("trace.arrows", "2m", 2 << 20, 700_000),
    ] {
        let trace = disk.join(name);
        let run: Run = small.record(&disk, disk_size, &["--strict"], &trace, made, None);
        let said = run.stderr();
        let size = fs::metadata(small.kept(&trace)).expect("there").len();
        let most = bytes * 95 / 100;
        assert!(
            (most - 300_000..=most + 16_384).contains(&size),
            "{size} bytes: {said}"
        );
        let (calls, lost) = kept(&small.kept(&trace));
        assert_eq!(calls + lost, u64::from(made), "{name}: {said}");
        assert!(said.contains(" because only "), "{said}");
        assert!(said.contains("% of the disk was free: the "), "{said}");
        assert_eq!(run.output.status.code(), Some(125), "{said}");
    }
}

#[test]
fn a_size_is_a_number_with_a_unit() {
    for wrong in ["2", "10kB", "much", "-1GB"] {
        let output = cutrace()
            .args(["--max-size", wrong, "true"])
            .output()
            .expect("runs");
        assert_eq!(output.status.code(), Some(2), "{wrong}: {output:?}");
    }
}
