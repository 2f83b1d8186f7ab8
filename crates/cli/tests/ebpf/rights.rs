//! Who may: two capabilities are enough, and the command is its user's.

use super::{
    calls,
    common::{SAME_GPU, cutrace, program},
    read, ready, requests,
};
use std::{
    os::unix::fs::MetadataExt, os::unix::fs::PermissionsExt, path::Path, process::Command,
    process::Output,
};

/// Runs cutrace as nobody, with these capabilities.
fn as_nobody(home: &Path, capabilities: &str, words: &[&str]) -> Output {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    if !capabilities.is_empty() {
        command.arg(format!("--inh-caps={capabilities}"));
        command.arg(format!("--ambient-caps={capabilities}"));
    }
    command
        .arg(env!("CARGO_BIN_EXE_cutrace"))
        .args(words)
        .envs(SAME_GPU)
        .env("HOME", home)
        .env("XDG_CACHE_HOME", home.join("cache"))
        .output()
        .expect("setpriv")
}

fn public_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).expect("opened");
    folder
}

#[test]
fn two_capabilities_are_enough() {
    let Some(_turn) = ready() else {
        return;
    };
    let Some(program) = program("vector_add") else {
        return;
    };
    let (folder, root) = (public_folder(), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("nobody.jsonl");
    let words = [
        "--sim",
        "-v",
        "--method=ebpf",
        "-o",
        path.to_str().expect("text"),
        program.to_str().expect("text"),
    ];
    let output = as_nobody(folder.path(), "+bpf,+perfmon", &words);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let seen = read(&path);
    let roots = super::trace(root.path(), "ebpf", &program);
    assert!(calls(&roots).len() > 500);
    assert_eq!(calls(&seen), calls(&roots), "{text}");
    assert_eq!(requests(&seen), requests(&roots), "{text}");
}

#[test]
fn less_than_that_is_said() {
    let Some(_turn) = ready() else {
        return;
    };
    let folder = public_folder();
    let path = folder.path().join("none.jsonl");
    let words = ["--method=ebpf", "-o", path.to_str().expect("text"), "true"];
    for (capabilities, lacking) in [
        ("", "CAP_BPF and CAP_PERFMON"),
        ("+perfmon", "CAP_BPF and CAP_PERFMON"),
        ("+bpf", "CAP_PERFMON"),
    ] {
        let output = as_nobody(folder.path(), capabilities, &words);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{capabilities}: {text}");
        assert!(text.contains(lacking), "{capabilities}: {text}");
        assert!(text.contains("sudo cutrace"), "{capabilities}: {text}");
        assert!(!path.exists(), "nothing ran, and nothing is left");
    }
}

#[test]
fn under_sudo_the_command_is_the_users() {
    let Some(_turn) = ready() else {
        return;
    };
    let output = cutrace()
        .args([
            "-q",
            "--method=ebpf",
            "-o",
            "-",
            "sh",
            "-c",
            "id -u >&2; id -g >&2; id -G >&2",
        ])
        .env("SUDO_UID", "65534")
        .env("SUDO_GID", "65533")
        .env_remove("SUDO_USER")
        .output()
        .expect("started");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text, "65534\n65533\n65533\n");
    // So is the trace, and nobody else reads it.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("new/trace.jsonl");
    let output = cutrace()
        .args(["-q", "--method=ebpf", "-o"])
        .arg(&path)
        .arg("true")
        .envs([("SUDO_UID", "65534"), ("SUDO_GID", "65533")])
        .output()
        .expect("started");
    assert!(output.status.success(), "{output:?}");
    let trace = std::fs::metadata(&path).expect("written");
    let around = std::fs::metadata(folder.path().join("new")).expect("made");
    assert_eq!(trace.mode() & 0o777, 0o600);
    for found in [trace, around] {
        assert_eq!((found.uid(), found.gid()), (65534, 65533));
    }
}
