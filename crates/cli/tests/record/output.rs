//! The trace on standard output or on a descriptor, apart from whatever the program prints.

use super::{compile, path};
use crate::common::{cutrace, limit};
use std::{
    fs::{self, File},
    io::Read,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Command, Stdio},
};

/// Each line is an object, from the head to the tail.
fn lines(text: &[u8]) -> Vec<serde_json::Value> {
    let text = std::str::from_utf8(text).expect("UTF-8");
    let lines: Vec<serde_json::Value> = (text.lines())
        .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}")))
        .collect();
    let ends = [lines.first(), lines.last()].map(|line| line.expect("a line")["type"].clone());
    assert_eq!(ends, ["meta", "summary"]);
    lines
}

/// Prints halves of lines while it calls.
fn noisy(program: &str) -> String {
    format!(
        "printf 'half a line'; {program} many 3000; printf '{{\"not\": ours}}\\n and more'; echo error >&2"
    )
}

#[test]
fn standard_output_has_the_trace_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("losses", folder.path());
    let output = cutrace()
        .args(["record", "--sim", "-q", "-o", "-", "--", "sh", "-c"])
        .arg(noisy(path(&program)))
        .output()
        .expect("cutrace runs");
    assert!(output.status.success(), "{output:?}");
    let calls = lines(&output.stdout);
    let calls = calls
        .iter()
        .filter(|line| line["phase"] == "B" && line["name"] == "cuCtxGetCurrent");
    assert_eq!(calls.count(), 3000);
    let said = String::from_utf8_lossy(&output.stderr);
    let (begin, end) = ("half a linemade 3000 ", "{\"not\": ours}\n and moreerror\n");
    assert!(said.starts_with(begin) && said.ends_with(end), "{said}");
}

/// A child that finds `file` at descriptor 7.
fn with_seven(command: &mut Command, file: OwnedFd) {
    // SAFETY: async-signal-safe calls on open descriptors.
    unsafe {
        command.pre_exec(move || match libc::dup2(file.as_raw_fd(), 7) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        })
    };
}

#[test]
fn a_descriptor_has_the_trace_and_the_program_has_its_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("losses", folder.path());
    let trace = folder.path().join("trace");
    let mut command = cutrace();
    command
        .args(["record", "--sim", "-o", "fd:7", "--", "sh", "-c"])
        .arg(format!(
            "{}; ls /proc/self/fd | grep -c '^7$'",
            noisy(path(&program))
        ));
    with_seven(&mut command, File::create(&trace).expect("created").into());
    let output = command.output().expect("cutrace runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Trace: descriptor 7\n"), "{said}");
    assert!(!said.contains("Next: "), "{said}");
    let printed = String::from_utf8_lossy(&output.stdout);
    // The program does not have it.
    assert!(
        printed.starts_with("half a linemade 3000 ") && printed.ends_with(" and more0\n"),
        "{printed}"
    );
    lines(&fs::read(&trace).expect("there"));
}

#[test]
fn whoever_reads_a_descriptor_sees_its_end() {
    limit();
    let mut ends = [0; 2];
    // SAFETY: both numbers are written, and owned by nobody else after it.
    let (mut reader, writer) = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    let mut command = cutrace();
    // What it leaves behind has the pipe no more than itself.
    command.args([
        "record",
        "-q",
        "-o",
        "fd:7",
        "--",
        "sh",
        "-c",
        "sleep 30 & echo $!",
    ]);
    command.stdout(Stdio::piped());
    with_seven(&mut command, writer);
    let mut child = command.spawn().expect("cutrace runs");
    drop(command);
    let mut text = Vec::new();
    reader.read_to_end(&mut text).expect("read");
    lines(&text);
    let mut pid = String::new();
    let mut stdout = child.stdout.take().expect("piped");
    let mut byte = [0];
    while stdout.read(&mut byte).is_ok_and(|count| count == 1) && byte != *b"\n" {
        pid.push(char::from(byte[0]));
    }
    let sleeper: i32 = pid.trim().parse().expect("a number");
    // SAFETY: a plain system call.
    let ended = unsafe { libc::kill(sleeper, libc::SIGKILL) };
    assert_eq!(
        ended, 0,
        "it is still there: the trace's end did not wait for it"
    );
    assert!(child.wait().expect("ends").success());
}

#[test]
fn descriptors_that_are_not_there_are_no_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("mark");
    for (output, words) in [
        ("fd:9", "fd:9: it is not open"),
        ("fd:0", "3 or above"),
        ("fd:2", "3 or above"),
    ] {
        let mut command = cutrace();
        command.args(["record", "-o", output, "touch"]).arg(&mark);
        let output = command.output().expect("cutrace runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(words), "{said}");
        assert!(!mark.exists());
    }
}
