//! `cutrace hooks`, `probes`, `doctor`, and hooks files in runs. What needs a driver in the kernel is
//! tested in a virtual machine: tests/vm.

mod common;

use common::{cutrace, repository, skip};
use std::{fs, path::Path, process::Command};

fn said(words: &[&str]) -> (String, String, Option<i32>) {
    let output = cutrace().args(words).output().expect("cutrace runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (
        text(output.stdout),
        text(output.stderr),
        output.status.code(),
    )
}

#[test]
fn a_wrong_file_is_told_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wrong.toml");
    fs::write(
        &file,
        "[[hook]]\nprobe = \"kprobe:f\"\nwhen = \"size > 1\"\n",
    )
    .expect("written");
    let name = file.to_str().expect("UTF-8");
    let expected = format!(
        "cutrace: {name}:3:9: 'size' is not among the hook's args, which are none\n 3 | when = \"size > 1\"\n   |         ^\n"
    );
    let (out, error, code) = said(&["hooks", "check", name]);
    assert_eq!((&*out, &*error, code), ("", &*expected, Some(2)));
    // And before anything is run.
    let (out, error, code) = said(&["record", "--hooks", name, "--", "echo", "begun"]);
    assert_eq!((&*out, &*error, code), ("", &*expected, Some(125)));
}

#[test]
fn examples_are_checked_and_old_names_answered() {
    let file = repository().join("examples/hooks/driver-queues.toml");
    let (out, error, code) = said(&["hooks", "check", file.to_str().expect("UTF-8")]);
    assert_eq!((&*error, code), ("", Some(0)));
    assert!(out.contains("no driver has had it"), "{out}");
    assert!(out.ends_with(": 2 hooks, no mistakes\n"), "{out}");
    let (_, error, code) = said(&["probes", "kprobe:nv_mem_alloc"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("memory of the GPU: rmapiAlloc"), "{error}");
}

#[test]
fn functions_of_a_library_are_listed() {
    let folder = repository().join("target/libcuda");
    let Some(library) = fs::read_dir(&folder).ok().and_then(|mut entries| {
        entries.find_map(|entry| {
            let path = entry.ok()?.path().join("libcuda.so.1");
            path.exists().then_some(path)
        })
    }) else {
        return skip("no real libcuda: type scripts/fetch-libcuda");
    };
    let library = library.canonicalize().expect("there");
    let glob = format!("uprobe:{}:cuMemAlloc*", library.display());
    let (out, error, code) = said(&["probes", &glob]);
    assert_eq!((&*error, code), ("", Some(0)));
    let wanted = format!("uprobe:{}:cuMemAlloc_v2\n", library.display());
    assert!(out.contains(&wanted), "{out}");
    assert!(out.lines().all(|line| line.contains(":cuMemAlloc")));
}

#[test]
fn the_doctor_looks_at_everything() {
    let (out, error, code) = said(&["doctor"]);
    assert_eq!((&*error, code), ("", Some(0)));
    for thing in [
        "driver", "CUPTI", "NVML", "FECS", "preload", "ptrace", "BPF", "rights", "tracefs", "BTF",
    ] {
        let row = format!("\n  {thing:<14} ");
        assert!(out.contains(&row), "{thing}: {out}");
    }
}

/// Functions of any library, with arguments, results and conditions.
#[test]
fn functions_of_libraries_are_hooked_by_a_file() {
    // SAFETY: a question without side effects.
    if unsafe { libc::geteuid() } != 0 {
        return skip("BPF needs root");
    }
    // Not by PATH: what is called so there may be a script that starts many processes.
    if !Path::new("/usr/bin/python3").exists() {
        return skip("no /usr/bin/python3");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (file, trace) = (
        folder.path().join("hooks.toml"),
        folder.path().join("t.jsonl"),
    );
    let text = r#"
[[hook]]
name = "parent"
probe = "uprobe:libc.so.6:getppid"
time = true
args = { result = "retval:i32" }

[[hook]]
probe = ["uprobe:libnothing.so:f", "uprobe:libc.so.6:umask"]
args = { mask = "arg0:u32" }
when = "mask > 5"

[[hook]]
name = "absent"
probe = ["uprobe:libc.so.6:no_such_function", "usdt:libc.so.6:libc:setjmp"]
"#;
    fs::write(&file, text).expect("written");
    let script = "import os\nfor n in range(10): os.getppid(); os.umask(n)";
    let run = cutrace()
        .args(["record", "-v", "--method=kernel", "--hooks"])
        .arg(&file)
        .arg("-o")
        .arg(&trace)
        .args(["--", "/usr/bin/python3", "-c", script])
        .output()
        .expect("cutrace runs");
    let error = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(0), "{error}");
    let lines: Vec<serde_json::Value> = fs::read_to_string(&trace)
        .expect("a trace")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let parent = std::process::id();
    let ended = lines
        .iter()
        .filter(|line| line["name"] == "parent" && line["phase"] == "E");
    let ended: Vec<_> = ended.collect();
    assert_eq!(ended.len(), 10, "{error}");
    assert!(
        ended
            .iter()
            .all(|line| line["details"]["result"].is_u64() && line["layer"] == "library")
    );
    // The program's parent is cutrace, whose parent we are.
    assert!(ended.iter().all(|line| line["details"]["result"] != parent));
    let masks: Vec<_> = lines
        .iter()
        .filter(|line| line["name"] == "umask")
        .map(|line| line["details"]["mask"].as_u64())
        .collect();
    assert_eq!(masks, [6, 7, 8, 9].map(Some), "{error}");
    assert!(
        error.contains("not hooked: absent: no function of libc.so.6 matches"),
        "{error}"
    );
}

/// Tracepoints work where kprobes do not: hooks files are tried in earnest.
#[test]
fn tracepoints_with_conditions_are_counted_exactly() {
    // SAFETY: a question without side effects.
    if unsafe { libc::geteuid() } != 0 {
        return skip("BPF needs root");
    }
    let tracing = Path::new("/sys/kernel/tracing");
    if !tracing.join("events").exists() {
        let _ = Command::new("mount")
            .args(["-t", "tracefs", "nodev", "/sys/kernel/tracing"])
            .status();
    }
    if !tracing.join("events/syscalls/sys_enter_write").exists() {
        return skip("no tracefs with system calls at /sys/kernel/tracing");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (file, trace) = (
        folder.path().join("hooks.toml"),
        folder.path().join("t.jsonl"),
    );
    let text = r#"
[[hook]]
name = "four"
probe = ["tracepoint:syscalls:no_such", "tracepoint:syscalls:sys_enter_write"]
args = { fd = "fd", count = "count" }
when = "fd == 1 && (count == 4 || count == 40)"

[[hook]]
name = "five"
probe = "tracepoint:syscalls:sys_enter_write"
layer = "os"
category = "transfer"
stack = true
args = { fd = "fd:i32", count = "count:u32" }
when = "(fd & 3) == 1 && count >= 5 && count < 6"

[[hook]]
name = "began"
probe = "tracepoint:sched:sched_process_exec"
args = { file = "filename:str" }
when = 'file == "/*"'

[[hook]]
name = "never"
probe = "tracepoint:syscalls:sys_enter_write"
args = { fd = "fd" }
when = "fd == 77"

[[hook]]
name = "absent"
probe = ["tracepoint:syscalls:none", "kprobe:nv_schedule_work"]
"#;
    fs::write(&file, text).expect("written");
    let script = "for i in 1 2 3; do printf xxxx; printf yyyyy; done; (printf zzzz)";
    let run = cutrace()
        .args(["record", "-v", "--method=kernel", "--hooks"])
        .arg(&file)
        .arg("-o")
        .arg(&trace)
        .args(["--", "/bin/sh", "-c", script])
        .output()
        .expect("cutrace runs");
    let error = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(0), "{error}");
    assert_eq!(run.stdout, b"xxxxyyyyyxxxxyyyyyxxxxyyyyyzzzz");
    let lines: Vec<serde_json::Value> = fs::read_to_string(&trace)
        .expect("a trace")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let count = |name: &str| lines.iter().filter(|line| line["name"] == name).count();
    assert_eq!(
        (count("four"), count("five"), count("never")),
        (4, 3, 0),
        "{error}"
    );
    assert_eq!(count("began"), 1, "{error}");
    for line in lines.iter().filter(|line| line["name"] == "five") {
        assert_eq!(
            (&line["details"]["count"], &line["layer"]),
            (&5.into(), &"os".into())
        );
        assert!(
            line["stack"]
                .as_array()
                .is_some_and(|stack| stack.len() > 2),
            "{line}"
        );
    }
    assert!(
        error.contains("not hooked: absent: no tracepoint syscalls:none"),
        "{error}"
    );
    assert!(error.contains("no driver has had it"), "{error}");
}
