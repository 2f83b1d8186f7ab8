//! `--method=all`: every layer in one trace, each event once, and what was left out is said.

mod common;

use common::{cutrace, program, read, skip};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    os::unix::fs::chown,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tempfile::TempDir;

/// Nobody: an ordinary user that every machine has.
const ORDINARY: u32 = 65534;

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().expect("id");
    output.stdout == b"0\n"
}

/// One run at a time: a probe that root's run puts into everybody's loader, once preload is there,
/// keeps it from hearing of libraries that come later.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Run {
    _folder: TempDir,
    output: Output,
    lines: Vec<Value>,
}

impl Run {
    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn of_type<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.lines.iter().filter(move |line| line["type"] == kind)
    }
}

/// A folder with copies of what an ordinary user runs: others' folders may be closed to them.
struct Place {
    folder: TempDir,
    program: PathBuf,
}

impl Place {
    fn new(program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let copy = folder.path().join("program");
        fs::copy(program, &copy).expect("copied");
        let binary = folder.path().join("cutrace");
        let original = env!("CARGO_BIN_EXE_cutrace");
        fs::hard_link(original, &binary)
            .or_else(|_| fs::copy(original, &binary).map(drop))
            .expect("linked or copied");
        Place {
            folder,
            program: copy,
        }
    }

    /// As an ordinary user, where we are none.
    fn run(self, methods: &str, ordinary: bool) -> Run {
        let folder = self.folder.path();
        let trace = folder.join("trace.jsonl");
        let mut command = cutrace();
        if ordinary && is_root() {
            command = Command::new(folder.join("cutrace"));
            chown(folder, Some(ORDINARY), Some(ORDINARY)).expect("given away");
            command.uid(ORDINARY).gid(ORDINARY);
            command.env("HOME", folder);
            command.env("XDG_CACHE_HOME", folder.join("cache"));
        }
        let output = command
            .args(["record", "--sim", "-o"])
            .arg(&trace)
            .args([methods, "--"])
            .arg(&self.program)
            .current_dir(folder)
            .output()
            .expect("cutrace runs");
        let run = Run {
            lines: read(&trace),
            _folder: self.folder,
            output,
        };
        assert!(run.output.status.success(), "{}", run.stderr());
        run
    }
}

/// What the program itself called, thread by thread in order.
fn api_calls(run: &Run) -> Vec<Vec<&str>> {
    // In the order in which they came: the numbers of threads start over from time to time.
    let mut threads: Vec<(&Value, Vec<&str>)> = Vec::new();
    let begun = (run.of_type("userspace")).filter(|line| line["phase"] == "B");
    for line in begun {
        let name = line["name"].as_str().expect("a name");
        match threads.iter_mut().find(|(tid, _)| **tid == line["tid"]) {
            Some((_, names)) => names.push(name),
            None => threads.push((&line["tid"], vec![name])),
        }
    }
    threads.into_iter().map(|(_, names)| names).collect()
}

/// How often each request was made.
fn requests(run: &Run) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for line in run.of_type("ioctl").filter(|line| line["phase"] == "E") {
        let decoded = &line["decoded"];
        let subject = decoded["control"].as_str().or(decoded["class"].as_str());
        let name = decoded["name"].as_str().expect("named").to_owned();
        *(counts.entry((name, subject.unwrap_or_default().to_owned()))).or_default() += 1;
    }
    counts
}

/// Events lie inside those they name as their parents, and each begins and ends once.
fn one_tree(run: &Run) {
    let mut spans: HashMap<u64, (f64, Option<f64>, &Value)> = HashMap::new();
    let mut ids = BTreeSet::new();
    for line in &run.lines {
        if let Some(id) = line["event_id"].as_u64() {
            assert!(ids.insert(id), "twice: {line}");
        }
        let (Some(op), Some(ts)) = (line["op_id"].as_u64(), line["ts"].as_f64()) else {
            continue;
        };
        match line["phase"].as_str() {
            Some("B") => {
                let before = spans.insert(op, (ts, None, line));
                assert!(before.is_none(), "begins twice: {line}");
            }
            Some("E") => {
                let span = spans.get_mut(&op).expect("begun");
                assert!(span.1.replace(ts).is_none(), "ends twice: {line}");
            }
            _ => {}
        }
    }
    // Clocks of two sources agree to some microseconds; milliseconds here.
    let agree = 0.1;
    for (begin, end, line) in spans.values() {
        let end = end.unwrap_or_else(|| panic!("has no end: {line}"));
        let Some(parent) = line["parent"].as_u64() else {
            assert_eq!(line["depth"], 0, "{line}");
            continue;
        };
        let (from, to, above) = &spans[&parent];
        let to = to.expect("it has an end");
        assert!(
            from - agree <= *begin && end <= to + agree,
            "{line} in {above}"
        );
        assert_eq!(line["tid"], above["tid"], "{line}");
        let depth = above["depth"].as_u64().expect("a depth");
        assert_eq!(line["depth"], depth + 1, "{line}");
    }
    for line in run.of_type("ioctl") {
        let call = line["correlation"].as_u64().expect("an API call's");
        assert_eq!(spans[&call].2["type"], "userspace", "{line}");
    }
}

/// Kernels and copies know the calls that caused them.
fn gpu_work_has_causes(run: &Run) {
    let work: Vec<_> = (run.lines.iter())
        .filter(|line| line["layer"] == "gpu" && line["correlation"].is_u64())
        .collect();
    assert!(!work.is_empty(), "{}", run.stderr());
    for line in work {
        let cause = run
            .of_type("userspace")
            .find(|call| call["phase"] == "B" && call["op_id"] == line["correlation"]);
        assert!(cause.is_some(), "{line}");
    }
}

fn all_layers(ordinary: bool, left_out: &[&str]) {
    let Some(program) = program("vector_add") else {
        return;
    };
    let _turn = turn();
    let run = Place::new(&program).run("--method=all", ordinary);
    one_tree(&run);
    gpu_work_has_causes(&run);
    let said = run.stderr();
    for words in left_out {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.contains("Events lost: 0"), "{said}");
    // What collects GPU times makes calls of its own.
    let alone = Place::new(&program).run("--method=preload,cupti", ordinary);
    for (here, there) in api_calls(&run).iter().zip(api_calls(&alone)) {
        let differs = here.iter().zip(&there).find(|(here, there)| here != there);
        assert!(
            *here == there,
            "{differs:?}, {} {}",
            here.len(),
            there.len()
        );
    }
    assert_eq!(api_calls(&run).len(), api_calls(&alone).len(), "threads");
    let alone = Place::new(&program).run("--method=syscall", ordinary);
    assert_eq!(requests(&run), requests(&alone));
}

#[test]
fn as_an_ordinary_user() {
    let left_out = ["left out: ebpf: eBPF needs root", "left out: kernel:"];
    all_layers(true, &left_out);
}

#[test]
fn as_root() {
    if !is_root() {
        return skip("what root sees needs root");
    }
    let left_out = [
        "left out: syscall: ebpf records the same system calls",
        "left out: kernel:",
    ];
    all_layers(false, &left_out);
}
