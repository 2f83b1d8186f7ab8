//! The progress line, on a terminal and elsewhere.

use super::{path, program};
use crate::common::cutrace;
use std::{
    fs::File,
    io::Read,
    os::fd::{FromRawFd, OwnedFd},
    process::Stdio,
};

/// Runs with standard error on a terminal of its own; what the terminal was sent.
fn on_terminal(options: &[&str], script: &str) -> String {
    let (mut master, mut slave) = (0, 0);
    let size = libc::winsize {
        ws_row: 24,
        ws_col: 60,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: both numbers are written, and owned by nobody else after it.
    let (master, slave) = unsafe {
        let (name, modes) = (std::ptr::null_mut(), std::ptr::null());
        let opened = libc::openpty(&mut master, &mut slave, name, modes, &size);
        assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
        (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut child = cutrace()
        .args(["record", "--sim", "-o"])
        .arg(folder.path().join("trace.jsonl"))
        .args(options)
        .args(["--", "sh", "-c", script])
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(slave)
        .spawn()
        .expect("cutrace runs");
    let mut sent = Vec::new();
    let mut terminal = master;
    let mut piece = [0; 4096];
    // When nobody has the other side any more, reading is an error.
    while let Ok(count @ 1..) = terminal.read(&mut piece) {
        sent.extend_from_slice(&piece[..count]);
    }
    let status = child.wait().expect("it ends");
    let text = String::from_utf8_lossy(&sent).into_owned();
    assert!(status.success(), "{text}");
    text
}

const CLEAR: &str = "\r\x1b[K";

#[test]
fn long_runs_show_a_line_that_is_gone_at_the_end() {
    let Some(program) = program("vector_add") else {
        return;
    };
    let script = format!("{} 1000 && sleep 2.5", path(&program));
    let text = on_terminal(&[], &script);
    let lines: Vec<&str> = text.split(CLEAR).collect();
    let shown = |line: &&&str| line.starts_with("cutrace: ") && line.contains(" events, ");
    assert!(lines.iter().filter(shown).count() >= 3, "{text:?}");
    let last = lines.iter().rev().find(shown).expect("a line");
    let events = last
        .trim_start_matches("cutrace: ")
        .split(' ')
        .next()
        .expect("a number");
    assert!(
        events.parse::<u64>().is_ok_and(|events| events > 20),
        "{last:?}"
    );
    assert!(last.ends_with("/s, 0 lost\r"), "{last:?}");
    // Nothing of it is left where the summary begins, and it has no colours.
    assert!(
        lines
            .last()
            .is_some_and(|rest| rest.contains("=== TRACE SUMMARY ===")),
        "{text:?}"
    );
    assert!(
        !text.contains("\x1b[3") && !text.contains("\x1b[0m"),
        "{text:?}"
    );
}

#[test]
fn short_runs_and_quiet_ones_show_none() {
    let Some(program) = program("vector_add") else {
        return;
    };
    let quiet = on_terminal(&["-q"], &format!("{} 1000 && sleep 1.6", path(&program)));
    assert_eq!(quiet, "");
    let off_terminal = super::record(&[], &["sh", "-c", "sleep 1.6"]);
    assert!(
        !off_terminal.stderr().contains('\r'),
        "{:?}",
        off_terminal.stderr()
    );
}
