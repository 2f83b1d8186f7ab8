//! A command run through `launch` looks, from outside, like the command itself.

#[path = "../../cli/tests/common/limited.rs"]
mod limited;

use capture::launch::{self, Command, Exit, LaunchError, Preparation, library_path};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

fn sh(script: &str) -> Command {
    usual();
    Command {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        environment: Vec::new(),
    }
}

/// This process starts commands itself: they take over what it ignores.
fn usual() {
    limited::limit();
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(limited::reset);
}

/// The example program, which cargo builds with the tests.
fn launcher() -> std::process::Command {
    let tests = std::env::current_exe().expect("the test's own path");
    let path: PathBuf = tests
        .ancestors()
        .nth(2)
        .expect("target folder")
        .join("examples/launch");
    assert!(
        path.exists(),
        "{} is missing: cargo build --examples makes it",
        path.display()
    );
    usual();
    let mut command = std::process::Command::new(path);
    limited::usual_signals(&mut command);
    command
}

fn outside(words: &[&OsStr]) -> Output {
    launcher().args(words).output().expect("launcher starts")
}

fn outside_sh(script: &str) -> Output {
    outside(&["sh".as_ref(), "-c".as_ref(), script.as_ref()])
}

/// A launcher whose command has said 'ready'.
fn ready(script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = launcher()
        .args(["sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("launcher starts");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    (child, output)
}

fn send(child: &Child, signal: i32) {
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

#[test]
fn exit_codes_come_back() {
    for code in [0, 1, 42, 125, 255] {
        assert_eq!(
            launch::run(&sh(&format!("exit {code}"))).expect("runs"),
            Exit::Code(code)
        );
        assert_eq!(
            outside_sh(&format!("exit {code}")).status.code(),
            Some(code)
        );
    }
}

#[test]
fn fatal_signals_come_back() {
    for signal in [
        libc::SIGKILL,
        libc::SIGTERM,
        libc::SIGSEGV,
        libc::SIGABRT,
        libc::SIGINT,
        libc::SIGPIPE,
    ] {
        let script = format!("kill -{signal} $$");
        assert_eq!(
            launch::run(&sh(&script)).expect("runs"),
            Exit::Signal(signal)
        );
        assert_eq!(outside_sh(&script).status.signal(), Some(signal));
    }
}

#[test]
fn streams_pass_through() {
    let output = outside_sh("echo out; echo err >&2");
    assert_eq!(
        (&output.stdout[..], &output.stderr[..]),
        (&b"out\n"[..], &b"err\n"[..])
    );
    let mut child = launcher()
        .arg("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), b"to cat").expect("writes");
    assert_eq!(child.wait_with_output().expect("ends").stdout, b"to cat");
}

#[test]
fn the_environment_is_ours_plus_the_changes() {
    let mut command = sh(r#"test "$LAUNCH_TEST" = "with space" && test -n "$PATH""#);
    command
        .environment
        .push(("LAUNCH_TEST".into(), "with space".into()));
    assert_eq!(launch::run(&command).expect("runs"), Exit::Code(0));
    command.environment.clear();
    assert_eq!(launch::run(&command).expect("runs"), Exit::Code(1));
}

#[test]
fn what_cannot_run_says_why() {
    let folder = tempfile::tempdir().expect("folder");
    let file = |name: &str, text: &str, mode: u32| -> OsString {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode set");
        path.into_os_string()
    };
    let cases = [
        ("no-such-command-anywhere".into(), 127, "command not found"),
        (
            folder.path().join("none").into_os_string(),
            127,
            "command not found",
        ),
        (
            file("lost", "#!/no/such/interpreter\n", 0o755),
            127,
            "interpreter or loader",
        ),
        (file("plain", "#!/bin/sh\n", 0o644), 126, "chmod +x"),
        (folder.path().as_os_str().to_owned(), 126, "a folder"),
        (OsString::new(), 127, "command not found"),
    ];
    for (program, code, words) in cases {
        let command = Command {
            program: program.clone(),
            ..Command::default()
        };
        let error = launch::run(&command).expect_err("must not run");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.exit_code(), code, "{error}");
        assert_eq!(
            outside(&[&program]).status.code(),
            Some(code.into()),
            "{error}"
        );
    }
}

#[test]
fn a_script_without_an_interpreter_line_runs_as_in_a_shell() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("script");
    fs::write(&path, "exit 6\n").expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode set");
    let command = Command {
        program: path.into_os_string(),
        ..Command::default()
    };
    assert_eq!(launch::run(&command).expect("runs"), Exit::Code(6));
}

#[test]
fn a_signal_sent_to_us_reaches_the_command_once() {
    for (name, signal) in [
        ("INT", libc::SIGINT),
        ("TERM", libc::SIGTERM),
        ("HUP", libc::SIGHUP),
        ("USR1", libc::SIGUSR1),
    ] {
        let script =
            format!("trap 'echo got {name}' {name}; echo ready; read line; sleep 0.1; exit 9");
        let mut child = launcher()
            .args(["sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("ready");
        send(&child, signal);
        line.clear();
        output.read_line(&mut line).expect("answer");
        assert_eq!(line, format!("got {name}\n"));
        drop(child.stdin.take());
        let mut rest = String::new();
        output.read_to_string(&mut rest).expect("rest");
        assert_eq!(rest, "", "the signal came twice");
        assert_eq!(child.wait().expect("ends").code(), Some(9));
    }
}

#[test]
fn a_fatal_signal_sent_to_us_ends_both() {
    let (mut child, mut output) = ready("echo ready; exec sleep 100");
    send(&child, libc::SIGTERM);
    assert_eq!(child.wait().expect("ends").signal(), Some(libc::SIGTERM));
    // The pipe closes only when the sleeping command is gone as well.
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("rest");
}

#[test]
fn when_the_command_stops_we_stop_and_go_on_with_it() {
    let (child, _output) = ready("echo ready; kill -STOP $$; exit 3");
    let pid = child.id() as i32;
    let mut status = 0;
    assert_eq!(
        unsafe { libc::waitpid(pid, &mut status, libc::WUNTRACED) },
        pid
    );
    assert!(libc::WIFSTOPPED(status), "status {status:#x}");
    send(&child, libc::SIGCONT);
    assert_eq!(
        unsafe { libc::waitpid(pid, &mut status, libc::WUNTRACED) },
        pid
    );
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 3,
        "status {status:#x}"
    );
}

#[test]
fn ctrl_c_reaches_the_command_once() {
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::os::unix::process::CommandExt;
    let (mut master, mut terminal) = (0, 0);
    let null = std::ptr::null_mut();
    assert_eq!(
        unsafe { libc::openpty(&mut master, &mut terminal, null, null.cast(), null.cast()) },
        0
    );
    let (master, terminal) = unsafe {
        (
            fs::File::from_raw_fd(master),
            OwnedFd::from_raw_fd(terminal),
        )
    };
    let script = "trap 'echo got INT' INT; echo ready; read line; read line; echo done; exit 9";
    let mut command = launcher();
    command
        .args(["sh", "-c", script])
        .stdin(terminal.try_clone().expect("duplicate"))
        .stdout(terminal);
    unsafe {
        // A session of its own with the terminal, as a shell gives to its foreground job.
        command.pre_exec(
            || match (libc::setsid(), libc::ioctl(0, libc::TIOCSCTTY, 0)) {
                (-1, _) | (_, -1) => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            },
        );
    }
    let mut child = command.spawn().expect("starts");
    drop(command);
    let mut output = BufReader::new(master.try_clone().expect("duplicate"));
    let mut seen = String::new();
    let mut read_until = |wanted: &str| {
        while !seen.contains(wanted) {
            assert_ne!(
                output.read_line(&mut seen).expect("a line"),
                0,
                "closed after {seen}"
            );
        }
        seen.clone()
    };
    read_until("ready");
    std::io::Write::write_all(&mut &master, b"\x03").expect("Ctrl-C");
    read_until("got INT");
    std::io::Write::write_all(&mut &master, b"one\ntwo\n").expect("writes");
    let seen = read_until("done");
    assert_eq!(seen.matches("got INT").count(), 1, "{seen}");
    assert_eq!(child.wait().expect("ends").code(), Some(9));
}

#[test]
fn ignored_signals_stay_ignored() {
    // As under nohup: the command must not die of it, whoever it is sent to.
    let mut child = std::process::Command::new("sh")
        .arg("-c")
        .arg(r#"trap '' HUP; exec "$0" sh -c 'echo ready; read line; exit 4'"#)
        .arg(launcher().get_program())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("ready");
    send(&child, libc::SIGHUP);
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("ends").code(), Some(4));
}

#[test]
fn library_path_puts_the_folder_first() {
    let first = Path::new("/opt/soft gpu");
    let joined =
        |existing: Option<&str>| library_path(existing.map(OsStr::new), first).expect("usable");
    assert_eq!(joined(None), "/opt/soft gpu");
    assert_eq!(joined(Some("")), "/opt/soft gpu");
    assert_eq!(joined(Some("/a:/b")), "/opt/soft gpu:/a:/b");
    for bad in ["/a:b", "/a;b"] {
        assert!(matches!(
            library_path(None, Path::new(bad)),
            Err(LaunchError::UnusableFolder(_))
        ));
    }
}

#[test]
fn a_held_command_begins_when_it_is_let_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("mark");
    let mut command = sh("echo $GREETING > \"$MARK\"; exit 7");
    command.environment = vec![
        ("MARK".into(), mark.clone().into()),
        ("GREETING".into(), "hello".into()),
    ];
    let mut held = launch::hold(&command, &Preparation::default()).expect("held");
    assert!(Path::new(&format!("/proc/{}", held.pid())).exists());
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!mark.exists(), "it waits");
    held.release().expect("begun");
    assert_eq!(held.wait().expect("waited for"), Exit::Code(7));
    assert_eq!(fs::read_to_string(&mark).expect("written"), "hello\n");
    fs::remove_file(&mark).expect("removed");
    // One that is never let go never begins.
    let held = launch::hold(&command, &Preparation::default()).expect("held");
    let pid = held.pid();
    drop(held);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!mark.exists());
    let missing = Command {
        program: "/nonexistent/command".into(),
        ..Command::default()
    };
    let mut held = launch::hold(&missing, &Preparation::default()).expect("held");
    assert!(matches!(held.release(), Err(LaunchError::NotFound(_))));
}
