//! Two ranks on two hosts whose processes, pointers and GPUs have the same numbers: every output keeps them apart.

mod common;

use common::{cutrace, repository};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
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

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn lines(output: &Output) -> Vec<Value> {
    text(output)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Lines that are events.
fn events(lines: &[Value]) -> impl Iterator<Item = &Value> {
    lines.iter().filter(|line| line["event_id"].is_u64())
}

fn number(line: &Value, key: &str) -> Option<u64> {
    line[key].as_u64()
}

/// A lake of both.
fn lake_of(folder: &Path, traces: &[PathBuf]) -> PathBuf {
    let lake = folder.join("lake");
    let words = ["lake", "add", lake.to_str().expect("UTF-8")];
    run(&words, traces);
    lake
}

/// What a process of the merged lines has: events, GPUs, blocks of device memory.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    events: usize,
    gpus: BTreeSet<u64>,
    pointers: BTreeSet<String>,
}

fn by_process(lines: &[Value]) -> BTreeMap<u64, Seen> {
    let mut seen: BTreeMap<u64, Seen> = BTreeMap::new();
    for line in events(lines) {
        let process = seen.entry(number(line, "pid").expect("a process"));
        let process = process.or_default();
        process.events += 1;
        process.gpus.extend(number(line, "device"));
        if line["type"] == "memory" {
            let pointer = line["ptr"].as_str().expect("a pointer");
            process.pointers.insert(pointer.to_owned());
        }
    }
    seen
}

#[test]
fn processes_gpus_and_pointers_stay_apart_in_json_lines() {
    let alone = by_process(&lines(&run(&["cat"], &hosts()[..1])));
    let both = lines(&run(&["cat"], &hosts()));
    let merged = by_process(&both);
    let own = &alone[&4097];
    assert!(own.pointers.len() > 1 && own.gpus == [0].into(), "{own:?}");
    // Work that no process is known for is one GPU's: it keeps its number, 0.
    let mut processes = merged.iter().filter(|(pid, _)| **pid != 0);
    let (first, second) = (processes.next(), processes.next());
    let (Some((first, of_first)), Some((second, of_second)), None) =
        (first, second, processes.next())
    else {
        panic!("{merged:?}");
    };
    assert!(*first == 4097 && second > first, "{merged:?}");
    assert_eq!(of_first, own);
    assert_eq!(of_second.events, own.events);
    assert_eq!(of_second.pointers, own.pointers);
    assert_eq!(of_second.gpus, [1].into(), "{merged:?}");
    assert_eq!(merged[&0].gpus, [0, 1].into());
    // No number leads to the other host.
    let process_of: HashMap<u64, &Value> = events(&both)
        .filter(|line| line["phase"] == "B")
        .map(|line| (number(line, "op_id").expect("a number"), &line["pid"]))
        .collect();
    let begun = |lines: &[Value]| {
        let begun = events(lines).filter(|line| line["phase"] == "B");
        begun.count()
    };
    assert_eq!(process_of.len(), begun(&both), "numbers are used once");
    assert_eq!(
        begun(&both),
        2 * begun(&lines(&run(&["cat"], &hosts()[..1])))
    );
    let mut followed = 0;
    for line in events(&both) {
        for key in ["parent", "correlation"] {
            let Some(other) = number(line, key).and_then(|id| process_of.get(&id)) else {
                continue;
            };
            assert_eq!(*other, &line["pid"], "{line}");
            followed += 1;
        }
    }
    assert!(followed > 20, "{followed}");
}

#[test]
fn chrome_and_perfetto_name_both_hosts() {
    let folder = tempfile::tempdir().expect("a folder");
    let export = |format: &str| {
        let out = folder.path().join(format);
        let words = ["export", "-f", format, "-o", out.to_str().expect("UTF-8")];
        run(&words, &hosts());
        fs::read(&out).expect("written")
    };
    let chrome: Value = serde_json::from_slice(&export("chrome")).expect("JSON");
    let events = chrome["traceEvents"].as_array().expect("events");
    let names: BTreeMap<u64, &str> = (events.iter())
        .filter(|event| event["ph"] == "M" && event["name"] == "process_name")
        .map(|event| {
            let name = event["args"]["name"].as_str().expect("a name");
            (number(event, "pid").expect("a process"), name)
        })
        .collect();
    let names: Vec<&str> = names
        .into_values()
        .filter(|name| *name != "process 0")
        .collect();
    let wanted = [
        "rank 0, node1: plain",
        "rank 1, node2: plain",
        "GPU 0: NVIDIA H200, node1",
        "GPU 1: NVIDIA H200, node2",
    ];
    assert_eq!(names, wanted);
    // Each GPU has the kernel of its host, once.
    let kernels: Vec<u64> = (events.iter())
        .filter(|event| event["ph"] != "M")
        .filter(|event| {
            event["name"]
                .as_str()
                .is_some_and(|name| name.starts_with("saxpy("))
        })
        .filter_map(|event| number(event, "pid"))
        .collect();
    let gpus: BTreeSet<&u64> = kernels.iter().collect();
    assert_eq!((kernels.len(), gpus.len()), (2, 2), "{kernels:?}");

    let perfetto = export("perfetto");
    for name in [
        "rank 0, node1: plain",
        "rank 1, node2: plain",
        "NVIDIA H200, node1",
        "NVIDIA H200, node2",
    ] {
        let mut windows = perfetto.windows(name.len());
        assert!(windows.any(|window| window == name.as_bytes()), "{name}");
    }
}

#[test]
fn reports_have_both() {
    let json = |paths: &[PathBuf]| -> Value {
        serde_json::from_slice(&run(&["report", "--json"], paths).stdout).expect("JSON")
    };
    let (one, both) = (json(&hosts()[..1]), json(&hosts()));
    for path in [
        "/overview/launches",
        "/overview/allocations",
        "/overview/allocated_bytes",
        "/overview/gpu_operations",
        "/overview/processes",
    ] {
        let of = |report: &Value| report.pointer(path).and_then(Value::as_u64);
        assert!(of(&one).is_some_and(|count| count > 0), "{path}");
        assert_eq!(of(&both), of(&one).map(|count| 2 * count), "{path}");
    }
    let shown = text(&run(&["report", "gpu"], &hosts()));
    for line in ["0: NVIDIA H200, node1", "1: NVIDIA H200, node2"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let timeline = text(&run(&["timeline"], &hosts()));
    for line in [
        "rank 0, node1: plain",
        "rank 1, node2: plain",
        "GPU 0",
        "GPU 1",
    ] {
        assert!(timeline.contains(line), "{line}: {timeline}");
    }
}

/// The events of JSON lines, without what a lake cannot know.
fn comparable(lines: &[Value]) -> Vec<Value> {
    let ends: HashMap<u64, &Value> = events(lines)
        .filter(|line| line["phase"] == "E")
        .filter_map(|line| Some((number(line, "op_id")?, line)))
        .collect();
    let mut all: Vec<Value> = Vec::new();
    for line in events(lines) {
        let mut line = line.clone();
        let end = number(&line, "op_id").and_then(|op| ends.get(&op));
        let object = line.as_object_mut().expect("an object");
        // Lines of one moment may come in another order.
        object.remove("event_id");
        // A span is one row, so its beginning has what was known at its end.
        if let Some(end) = end {
            for key in ["device", "context"] {
                if !end[key].is_null() {
                    object.insert(key.into(), end[key].clone());
                }
            }
        }
        all.push(line);
    }
    all.sort_by_key(Value::to_string);
    all
}

#[test]
fn a_lake_has_both_and_gives_them_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake_of(folder.path(), &hosts());
    for (host, rank) in [("node1", 0), ("node2", 1)] {
        let partition = lake.join(format!("run=exp7/host={host}/rank={rank}"));
        let files = fs::read_dir(&partition).expect("a partition").count();
        assert_eq!(files, 1, "{}", partition.display());
    }
    let cat = |paths: &[PathBuf]| comparable(&lines(&run(&["cat"], paths)));
    assert_eq!(cat(std::slice::from_ref(&lake)), cat(&hosts()));
    // One host alone, by its folder; and the same tables.
    assert_eq!(cat(&[lake.join("run=exp7/host=node2")]), cat(&hosts()[1..]));
    for part in ["top", "categories", "gpu", "memory", "contexts", "findings"] {
        let words = ["report", part, "--json"];
        let table = |paths: &[PathBuf]| -> Value {
            serde_json::from_slice(&run(&words, paths).stdout).expect("JSON")
        };
        assert_eq!(
            table(std::slice::from_ref(&lake)),
            table(&hosts()),
            "{part}"
        );
    }
}

#[test]
fn every_verb_reads_a_lake() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake_of(folder.path(), &hosts()[..1]);
    let file = fs::read_dir(lake.join("run=exp7/host=node1/rank=0")).expect("a partition");
    let file = file.flatten().next().expect("a file").path();
    for words in [&["report", "top"][..], &["timeline"], &["replay"]] {
        let of_trace = text(&run(words, &hosts()[..1]));
        for path in [&lake, &file] {
            let found = text(&run(words, std::slice::from_ref(path)));
            assert_eq!(found, of_trace, "{words:?} {}", path.display());
        }
    }
    let trace = lines(&run(&["cat"], &hosts()[..1]));
    for path in [&lake, &file] {
        let found = lines(&run(&["cat"], std::slice::from_ref(path)));
        assert_eq!(comparable(&found), comparable(&trace));
        // Head and tail, too.
        assert_eq!((&found[0], found.last()), (&trace[0], trace.last()));
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
    run(&["diff"], &[lake, hosts()[0].clone()]);
}

#[test]
fn traces_without_a_common_clock_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = fs::read_to_string(&hosts()[1]).expect("read");
    let without = text.replacen("\"start_unix_ns\":1790000000002000000,", "", 1);
    assert_ne!(text, without);
    let other = folder.path().join("node2.jsonl");
    fs::write(&other, without).expect("written");
    let output = cutrace()
        .arg("cat")
        .args([&hosts()[0], &other])
        .output()
        .expect("cutrace runs");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("when it began"), "{said}");
}
