//! Traces that no run should leave behind, and some do: every verb and every format says something
//! sensible about them, quickly, without a panic, and lets nothing of theirs at the terminal.

mod common;

use common::{PARTS, cutrace, repository};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Output,
    time::{Duration, Instant},
};

const FORMATS: [&str; 9] = [
    "jsonl", "arrow", "parquet", "csv", "chrome", "perfetto", "folded", "svg", "html",
];
/// Unoptimised, beside other tests.
const LIMIT: Duration = Duration::from_secs(10);

const HEAD: &str = r#"{"type":"meta","version":1,"cutrace":"0.1.0","command":["./app"],"pid":1,"start_ns":1000000000}"#;
const TAIL: &str =
    r#"{"type":"summary","end_ns":1000100000,"events":0,"counts":{},"open":0,"lost":0,"exit":0}"#;

/// A call with its begin and end, `from` and `took` microseconds.
fn call(id: u64, tid: u32, name: &str, category: &str, from: i64, took: u64) -> String {
    let name = serde_json::to_string(name).expect("JSON");
    let category = match category {
        "" => String::new(),
        known => format!(r#""category":"{known}","#),
    };
    let common = format!(
        r#""pid":1,"tid":{tid},"type":"userspace","layer":"driver","name":{name},{category}"op_id":{id},"depth":0"#
    );
    let ms = |us: i64| us as f64 / 1e3;
    let end = from.saturating_add(i64::try_from(took).unwrap_or(i64::MAX));
    format!(
        "{{\"event_id\":{},\"ts\":{:.6},{common},\"phase\":\"B\"}}\n\
         {{\"event_id\":{},\"ts\":{:.6},{common},\"phase\":\"E\",\"duration_us\":{took}.000,\"status\":0}}\n",
        2 * id,
        ms(from),
        2 * id + 1,
        ms(end),
    )
}

fn around(body: &str) -> String {
    format!("{HEAD}\n{body}{TAIL}\n")
}

/// Names that would move the cursor, colour the screen, ring, or turn the text around.
const HOSTILE: [&str; 6] = [
    "\x1b[31mred\x1b[2J\x1b]0;title\x07",
    "line\nbreak\r\ttab\0nul\x08",
    "\u{9b}31mC1\u{85}",
    "\u{202e}desrever\u{2066}\u{200f}",
    "a;b;c d",
    "<script>alert(1)</script>&\"'",
];

/// Each kind of odd trace, by name.
fn odd() -> Vec<(&'static str, String)> {
    let example = {
        let path = repository().join("fixtures/traces/layers.jsonl");
        fs::read_to_string(path).expect("a fixture")
    };
    let only = |what: &str| -> String {
        (example.lines())
            .filter(|line| line.contains(what))
            .fold(format!("{HEAD}\n"), |text, line| text + line + "\n")
    };
    let mut backwards = String::new();
    let mut threads = String::new();
    let mut hostile = String::new();
    for step in 0..200i64 {
        let id = step as u64 + 1;
        let from = if step % 7 == 0 {
            5
        } else {
            20_000 - 100 * step
        };
        backwards += &call(id, 1, "cuLaunchKernel", "kernel", from, 10);
    }
    for tid in 1..=10_000u32 {
        threads += &call(
            u64::from(tid),
            tid,
            "cuCtxSynchronize",
            "sync",
            i64::from(tid) * 3,
            2,
        );
    }
    for (id, name) in (1u64..).zip(HOSTILE) {
        hostile += &call(id, 1, name, "kernel", 10 * id as i64, 5);
        let name = serde_json::to_string(name).expect("JSON");
        let _ = writeln!(
            hostile,
            r#"{{"event_id":{},"ts":{}.5,"pid":1,"tid":1,"type":"kernel","layer":"driver","op":"launch","kernel":{name},"grid":[1,1,1],"block":[1,1,1],"shared":0,"threads":1,"name":{name},"op_id":{id}}}"#,
            100 + id,
            id,
        );
    }
    let hostile_head = HEAD.replace("./app", r"./\u001b[31mapp\u202e");
    // The first ends beyond all times; of the others no two can be added up.
    let mut huge = call(1, 1, "cuInit", "init", 0, u64::MAX);
    for (id, (name, category)) in (2u64..).zip([
        ("cuCtxCreate_v2", "context"),
        ("cuModuleLoadData", "module"),
        ("cuMemcpyHtoD_v2", "transfer"),
        ("cuLaunchKernel", "kernel"),
        ("cuCtxSynchronize", "sync"),
        ("cuMemAlloc_v2", "memory"),
    ]) {
        let thread = id as u32;
        huge += &call(id, thread, name, category, 1, u64::MAX / 1_500);
    }
    let unknown = format!(
        "{}{}{}\n",
        call(1, 1, "cuFromTheFuture_v9", "", 1, 5),
        call(2, 1, "", "", 10, 5),
        r#"{"event_id":9,"ts":0.050000,"pid":1,"type":"hologram","layer":"quantum","name":"x","category":"soup","op_id":3}"#,
    );
    let negative = format!(
        "{}{}",
        call(1, 1, "cuInit", "init", -5_000, 100),
        call(2, 1, "cuLaunchKernel", "kernel", 10, 5),
    );
    vec![
        ("head_only", format!("{HEAD}\n")),
        ("head_without_line_end", HEAD.to_owned()),
        ("head_and_summary", around("")),
        (
            "zero_bytes_after_head",
            format!("{HEAD}\n{}", "\0".repeat(4096)),
        ),
        ("cut_in_a_line", example[..example.len() * 2 / 3].to_owned()),
        ("only_begins", only(r#""phase":"B""#)),
        ("only_ends", only(r#""phase":"E""#)),
        ("only_lost", only(r#""type":"lost""#)),
        ("backwards", around(&backwards)),
        ("negative", around(&negative)),
        ("threads", around(&threads)),
        ("unknown", around(&unknown)),
        ("huge_durations", around(&huge)),
        (
            "long_name",
            around(&call(1, 1, &"long_".repeat(20_000), "kernel", 1, 5)),
        ),
        (
            "hostile_names",
            format!("{hostile_head}\n{hostile}{TAIL}\n"),
        ),
    ]
}

/// Runs it; status 0, or 2 with a reason; never a panic, never long.
fn run(what: &str, arguments: &[&str], folder: &Path) -> Output {
    let began = Instant::now();
    let output = cutrace()
        .args(arguments)
        .current_dir(folder)
        .env("LC_ALL", "C.UTF-8")
        .output()
        .expect("cutrace runs");
    let took = began.elapsed();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(took < LIMIT, "{what}: {arguments:?} took {took:?}");
    assert!(!said.contains("panicked"), "{what}: {arguments:?}: {said}");
    match output.status.code() {
        Some(0) => {}
        Some(2) => assert!(said.contains("cutrace: "), "{what}: {arguments:?}: {said}"),
        other => panic!("{what}: {arguments:?}: status {other:?}: {said}"),
    }
    assert_harmless(what, arguments, &said);
    output
}

/// Nothing that a terminal would act on, nothing that turns text around.
fn assert_harmless(what: &str, arguments: &[&str], text: &str) {
    let bad = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    for line in text.lines() {
        assert!(
            !line.contains(bad),
            "{what}: {arguments:?} lets it through: {line:?}"
        );
    }
}

/// Every verb and format on these traces.
fn every_way(what: &str, traces: &[&str], folder: &Path) {
    let with = |words: &[&'static str], more: &[&'static str]| -> Vec<String> {
        (words.iter())
            .chain(traces)
            .chain(more)
            .map(|word| (*word).to_owned())
            .collect()
    };
    let mut shown = Vec::new();
    for part in PARTS {
        shown.push(with(&["report", part], &[]));
    }
    shown.push(with(&["timeline"], &[]));
    shown.push(with(&["timeline"], &["--ascii", "--width", "20"]));
    shown.push(with(&["replay"], &[]));
    shown.push(with(&["export", "-f", "folded"], &[]));
    shown.push(vec!["diff".into(), traces[0].into(), traces[0].into()]);
    for arguments in shown {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = run(what, &arguments, folder);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert_harmless(what, &arguments, &text);
        // Without calls there is nothing to replay or to fold; then nothing is right.
        if output.status.success() && !["replay", "export"].contains(&arguments[0]) {
            assert!(
                !text.trim().is_empty(),
                "{what}: {arguments:?} said nothing"
            );
        }
    }
    let json = with(&["report", "--json"], &[]);
    let json: Vec<&str> = json.iter().map(String::as_str).collect();
    let output = run(what, &json, folder);
    if output.status.success() {
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON");
    }
    for format in FORMATS {
        let file = format!("{what}.out");
        let mut arguments = vec!["export"];
        arguments.extend(traces);
        arguments.extend(["-f", format, "-o", &file]);
        let output = run(what, &arguments, folder);
        let written = folder.join(&file);
        if output.status.success() {
            let bytes = fs::read(&written).expect("written");
            assert!(
                !bytes.is_empty() || ["folded", "csv"].contains(&format),
                "{what}: {format} is empty"
            );
            if format == "chrome" {
                serde_json::from_slice::<serde_json::Value>(&bytes)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            fs::remove_file(written).expect("removed");
        }
    }
}

#[test]
fn odd_traces_are_shown_sensibly() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (what, text) in odd() {
        let file = format!("{what}.jsonl");
        fs::write(folder.path().join(&file), text).expect("written");
        every_way(what, &[&file], folder.path());
    }
}

#[test]
fn odd_traces_are_merged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut files: Vec<PathBuf> = Vec::new();
    for (what, text) in odd() {
        if what != "threads" {
            let file = PathBuf::from(format!("{what}.jsonl"));
            fs::write(folder.path().join(&file), text).expect("written");
            files.push(file);
        }
    }
    let names: Vec<&str> = files.iter().filter_map(|file| file.to_str()).collect();
    every_way(
        "two",
        &["backwards.jsonl", "only_begins.jsonl"],
        folder.path(),
    );
    every_way("all", &names, folder.path());
}
