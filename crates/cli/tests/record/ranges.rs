//! NVTX on a real program, built with NVTX's own headers.

use super::{path, program, record, record_with};
use crate::common::{cutrace, skip};
use serde_json::{Value, json};
use std::{collections::HashMap, fs, process::Command};

/// The line that ends the only range of that name.
fn ended<'a>(lines: &'a [Value], name: &str) -> &'a Value {
    let mut found = lines
        .iter()
        .filter(|line| line["name"] == name && line["phase"] == "E");
    let only = found.next().unwrap_or_else(|| panic!("{name} never ended"));
    assert!(found.next().is_none(), "{name} ended twice");
    only
}

#[test]
fn ranges_are_spans_around_the_calls_made_in_them() {
    let Some(program) = program("nvtx") else {
        return;
    };
    let run = record(&[], &[path(&program), "5"]);
    assert!(run.output.status.success(), "{}", run.stderr());
    let by_id: HashMap<u64, &Value> = (run.lines.iter())
        .filter(|line| line["phase"] == "B")
        .filter_map(|line| Some((line["op_id"].as_u64()?, line)))
        .collect();
    let around = |line: &Value| by_id.get(&line["parent"].as_u64()?).copied();

    let set_up = ended(&run.lines, "set up");
    assert_eq!(
        (&set_up["type"], &set_up["depth"]),
        (&json!("range"), &json!(0))
    );
    let inside: Vec<&Value> = (run.of_type("userspace"))
        .filter(|line| line["phase"] == "B" && line["parent"] == set_up["op_id"])
        .map(|line| &line["name"])
        .collect();
    assert_eq!(inside, ["cudaMalloc", "cudaMemset"]);
    for line in run.calls("cudaMalloc") {
        let begin = set_up["ts"].as_f64().zip(set_up["duration_us"].as_f64());
        let begin = begin.map(|(end, length)| end - length / 1e3);
        assert!(line["ts"].as_f64() >= begin && line["ts"].as_f64() <= set_up["ts"].as_f64());
        assert_eq!(line["depth"], 1);
    }

    // nvcc has the runtime's launch called by another name.
    let launches: Vec<&Value> = (run.of_type("userspace"))
        .filter(|line| line["phase"] == "B" && line["layer"] == "runtime")
        .filter(|line| {
            matches!(
                line["name"].as_str(),
                Some("cudaLaunchKernel" | "__cudaLaunchKernel")
            )
        })
        .collect();
    assert_eq!(launches.len(), 5);
    for (round, launch) in launches.into_iter().enumerate() {
        let wide = around(launch).expect("a range around it");
        let step = around(wide).expect("a range around it");
        assert_eq!(
            (&wide["name"], &step["name"]),
            (&json!("wide ä→"), &json!("step"))
        );
        let said = json!({"domain": "steps", "category": "arithmetic", "color": "#ff00ff00", "payload": round});
        assert_eq!(step["details"], said);
    }

    let mark = run.lines.iter().find(|line| line["name"] == "half way");
    let mark = mark.expect("a mark");
    assert_eq!((&mark["type"], mark.get("phase")), (&json!("range"), None));

    let whole: Vec<&Value> = run.of_type("process_range").collect();
    let [begin, end] = whole[..] else {
        panic!("a beginning and an end: {whole:?}");
    };
    let name = begin["name"].as_str().expect("a name");
    assert!(
        name.starts_with("a range of the process") && name.ends_with("letters x"),
        "{name}"
    );
    let copy = run.calls("cudaMemcpy").next().expect("the other thread's");
    assert_eq!(around(copy).expect("a range")["name"], "other thread");
    assert_eq!(end["details"]["ended_by"], copy["tid"]);
    assert_eq!(
        (&end["tid"], &end["op_id"]),
        (&begin["tid"], &begin["op_id"])
    );
    assert_eq!(run.summary()["open"], 1, "the one that is never popped");
    assert_eq!(run.summary()["lost"], 0);
}

#[test]
fn viewers_get_ranges_that_nest() {
    let Some(program) = program("nvtx") else {
        return;
    };
    let run = record(&[], &[path(&program), "2"]);
    let chrome = run.folder.path().join("trace.json");
    let export = cutrace()
        .args(["export", "-f", "chrome", "-o"])
        .args([&chrome, &run.trace()])
        .output()
        .expect("cutrace runs");
    assert!(export.status.success(), "{export:?}");
    let text = fs::read_to_string(chrome).expect("written");
    let whole: Value = serde_json::from_str(&text).expect("JSON");
    let events = whole["traceEvents"].as_array().expect("events");
    type Span<'a> = (f64, f64, &'a str);
    let mut spans: HashMap<(u64, u64), Vec<Span>> = HashMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let number = |name: &str| event[name].as_f64().unwrap_or_default();
        let key = (number("pid") as u64, number("tid") as u64);
        let name = event["name"].as_str().expect("a name");
        let span = (number("ts"), number("ts") + number("dur"), name);
        spans.entry(key).or_default().push(span);
    }
    let mut ranges = 0;
    for (track, spans) in &spans {
        // In the file's order each lies in the one before, or behind its end.
        let mut open: Vec<&Span> = Vec::new();
        for span in spans {
            while open.last().is_some_and(|outer| outer.1 <= span.0) {
                open.pop();
            }
            if let Some(outer) = open.last() {
                assert!(
                    span.1 <= outer.1 + 0.001,
                    "{track:?}: {span:?} in {outer:?}"
                );
            }
            ranges += usize::from(span.2 == "step");
            open.push(span);
        }
    }
    assert_eq!(ranges, 2);
}

#[test]
fn a_tool_of_the_users_keeps_its_place() {
    let Some(program) = program("nvtx") else {
        return;
    };
    let taken = |tool: &str| {
        record_with(&[], &[path(&program)], |command| {
            command.env("NVTX_INJECTION64_PATH", tool);
        })
    };
    let run = taken("/nowhere/libtool.so");
    assert!(run.output.status.success());
    assert_eq!(run.of_type("range").count(), 0);
    let said = "NVTX ranges go to /nowhere/libtool.so";
    assert!(run.stderr().contains(said), "{}", run.stderr());
    assert!(
        taken("").of_type("range").count() > 0,
        "an empty variable names nobody"
    );
}

#[test]
fn ranges_can_be_left_out_or_be_all_there_is() {
    let Some(program) = program("nvtx") else {
        return;
    };
    let of = |filter: &str| record(&["-e", filter], &[path(&program)]);
    let without = of("memory");
    assert_eq!(without.of_type("range").count(), 0);
    assert!(without.of_type("userspace").count() > 0);
    let only = of("nvtxRange*");
    assert_eq!(only.of_type("userspace").count(), 0, "{}", only.stderr());
    assert_eq!(only.of_type("process_range").count(), 2);
    assert!(
        only.lines.iter().all(|line| line["name"] != "half way"),
        "no marks"
    );
}

/// A program may speak of its work before there is any CUDA in it, or never have any.
#[test]
fn ranges_do_not_wait_for_cuda() {
    let root = crate::common::repository().join("target/nvcc/lib");
    let include = fs::read_dir(root).ok().and_then(|entries| {
        let mut found = entries
            .flatten()
            .map(|entry| entry.path().join("site-packages/nvidia/cu13/include"));
        found.find(|path| path.join("nvtx3").is_dir())
    });
    let Some(include) = include else {
        return skip("NVTX's headers are not installed; type: scripts/setup-nvcc");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("plain.c"), folder.path().join("plain"));
    let text = "#include <nvtx3/nvToolsExt.h>\n\
        int main(void) { nvtxRangePushA(\"alone\"); nvtxRangePop(); return 0; }\n";
    fs::write(&source, text).expect("written");
    let built = Command::new("gcc")
        .arg("-I")
        .arg(include)
        .args([
            "-o".as_ref(),
            program.as_os_str(),
            source.as_os_str(),
            "-ldl".as_ref(),
        ])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return skip("gcc is not installed");
    }
    let run = record(&[], &[path(&program)]);
    assert_eq!(ended(&run.lines, "alone")["type"], "range");
}

#[test]
fn the_gpus_work_is_told_by_the_ranges_it_was_started_in() {
    let Some(program) = program("nvtx") else {
        return;
    };
    let run = record(&[], &[path(&program), "4"]);
    let report = cutrace()
        .args(["report", "gpu", "--json"])
        .arg(run.trace())
        .output()
        .expect("cutrace runs");
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let ranges = report["ranges"]["ranges"].as_array().expect("ranges");
    let of = |name: &str| {
        let found = ranges.iter().find(|range| range["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {ranges:?}"))
    };
    let step = of("step");
    assert_eq!(
        (&step["count"], &step["domain"]),
        (&json!(4), &json!("steps"))
    );
    // One kernel in each, and it ran for some time.
    assert_eq!(step["gpu_operations"], 4, "{}", run.stderr());
    assert!(step["gpu_ns"].as_u64() > Some(0), "{step}");
    assert_eq!(of("never popped")["open"], 1);
    assert_eq!(of("other thread")["gpu_operations"], 1, "its copy");
}
