//! A root of its own, with namespaces of its own, as containers have: a few files in a folder.

use super::{Run, compile, path};
use crate::common::{SAME_GPU, cutrace, read, skip};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

struct Container {
    folder: TempDir,
}

/// Copies a program, and the libraries it needs, to where they are in the root.
fn install(root: &Path, program: &Path) {
    let copy = |from: &Path, to: PathBuf| {
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        fs::copy(from, to).expect("copied");
    };
    let name = program.file_name().expect("a name");
    copy(program, root.join("bin").join(name));
    let needed = Command::new("ldd").arg(program).output().expect("ldd runs");
    for word in String::from_utf8_lossy(&needed.stdout).split_whitespace() {
        if let Some(inside) = word.strip_prefix('/') {
            copy(Path::new(word), root.join(inside));
        }
    }
}

impl Container {
    fn new() -> Option<Container> {
        // SAFETY: no preconditions.
        if unsafe { libc::geteuid() } != 0 {
            skip("only root can make a container");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let container = Container { folder };
        for name in ["proc", "dev", "tmp", "sys", "home"] {
            fs::create_dir_all(container.root().join(name)).expect("made");
        }
        let program = compile("losses", container.folder.path());
        let shell = fs::canonicalize("/bin/sh").expect("a shell");
        for file in [&program, Path::new(cutrace().get_program()), &shell] {
            install(&container.root(), file);
        }
        Some(container)
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// `before` is what runs outside, and starts the rest inside.
    fn run(&self, before: &[&str], inside: &[&str]) -> Run {
        let script = "mount --make-rprivate / && mount -t proc proc \"$0/proc\" && mount --rbind /dev \"$0/dev\" && \
                      mount -t tmpfs tmpfs \"$0/dev/shm\" && mount --rbind /sys \"$0/sys\" && exec chroot \"$0\" \"$@\"";
        let mut words = before.to_vec();
        let root = self.root();
        words.extend([
            "unshare",
            "-pfm",
            "--mount-proc",
            "sh",
            "-c",
            script,
            path(&root),
        ]);
        words.extend(inside);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).envs(SAME_GPU);
        let output = command.env("HOME", "/home").output().expect("it runs");
        let trace = match before {
            [] => self.root().join("tmp/trace.jsonl"),
            _ => self.folder.path().join("trace.jsonl"),
        };
        Run {
            folder: tempfile::tempdir().expect("a folder"),
            output,
            lines: read(&trace),
        }
    }
}

const RECORD: [&str; 5] = ["/bin/cutrace", "record", "--sim", "-o", "/tmp/trace.jsonl"];

#[test]
fn cutrace_inside_of_a_container_sees_all() {
    let Some(container) = Container::new() else {
        return;
    };
    for method in ["preload", "preload,syscall", "preload,cupti,syscall"] {
        let method = format!("--method={method}");
        let inside = [&method, "--", "/bin/losses", "held", "20"];
        let run = container.run(&[], &[&RECORD[..], &inside].concat());
        assert!(run.output.status.success(), "{method}: {}", run.stderr());
        assert_eq!(run.calls("cuCtxGetCurrent").count(), 120, "{method}");
        assert_eq!(run.summary()["lost"], 0, "{method}");
    }
    // What cannot work says so.
    let inside = ["--method=ebpf", "--", "/bin/losses", "held", "20"];
    let run = container.run(&[], &[&RECORD[..], &inside].concat());
    assert!(run.output.status.success(), "{}", run.stderr());
    let why = "ebpf cannot match processes from inside a PID namespace";
    assert!(run.stderr().contains(why), "{}", run.stderr());
}

#[test]
fn a_program_in_a_container_that_cutrace_is_not_in_is_named() {
    let Some(container) = Container::new() else {
        return;
    };
    // Unpacks softgpu there.
    let inside = ["--method=preload", "--", "/bin/losses", "many", "10"];
    let run = container.run(&[], &[&RECORD[..], &inside].concat());
    assert!(run.output.status.success(), "{}", run.stderr());
    let binary = cutrace().get_program().to_owned();
    let trace = container.folder.path().join("trace.jsonl");
    let outside = [
        path(Path::new(&binary)),
        "record",
        "--sim",
        "--method=preload",
        "-o",
        path(&trace),
        "--",
    ];
    let libraries = fs::read_dir(container.root().join("home/.cache/cutrace")).expect("unpacked");
    let softgpu = libraries
        .flatten()
        .map(|entry| entry.file_name().into_string().expect("UTF-8"))
        .find(|name| name.starts_with("softgpu"))
        .expect("unpacked");
    let set = format!(
        "LD_LIBRARY_PATH=/home/.cache/cutrace/{softgpu}; export LD_LIBRARY_PATH; exec /bin/losses many 20000000"
    );
    let shell = fs::canonicalize("/bin/sh").expect("a shell");
    let shell = format!(
        "/bin/{}",
        path(Path::new(shell.file_name().expect("a name")))
    );
    let run = container.run(&outside, &[&shell, "-c", &set]);
    assert!(run.output.status.success(), "{}", run.stderr());
    let words = "but was not traced: it runs in another root (a container)";
    assert!(run.stderr().contains(words), "{}", run.stderr());
    assert!(
        run.stderr().contains("run cutrace inside it"),
        "{}",
        run.stderr()
    );
}

#[test]
fn calls_and_system_calls_of_another_namespace_are_of_one_thread() {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return skip("only root can make a PID namespace");
    }
    let Some(program) = super::program("vector_add") else {
        return;
    };
    let command = ["unshare", "-pf", "--mount-proc", path(&program)];
    let run = super::record(&["--method=preload,syscall,cupti"], &command);
    assert!(run.output.status.success(), "{}", run.stderr());
    let threads = |kind| -> BTreeSet<(Option<u64>, Option<u64>)> {
        let thread = |line: &serde_json::Value| (line["pid"].as_u64(), line["tid"].as_u64());
        run.of_type(kind).map(thread).collect()
    };
    let requests = threads("ioctl");
    assert!(!requests.is_empty(), "{}", run.stderr());
    assert!(requests.is_subset(&threads("userspace")), "{requests:?}");
    let nested = |line: &&serde_json::Value| line["parent"].as_u64().is_some();
    assert_eq!(
        run.of_type("ioctl").filter(nested).count(),
        run.of_type("ioctl").count()
    );
    // Work on the GPU is linked to its calls.
    let calls: BTreeSet<_> = run
        .of_type("userspace")
        .map(|line| line["op_id"].as_u64())
        .collect();
    let mut work = run
        .of_type("gpu")
        .filter(|line| line["phase"] == "B")
        .peekable();
    assert!(work.peek().is_some(), "{}", run.stderr());
    for line in work {
        assert!(calls.contains(&line["correlation"].as_u64()), "{line}");
    }
}
