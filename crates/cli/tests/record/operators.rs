//! PyTorch's operators, on a library that stands in for PyTorch's (torch.cpp). `tests/torch/run` has the real one.

use super::{Run, compile, path, record};
use crate::common::cutrace;
use serde_json::{Value, json};
use std::{collections::HashMap, fs, path::Path, path::PathBuf, process::Command};
use tempfile::TempDir;

const USER: &str = "a step of the program, whose name is so long that it needs more than one slot of the ring, and more";

/// A package as pip leaves it: `torch/version.py`, `torch/lib/libtorch_cpu.so`.
fn package(version: &str, options: &[&str]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let lib = folder.path().join("torch/lib");
    fs::create_dir_all(&lib).expect("made");
    let module = format!("from typing import Optional\n__version__ = '{version}'\n");
    fs::write(folder.path().join("torch/version.py"), module).expect("written");
    let library = lib.join("libtorch_cpu.so");
    let source = format!("{}/tests/record/torch.cpp", env!("CARGO_MANIFEST_DIR"));
    let built = Command::new(std::env::var_os("CXX").unwrap_or("c++".into()))
        .args([
            "-std=c++17",
            "-O1",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
        ])
        .args(options)
        .arg("-o")
        .args([&library, Path::new(&source)])
        .arg("-lpthread")
        .status();
    assert!(built.is_ok_and(|status| status.success()), "it is built");
    (folder, library)
}

fn run(version: &str, options: &[&str], methods: &[&str], arguments: &[&str]) -> Run {
    let (folder, library) = package(version, options);
    let program = compile("operators", folder.path());
    let command = [path(&program), path(&library)];
    let command: Vec<&str> = command
        .into_iter()
        .chain(arguments.iter().copied())
        .collect();
    let run = record(methods, &command);
    assert!(run.output.status.success(), "{}", run.stderr());
    run
}

fn operators<'a>(run: &'a Run, name: &'a str, phase: &'a str) -> Vec<&'a Value> {
    let all = run.of_type("operator");
    all.filter(|line| line["name"] == name && line["phase"] == phase)
        .collect()
}

#[test]
fn operators_are_spans_around_their_calls() {
    let run = run("2.11.0+cu130", &[], &[], &["3"]);
    let by_id: HashMap<u64, &Value> = (run.lines.iter())
        .filter(|line| line["phase"] == "B")
        .filter_map(|line| Some((line["op_id"].as_u64()?, line)))
        .collect();
    let around = |line: &Value| by_id.get(&line["parent"].as_u64()?).copied();
    for name in [
        USER,
        "aten::linear",
        "aten::addmm",
        "autograd::engine::evaluate_function: AddmmBackward0",
        "nccl:all_reduce",
    ] {
        for phase in ["B", "E"] {
            assert_eq!(operators(&run, name, phase).len(), 3, "{name} {phase}");
        }
    }
    for (step, addmm) in operators(&run, "aten::addmm", "B").into_iter().enumerate() {
        let said = json!({"scope": "operator", "overload": "out", "seq": step});
        assert_eq!(
            (&addmm["details"], &addmm["layer"]),
            (&said, &json!("framework"))
        );
        let linear = around(addmm).expect("linear");
        assert_eq!(linear["name"], "aten::linear");
        let user = around(linear).expect("the range");
        assert_eq!(
            (&user["name"], &user["details"]),
            (&json!(USER), &json!({"scope": "user"}))
        );
    }
    // The call is inside the operator, and the GPU's work leads to the call.
    let sets: Vec<&Value> = run.calls("cuMemsetD8_v2").collect();
    assert_eq!(sets.len(), 3);
    for set in &sets {
        assert_eq!(around(set).expect("addmm")["name"], "aten::addmm");
    }
    for backward in operators(
        &run,
        "autograd::engine::evaluate_function: AddmmBackward0",
        "B",
    ) {
        assert_eq!(backward["details"]["scope"], "backward");
        assert!(
            backward["details"]["seq"].is_u64() && backward["details"]["forward_thread"].is_u64()
        );
        assert_ne!(backward["tid"], sets[0]["tid"]);
    }
    for begun in operators(&run, "nccl:all_reduce", "B") {
        assert_eq!(begun["details"]["async"], true);
    }
    for ended in operators(&run, "nccl:all_reduce", "E") {
        let by = ended["details"]["ended_by"]
            .as_u64()
            .expect("another thread");
        assert_ne!(json!(by), ended["tid"]);
    }
    assert_eq!(
        (&run.summary()["lost"], &run.summary()["open"]),
        (&json!(0), &json!(0))
    );

    let report = cutrace()
        .args(["report", "operators", "--json"])
        .arg(run.trace())
        .output()
        .expect("cutrace runs");
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let found = &report["operators"];
    assert_eq!(
        (&found["count"], &found["inside"], &found["outside"]),
        (&json!(15), &json!(3), &json!(0))
    );
    let rows = found["operators"].as_array().expect("rows");
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).expect("a row");
    assert_eq!(row("aten::addmm")["self_gpu_operations"], 3);
    assert_eq!(row("aten::linear")["self_gpu_operations"], 0);
    assert_eq!(row("aten::linear")["gpu_operations"], 3);
    assert_eq!(row(USER)["gpu_operations"], 3);
    let table = cutrace()
        .args(["report", "operators"])
        .arg(run.trace())
        .output()
        .expect("cutrace runs");
    let table = String::from_utf8(table.stdout).expect("text");
    assert!(
        table.contains("3 of 3 pieces of GPU work were started inside an operator"),
        "{table}"
    );
}

#[test]
fn memory_of_tensors_has_its_operator() {
    let run = run("2.11.0", &[], &[], &["3"]);
    let addmm: Vec<u64> = operators(&run, "aten::addmm", "B")
        .into_iter()
        .filter_map(|line| line["op_id"].as_u64())
        .collect();
    let memory: Vec<&Value> = run
        .of_type("operator")
        .filter(|line| line["category"] == "memory")
        .collect();
    let of = |name: &str| {
        let lines = memory.iter().filter(move |line| line["name"] == name);
        lines.copied().collect::<Vec<&Value>>()
    };
    assert_eq!((of("allocate").len(), of("free").len()), (6, 3));
    let large = of("allocate")[2];
    let said = json!({
        "bytes": 2 << 20, "ptr": "0x200000", "allocated": 4 << 20, "reserved": 1 << 30,
    });
    assert_eq!((&large["details"], &large["device"]), (&said, &json!(2)));
    assert_eq!(large["parent"].as_u64(), Some(addmm[1]));
    assert_eq!(of("out of memory")[0]["details"]["bytes"], 1u64 << 40);

    let report = cutrace()
        .args(["report", "memory", "--json"])
        .arg(run.trace())
        .output()
        .expect("cutrace runs");
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let found = &report["tensors"];
    assert_eq!(found["peak_bytes"], (6 << 20) + 512);
    assert_eq!(found["owners"][0]["operator"], "aten::addmm");
    assert_eq!(found["exhausted"]["holders"][0][1], 6 << 20);
}

/// Ranges, large tensors and calls that wait say which line of Python they come from, without --stack.
#[test]
fn lines_of_python_are_known() {
    let (folder, library) = package("2.11.0", &[]);
    let script = folder.path().join("train.py");
    let text = "import ctypes, sys\n\
                torch = ctypes.CDLL(sys.argv[1])\n\
                cuda = ctypes.CDLL('libcuda.so.1')\n\
                context = ctypes.c_void_p()\n\
                cuda.cuInit(0)\n\
                cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\n\
                cuda.cuCtxSetCurrent(context)\n\
                def step():\n\
                \x20   torch.run_operators(2, None)\n\
                for _ in range(3):\n\
                \x20   step()\n\
                \x20   cuda.cuCtxSynchronize()\n";
    fs::write(&script, text).expect("written");
    if Command::new("python3").arg("--version").output().is_err() {
        return crate::common::skip("python3 is not installed");
    }
    let run = record(&[], &["python3", path(&script), path(&library)]);
    assert!(run.output.status.success(), "{}", run.stderr());
    let line_of = |line: &Value| {
        let frame = &line["stack"][0];
        let file = frame["file"].as_str().unwrap_or_default().to_owned();
        (file.ends_with("/train.py"), frame["line"].as_u64())
    };
    let ranges = operators(&run, USER, "B");
    assert_eq!(ranges.len(), 6);
    for range in ranges {
        assert_eq!(line_of(range), (true, Some(9)), "{range}");
        assert_eq!(range["stack"][0]["kind"], "python");
    }
    for linear in operators(&run, "aten::linear", "B") {
        assert_eq!(linear.get("stack"), None);
    }
    let waits: Vec<&Value> = run.calls("cuCtxSynchronize").collect();
    assert_eq!(waits.len(), 3);
    for wait in waits {
        assert_eq!(line_of(wait), (true, Some(12)), "{wait}");
    }
    let large = run
        .of_type("operator")
        .filter(|line| line["name"] == "allocate" && line["details"]["bytes"] == 2 << 20);
    for tensor in large {
        assert_eq!(line_of(tensor), (true, Some(9)), "{tensor}");
    }
}

#[test]
fn older_layouts_are_known_and_workers_are_followed() {
    let run = run("2.1.2+cu121", &["-DOLD"], &[], &["2", "fork"]);
    let linear = operators(&run, "aten::linear", "B");
    assert_eq!(linear.len(), 3);
    let sequences: Vec<&Value> = linear.iter().map(|line| &line["details"]["seq"]).collect();
    assert_eq!(sequences, [&json!(0), &json!(1), &json!(0)]);
    assert_ne!(linear[2]["pid"], linear[0]["pid"]);
    assert_eq!(run.summary()["lost"], 0);
}

#[test]
fn unknown_versions_and_layouts_are_refused_by_name() {
    let newer = run("2.99.0", &[], &[], &["1"]);
    assert_eq!(newer.of_type("operator").count(), 0);
    let words = "PyTorch's operators are not recorded: this is 2.99, and cutrace knows 2.1 to 2.15 (libtorch_cpu.so)";
    assert!(newer.stderr().contains(words), "{}", newer.stderr());
    let odd = run("2.11.0", &["-DWRONG"], &[], &["1"]);
    assert_eq!(odd.of_type("operator").count(), 0);
    assert!(
        odd.stderr().contains("lays them out in an unknown way"),
        "{}",
        odd.stderr()
    );
}

#[test]
fn shapes_are_recorded_on_demand() {
    let run = run("2.11.0", &[], &["--shapes"], &["2"]);
    let addmm = operators(&run, "aten::addmm", "B");
    assert_eq!(addmm.len(), 2);
    for (step, line) in addmm.into_iter().enumerate() {
        let shapes = json!([[32, 256], [], [256]]);
        let said = json!({"scope": "operator", "overload": "out", "seq": step, "shapes": shapes});
        assert_eq!(line["details"], said);
    }
    // What has no inputs has no shapes.
    assert_eq!(
        operators(&run, USER, "B")[0]["details"],
        json!({"scope": "user"})
    );
}

#[test]
fn operators_can_be_left_out() {
    for methods in [&["--method=preload,cupti"][..], &["-e", "!framework"]] {
        let run = run("2.11.0", &[], methods, &["2"]);
        assert_eq!(run.of_type("operator").count(), 0, "{methods:?}");
        assert_eq!(run.calls("cuMemsetD8_v2").count(), 2, "{methods:?}");
    }
}
