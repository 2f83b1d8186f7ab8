//! `cutrace export`: converting, merging, and what happens when it cannot.

mod common;

use common::{cutrace, repository};
use std::{
    fs::{self, File},
    io::{Read, Write},
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::fs::FileTypeExt,
    },
    path::Path,
    process::{Command, Output, Stdio},
};

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
        (vec![&*example, "-o", "x.txt"], ".pftrace"),
        (vec![&*example], "-f html"),
        (
            vec![&*example, "-o", "x.json", "-f", "svg"],
            "-f svg contradicts x.json: drop one of them",
        ),
        (
            vec![&*example, "-o", "x.json", "--baseline", "y"],
            "flame graphs",
        ),
        (vec!["noise.jsonl", "-o", "x.json"], "noise.jsonl"),
        (vec![&*example, "-o", "/proc/x.jsonl"], "/proc"),
    ] {
        let output = export(&arguments, folder.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(
            said.contains(words),
            "{arguments:?} should mention {words}: {said}"
        );
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 1, "{arguments:?} left a file");
    }
}

/// What is binary is not for a terminal; what is text is.
#[test]
fn a_terminal_gets_no_binary() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (format, words) in [
        ("perfetto", "add -o trace.pftrace, or pipe it on"),
        ("arrow", "add -o trace.arrows, or pipe it on"),
        ("parquet", "add -o trace.parquet, or pipe it on"),
        ("csv", ""),
    ] {
        let (mut master, slave) = terminal();
        let mut command = cutrace();
        command.args(["export", "-f", format, &example()]);
        command.current_dir(folder.path()).stdout(slave);
        let reader = std::thread::spawn(move || {
            let mut shown = Vec::new();
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = master.read(&mut piece) {
                shown.extend_from_slice(&piece[..count]);
            }
            shown
        });
        let output = command.stderr(Stdio::piped()).spawn().expect("runs");
        drop(command);
        let output = output.wait_with_output().expect("ends");
        let shown = reader.join().expect("read");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(shown.is_empty(), !words.is_empty(), "{format}: {said}");
        let code = if words.is_empty() { 0 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{format}: {said}");
        assert!(said.contains(words), "{format}: {said}");
    }
}

/// Reads a trace that takes longer than a second to come; what a terminal shows meanwhile, up to `last`.
fn slowly(words: &[&str], folder: &Path, last: &str) -> String {
    let (mut master, slave) = terminal();
    let mut command = cutrace();
    command
        .args(words)
        .current_dir(folder)
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(slave.try_clone().expect("copied"))
        .stderr(slave);
    let mut child = command.spawn().expect("cutrace runs");
    drop(command);
    let mut input = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || {
        writeln!(input, "{{\"type\":\"meta\",\"version\":1}}").expect("written");
        for id in 1..=150_000 {
            // Bursts, so that there is something to say after a second.
            if id % 25_000 == 0 {
                input.flush().expect("written");
                std::thread::sleep(std::time::Duration::from_millis(400));
            }
            let place = format!("\"event_id\":{id},\"op_id\":{id},\"ts\":{id}.000000");
            let rest = "\"pid\":1,\"tid\":1,\"type\":\"userspace\",\"layer\":\"driver\",\"name\":\"cuInit\"";
            writeln!(
                input,
                "{{{place},{rest},\"category\":\"init\",\"depth\":0}}"
            )
            .expect("written");
        }
    });
    let mut shown = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&shown).contains(last) {
        let count = master.read(&mut piece).unwrap_or(0);
        assert!(count > 0, "{}", String::from_utf8_lossy(&shown));
        shown.extend_from_slice(&piece[..count]);
    }
    writer.join().expect("all was read");
    let _ = child.kill();
    let _ = child.wait();
    String::from_utf8_lossy(&shown).into_owned()
}

#[test]
fn what_takes_long_says_how_far_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (words, last) in [
        (
            &["export", "-o", "x.csv", "-"][..],
            "events written to x.csv",
        ),
        (&["export", "-o", "x.json", "-"], "written to x.json"),
        (&["view", "--no-open", "-"], "the report is at http://"),
    ] {
        let shown = slowly(words, folder.path(), last);
        assert!(
            shown.contains("cutrace: reading: 0.1 million records"),
            "{words:?}: {shown:?}"
        );
        // Nothing is left of it on the line.
        let rest = shown.rsplit("\r\x1b[K").next().expect("a rest");
        assert!(
            rest.contains(last) && !rest.contains("million"),
            "{words:?}: {shown:?}"
        );
    }
}

/// A terminal: our side, and the program's.
fn terminal() -> (File, OwnedFd) {
    let (mut master, mut slave) = (0, 0);
    // SAFETY: both numbers are written, and owned by nobody else after it.
    unsafe {
        let (name, modes, size) = (
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        );
        let opened = libc::openpty(&mut master, &mut slave, name, modes, size);
        assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
        libc::fcntl(master, libc::F_SETFD, libc::FD_CLOEXEC);
        (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    }
}

/// A format may be named without -f, in either order.
#[test]
fn a_format_is_understood_beside_a_trace() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let wanted = export(&["-f", "csv", &example()], folder.path()).stdout;
    for words in [["csv", &*example()], [&*example(), "csv"]] {
        let output = export(&words, folder.path());
        assert!(output.status.success(), "{output:?}");
        assert!(output.stdout == wanted, "{words:?}");
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

/// A small trace with something of every layer.
fn layers() -> String {
    let path = repository().join("fixtures/traces/layers.jsonl");
    path.to_str().expect("UTF-8").to_owned()
}

/// Perfetto's published schema reads what is written, and its rules draw what is in the trace.
#[test]
fn perfetto_draws_what_is_in_the_trace() {
    let python = repository().join("target/perfetto/bin/python");
    if !python.exists() {
        return common::skip("no Perfetto schema: run scripts/setup-perfetto");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let written = export(&[&layers(), "-o", "layers.pftrace"], folder.path());
    assert!(written.status.success(), "{written:?}");
    let read = std::process::Command::new(python)
        .arg(repository().join("tests/perfetto/check.py"))
        .arg(folder.path().join("layers.pftrace"))
        .output()
        .expect("python runs");
    let said = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "{said}");
    insta::assert_snapshot!(String::from_utf8_lossy(&read.stdout));
}

#[test]
fn chrome_json_says_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let written = export(&[&layers(), "-f", "chrome"], folder.path());
    assert!(written.status.success(), "{written:?}");
    insta::assert_snapshot!(String::from_utf8_lossy(&written.stdout));
}

/// Arrows of launched graphs, of several streams, and of copies: each has one beginning, inside a call, and one end, inside a piece of
/// GPU work that is the call's, not earlier than its beginning.
#[test]
fn arrows_lead_from_a_call_into_its_work() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut most = 0;
    for name in ["arrows/graph", "arrows/streams", "traces/layers"] {
        let path = repository().join(format!("fixtures/{name}.jsonl"));
        let trace = path.to_str().expect("UTF-8");
        let written = export(&[trace, "-f", "chrome"], folder.path());
        assert!(written.status.success(), "{written:?}");
        let read: serde_json::Value = serde_json::from_slice(&written.stdout).expect("JSON");
        let events = read["traceEvents"].as_array().expect("events");
        let of = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
        let time = |event: &serde_json::Value, field: &str| event[field].as_f64().expect("a time");
        // Spans that an end of an arrow may be bound to.
        let around = |end: &serde_json::Value| {
            let (place, at) = ((end["pid"].clone(), end["tid"].clone()), time(end, "ts"));
            let spans = of("X").filter(|span| (&span["pid"], &span["tid"]) == (&place.0, &place.1));
            spans
                .filter(|span| {
                    let start = time(span, "ts");
                    start <= at && at <= start + time(span, "dur") + 1e-6
                })
                .collect::<Vec<_>>()
        };
        let correlation = correlations(&path);
        let ids: std::collections::BTreeSet<u64> = of("s")
            .map(|end| end["id"].as_u64().expect("an id"))
            .collect();
        assert_eq!(ids.len(), of("s").count(), "{name}: two arrows have one id");
        assert_eq!(ids.len(), of("f").count(), "{name}: beginnings and ends");
        most = most.max(ids.len());
        for begin in of("s") {
            let end = of("f").find(|end| end["id"] == begin["id"]);
            let end = end.unwrap_or_else(|| panic!("{name}: no end of {begin}"));
            assert!(
                time(begin, "ts") <= time(end, "ts"),
                "{name}: {begin} {end}"
            );
            assert_eq!(end["bp"], "e", "{name}: {end}");
            let ops = |end| {
                around(end)
                    .iter()
                    .map(|span| span["args"]["op_id"].clone())
                    .collect::<Vec<_>>()
            };
            let is_one = |calls: &[serde_json::Value], works: &[serde_json::Value]| {
                calls.iter().any(|call| {
                    let wanted = correlation.get(&call.as_u64());
                    wanted.is_some()
                        && works
                            .iter()
                            .any(|work| correlation.get(&work.as_u64()) == wanted)
                })
            };
            assert!(is_one(&ops(begin), &ops(end)), "{name}: {begin} {end}");
        }
        // Work whose call is in the trace has its arrow.
        let linked = of("X")
            .filter(|span| span["args"]["layer"] == "gpu")
            .filter(|work| {
                let wanted = correlation.get(&work["args"]["op_id"].as_u64());
                wanted.is_some_and(|wanted| {
                    let mut calls = of("X").filter(|span| {
                        ["runtime", "driver"]
                            .iter()
                            .any(|it| span["args"]["layer"] == *it)
                    });
                    calls.any(|call| {
                        correlation.get(&call["args"]["op_id"].as_u64()) == Some(wanted)
                    })
                })
            });
        assert_eq!(linked.count(), ids.len(), "{name}");
    }
    assert!(most > 30, "graphs and loops have many");
}

/// What each event of a trace shares with what belongs to it, by its id.
fn correlations(trace: &Path) -> std::collections::HashMap<Option<u64>, u64> {
    common::read(trace)
        .iter()
        .filter_map(|line| Some((line["op_id"].as_u64(), line["correlation"].as_u64()?)))
        .collect()
}

#[test]
fn flame_graphs_by_what_is_asked_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folded = |arguments: &[&str]| {
        let trace = layers();
        let mut all = vec![&*trace, "-f", "folded"];
        all.extend(arguments);
        let written = export(&all, folder.path());
        assert!(written.status.success(), "{written:?}");
        String::from_utf8_lossy(&written.stdout).into_owned()
    };
    let gpu = "cuLaunchKernel;scale(float*, int) 200000\n\
               cuMemcpyHtoD_v2;memcpy H2D 380000\n";
    assert_eq!(folded(&["--weight", "gpu"]), gpu);
    let bytes = folded(&["--weight", "bytes"]);
    assert!(
        bytes.contains("cudaMalloc;cuMemAlloc_v2 4194304\n"),
        "{bytes}"
    );
    let same = folded(&["--baseline", &layers()]);
    assert!(same.contains("cudaMalloc;cuMemAlloc_v2;ioctl;nvidia_unlocked_ioctl 50000 50000\n"));
    let svg = export(&[&layers(), "-o", "flame.svg"], folder.path());
    assert!(svg.status.success(), "{svg:?}");
    let text = fs::read_to_string(folder.path().join("flame.svg")).expect("written");
    assert!(text.starts_with("<?xml") && text.contains("cuMemAlloc_v2"));
}

#[test]
fn a_pipe_is_written_to_and_stays_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo runs").success());
    for format in ["csv", "svg"] {
        let reader = {
            let pipe = pipe.clone();
            std::thread::spawn(move || fs::read(pipe).expect("read"))
        };
        let done = export(&[&example(), "-f", format, "-o", "pipe"], folder.path());
        assert!(done.status.success(), "{done:?}");
        let got = reader.join().expect("read");
        let stream = export(&[&example(), "-f", format], folder.path());
        assert_eq!(got, stream.stdout, "{format}");
        let kind = fs::symlink_metadata(&pipe).expect("there").file_type();
        assert!(kind.is_fifo(), "{format}: {kind:?}");
    }
    assert_eq!(
        fs::read_dir(folder.path()).expect("read").count(),
        1,
        "nothing is left beside it"
    );
}

#[test]
fn a_format_that_is_named_needs_no_extension_and_no_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (format, name) in [("csv", "a/b/table.txt"), ("html", "c/page")] {
        let done = export(&[&example(), "-f", format, "-o", name], folder.path());
        assert!(done.status.success(), "{done:?}");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains(&format!("written to {name}")), "{said}");
        let stream = export(&[&example(), "-f", format], folder.path());
        let written = fs::read(folder.path().join(name)).expect("written");
        assert_eq!(written, stream.stdout, "{format}");
    }
}

#[test]
fn a_link_leads_to_what_is_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (target, link) = (folder.path().join("real.csv"), folder.path().join("a.csv"));
    fs::write(&target, "").expect("written");
    std::os::unix::fs::symlink(&target, &link).expect("linked");
    let done = export(&[&example(), "-o", "a.csv"], folder.path());
    assert!(done.status.success(), "{done:?}");
    let kind = fs::symlink_metadata(&link).expect("there").file_type();
    assert!(kind.is_symlink() && fs::metadata(&target).expect("there").len() > 0);
}
