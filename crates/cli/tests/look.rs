//! The verbs that look at a trace in the terminal.

mod common;

use common::{PARTS, PARTS_OF_FRAMEWORKS, cutrace, repository};
use std::{fs, path::Path, process::Output};

fn layers() -> String {
    let path = repository().join("fixtures/traces/layers.jsonl");
    path.to_str().expect("UTF-8").to_owned()
}

fn look(arguments: &[&str]) -> Output {
    cutrace()
        .args(arguments)
        .env_remove("COLUMNS")
        .env("LC_ALL", "C.UTF-8")
        .output()
        .expect("cutrace runs")
}

fn shown(arguments: &[&str]) -> String {
    let output = look(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn the_timeline_fits_where_it_is_shown() {
    insta::assert_snapshot!("timeline_80", shown(&["timeline", &layers()]));
    let narrow = shown(&["timeline", &layers(), "--width", "50", "--ascii"]);
    assert!(
        narrow.is_ascii() && narrow.lines().all(|line| line.len() <= 50),
        "{narrow}"
    );
    assert!(!narrow.contains('\x1b'), "no colours into a pipe");
    let colored = shown(&["timeline", &layers(), "--color", "always"]);
    assert!(colored.contains('\x1b'));
}

#[test]
fn the_timeline_zooms() {
    insta::assert_snapshot!(
        "timeline_from_to",
        shown(&["timeline", &layers(), "--from", "690us", "--to", "0.92ms"])
    );
    // The second launch: what is around it, not the whole run.
    insta::assert_snapshot!(
        "timeline_around",
        shown(&["timeline", &layers(), "--around", "8"])
    );
    let output = look(&["timeline", &layers(), "--around", "12345"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no event 12345"));
}

/// A pipe has no width: what is cut there is lost to whoever reads it.
#[test]
fn tables_in_a_pipe_are_whole() {
    let path = repository().join("fixtures/traces/h200_torch.jsonl");
    let trace = path.to_str().expect("UTF-8");
    let piped = shown(&["report", "top", trace]);
    assert!(!piped.contains('…'), "{piped}");
    let output = cutrace()
        .args(["report", "top", trace])
        .env("COLUMNS", "56")
        .env("LC_ALL", "C.UTF-8")
        .output()
        .expect("cutrace runs");
    let named = String::from_utf8(output.stdout).expect("UTF-8");
    let asked = shown(&["report", "top", trace, "--width", "56"]);
    assert_eq!(named, asked);
    assert!(asked.contains('…'), "{asked}");
    assert!(
        asked.lines().all(|line| line.chars().count() <= 56),
        "{asked}"
    );
    // The whole name where it is asked for, and wherever programs read.
    let whole = "void at::native::vectorized_elementwise_kernel<2, at::native::FillFunctor<double>";
    assert!(!piped.contains(whole), "{piped}");
    for arguments in [
        ["report", "top", trace, "--full-names"],
        ["report", "top", trace, "--json"],
    ] {
        let text = shown(&arguments);
        assert!(text.contains(whole), "{text}");
    }
}

#[test]
fn sentences_in_a_pipe_are_whole_lines() {
    let path = repository().join("fixtures/traces/demo.jsonl");
    let trace = path.to_str().expect("UTF-8");
    let detail = "cuMemAlloc_v2 (256 KiB each) allocates most of it";
    for part in ["findings", "summary"] {
        let piped = shown(&["report", part, trace]);
        let narrow = shown(&["report", part, trace, "--width", "80"]);
        assert!(
            piped.lines().any(|line| line.chars().count() > 80),
            "{piped}"
        );
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 80),
            "{narrow}"
        );
        // Nothing else differs.
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&piped), words(&narrow));
    }
    let piped = shown(&["report", "findings", trace]);
    assert!(piped.lines().any(|line| line.contains(detail)), "{piped}");
}

/// A trace of so many requests, each of a number and a name of its own.
fn requests(count: u32, path: &Path) {
    let mut lines = String::from("{\"type\":\"meta\",\"version\":1,\"start_ns\":0}\n");
    for number in 1..=count {
        let (cmd, at) = (0xc000_4600u32 + number, number * 10);
        for (phase, ts) in [("B", at), ("E", at + 5)] {
            lines += &format!(
                "{{\"ts\":{ts}.0,\"pid\":1,\"tid\":1,\"type\":\"ioctl\",\"layer\":\"syscall\",\
                 \"name\":\"request {number}\",\"category\":\"other\",\"phase\":\"{phase}\",\"op_id\":{number},\
                 \"depth\":0,\"duration_us\":5000.0,\"cmd\":{cmd}}}\n"
            );
        }
    }
    fs::write(path, lines).expect("written");
}

/// In a pipe `report ioctls` and `report calls` list everything there is, as far as memory is bounded.
#[test]
fn lists_in_a_pipe_are_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("requests.jsonl");
    let trace = path.to_str().expect("UTF-8");
    requests(100, &path);
    for part in ["ioctls", "calls"] {
        let piped = shown(&["report", part, trace]);
        let narrow = shown(&["report", part, trace, "--width", "80"]);
        assert!(
            narrow.contains("  and ") && narrow.contains(" more\n"),
            "{narrow}"
        );
        assert!(!piped.contains(" more\n"), "{piped}");
        assert!(piped.lines().count() >= 100, "{piped}");
    }
    requests(2_500, &path);
    let piped = shown(&["report", "calls", trace]);
    assert!(piped.contains("  and 500 more\n"), "{piped}");
}

#[test]
fn every_part_of_a_report() {
    let of_frameworks = |part: &&str| PARTS_OF_FRAMEWORKS.contains(part);
    for part in PARTS.into_iter().filter(|part| !of_frameworks(part)) {
        let text = shown(&["report", part, &layers(), "--width", "80"]);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        insta::assert_snapshot!(format!("report_{part}"), text);
        let json = shown(&["report", part, &layers(), "--json"]);
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert!(
            value.as_object().is_some_and(|parts| !parts.is_empty()),
            "{part}"
        );
    }
    assert_eq!(
        shown(&["report", &layers()]),
        shown(&["report", "summary", &layers()])
    );
    // In either order.
    for part in ["top", "findings", "summary"] {
        assert_eq!(
            shown(&["report", &layers(), part]),
            shown(&["report", part, &layers()])
        );
    }
    let unknown = look(&["report", "nonsense", &layers()]);
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn calls_are_replayed_and_chosen() {
    insta::assert_snapshot!("replay", shown(&["replay", &layers()]));
    let chosen = shown(&[
        "replay",
        &layers(),
        "-e",
        "memory,!cuMemFree*",
        "--to",
        "0.15ms",
    ]);
    assert!(
        chosen.contains("cuMemAlloc_v2") && !chosen.contains("cuMemFree"),
        "{chosen}"
    );
    let other = shown(&["replay", &layers(), "--tid", "102"]);
    assert!(
        other.contains("cuMemFree_v2(dptr=0x1)") && !other.contains("cudaMalloc"),
        "{other}"
    );
}

#[test]
fn a_condition_that_holds_is_an_exit_status() {
    let same = look(&["diff", &layers(), &layers(), "--fail-on", "total>+5%"]);
    assert_eq!(same.status.code(), Some(0), "{same:?}");
    let few = look(&[
        "diff",
        &layers(),
        &layers(),
        "--fail-on",
        "cuLaunchKernel.count>1",
    ]);
    assert_eq!(few.status.code(), Some(1), "{few:?}");
    let json = shown(&["diff", &layers(), &layers(), "--json"]);
    serde_json::from_str::<serde_json::Value>(&json).expect("JSON");
    let wrong = look(&["diff", &layers(), &layers(), "--fail-on", "total >> 5"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("total >> 5"));
}

#[test]
fn without_a_name_the_newest_trace_is_meant() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let in_folder = |arguments: &[&str]| {
        let mut command = cutrace();
        command.args(arguments).current_dir(folder.path());
        command.output().expect("cutrace runs")
    };
    let none = in_folder(&["timeline"]);
    assert_eq!(none.status.code(), Some(2));
    let said = String::from_utf8_lossy(&none.stderr);
    assert!(said.contains("cutrace ./app"), "{said}");
    let traces = folder.path().join("traces");
    fs::create_dir(&traces).expect("made");
    fs::write(traces.join("old.jsonl"), "{}\n").expect("written");
    fs::write(traces.join("notes.txt"), "not a trace").expect("written");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    let file = fs::File::options()
        .write(true)
        .open(traces.join("old.jsonl"))
        .expect("there");
    file.set_modified(old).expect("aged");
    fs::copy(layers(), traces.join("trace_1.jsonl")).expect("copied");
    let newest = in_folder(&["timeline"]);
    let said = String::from_utf8_lossy(&newest.stderr);
    assert!(
        newest.status.success() && said.contains("traces/trace_1.jsonl"),
        "{said}"
    );
}

/// Status 2, these words on stderr, nothing on stdout.
fn refused(arguments: &[&str], words: &[&str]) {
    let output = look(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    for words in words {
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    assert!(!said.contains("os error"), "{arguments:?}: {said}");
}

#[test]
fn slips_are_answered_with_what_was_meant() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let within = |name: &str| folder.path().join(name).display().to_string();
    fs::copy(layers(), within("one.jsonl")).expect("copied");
    refused(
        &["report", "sumary"],
        &["'sumary'", "did you mean summary?"],
    );
    refused(
        &["report", "top", "memory", &layers()],
        &["one section at a time"],
    );
    refused(
        &["report", &within("")],
        &["a folder, not a trace", "one.jsonl"],
    );
    refused(
        &["replay", &within("two.jsonl")],
        &["two.jsonl", "No such file"],
    );
    for verb in ["timeline", "replay"] {
        let backwards = [verb, &layers(), "--from", "2ms", "--to", "1ms"];
        refused(&backwards, &["--from 2ms is not before --to 1ms"]);
    }
}

#[test]
fn that_nothing_is_chosen_is_no_line_of_the_data() {
    let trace = repository().join("fixtures/traces/h200_vector_add.jsonl");
    let trace = trace.to_str().expect("UTF-8");
    let nothing = look(&["replay", trace, "-e", "nonsense"]);
    let said = String::from_utf8_lossy(&nothing.stderr);
    assert!(nothing.status.success() && nothing.stdout.is_empty());
    assert!(said.contains("no events to show"), "{said}");
    assert!(said.contains("-e nonsense: not a category"), "{said}");
}

#[test]
fn a_trace_may_come_from_standard_input() {
    let piped = |part| {
        let trace = fs::File::open(layers()).expect("there");
        let mut command = cutrace();
        command.args(["report", part, "-"]).stdin(trace);
        let output = command.output().expect("cutrace runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert_eq!(piped("top"), shown(&["report", "top", &layers()]));
}

#[test]
fn a_full_disk_is_told_with_the_outputs_name() {
    for arguments in [
        &["report", &layers()][..],
        &["report", "--json", &layers()],
        &["replay", &layers()],
        &["export", "-f", "arrow", &layers()],
        &["man"],
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let mut command = cutrace();
        command.args(arguments).stdout(full.expect("there"));
        let output = command.output().expect("cutrace runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(
            said.contains("cannot write to standard output: "),
            "{arguments:?}: {said}"
        );
    }
}
