//! Folders that are missing, full, read-only or mounted noexec: another place is found, or what was
//! tried is said; the program runs in any case.

use super::path;
use crate::common::{self, cutrace, limit, program, read, skip, usual_signals};
use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};
use tempfile::TempDir;

/// A machine of its own as far as mounts go.
struct Machine {
    /// Where commands run; nothing is mounted over it unless a test does that.
    folder: TempDir,
}

impl Machine {
    fn new() -> Option<Machine> {
        // SAFETY: a question without side effects.
        if unsafe { libc::geteuid() } != 0 {
            skip("mounting needs root");
            return None;
        }
        let tried = Command::new("unshare").args(["-m", "true"]).status();
        if !tried.is_ok_and(|status| status.success()) {
            skip("no mount namespaces here");
            return None;
        }
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        Some(Machine { folder })
    }

    fn trace(&self) -> PathBuf {
        self.folder.path().join("trace.jsonl")
    }

    /// Does `mounts` in a shell, then runs cutrace.
    fn run(&self, mounts: &str, words: &[&str]) -> Output {
        limit();
        let script = format!("set -e; mount --make-rprivate /; {mounts}\nexec \"$0\" \"$@\"");
        let mut command = Command::new("unshare");
        usual_signals(&mut command)
            .args(["-m", "sh", "-c", &script])
            .arg(cutrace().get_program())
            .args(words)
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("TMPDIR")
            .current_dir(self.folder.path());
        command.output().expect("unshare runs")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const TEMPORARY: &str = "mount -t tmpfs -o";

/// Over all folders where libraries could go; one of them is good, and new, so that nothing stays there.
fn everywhere(options: &str, except: &str) -> String {
    let places = ["/var/cache", "/tmp", "/var/tmp", "/dev/shm", "/root"];
    let mount = |place: &str| {
        let options = if place == except {
            "mode=1777"
        } else {
            options
        };
        let repository = repository();
        if !repository.starts_with(place) {
            return format!("{TEMPORARY} {options} none {place}; ");
        }
        // A checkout in one of these folders stays where it is.
        let kept = repository.display();
        format!(
            "{TEMPORARY} mode=755 none /mnt; mkdir /mnt/kept; mount --bind {kept} /mnt/kept; \
             {TEMPORARY} mode=1777 none {place}; mkdir -p {kept}; mount --bind /mnt/kept {kept}; \
             mount -o remount,{options} {place}; cd {kept}; "
        )
    };
    let mounts: String = places.into_iter().map(mount).collect();
    format!("mkdir -p /var/cache /var/tmp /root; {mounts}")
}

fn repository() -> PathBuf {
    let root = common::repository().canonicalize();
    root.expect("the repository is there")
}

#[test]
fn libraries_go_where_they_can_be_loaded_from() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let Some(program) = program("vector_add") else {
        return;
    };
    for options in ["noexec", "ro", "size=64k"] {
        for place in ["/var/cache", "/var/tmp", "/dev/shm", "/tmp"] {
            let mounts = everywhere(options, place);
            let words = ["--sim", "-o", path(&machine.trace()), path(&program)].map(str::to_owned);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let output = machine.run(&mounts, &words);
            let name = format!("{options}, {place} is good: {}", said(&output));
            assert!(output.status.success(), "{name}");
            assert!(
                String::from_utf8_lossy(&output.stdout).contains("PASS"),
                "{name}"
            );
            let lines = read(&machine.trace());
            let calls = lines
                .iter()
                .filter(|line| line["name"] == "cudaMalloc" && line["phase"] == "B");
            assert_eq!(calls.count(), 3, "{name}");
            assert!(said(&output).contains("Events lost: 0"), "{name}");
        }
    }
}

/// All places for libraries are bad, and so is the current folder.
fn nowhere(machine: &Machine, options: &str) -> String {
    let here = machine.folder.path().display();
    format!(
        "{}{TEMPORARY} {options} none {here}; cd {here}; ",
        everywhere(options, "")
    )
}

#[test]
fn a_program_that_cannot_be_traced_runs() {
    let Some(machine) = Machine::new() else {
        return;
    };
    for options in ["noexec", "ro", "size=64k"] {
        let mounts = nowhere(&machine, options);
        let output = machine.run(&mounts, &["sh", "-c", "echo \"<$LD_PRELOAD>\"; exit 4"]);
        let name = format!("{options}: {}", said(&output));
        assert_eq!(output.status.code(), Some(4), "{name}");
        assert_eq!(output.stdout, b"<>\n", "{name}");
        assert!(
            name.contains("running the program without tracing it"),
            "{name}"
        );
        // Every place is named, with why it is not good.
        for place in [
            "/var/cache/cutrace",
            "/tmp/cutrace-0",
            "/var/tmp/cutrace-0",
            "/dev/shm/cutrace-0",
        ] {
            assert!(name.contains(place), "{place}: {name}");
        }
        // Who asked for it by name is told before the program runs.
        let words = ["--method=preload", "sh", "-c", "echo ran"];
        let output = machine.run(&mounts, &words);
        let name = format!("{options}: {}", said(&output));
        assert_eq!(output.status.code(), Some(125), "{name}");
        assert_eq!(output.stdout, b"", "{name}");
        assert!(name.contains("set XDG_CACHE_HOME"), "{name}");
    }
}

/// The session's folder: /dev/shm is missing, full or read-only.
#[test]
fn rings_go_where_there_is_room() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let Some(program) = program("vector_add") else {
        return;
    };
    for mounts in [
        "mount -t tmpfs -o ro none /dev/shm",
        "mount -t tmpfs -o size=64k none /dev/shm; head -c 64k /dev/zero > /dev/shm/full || true",
        "mount -t tmpfs none /dev; mknod /dev/null c 1 3; mknod /dev/urandom c 1 9; mknod /dev/zero c 1 5; chmod 666 /dev/*",
    ] {
        let trace = machine.trace();
        let words = ["--sim", "-v", "-o", path(&trace), path(&program)];
        let output = machine.run(mounts, &words);
        let name = format!("{mounts}: {}", said(&output));
        assert!(output.status.success(), "{name}");
        let lines = read(&trace);
        let calls = lines
            .iter()
            .filter(|line| line["name"] == "cudaMalloc" && line["phase"] == "B");
        assert_eq!(calls.count(), 3, "{name}");
        assert!(name.contains("Events lost: 0"), "{name}");
    }
}

/// Nobody stops reading the rings of a process that lives: on overlayfs, where containers have their files, the kernel
/// grants leases on files that others have mapped.
#[test]
fn rings_on_overlayfs_are_read_until_the_program_ends() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let Some(program) = program("endless") else {
        return;
    };
    let here = machine.folder.path().display();
    let bad: String = ["/tmp", "/var/tmp", "/dev/shm"]
        .iter()
        .filter(|place| !repository().starts_with(place))
        .map(|place| format!("{TEMPORARY} ro none {place}; "))
        .collect();
    let mounts = format!(
        "mkdir lower upper work merged; \
         mount -t overlay none -o lowerdir={here}/lower,upperdir={here}/upper,workdir={here}/work {here}/merged; \
         mkdir -p /var/cache; {TEMPORARY} mode=1777 none /var/cache; {bad}cd merged"
    );
    // It sleeps for a second before it launches what it has captured.
    let words = ["--sim", "-o", "trace.jsonl", path(&program), "capture"];
    let output = machine.run(&mounts, &[&words[..], &["4", "64", "3"]].concat());
    if said(&output).contains("unknown filesystem type") {
        return skip("no overlayfs here");
    }
    assert!(output.status.success(), "{}", said(&output));
    let lines = read(&machine.folder.path().join("upper/trace.jsonl"));
    for name in ["cudaMalloc", "cudaGraphLaunch"] {
        let calls = lines
            .iter()
            .filter(|line| line["name"] == name && line["phase"] == "B");
        assert_eq!(calls.count(), 3, "{name}: {}", said(&output));
    }
    assert!(
        said(&output).contains("Events lost: 0"),
        "{}",
        said(&output)
    );
}

/// Without a name, a trace goes to the current folder, or where temporary files go.
#[test]
fn a_trace_without_a_name_finds_a_place() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let here = machine.folder.path().display();
    let mounts = format!("{TEMPORARY} ro none {here}; cd {here}");
    let output = machine.run(&mounts, &["sh", "-c", "exit 5"]);
    let name = said(&output);
    assert_eq!(output.status.code(), Some(5), "{name}");
    let line = name.lines().find_map(|line| line.strip_prefix("Trace: "));
    let trace = PathBuf::from(line.expect("a trace"));
    assert!(trace.starts_with(std::env::temp_dir()), "{name}");
    assert!(!read(&trace).is_empty(), "{name}");
    fs::remove_file(&trace).expect("removed");
    let _ = fs::remove_dir(trace.parent().expect("a folder"));
    // A place that was named is the user's choice.
    let output = machine.run(&mounts, &["-o", "trace.jsonl", "sh", "-c", "echo ran"]);
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(125), &b""[..]),
        "{output:?}"
    );
}

/// HOME is missing, unset, not absolute, or has a space in its name.
#[test]
fn homes_that_are_none() {
    let Some(program) = program("vector_add") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("none/none");
    let spaced = folder.path().join("my home");
    fs::create_dir(&spaced).expect("made");
    for home in [
        missing.to_str(),
        None,
        Some(""),
        Some("."),
        Some("/dev/null"),
        spaced.to_str(),
    ] {
        for variable in ["HOME", "XDG_CACHE_HOME"] {
            let trace = folder.path().join("trace.jsonl");
            let mut command = cutrace();
            command.env_remove("XDG_CACHE_HOME");
            match home {
                Some(home) => command.env(variable, home),
                None => command.env_remove(variable),
            };
            command.args(["--sim", "-o"]).arg(&trace).arg(&program);
            let output = command.output().expect("cutrace runs");
            let name = format!("{variable}={home:?}: {}", said(&output));
            assert!(output.status.success(), "{name}");
            let lines = read(&trace);
            assert!(
                lines.iter().any(|line| line["name"] == "cudaMalloc"),
                "{name}"
            );
        }
    }
}
