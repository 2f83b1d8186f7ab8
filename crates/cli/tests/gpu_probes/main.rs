//! `cutrace gpu`: programs inside kernels, on softgpu, with exact counts.

#[allow(dead_code)]
#[path = "../common/mod.rs"]
mod common;
mod errors;
mod host;
mod interrupted;
mod loads;
mod pinned;
mod published;
mod reading;
mod ready;
mod shown;

use common::{cutrace, repository, skip};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The program whose kernels are probed; `None`: it cannot be built here.
fn program(name: &str) -> Option<PathBuf> {
    let root = repository();
    let path = root.join("target/programs").join(name);
    if is_newer(&path, &root.join(format!("tests/programs/{name}.cu"))) {
        return Some(path);
    }
    let made = Command::new("make")
        .arg("-s")
        .arg("-C")
        .arg(root.join("tests/programs"))
        .arg(format!("OUT={}", root.join("target/programs").display()))
        .arg(&path)
        .status();
    if made.is_ok_and(|status| status.success()) {
        return Some(path);
    }
    skip("no nvcc: scripts/setup-nvcc gets it");
    None
}

/// Whether it was made of the source as it is now.
fn is_newer(made: &Path, source: &Path) -> bool {
    let when = |path: &Path| path.metadata().and_then(|data| data.modified());
    match (when(made), when(source)) {
        (Ok(made), Ok(source)) => made >= source,
        (made, _) => made.is_ok(),
    }
}

struct Ran {
    output: Output,
    folder: TempDir,
}

impl Ran {
    fn words(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn printed(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    fn pinned(&self) -> Value {
        let text = std::fs::read_to_string(self.folder.path().join("pin/maps.json"))
            .unwrap_or_else(|why| panic!("{why}: {}", self.words()));
        serde_json::from_str(&text).expect("JSON")
    }

    /// What one map holds: its keys, each with its values.
    fn map(&self, name: &str) -> Vec<(Value, Vec<Value>)> {
        let pinned = self.pinned();
        let maps = pinned["maps"].as_array().expect("maps");
        let found = maps.iter().filter(|map| map["name"] == name);
        found
            .flat_map(|map| map["entries"].as_array().expect("entries"))
            .map(|entry| {
                let values = entry["values"].as_array().expect("values");
                (entry["key"].clone(), values.clone())
            })
            .collect()
    }

    /// The only value of each key.
    fn numbers(&self, name: &str) -> Vec<u64> {
        let entries = self.map(name).into_iter();
        entries
            .map(|(_, values)| values[0].as_u64().expect("a number"))
            .collect()
    }

    /// Events that the probes sent.
    fn events(&self) -> Vec<Value> {
        let text =
            std::fs::read_to_string(self.folder.path().join("trace.jsonl")).expect("a trace");
        text.lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
            .filter(|line| line["type"] == "device")
            .collect()
    }
}

fn run(words: &[&str], program: &Path, arguments: &str) -> Ran {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = cutrace();
    command
        .arg("gpu")
        .args(words)
        .args(["--sim", "--no-summary", "-o"])
        .arg(folder.path().join("trace.jsonl"))
        .arg("--pin")
        .arg(folder.path().join("pin"));
    if !arguments.is_empty() {
        command.arg("--").arg(program).args(arguments.split(' '));
    }
    let output = command
        .env("XDG_CACHE_HOME", folder.path())
        .output()
        .expect("cutrace runs");
    Ran { output, folder }
}

fn example(name: &str, arguments: &str) -> Option<Ran> {
    let program = program("probed")?;
    let object = repository().join(format!("examples/gpu/objects/{name}.bpf.o"));
    let object = object.display().to_string();
    let ran = run(&["run", &object], &program, arguments);
    assert!(ran.output.status.success(), "{name}: {}", ran.words());
    Some(ran)
}

#[test]
fn kernel_trace_sends_one_event_a_launch() {
    let Some(ran) = example("kernel_trace", "vaddn 32 128 3") else {
        return;
    };
    let events = ran.events();
    assert_eq!(events.len(), 3, "{}", ran.words());
    let mut last = 0;
    for event in events {
        let details = &event["details"];
        for field in [
            "block_x", "block_y", "block_z", "thread_x", "thread_y", "thread_z",
        ] {
            assert_eq!(details[field], 0, "{field}");
        }
        assert_eq!(event["name"], "event");
        // Beyond 2^53, and a text therefore.
        let time = details["timestamp"].as_str().expect("a text");
        let time: u64 = time.parse().expect("a time");
        assert!(time > last);
        last = time;
    }
    assert!(ran.printed().contains("wrong 0"));
}

#[test]
fn kernelretsnoop_sees_every_thread_leave() {
    let Some(ran) = example("kernelretsnoop", "vadd 1 5 2") else {
        return;
    };
    let mut threads: Vec<u64> = (ran.events().iter())
        .map(|event| event["details"]["thread_x"].as_u64().expect("a number"))
        .collect();
    threads.sort_unstable();
    assert_eq!(threads, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
}

#[test]
fn threadhist_counts_for_each_thread() {
    let Some(ran) = example("threadhist", "vadd 64 256 3") else {
        return;
    };
    let runs = ran.map("runs");
    let [(_, values)] = runs.as_slice() else {
        panic!("{runs:?}");
    };
    assert_eq!(values.len(), 64 * 256);
    assert!(values.iter().all(|count| count == 3));
}

#[test]
fn atomizer_sends_half_of_the_blocks_home() {
    let Some(ran) = example("atomizer", "vadd 10 1 1") else {
        return;
    };
    assert!(
        ran.printed().contains("c[1] 0\nc[7] 21\n"),
        "{}",
        ran.printed()
    );
    assert_eq!(
        (ran.numbers("left_early"), ran.numbers("went_on")),
        (vec![5], vec![5])
    );
    for block in 0..5 {
        let line = format!("block {block} of 10 goes home");
        assert!(ran.words().contains(&line), "{line}");
    }
}

#[test]
fn host_maps_are_seen_by_the_host() {
    let Some(ran) = example("host_map_test", "vadd 1 10 4") else {
        return;
    };
    let sum = |name: &str| -> u64 {
        let entries = ran.map(name).into_iter().flat_map(|(_, values)| values);
        entries.filter_map(|value| value.as_u64()).sum()
    };
    assert_eq!(sum("call_count"), 40);
    assert_eq!(sum("thread_ids"), 45);
    let times = ran.map("timestamps");
    let some = |values: &Vec<Value>| values.iter().filter(|value| **value != 0).count();
    assert_eq!(
        times.iter().map(|(_, values)| some(values)).sum::<usize>(),
        10
    );
}

#[test]
fn programs_run_as_kernels() {
    let object = repository().join("examples/gpu/objects/directly_run.bpf.o");
    let object = object.display().to_string();
    let ran = run(
        &["exec", &object, "--grid", "4", "--block", "256"],
        Path::new(""),
        "",
    );
    assert!(ran.output.status.success(), "{}", ran.words());
    let c = ran.map("c");
    assert_eq!(c.len(), 1023, "all but the first, which is 0");
    for (key, values) in &c {
        assert_eq!(values[0].as_u64(), key.as_u64().map(|i| 3 * i));
    }
    for (key, values) in ran.map("product") {
        let i = key.as_u64().expect("a key");
        let (row, column) = (i / 32, i % 32);
        let sum: u64 = (0..32)
            .map(|k| (row * 32 + k) * 2 * (k * 32 + column))
            .sum();
        assert_eq!(values[0], sum, "{i}");
    }
    assert_eq!(ran.map("product").len(), 1024);
}

#[test]
fn cuda_counter_counts_in_hashes_and_leaves_the_programs_variables_alone() {
    let Some(ran) = example("cuda-counter", "vadd 1 10 3") else {
        return;
    };
    assert_eq!(ran.numbers("calls"), [30]);
    assert_eq!(ran.numbers("total_ns").len(), 1);
    assert_eq!(ran.map("began"), [], "what was put in is taken out");
    assert!(ran.printed().contains("threads 30\n"), "{}", ran.printed());
}

#[test]
fn cudagraph_counts_launches_of_a_graph() {
    let Some(ran) = example("cudagraph", "graph 4 64 5") else {
        return;
    };
    assert_eq!(ran.numbers("calls"), [5]);
    assert!(ran.printed().contains("c[1] 3\n"));
}

#[test]
fn mem_trace_counts_every_access() {
    let Some(ran) = example("mem_trace", "vaddn 32 64 2") else {
        return;
    };
    let threads = 32 * 64 * 2;
    assert_eq!(
        ran.numbers("counts"),
        [2 * threads, threads, 12 * threads, 3 * threads]
    );
}

#[test]
fn gpu_shared_map_counts_in_both_maps() {
    let Some(ran) = example("gpu_shared_map", "vadd 8 128 2") else {
        return;
    };
    assert_eq!(ran.numbers("all"), [2048]);
    assert_eq!(ran.numbers("by_side"), [2048, 2048]);
}

#[test]
fn threadscheduling_says_where_each_thread_ran() {
    let Some(ran) = example("threadscheduling", "vadd 4 64 1") else {
        return;
    };
    assert_eq!(ran.map("threads").len(), 256);
    assert_eq!(ran.numbers("on_sm").iter().sum::<u64>(), 256);
    for (key, values) in ran.map("threads") {
        let place = &values[0];
        let number =
            place["block_x"].as_u64().expect("x") * 64 + place["thread_x"].as_u64().expect("x");
        assert_eq!(key.as_u64(), Some(number));
        assert_eq!(place["lane"].as_u64(), Some(number % 32));
    }
}

#[test]
fn launchtime_reads_the_kernels_parameters() {
    let Some(ran) = example("launchtime", "time 4 64 20") else {
        return;
    };
    assert_eq!(ran.numbers("latency").iter().sum::<u64>(), 20);
}

#[test]
fn programs_behave_as_without_probes() {
    for (name, arguments) in [
        ("reduction", ""),
        ("matmul_tiled", ""),
        ("divergence", ""),
        ("coop_groups", ""),
        ("histogram", ""),
        ("cpp_features", ""),
        ("driver_api", ""),
        ("two_contexts", ""),
        ("streams_overlap", ""),
    ] {
        let Some(program) = program(name) else {
            return;
        };
        let plain = cutrace()
            .args(["softgpu", "--"])
            .arg(&program)
            .output()
            .expect("runs");
        let object = repository().join("examples/gpu/objects/mem_trace.bpf.o");
        let object = object.display().to_string();
        for words in [vec!["count", "*"], vec!["trace", "*"], vec!["run", &object]] {
            let folder = tempfile::tempdir().expect("a folder");
            let mut command = cutrace();
            command
                .arg("gpu")
                .args(&words)
                .args(["--sim", "--no-summary", "-o"]);
            command
                .arg(folder.path().join("trace.jsonl"))
                .arg("--")
                .arg(&program);
            command.args(arguments.split_whitespace());
            let probed = command.output().expect("runs");
            let said = String::from_utf8_lossy(&probed.stderr);
            assert_eq!(
                probed.status.code(),
                plain.status.code(),
                "{name} {words:?}: {said}"
            );
            assert_eq!(
                String::from_utf8_lossy(&probed.stdout),
                String::from_utf8_lossy(&plain.stdout),
                "{name} {words:?}"
            );
            assert!(
                !said.contains("ran without probes"),
                "{name} {words:?}: {said}"
            );
            assert!(
                said.contains("at entry") || said.contains("at accesses"),
                "{name}: {said}"
            );
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let Some(program) = program("probed") else {
        return;
    };
    let missing = run(&["count", "vectorSub"], &program, "vadd 1 32 1");
    assert!(missing.output.status.success());
    let words = missing.words();
    assert!(
        words.contains("no kernel vectorSub was loaded; the nearest are: vectorAdd, "),
        "{words}"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text.o");
    std::fs::write(&text, "hello").expect("written");
    let text = text.display().to_string();
    let no_elf = run(&["run", &text], &program, "vadd 1 32 1");
    assert_eq!(no_elf.output.status.code(), Some(125));
    assert!(
        no_elf.words().contains("not an ELF object"),
        "{}",
        no_elf.words()
    );
    assert!(
        !no_elf.printed().contains("threads"),
        "the program must not run"
    );
    let absent = cutrace()
        .args(["gpu", "check", "/nonexistent.o"])
        .output()
        .expect("runs");
    assert!(String::from_utf8_lossy(&absent.stderr).contains("cannot read /nonexistent.o"));
    let direct = repository().join("examples/gpu/objects/directly_run.bpf.o");
    let direct = run(
        &["run", &direct.display().to_string()],
        &program,
        "vadd 1 32 1",
    );
    assert!(
        direct.words().contains("cutrace gpu exec runs them"),
        "{}",
        direct.words()
    );
}

#[test]
fn a_ring_that_is_too_small_counts_what_it_loses() {
    let Some(program) = program("probed") else {
        return;
    };
    let object = repository().join("examples/gpu/objects/kernelretsnoop.bpf.o");
    let object = object.display().to_string();
    let ran = run(
        &["run", &object, "--ring", "1024"],
        &program,
        "vadd 256 256 1",
    );
    let pinned = ran.pinned();
    let maps = pinned["maps"].as_array().expect("maps");
    let ring = &maps
        .iter()
        .find(|map| map["name"] == "events")
        .expect("the ring")["ring"];
    assert_eq!(ring["produced"], 65536, "{}", ran.words());
    let lost = ring["lost"].as_u64().expect("a number");
    assert_eq!(ran.events().len() as u64 + lost, 65536);
}

#[test]
fn a_kernel_that_never_ends_does_not_keep_the_program() {
    let Some(program) = program("probed") else {
        return;
    };
    let ran = run(&["count", "vectorAdd"], &program, "late 2 64 1");
    let words = ran.words();
    assert_eq!(ran.numbers("counts"), [128, 4, 2, 128], "{words}");
    assert!(words.contains("still running"), "{words}");
}
