//! Frames as plain text, for scripts.

use crate::{
    common::{cutrace, skip},
    training,
};
use std::process::Stdio;

#[test]
fn frames_say_what_the_program_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = training(folder.path()) else {
        return;
    };
    let done = cutrace()
        .args([
            "top",
            "--sim",
            "--batch",
            "0",
            "--ascii",
            "--interval",
            "0.5",
        ])
        .arg(&program)
        .args(["300", "5"])
        .current_dir(folder.path())
        .output()
        .expect("cutrace runs");
    let (out, err) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    // The program's own status, and its output apart from the frames.
    assert_eq!(done.status.code(), Some(3), "{err}");
    assert!(err.contains("PASS training"), "{err}");
    assert!(!out.contains("PASS training"), "{out}");
    let last = out.trim_end().rsplit("\n\n").next().expect("a frame");
    for words in [
        "cutrace top",
        "errors 1 ",
        "dropped 0 ",
        "memory  ",
        "[functions]",
        "cuLaunchKernel",
        "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY",
    ] {
        assert!(out.contains(words), "no {words:?} in\n{out}");
    }
    assert!(
        out.contains("step    ") && out.contains(" median "),
        "{out}"
    );
    assert!(last.is_ascii(), "{last}");
    // Nothing was written.
    assert!(!folder.path().join("traces").exists());
}

#[test]
fn once_is_one_frame_and_the_command_ends_as_it_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = training(folder.path()) else {
        return;
    };
    let done = cutrace()
        .args([
            "top",
            "--sim",
            "--once",
            "--interval",
            "0.3",
            "--width",
            "40",
        ])
        .arg(&program)
        .args(["200", "5", "quiet"])
        .stdin(Stdio::null())
        .output()
        .expect("cutrace runs");
    let out = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(3));
    assert_eq!(out.matches("cutrace top").count(), 1, "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 40), "{out}");
}

#[test]
fn a_process_that_runs_is_watched_and_let_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = training(folder.path()) else {
        return;
    };
    let mut running = cutrace()
        .args(["softgpu", "--"])
        .arg(&program)
        .args(["400", "50", "quiet"])
        .stdout(Stdio::null())
        .spawn()
        .expect("softgpu runs");
    let done = cutrace()
        .args(["top", "--batch", "3", "-p", &running.id().to_string()])
        .output()
        .expect("cutrace runs");
    let (out, err) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    if done.status.code() == Some(125) && (err.contains("root") || err.contains("eBPF")) {
        let _ = running.kill();
        let _ = running.wait();
        return skip("attaching needs root and eBPF");
    }
    assert_eq!(done.status.code(), Some(0), "{err}");
    assert_eq!(out.matches("cutrace top").count(), 3, "{out}");
    assert!(out.contains("cuLaunchKernel"), "{out}");
    // It ends as it would without us.
    assert_eq!(running.wait().expect("an end").code(), Some(3));
}

#[test]
fn a_screen_needs_a_terminal() {
    use std::os::unix::process::CommandExt;
    let mut command = cutrace();
    command.args(["top", "--sim", "true"]);
    // SAFETY: a plain system call: without a session there is no terminal.
    unsafe {
        command.pre_exec(|| {
            libc_setsid();
            Ok(())
        })
    };
    let done = command.output().expect("cutrace runs");
    let err = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(125), "{err}");
    assert!(err.contains("--batch"), "{err}");
}

fn libc_setsid() {
    unsafe extern "C" {
        fn setsid() -> i32;
    }
    // SAFETY: no arguments.
    unsafe { setsid() };
}
