//! Files that are none, names that would paint, and traces that say too much.

mod common;

use common::{cutrace, limit, program, read, repository};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

fn run(words: &[&str], folder: &Path) -> Output {
    let mut command = cutrace();
    command.args(words).current_dir(folder).stdin(Stdio::null());
    command.output().expect("cutrace runs")
}

#[test]
fn a_device_without_an_end_is_no_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = repository().join("fixtures/traces/layers.jsonl");
    let good = good.to_str().expect("UTF-8");
    let verbs: &[&[&str]] = &[
        &["report", "/dev/zero"],
        &["report", "memory", "--json", "/dev/urandom"],
        &["report", good, "/dev/zero"],
        &["timeline", "/dev/zero"],
        &["replay", "/dev/zero"],
        &["view", "--no-open", "/dev/zero"],
        &["export", "-f", "csv", "-o", "-", "/dev/zero"],
        &["export", "-f", "html", "-o", "x.html", "/dev/zero"],
        &["diff", good, "/dev/zero"],
        &["diff", "/dev/zero", good],
        &["hooks", "check", "/dev/zero"],
        &["gpu", "check", "/dev/zero"],
        &["gpu", "run", "/dev/zero", "true"],
        &["gpu", "exec", "/dev/zero"],
    ];
    for words in verbs {
        let began = Instant::now();
        let output = run(words, folder.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            matches!(output.status.code(), Some(2 | 125)),
            "{words:?}: {said}"
        );
        assert!(said.contains("a device, not a file"), "{words:?}: {said}");
        assert!(began.elapsed() < Duration::from_secs(60), "{words:?}");
    }
    // What has an end is read, though there is nothing in it.
    let output = run(&["gpu", "check", "/dev/null"], folder.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("not an ELF object"), "{said}");
}

#[test]
fn a_pipe_without_an_end_is_read_to_a_limit() {
    for words in ["gpu check", "hooks check"] {
        limit();
        let line = format!("yes | \"$0\" {words} /dev/stdin");
        let output = Command::new("bash")
            .args(["-c", &line])
            .arg(cutrace().get_program())
            .output()
            .expect("bash runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("larger than"), "{words}: {said}");
    }
}

/// Names of files and programs come from anywhere: none of them moves the cursor or changes a title.
#[test]
fn names_cannot_paint() {
    let folder = tempfile::tempdir().expect("a folder");
    let evil = "x\x1b]0;owned\x07\x1b[2Jy";
    let good = fs::read(repository().join("fixtures/traces/layers.jsonl")).expect("a trace");
    let copy = folder.path().join(format!("{evil}.jsonl"));
    fs::write(&copy, [&good[..], b"{\"type\":\"broken"].concat()).expect("written");
    let copy = copy.to_str().expect("UTF-8");
    fs::create_dir(folder.path().join("traces")).expect("made");
    fs::copy(copy, folder.path().join(format!("traces/{evil}.jsonl"))).expect("copied");
    let script = folder.path().join(format!("{evil}.sh"));
    fs::write(&script, "#!/bin/sh\nexit 3\n").expect("written");
    let script = script.to_str().expect("UTF-8").to_owned();
    let new = folder.path().join(format!("new{evil}.jsonl"));
    let new = new.to_str().expect("UTF-8");
    let missing = format!("./{evil}");
    let verbs: &[&[&str]] = &[
        &[&missing],
        &["report", copy],
        &["report"],
        &["report", &missing],
        &["replay", copy],
        &["timeline", copy],
        &["diff", copy, copy],
        &["export", "-f", "csv", "-o", &format!("{evil}.csv"), copy],
        &[
            "export",
            "-f",
            "jsonl",
            "-o",
            &format!("none/{evil}/\0.jsonl").replace('\0', "x"),
            copy,
        ],
        &["hooks", "check", copy],
        &["gpu", "check", copy],
        &["gpu", "run", copy, "true"],
        &["record", "-v", "-o", new, "sh", "-c", "exit 1"],
        &["softgpu", &missing],
        &[&script],
    ];
    for words in verbs {
        let output = run(words, folder.path());
        for stream in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(stream);
            // Tests have no terminal: nothing has a colour of its own.
            assert!(!text.contains(['\x1b', '\x07']), "{words:?}: {text}");
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked"), "{words:?}: {said}");
    }
}

#[test]
fn existing_files_keep_their_modes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
    let trace = folder.path().join("trace.jsonl");
    let words = ["-q", "-o", "trace.jsonl", "true"];
    assert!(run(&words, folder.path()).status.success());
    assert_eq!(mode(&trace), 0o600);
    for before in [0o644, 0o640, 0o600] {
        fs::set_permissions(&trace, PermissionsExt::from_mode(before)).expect("set");
        assert!(run(&words, folder.path()).status.success());
        assert_eq!(mode(&trace), before);
    }
}

#[test]
fn a_redacted_trace_does_not_tell() {
    let Some(program) = program("nvtx") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home-of-hunter2");
    fs::create_dir(&home).expect("made");
    let copy = home.join("app");
    fs::copy(program, &copy).expect("copied");
    let trace = folder.path().join("trace.jsonl");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let record = |options: &[&str]| {
        let mut command = cutrace();
        command
            .args(["record", "--sim", "--stack", "-q", "-o"])
            .arg(&trace)
            .args(options);
        let output = command
            .arg(&copy)
            .arg("--token=hunter2")
            .output()
            .expect("cutrace runs");
        assert!(output.status.success(), "{output:?}");
        let names: Vec<String> = (read(&trace).iter())
            .filter(|line| line["type"] == "range" && line["phase"] == "B")
            .map(|line| line["name"].as_str().unwrap_or_default().to_owned())
            .collect();
        let calls = read(&trace)
            .iter()
            .filter(|line| line["type"] == "userspace")
            .count();
        (fs::read_to_string(&trace).expect("a trace"), names, calls)
    };
    let (open, names, calls) = record(&[]);
    for told in ["--token=hunter2", "home-of-hunter2", host.trim(), "boot_id"] {
        assert!(open.contains(told), "{told} is told without --redact");
    }
    assert!(!names.is_empty() && names.iter().all(|name| open.contains(name)));
    let (redacted, others, same) = record(&["--redact"]);
    assert!(!redacted.contains("hunter2"), "{redacted:.2000}");
    assert!(!redacted.contains(&format!("\"{}\"", host.trim())));
    for name in &names {
        assert!(!redacted.contains(&format!("\"{name}\"")), "{name}");
    }
    // What happened is all there.
    assert_eq!((others.len(), same), (names.len(), calls));
    assert!(
        others.iter().all(|name| name.starts_with("range ")),
        "{others:?}"
    );
    assert!(redacted.contains("cudaMalloc") && redacted.contains("[redacted]"));
}
