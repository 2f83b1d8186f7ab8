//! Programs that are traced while other tracers come and go: uprobes of perf's kind, bpftrace, another
//! cutrace. The program goes on as before, and every one of its calls is recorded or counted as lost.

mod common;

use common::{cutrace, repository, skip};
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// One at a time: each puts probes into every process that has the same library.
static TURN: Mutex<()> = Mutex::new(());

/// What a test needs; None, with a word about it, where there are no uprobes.
fn ready() -> Option<(MutexGuard<'static, ()>, TempDir)> {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        skip("uprobes are root's");
        return None;
    }
    if !Path::new("/sys/bus/event_source/devices/uprobe/type").exists() {
        skip("this kernel has no uprobes");
        return None;
    }
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    Some((turn, tempfile::tempdir().expect("a folder")))
}

fn build(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let source = repository().join(format!("tests/torture/programs/{name}.c"));
    let built = Command::new("cc")
        .args(["-O1", "-w", "-o"])
        .arg(&program)
        .arg(source)
        .args(flags)
        .status();
    assert!(
        built.is_ok_and(|status| status.success()),
        "{name} is built"
    );
    program
}

/// softgpu's libcuda, where cutrace unpacks it.
fn libcuda() -> PathBuf {
    let shown = cutrace()
        .args(["softgpu", "--", "sh", "-c", "echo ${LD_LIBRARY_PATH%%:*}"])
        .output()
        .expect("cutrace runs");
    let folder = String::from_utf8_lossy(&shown.stdout).trim().to_owned();
    let library = PathBuf::from(folder).join("libcuda.so.1");
    assert!(library.is_file(), "{shown:?}");
    library
}

struct Traced {
    child: Child,
    trace: PathBuf,
}

/// Threads that call the driver for some seconds, traced by preload.
fn hot(folder: &Path, library: &Path, seconds: &str) -> Traced {
    let directory = library.parent().expect("a folder").display();
    let flags = [
        &format!("-L{directory}")[..],
        "-l:libcuda.so.1",
        "-lpthread",
    ];
    let program = build(folder, "hot", &flags);
    let trace = folder.join("hot.jsonl");
    let child = cutrace()
        .args(["record", "-v", "--sim", "--method", "preload", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(program)
        .args(["8", seconds])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cutrace runs");
    Traced { child, trace }
}

impl Traced {
    /// The program has its own status and output, and its calls are all there. What was said.
    fn check(self) -> String {
        let Output {
            status,
            stdout,
            stderr,
        } = self.child.wait_with_output().expect("it ends");
        let (stdout, stderr) = (
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr),
        );
        assert_eq!(status.code(), Some(3), "{status} {stdout}\n{stderr}");
        let words: Vec<&str> = stdout.split_whitespace().collect();
        let ["ready", "calls", made, "wrong", "0"] = words[..] else {
            panic!("{stdout}\n{stderr}");
        };
        let made: u64 = made.parse().expect("a number");
        // Counted as text: there are millions of lines.
        let text = std::fs::read_to_string(&self.trace).expect("a trace");
        let is_call = |line: &&str| {
            line.contains("\"type\":\"userspace\"") && line.contains("\"phase\":\"B\"")
        };
        let recorded = text.lines().filter(is_call).count() as u64;
        let last = text.lines().last().unwrap_or_default();
        let last: serde_json::Value = serde_json::from_str(last).expect("a summary");
        let lost = last["lost"].as_u64();
        assert_eq!(recorded + lost.expect("it is said"), made, "{stderr}");
        stderr.into_owned()
    }
}

fn uprobes(program: &Path, library: &Path, rounds: &str, hold: &str) -> Child {
    Command::new(program)
        .env("HOLD", hold)
        .arg(library)
        .arg(rounds)
        .args(["cuDriverGetVersion", "cuCtxGetCurrent", "cuDeviceGetCount"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs")
}

#[test]
fn uprobes_come_and_go_while_threads_call() {
    let Some((_turn, folder)) = ready() else {
        return;
    };
    let library = libcuda();
    let probes = build(folder.path(), "uprobes", &[]);
    let traced = hot(folder.path(), &library, "4");
    sleep(Duration::from_millis(700));
    let mut coming = uprobes(&probes, &library, "4", "2");
    traced.check();
    assert!(coming.wait().is_ok_and(|status| status.success()));
}

#[test]
fn programs_begin_while_uprobes_come_and_go() {
    let Some((_turn, folder)) = ready() else {
        return;
    };
    let library = libcuda();
    let probes = build(folder.path(), "uprobes", &[]);
    let mut coming = uprobes(&probes, &library, "1000", "2");
    sleep(Duration::from_millis(300));
    for _ in 0..4 {
        hot(folder.path(), &library, "0.7").check();
    }
    assert!(
        coming.try_wait().is_ok_and(|status| status.is_none()),
        "they still come"
    );
    coming.kill().expect("it is ours");
    coming.wait().expect("it ends");
    hot(folder.path(), &library, "0.3").check();
}

#[test]
fn functions_under_uprobes_are_hooked_all_the_same() {
    let Some((_turn, folder)) = ready() else {
        return;
    };
    let library = libcuda();
    let probes = build(folder.path(), "uprobes", &[]);
    let mut there = uprobes(&probes, &library, "1", "60000");
    sleep(Duration::from_millis(1500));
    let said = hot(folder.path(), &library, "0.3").check();
    there.kill().expect("it is ours");
    there.wait().expect("it ends");
    assert!(
        said.contains("674 of 674 functions hooked (patch)"),
        "{said}"
    );
}

/// Runs another tracer again and again while the program runs.
fn beside(folder: &Path, library: &Path, mut other: impl FnMut() -> Output) {
    let traced = hot(folder, library, "6");
    let began = Instant::now();
    sleep(Duration::from_millis(500));
    let mut rounds = 0;
    while began.elapsed() < Duration::from_secs(5) {
        let output = other();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}", output.status);
        rounds += 1;
    }
    assert!(rounds > 0);
    traced.check();
}

#[test]
fn another_cutrace_attaches_to_everything_and_goes() {
    let Some((_turn, folder)) = ready() else {
        return;
    };
    let library = libcuda();
    let other = folder.path().join("other.jsonl");
    beside(folder.path(), &library, || {
        cutrace()
            .args(["record", "-a", "-d", "1", "-q", "-o"])
            .arg(&other)
            .output()
            .expect("cutrace runs")
    });
}

#[test]
fn bpftrace_attaches_and_goes() {
    let Some((_turn, folder)) = ready() else {
        return;
    };
    if Command::new("bpftrace").arg("--version").output().is_err() {
        skip("bpftrace is not installed");
        return;
    }
    let library = libcuda();
    let path = library.display();
    let script = format!(
        "uprobe:{path}:cuD* {{ @calls[probe] = count(); }} uretprobe:{path}:cuCtxGetCurrent \
         {{ @returns = count(); }} interval:ms:300 {{ exit(); }}"
    );
    beside(folder.path(), &library, || {
        Command::new("bpftrace")
            .args(["-e", &script])
            .output()
            .expect("it runs")
    });
}
