//! Nobody reads what a command says (`2>&1 | head -1`, a terminal that is gone): that is no error, and
//! the exit status is the one it would have been.

mod common;

use common::{cutrace, repository};
use std::{
    fs,
    io::Read,
    net::{TcpListener, TcpStream},
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

fn trace(name: &str) -> String {
    let path: PathBuf = repository().join("fixtures/traces").join(name);
    path.to_str().expect("UTF-8").to_owned()
}

/// A pipe that has no reader any more.
fn broken() -> Stdio {
    let mut ends = [0; 2];
    // SAFETY: the call fills both places; the descriptors are ours.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        drop(OwnedFd::from_raw_fd(ends[0]));
        Stdio::from(OwnedFd::from_raw_fd(ends[1]))
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Streams {
    Read,
    NoReader,
    NoErrorReader,
    Closed,
}

fn run(words: &[&str], streams: Streams) -> ExitStatus {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = cutrace();
    command.args(words).current_dir(folder.path());
    command.stdin(Stdio::null());
    with(&mut command, streams);
    command.status().expect("cutrace runs")
}

fn with(command: &mut Command, streams: Streams) {
    match streams {
        Streams::Read => command.stdout(Stdio::null()).stderr(Stdio::null()),
        Streams::NoReader => command.stdout(broken()).stderr(broken()),
        Streams::NoErrorReader => command.stdout(Stdio::null()).stderr(broken()),
        // SAFETY: close is async-signal-safe.
        Streams::Closed => unsafe {
            command.pre_exec(|| {
                libc::close(1);
                libc::close(2);
                Ok(())
            })
        },
    };
}

#[test]
fn every_verb_ends_as_if_somebody_read_it() {
    let (one, other) = (trace("demo.jsonl"), trace("demo_healthy.jsonl"));
    let broken_hooks = repository().join("README.md");
    let verbs: &[&[&str]] = &[
        &["true"],
        &["record", "-v", "sh", "-c", "exit 7"],
        &[
            "record",
            "-v",
            "--method=preload",
            "sh",
            "-c",
            "kill -TERM $$",
        ],
        &["record", "-o", "-", "sh", "-c", "exit 9"],
        &["no-such-program"],
        &["record", "--method=nope", "true"],
        &["softgpu", "sh", "-c", "exit 5"],
        &["softgpu", "--list", "--all"],
        &["report", &one],
        &["report", "--json", &one],
        &["report", "no-such-trace.jsonl"],
        &["report", "findings", &one],
        &["timeline", &one],
        &["replay", &one],
        &["replay", "-e", "nothing", &one],
        &["export", "-f", "csv", "-o", "-", &one],
        &["export", "-f", "chrome", "-o", "-", &one],
        &["export", "-f", "html", "-o", "page.html", &one],
        &["export", "-f", "jsonl", "-o", "copy.jsonl", &one],
        &["diff", &one, &other],
        &["diff", "--fail-on", "total>-99%", &one, &other],
        &["diff", "--json", "--fail-on", "total>-99%", &one, &other],
        &["ioctl", "0xc020462a"],
        &["probes", "uprobe:no-such-library:*"],
        &["hooks", "check", broken_hooks.to_str().expect("UTF-8")],
        &["gpu", "check", broken_hooks.to_str().expect("UTF-8")],
        &["doctor"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["--version"],
        &["record", "--help"],
    ];
    for words in verbs {
        let expected = run(words, Streams::Read);
        for streams in [Streams::NoReader, Streams::NoErrorReader, Streams::Closed] {
            let ended = run(words, streams);
            assert_eq!(ended, expected, "{words:?}, {streams:?}");
        }
    }
}

/// In the words of the shell: `cutrace CMD 2>&1 | head -1` has the status of CMD.
#[test]
fn a_reader_who_has_enough_costs_no_status() {
    let folder = tempfile::tempdir().expect("a folder");
    let line =
        r#""$0" -v sh -c 'echo one; sleep 0.5; exit 7' 2>&1 | head -1; echo "${PIPESTATUS[0]}""#;
    let mut shell = Command::new("bash");
    common::usual_signals(&mut shell);
    let output = shell
        .args(["-c", line])
        .arg(cutrace().get_program())
        .current_dir(folder.path())
        .output()
        .expect("bash runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "one\n7\n");
    let traces = fs::read_dir(folder.path().join("traces")).expect("a folder");
    assert_eq!(traces.count(), 2, "the trace is there, and the link to it");
}

/// The tour says much on both streams.
#[test]
fn the_tour_without_an_audience() {
    let ended = run(&["demo"], Streams::NoErrorReader);
    assert_eq!((ended.code(), ended.signal()), (Some(0), None));
    // Its program writes as well, and ends as any other does.
    let ended = run(&["demo"], Streams::NoReader);
    assert_eq!((ended.code(), ended.signal()), (None, Some(libc::SIGPIPE)));
}

#[test]
fn a_report_is_served_though_nobody_reads_its_address() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let mut view = cutrace();
    view.args(["view", "--no-open", "--port", &port.to_string()])
        .arg(trace("layers.jsonl"));
    with(&mut view, Streams::NoReader);
    let mut child = view.spawn().expect("cutrace runs");
    let began = Instant::now();
    let answer = loop {
        assert_eq!(child.try_wait().expect("asked"), None, "it went away");
        assert!(began.elapsed() < Duration::from_secs(60));
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            let mut answer = String::new();
            std::io::Write::write_all(&mut stream, b"GET / HTTP/1.1\r\n\r\n").expect("asked");
            stream.read_to_string(&mut answer).expect("answered");
            break answer;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    child.kill().expect("ended");
    child.wait().expect("ended");
}
