//! Programs that nvcc built run on softgpu and print what they printed with NVIDIA's runtime on
//! an H200 (tests/fixtures, made by tests/on-gpu.sh). Those for CUDA 12 are kept as binaries
//! (tests/fixtures/cuda12, made by gen/cuda12_programs.sh), since nvcc 12 is not at hand
//! everywhere.

mod support;

use std::path::Path;

use support::{compile, package, run_with, runtime_folder, softgpu_folder, toolkit};

fn recorded(name: &str, major: u32) -> String {
    let path = package().join(format!("tests/fixtures/{name}-{major}.txt"));
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn compare(program: &Path, name: &str, major: u32) {
    let (runtime, softgpu) = (runtime_folder(), softgpu_folder());
    let (text, _) = run_with(program, &[], &[&softgpu, &runtime]);
    let wanted = recorded(name, major);
    let differences: Vec<_> = wanted
        .lines()
        .zip(text.lines().chain(std::iter::repeat("(nothing)")))
        .filter(|(wanted, got)| wanted != got)
        .take(20)
        .map(|(wanted, got)| format!("  wanted {wanted}\n     got {got}"))
        .collect();
    let shown = differences.join("\n");
    assert!(differences.is_empty(), "{name} for CUDA {major}:\n{shown}");
    assert_eq!(text.lines().count(), wanted.lines().count(), "{text}");
}

fn compare_13(name: &str, out: &str, flags: &[&str]) {
    if let Some(toolkit) = toolkit() {
        compare(&compile(&toolkit, name, out, flags), name, 13);
    }
}

fn compare_12(name: &str) {
    compare(
        &package().join(format!("tests/fixtures/cuda12/{name}")),
        name,
        12,
    );
}

#[test]
fn codes_and_results_13() {
    compare_13("conformance", "conformance", &[]);
}

/// With per-thread default streams the same calls go through the _ptsz and _ptds functions.
#[test]
fn codes_and_results_per_thread_13() {
    compare_13(
        "conformance",
        "conformance_ptds",
        &["-default-stream", "per-thread"],
    );
}

#[test]
fn codes_and_results_12() {
    compare_12("conformance");
}

#[test]
fn amid_driver_calls_and_threads_13() {
    compare_13("interop", "interop", &[]);
}

#[test]
fn amid_driver_calls_and_threads_12() {
    compare_12("interop");
}

#[test]
fn device_reset_13() {
    compare_13("reset", "reset", &[]);
}

#[test]
fn device_reset_12() {
    compare_12("reset");
}

#[test]
fn parameters_of_graph_nodes_13() {
    compare_13("nodes", "nodes", &[]);
}

#[test]
fn parameters_of_graph_nodes_12() {
    compare_12("nodes");
}

#[test]
fn libraries_pools_and_more_graphs_13() {
    compare_13("width", "width", &[]);
}

#[test]
fn libraries_pools_and_more_graphs_12() {
    compare_12("width");
}

/// Fatbinaries registered while the runtime runs, unregistered, and registered anew: each time
/// the variables start afresh.
#[test]
fn code_that_comes_and_goes() {
    let Some(toolkit) = toolkit() else { return };
    let plugin = compile(
        &toolkit,
        "plugin",
        "plugin.so",
        &["-shared", "-Xcompiler", "-fPIC"],
    );
    let program = compile(&toolkit, "late", "late", &[]);
    let (runtime, softgpu) = (runtime_folder(), softgpu_folder());
    let (text, good) = run_with(&program, &[&plugin], &[&softgpu, &runtime]);
    let once = "  plugin 40240\n  plugin 40340\n  plugin 41240\n  plugin 41340\n  plugin 42240\n  \
                plugin 42340\n";
    let launch = "(nothing<<<1, 1>>>(), 0) = 0 last=0\n";
    let wanted = format!("{launch}{once}{once}{launch}cudaDeviceSynchronize() = 0 last=0\n");
    assert_eq!(text, wanted);
    assert!(good);
}
