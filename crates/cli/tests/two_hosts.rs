//! Two ranks on two hosts whose processes, pointers and GPUs have the same numbers: every output keeps them apart.

mod common;

use common::{cutrace, repository};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::Output,
};

fn hosts() -> [PathBuf; 2] {
    ["node1", "node2"].map(|host| repository().join(format!("fixtures/two-hosts/{host}.jsonl")))
}

fn run(words: &[&str], paths: &[PathBuf]) -> Output {
    let output = cutrace()
        .args(words)
        .args(paths)
        .output()
        .expect("cutrace runs");
    assert!(output.status.success(), "{words:?}: {output:?}");
    output
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Events by process and GPU.
fn by_process(lines: &[Value]) -> BTreeMap<(u64, u64), usize> {
    let mut counts = BTreeMap::new();
    for line in lines.iter().filter(|line| line["event_id"].is_u64()) {
        let pid = line["pid"].as_u64().expect("a process");
        let device = line["device"].as_u64().unwrap_or(u64::MAX);
        *counts.entry((pid, device)).or_default() += 1;
    }
    counts
}

/// Blocks of device memory, by process.
fn pointers(lines: &[Value]) -> BTreeSet<(u64, String)> {
    let memory = lines
        .iter()
        .filter(|line| line["type"] == "memory" && line["op"] == "alloc");
    memory
        .map(|line| {
            let pid = line["pid"].as_u64().expect("a process");
            (pid, line["ptr"].as_str().expect("a pointer").to_owned())
        })
        .collect()
}

#[test]
fn json_lines_have_both() {
    let alone = lines(&run(&["cat"], &hosts()[..1]));
    let both = lines(&run(&["cat"], &hosts()));
    let (one, all) = (by_process(&alone), by_process(&both));
    assert_eq!(
        one.keys().map(|(pid, _)| *pid).collect::<BTreeSet<_>>(),
        [4097].into()
    );
    let count = one.values().sum::<usize>();
    let mut of_process: BTreeMap<u64, usize> = BTreeMap::new();
    let mut devices: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for ((pid, device), events) in &all {
        *of_process.entry(*pid).or_default() += events;
        devices.entry(*pid).or_default().insert(*device);
    }
    assert_eq!(
        of_process.values().copied().collect::<Vec<_>>(),
        [count, count],
        "{all:?}"
    );
    // GPU 0 of the one is not GPU 0 of the other.
    let devices: Vec<&BTreeSet<u64>> = devices.values().collect();
    assert!(
        devices[0].contains(&0) && devices[1].contains(&1),
        "{devices:?}"
    );
    assert!(!devices[1].contains(&0), "{devices:?}");
    assert!(!pointers(&alone).is_empty());
    assert_eq!(pointers(&both).len(), 2 * pointers(&alone).len());
}

#[test]
fn chrome_and_perfetto_name_both_hosts() {
    let folder = tempfile::tempdir().expect("a folder");
    for (format, file) in [("chrome", "merged.json"), ("perfetto", "merged.pftrace")] {
        let out = folder.path().join(file);
        let words = ["export", "-f", format, "-o", out.to_str().expect("UTF-8")];
        run(&words, &hosts());
        let bytes = fs::read(&out).expect("written");
        for host in ["node1", "node2"] {
            let found = bytes
                .windows(host.len())
                .any(|window| window == host.as_bytes());
            assert!(found, "{format} does not name {host}");
        }
    }
    let text = fs::read(folder.path().join("merged.json")).expect("written");
    let chrome: Value = serde_json::from_slice(&text).expect("JSON");
    let events = chrome["traceEvents"]
        .as_array()
        .or(chrome.as_array())
        .expect("events");
    let names: BTreeMap<u64, &str> = (events.iter())
        .filter(|event| event["ph"] == "M" && event["name"] == "process_name")
        .map(|event| {
            (
                event["pid"].as_u64().expect("a process"),
                event["args"]["name"].as_str().expect("a name"),
            )
        })
        .collect();
    let of = |host: &str| names.values().filter(|name| name.contains(host)).count();
    assert!(of("node1") > 0 && of("node1") == of("node2"), "{names:?}");
}

#[test]
fn a_lake_has_both_and_gives_them_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = folder.path().join("lake");
    let words = ["lake", "add", lake.to_str().expect("UTF-8")];
    run(&words, &hosts());
    for (host, rank) in [("node1", 0), ("node2", 1)] {
        let partition = lake.join(format!("run=exp7/host={host}/rank={rank}"));
        let files = fs::read_dir(&partition).expect("a partition").count();
        assert_eq!(files, 1, "{}", partition.display());
    }
    let events = |lines: &[Value]| {
        let mut events: Vec<Value> = (lines
            .iter()
            .filter(|line| line["event_id"].is_u64())
            .cloned())
        .map(|mut line| {
            // Lines of one moment may come in another order.
            line.as_object_mut().expect("an object").remove("event_id");
            line
        })
        .collect();
        events.sort_by_key(Value::to_string);
        events
    };
    let wanted = lines(&run(&["cat"], &hosts()));
    let found = lines(&run(&["cat"], std::slice::from_ref(&lake)));
    assert_eq!(events(&found), events(&wanted));
    // One host alone, by its folder; and the same tables.
    let one = lines(&run(&["cat"], &[lake.join("run=exp7/host=node2")]));
    assert_eq!(events(&one), events(&lines(&run(&["cat"], &hosts()[1..]))));
    for part in ["top", "categories", "memory", "transfers", "findings"] {
        let words = ["report", part, "--json"];
        assert_eq!(
            tables(&words, std::slice::from_ref(&lake)),
            tables(&words, &hosts()),
            "{part}"
        );
    }
}

fn tables(words: &[&str], paths: &[PathBuf]) -> Value {
    let output = run(words, paths);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn every_verb_reads_a_lake() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = folder.path().join("lake");
    let words = ["lake", "add", lake.to_str().expect("UTF-8")];
    run(&words, &hosts()[..1]);
    let file = fs::read_dir(lake.join("run=exp7/host=node1/rank=0")).expect("a partition");
    let file = file.flatten().next().expect("a file").path();
    for verb in ["report", "timeline", "replay", "cat"] {
        let of_trace = run(&[verb], &hosts()[..1]);
        for path in [&lake, &file] {
            let found = run(&[verb], std::slice::from_ref(path));
            assert_eq!(
                lossy(&found).len(),
                lossy(&of_trace).len(),
                "{verb} {}",
                path.display()
            );
        }
    }
    for format in [
        "chrome", "perfetto", "csv", "html", "folded", "arrow", "parquet",
    ] {
        let out = folder.path().join(format!("out.{format}"));
        let words = ["export", "-f", format, "-o", out.to_str().expect("UTF-8")];
        run(&words, std::slice::from_ref(&lake));
        assert!(
            fs::metadata(&out).is_ok_and(|found| found.len() > 0),
            "{format}"
        );
    }
    let trace = hosts()[0].clone();
    run(&["diff"], &[lake, trace]);
}

fn lossy(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
