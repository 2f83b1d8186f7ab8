//! The progress line: where nobody else writes, when the program has ended, and nowhere else.

use super::{compile, path, program};
use crate::common::{cutrace, limit, skip};
use std::{
    fs::File,
    io::Read,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Command, Stdio},
    thread,
};

/// A terminal of 90 columns: our side, and the program's.
fn terminal() -> (File, OwnedFd) {
    let (mut master, mut slave) = (0, 0);
    let size = libc::winsize {
        ws_row: 24,
        ws_col: 90,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: both numbers are written, and owned by nobody else after it.
    unsafe {
        let (name, modes) = (std::ptr::null_mut(), std::ptr::null());
        let opened = libc::openpty(&mut master, &mut slave, name, modes, &size);
        assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
        libc::fcntl(master, libc::F_SETFD, libc::FD_CLOEXEC);
        (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    }
}

/// All that a terminal is sent until nobody has its other side any more.
fn sent(mut terminal: File) -> String {
    let mut sent = Vec::new();
    let mut piece = [0; 4096];
    // Then reading is an error.
    while let Ok(count @ 1..) = terminal.read(&mut piece) {
        sent.extend_from_slice(&piece[..count]);
    }
    String::from_utf8_lossy(&sent).into_owned()
}

/// Runs with standard output and error on a terminal; what it was sent.
fn on_terminal(command: &mut Command) -> String {
    let (master, slave) = terminal();
    let mut child = command
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(slave.try_clone().expect("copied"))
        .stderr(slave)
        .spawn()
        .expect("cutrace runs");
    // It holds the terminal, too.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let text = sent(master);
    assert!(child.wait().expect("it ends").success(), "{text}");
    text
}

fn recording(options: &[&str], script: &str) -> (tempfile::TempDir, Command) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = cutrace();
    command
        .args(["record", "--sim", "-o"])
        .arg(folder.path().join("trace.jsonl"))
        .args(options)
        .args(["--", "sh", "-c", script]);
    (folder, command)
}

const CLEAR: &str = "\r\x1b[K";

#[test]
fn a_program_has_its_terminal_for_itself() {
    let Some(program) = program("vector_add") else {
        return;
    };
    // Halves of lines, on both streams, for longer than a line would take to appear.
    let script = format!(
        "printf 'epoch 1: '; {} 1000 >/dev/null; sleep 1.4; printf 'loss ' >&2; sleep 0.6; printf '0.5\\n'",
        path(&program)
    );
    let (_folder, mut command) = recording(&[], &script);
    let text = on_terminal(&mut command);
    assert!(
        text.starts_with("epoch 1: loss 0.5\r\n\r\n=== TRACE SUMMARY ==="),
        "{text:?}"
    );
    assert!(!text.contains(CLEAR) && !text.contains('\x1b'), "{text:?}");
}

#[test]
fn a_terminal_that_nobody_else_writes_to_shows_a_line_that_is_gone_at_the_end() {
    // SAFETY: a question without side effects.
    if unsafe { libc::geteuid() } != 0 {
        return skip("attaching to a process may need root");
    }
    let mut watched = Command::new("sleep").arg("20").spawn().expect("sleep runs");
    let pid = watched.id().to_string();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = cutrace();
    command
        .args(["record", "--method=syscall", "-p", &pid, "-d", "2.5", "-o"])
        .arg(folder.path().join("trace.jsonl"));
    let text = on_terminal(&mut command);
    let _ = watched.kill();
    let _ = watched.wait();
    let lines: Vec<&str> = text.split(CLEAR).collect();
    let shown = |line: &&&str| **line == "cutrace: 0 events, 0/s, 0 lost\r";
    assert!(lines.iter().filter(shown).count() >= 3, "{text:?}");
    // Nothing of it is left where the summary begins.
    let rest = lines.last().expect("a rest");
    assert!(
        rest.contains("Trace: ") && !rest.contains(" lost\r"),
        "{text:?}"
    );
}

#[test]
fn what_is_done_after_the_program_is_shown() {
    limit();
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("losses", folder.path());
    let mut ends = [0; 2];
    // SAFETY: both numbers are written, and owned by nobody else after it.
    let (mut trace, pipe) = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    let (mut master, slave) = terminal();
    let mut command = cutrace();
    command
        .args(["record", "--sim", "--method=preload", "-o", "fd:7", "--"])
        .arg(&program)
        .args(["many", "5000"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(slave);
    // SAFETY: async-signal-safe calls on open descriptors.
    unsafe {
        command.pre_exec(move || match libc::dup2(pipe.as_raw_fd(), 7) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        })
    };
    let mut child = command.spawn().expect("cutrace runs");
    drop(command);
    // Nobody reads the trace until the line is there.
    let words = "cutrace: the program has ended; writing the trace: ";
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&text).contains(words) {
        let count = master.read(&mut piece).unwrap_or(0);
        assert!(count > 0, "{}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&piece[..count]);
    }
    let reader = thread::spawn(move || {
        let mut lines = Vec::new();
        trace.read_to_end(&mut lines).expect("read");
        lines.len()
    });
    text.extend_from_slice(sent(master).as_bytes());
    let text = String::from_utf8_lossy(&text);
    let rest = text.rsplit(CLEAR).next().expect("a rest");
    assert!(
        rest.contains("=== TRACE SUMMARY ===") && !rest.contains("writing the trace: "),
        "{text:?}"
    );
    assert!(reader.join().expect("read") > 1_000_000);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn quiet_runs_and_pipes_show_none() {
    let Some(program) = program("vector_add") else {
        return;
    };
    let (_folder, mut command) = recording(
        &["-q"],
        &format!("{} 1000 >/dev/null; sleep 1.6", path(&program)),
    );
    assert_eq!(on_terminal(&mut command), "");
    let off_terminal = super::record(&[], &["sh", "-c", "sleep 1.6"]);
    assert!(
        !off_terminal.stderr().contains('\r'),
        "{:?}",
        off_terminal.stderr()
    );
}
