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
        "cutrace: {name}:3:9: 'size' is not among the hook's args, which is empty\n 3 | when = \"size > 1\"\n   |         ^\n"
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
    assert!(error.contains("GPU memory: rmapiAlloc"), "{error}");
}

/// What a run would be refused is said before: of kinds of probes, and of names.
#[test]
fn what_cannot_be_attached_is_said_by_the_check() {
    // SAFETY: a question without side effects.
    if unsafe { libc::geteuid() } != 0 {
        return skip("BPF needs root");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hooks.toml");
    let text = r#"
[[hook]]
probe = "kprobe:vfs_open"
aggregate = "hist(duration)"
[[hook]]
probe = "uprobe:libcuda.so:cuMemAlloc_v2"
aggregate = "count"
[[hook]]
probe = "kprobe:nv_ioctl_dispatcher"
"#;
    fs::write(&file, text).expect("written");
    let name = file.to_str().expect("UTF-8");
    let (out, error, code) = said(&["hooks", "check", "--sim", name]);
    assert_eq!((&*error, code), ("", Some(0)));
    let (doctor, _, _) = said(&["doctor"]);
    let row = |name: &str| {
        let found = doctor
            .lines()
            .find(|line| line.trim_start().starts_with(name));
        found.unwrap_or_default().to_owned()
    };
    let works = ["kprobe ", "kprobe_multi ", "fentry "].map(|name| row(name).contains(" yes "));
    match works.contains(&true) {
        true => assert!(out.contains("takes kprobe:vfs_open"), "{out}"),
        false => {
            assert!(
                out.contains(
                    "not   kprobe:vfs_open: a function of vmlinux; cannot be attached here: "
                ),
                "{out}"
            );
            assert!(out.contains("; some cannot be attached here"), "{out}");
        }
    }
    assert!(
        out.contains("takes uprobe:libcuda.so:cuMemAlloc_v2: 1 functions of /"),
        "{out}"
    );
    assert!(out.contains("gives counted in the kernel: count"), "{out}");
    assert!(
        out.contains("requests arrive in nvidia_unlocked_ioctl"),
        "{out}"
    );
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
    assert_eq!(code, Some(0));
    // Who may not attach them is told so.
    // SAFETY: a question without side effects.
    match unsafe { libc::geteuid() } {
        0 => assert_eq!(error, ""),
        _ => assert!(
            error.contains("cannot be attached here: no CAP_BPF"),
            "{error}"
        ),
    }
    let wanted = format!("uprobe:{}:cuMemAlloc_v2\n", library.display());
    assert!(out.contains(&wanted), "{out}");
    assert!(out.lines().all(|line| line.contains(":cuMemAlloc")));
}

#[test]
fn the_doctor_looks_at_everything() {
    let (out, error, code) = said(&["doctor"]);
    assert_eq!((&*error, code), ("", Some(0)));
    for thing in [
        "driver",
        "without MPS",
        "CUPTI",
        "NVML",
        "FECS",
        "preload",
        "ptrace",
        "BPF",
        "rights",
        "tracefs",
        "BTF",
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
probe = ["uprobe:libc.so.6:no_such_function", "usdt:libc.so.6:libc:no_such_marker"]
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

/// Compiles one file of C.
fn compile(folder: &Path, text: &str, name: &str, more: &[&str]) -> std::path::PathBuf {
    let (source, to) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&source, text).expect("written");
    let done = Command::new("cc")
        .args(["-O1", "-o"])
        .args([&to, &source])
        .args(more)
        .output()
        .expect("cc runs");
    assert!(done.status.success(), "{done:?}");
    to
}

fn lines_of(trace: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(trace).expect("a trace");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// A library that a hooks file names and that the program loads in the midst of its run; and what a
/// thread does off the processor belongs to the call that it waits in.
#[test]
fn libraries_that_come_later_are_hooked_and_waits_lie_inside_their_calls() {
    // SAFETY: a question without side effects.
    if unsafe { libc::geteuid() } != 0 {
        return skip("BPF needs root");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let plugin = compile(
        folder,
        "int later(int n) { return n + 1; }",
        "plugin.so",
        &["-shared", "-fPIC"],
    );
    let driver = compile(
        folder,
        "#include <unistd.h>\nint cuInit(unsigned f) { return 0; }\nint cuCtxSynchronize(void) { usleep(30000); return 0; }",
        "libcuda.so.1",
        &["-shared", "-fPIC"],
    );
    let program = compile(
        folder,
        r#"#include <dlfcn.h>
int main(int n, char **words) {
    void *driver = dlopen(words[1], RTLD_NOW), *plugin = dlopen(words[2], RTLD_NOW);
    int (*init)(unsigned) = dlsym(driver, "cuInit"), (*wait)(void) = dlsym(driver, "cuCtxSynchronize");
    int (*later)(int) = dlsym(plugin, "later"), sum = 0;
    init(0);
    for (int i = 0; i < 3; i++) wait();
    for (int i = 0; i < 7; i++) sum += later(i);
    return sum != 28;
}"#,
        "program",
        &["-ldl"],
    );
    let (file, trace) = (folder.join("hooks.toml"), folder.join("t.jsonl"));
    let text = format!(
        "[[hook]]\nprobe = \"uprobe:{}:later\"\ntime = true\nargs = {{ n = \"arg0:i32\", result = \"retval:i32\" }}\n",
        plugin.display()
    );
    fs::write(&file, text).expect("written");
    let run = cutrace()
        .args(["record", "-v", "--method=ebpf", "--kernel=os", "--hooks"])
        .arg(&file)
        .arg("-o")
        .args([&trace, &program, &driver, &plugin])
        .output()
        .expect("cutrace runs");
    let error = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(0), "{error}");
    let lines = lines_of(&trace);
    let ended = |name: &str| -> Vec<&serde_json::Value> {
        let named = lines.iter().filter(|line| line["name"] == name);
        named.filter(|line| line["phase"] == "E").collect()
    };
    let later = ended("later");
    assert_eq!(later.len(), 7, "{error}");
    let results: Vec<_> = (later.iter())
        .map(|line| line["details"]["result"].as_i64())
        .collect();
    assert_eq!(results, [1, 2, 3, 4, 5, 6, 7].map(Some));
    let waits = ended("cuCtxSynchronize");
    assert_eq!(waits.len(), 3, "{error}");
    for wait in waits {
        let inside = ended("off-cpu").into_iter().filter(|line| {
            line["parent"] == wait["op_id"] && line["duration_us"].as_f64() > Some(10_000.0)
        });
        assert!(inside.count() >= 1, "{wait}\n{error}");
    }
}

/// -a and a hook: programs that somebody else starts are seen.
#[test]
fn hooks_see_every_process_if_they_are_asked_to() {
    // SAFETY: a question without side effects.
    if unsafe { libc::geteuid() } != 0 {
        return skip("BPF needs root");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let library = compile(
        folder,
        "int counted(void) { return 1; }",
        "counted.so",
        &["-shared", "-fPIC"],
    );
    let program = compile(
        folder,
        r#"#include <dlfcn.h>
int main(int n, char **words) {
    int (*counted)(void) = dlsym(dlopen(words[1], RTLD_NOW), "counted"), sum = 0;
    for (int i = 0; i < 5; i++) sum += counted();
    return sum != 5;
}"#,
        "program",
        &["-ldl"],
    );
    let (file, trace) = (folder.join("hooks.toml"), folder.join("t.jsonl"));
    let text = format!(
        "[[hook]]\nprobe = \"uprobe:{}:counted\"\n",
        library.display()
    );
    fs::write(&file, text).expect("written");
    let mut watch = cutrace()
        .args([
            "record",
            "-a",
            "-q",
            "--method=kernel",
            "-d",
            "3",
            "--hooks",
        ])
        .arg(&file)
        .arg("-o")
        .arg(&trace)
        .spawn()
        .expect("cutrace runs");
    let mut started = Vec::new();
    while watch.try_wait().expect("it is ours").is_none() {
        let mut one = Command::new(&program)
            .arg(&library)
            .spawn()
            .expect("it runs");
        started.push(one.id());
        assert!(one.wait().expect("it ends").success());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let mut seen = std::collections::BTreeMap::<u64, usize>::new();
    for line in lines_of(&trace) {
        if line["name"] == "counted" {
            *seen
                .entry(line["pid"].as_u64().expect("a pid"))
                .or_default() += 1;
        }
    }
    assert!(!seen.is_empty(), "nothing of {} runs", started.len());
    // All but those that the watch began or ended in.
    let whole = seen.values().filter(|count| **count == 5).count();
    assert!(whole + 2 >= seen.len(), "{seen:?}");
    for pid in seen.keys() {
        assert!(started.iter().any(|one| u64::from(*one) == *pid), "{pid}");
    }
}

/// A kernel without BPF, played by a filter that answers as such a kernel does.
#[test]
fn a_kernel_without_bpf_is_said() {
    use std::os::unix::process::CommandExt;
    let without_bpf = || {
        let step = |code: u32, jt, jf, k| libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        let filter = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            step(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                0,
                1,
                libc::SYS_bpf as u32,
            ),
            step(
                libc::BPF_RET | libc::BPF_K,
                0,
                0,
                libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
            ),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: both calls read what they are given, which lives until they return.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
        };
        if done {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    let said = |words: &[&str]| {
        let mut command = cutrace();
        // SAFETY: between fork and exec it makes system calls only.
        let run = unsafe { command.args(words).pre_exec(without_bpf) }
            .output()
            .expect("cutrace runs");
        let out = String::from_utf8_lossy(&run.stdout).into_owned();
        let error = String::from_utf8_lossy(&run.stderr).into_owned();
        (out, error, run.status.code())
    };
    for words in [
        ["--method=ebpf", "-q", "--", "echo", "begun"],
        ["--kernel", "-q", "--", "echo", "begun"],
    ] {
        let (out, error, code) = said(&words);
        assert_eq!((&*out, code), ("", Some(125)), "{error}");
        assert!(error.contains("has no BPF"), "{error}");
    }
    let (out, error, code) = said(&["doctor"]);
    assert_eq!(code, Some(0), "{error}");
    let row = out.lines().find(|line| line.starts_with("  BPF "));
    let row = row.expect("a line about BPF");
    assert!(row.contains(" no ") && row.contains("has no BPF"), "{row}");
}
