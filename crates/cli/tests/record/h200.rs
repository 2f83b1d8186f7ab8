//! The test programs on an H200 with NVIDIA's libraries, as `tests/gpu/record.sh` recorded them: the
//! calls that a program makes are the same as on softgpu, with the same arguments, results and
//! outputs, but for what is listed here. What NVIDIA's runtime calls beneath is in the fixtures too,
//! so that later recordings can be compared with it.

use super::normalise::{View, normalised};
use crate::common::repository;
use serde_json::Value;
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Worth no line each: asked after every call, or asked until it is so, as often as that takes.
pub const UNASKED: [&str; 5] = [
    "cuGetErrorName",
    "cudaStreamQuery",
    "cudaEventQuery",
    "cuStreamQuery",
    "cuEventQuery",
];
/// Of many threads, the first to need a kernel asks for it.
pub const RACED: [&str; 2] = ["__cudaGetKernel", "cuLibrary*"];

/// A value that differs between devices though all else is the same.
struct Inherent {
    function: &'static str,
    /// Only where this member has that value.
    when: Option<(&'static str, &'static str)>,
    member: &'static str,
    why: &'static str,
}

const fn of(function: &'static str, member: &'static str, why: &'static str) -> Inherent {
    Inherent {
        function,
        when: None,
        member,
        why,
    }
}

const NAME: &str = "the device's name";
const MEMORY: &str = "the device's memory";
const PROCESSORS: &str = "the device's processors";
const REGISTERS: &str = "as its compiler took registers";
const CODE: &str = "PTX on softgpu, sm_90 on the H200";
const ROOM: &str = "more blocks than the device has room for";
const UUID: &str = "the device's own";

const INHERENT: &[Inherent] = &[
    of("cudaGetDeviceProperties", "/prop/name", NAME),
    of("cudaGetDeviceProperties", "/prop/totalGlobalMem", MEMORY),
    of(
        "cudaGetDeviceProperties",
        "/prop/multiProcessorCount",
        PROCESSORS,
    ),
    of("cuDeviceGetName", "/name", NAME),
    of("cuDeviceTotalMem_v2", "/bytes", MEMORY),
    of("cuMemGetInfo_v2", "/free", MEMORY),
    of("cuMemGetInfo_v2", "/total", MEMORY),
    of("cudaMemGetInfo", "/free", MEMORY),
    of("cudaMemGetInfo", "/total", MEMORY),
    of("cuDeviceGetUuid", "/uuid", UUID),
    of("cuDeviceGetUuid_v2", "/uuid", UUID),
    of("cudaFuncGetAttributes", "/attr/numRegs", REGISTERS),
    of("cudaFuncGetAttributes", "/attr/ptxVersion", CODE),
    of("cudaLaunchCooperativeKernel", "/gridDim", ROOM),
    Inherent {
        when: Some(("/attr", "cudaDevAttrMultiProcessorCount")),
        ..of("cudaDeviceGetAttribute", "/value", PROCESSORS)
    },
    Inherent {
        when: Some(("/attrib", "CU_FUNC_ATTRIBUTE_NUM_REGS")),
        ..of("cuFuncGetAttribute", "/pi", REGISTERS)
    },
];

/// A runtime that is linked in does not say its version, and this struct is another in each: it is
/// shown by its address alone.
const UNVERSIONED: Inherent = of(
    "cudaGetDeviceProperties",
    "/prop",
    "by its runtime's version",
);

/// Told as their number only: NVIDIA's runtime makes some 500 of these when it starts.
const MANY: [&str; 3] = [
    "cuGetProcAddress_v2",
    "cuDeviceGetAttribute",
    "cuGetExportTable",
];

/// Calls that NVIDIA's runtime makes when the process ends, outside of any call of the program:
/// the driver is gone by then, and says so.
const GONE: &str = "CUDA_ERROR_DEINITIALIZED";

const SHARED: View = View {
    nested: false,
    edit: of_any_device,
};
const STATIC: View = View {
    nested: false,
    edit: |name, details| {
        of_any_device(name, details);
        replace(&UNVERSIONED, name, details);
    },
};
const NESTED: View = View {
    nested: true,
    edit: |name, details| {
        of_any_device(name, details);
        if MANY.contains(&name) {
            *details = "…".into();
        }
    },
};

fn of_any_device(name: &str, details: &mut Value) {
    for inherent in INHERENT {
        replace(inherent, name, details);
    }
}

fn replace(inherent: &Inherent, name: &str, details: &mut Value) {
    let applies = inherent
        .when
        .is_none_or(|(member, value)| details.pointer(member).is_some_and(|it| it == value));
    if name == inherent.function
        && applies
        && let Some(value) = details.pointer_mut(inherent.member)
    {
        *value = inherent.why.into();
    }
}

pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

/// As it would have been recorded without those functions.
fn without(lines: Vec<Value>, patterns: &[&str]) -> Vec<Value> {
    let left_out = |line: &Value| {
        let name = line["name"].as_str().unwrap_or_default();
        patterns.iter().any(|pattern| matches(pattern, name))
    };
    lines.into_iter().filter(|line| !left_out(line)).collect()
}

fn without_the_end(lines: Vec<Value>) -> Vec<Value> {
    let gone: Vec<u64> = (lines.iter())
        .filter(|line| line["depth"] == 0 && line["result"] == GONE)
        .filter_map(|line| line["op_id"].as_u64())
        .collect();
    let is_gone = |line: &Value| line["op_id"].as_u64().is_some_and(|id| gone.contains(&id));
    lines.into_iter().filter(|line| !is_gone(line)).collect()
}

fn folder() -> PathBuf {
    repository().join("fixtures/calls")
}

/// Compares what softgpu gave with what the H200 gave, with either runtime.
pub fn compare(name: &str, lines: &[Value]) {
    compare_with(&format!("{name}.txt"), &normalised(lines, SHARED));
    let linked_in = format!("static_{name}.txt");
    if folder().join(&linked_in).exists() {
        compare_with(&linked_in, &normalised(lines, STATIC));
    }
}

fn compare_with(file: &str, here: &str) {
    let path = folder().join(file);
    let there = fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let pairs = here.lines().zip(there.lines()).enumerate();
    let shown: Vec<String> = pairs
        .filter(|(_, (here, there))| here != there)
        .take(5)
        .map(|(at, (here, there))| format!("line {at}\n  softgpu {here}\n  H200    {there}"))
        .collect();
    let lengths = (here.lines().count(), there.lines().count());
    assert!(here == there, "{file} {lengths:?}\n{}", shown.join("\n"));
}

fn programs(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// Makes fixtures/calls from traces; `git diff` then shows what another machine or driver does
/// otherwise.
#[test]
#[ignore = "makes fixtures/calls from the traces of tests/gpu/record.sh in CUTRACE_GPU_TRACES"]
fn make_fixtures() {
    let from = PathBuf::from(env::var_os("CUTRACE_GPU_TRACES").expect("a folder of traces"));
    for name in programs(&from) {
        let mut lines = super::read(&from.join(format!("{name}.jsonl")));
        lines = without(lines, &UNASKED);
        let many_threads = name.contains("threads8");
        if many_threads {
            lines = without(lines, &RACED);
        }
        // Which of many threads makes the runtime start is another on every run.
        if !many_threads {
            write(&format!("{name}.nested.txt"), &normalised(&lines, NESTED));
        }
        let view = if name.starts_with("static_") {
            STATIC
        } else {
            SHARED
        };
        write(
            &format!("{name}.txt"),
            &normalised(&without_the_end(lines), view),
        );
    }
}

fn write(file: &str, text: &str) {
    fs::write(folder().join(file), text).unwrap_or_else(|why| panic!("{file}: {why}"));
}
