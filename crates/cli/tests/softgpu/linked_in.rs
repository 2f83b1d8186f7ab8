//! Programs with NVIDIA's CUDA runtime linked in, which is nvcc's default.

use super::{WITH_PROBES, common, cutrace, programs_in, run, skip};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The same program with the runtime linked in; None, with a word about it, where it is not built.
fn linked_in(name: &str) -> Option<PathBuf> {
    common::program(&format!("static/{name}"))
}

/// Lines of a program's output that do not change from run to run.
fn steady(text: &str) -> Vec<&str> {
    let changes = |line: &&str| {
        !["ms", " us", "GB/s", "0x"]
            .iter()
            .any(|word| line.contains(word))
    };
    text.lines().filter(changes).collect()
}

fn stripped(program: &Path, folder: &Path) -> PathBuf {
    let copy = folder.join(program.file_name().expect("a file"));
    let status = Command::new("strip")
        .args(["--strip-unneeded", "-o"])
        .arg(&copy)
        .arg(program)
        .status()
        .expect("strip is in binutils");
    assert!(status.success());
    copy
}

/// A program that loads a library and calls vector_add's main in it.
fn loader(folder: &Path) -> PathBuf {
    let source = folder.join("loader.c");
    let text = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int argc, char **argv) {
            void *library = dlopen(argv[1], RTLD_NOW);
            if (!library) { puts(dlerror()); return 3; }
            int (*run)(int, char **) = dlsym(library, "_Z15vector_add_mainiPPc");
            return run ? run(1, argv) : 4;
        }"#;
    fs::write(&source, text).expect("written");
    let program = folder.join("loader");
    let status = Command::new("cc")
        .args(["-w", "-o"])
        .arg(&program)
        .arg(&source)
        .arg("-ldl")
        .status()
        .expect("a C compiler is installed");
    assert!(status.success());
    program
}

fn on_softgpu(program: &Path, arguments: &[&Path]) -> Output {
    let mut command = cutrace();
    command.args(["softgpu", "--"]).arg(program).args(arguments);
    command.output().expect("cutrace runs")
}

#[test]
fn every_test_program_does_the_same_with_the_runtime_linked_in() {
    let programs = programs_in("target/programs/static");
    if programs.is_empty() {
        return skip("the programs are not built; type: make -C tests/programs static");
    }
    let mut count = 0;
    for path in programs {
        let name = path
            .file_name()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        if WITH_PROBES.contains(&&*name) || name.ends_with(".so") {
            continue;
        }
        let shared = common::program(&name).expect("built together");
        let (own, _) = run(&path);
        let (expected, _) = run(&shared);
        assert!(own.contains(&format!("PASS {name}")), "{name}:\n{own}");
        assert_eq!(steady(&own), steady(&expected), "{name}");
        count += 1;
    }
    assert!(count >= 18, "{count} programs");
}

#[test]
fn a_library_with_the_runtime_linked_in_is_served_when_it_is_loaded() {
    let Some(library) = linked_in("libvector_add.so") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let loader = loader(folder.path());
    let output = on_softgpu(&loader, &[&library]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("PASS vector_add"), "{output:?}");

    // Without its symbols it cannot be: that is said when it is used, and the program goes on.
    let library = stripped(&library, folder.path());
    let output = on_softgpu(&loader, &[&library]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("libvector_add.so has NVIDIA's CUDA runtime linked in"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn a_program_whose_runtime_has_no_symbols_is_stopped_at_start() {
    let Some(program) = linked_in("vector_add") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let program = stripped(&program, folder.path());
    let expected = format!(
        "cutrace: {} has NVIDIA's CUDA runtime linked in without symbols; softgpu cannot serve it: build it with \
         -cudart shared\n",
        program.canonicalize().expect("there").display()
    );
    let output = on_softgpu(&program, &[]);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert!(output.stdout.is_empty(), "{output:?}");

    let trace = folder.path().join("trace.jsonl");
    for method in ["preload", "cupti"] {
        let output = cutrace()
            .args(["record", "--sim", "-q", "--method", method, "-o"])
            .arg(&trace)
            .arg(&program)
            .output()
            .expect("cutrace runs");
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&expected), "{said}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

/// Names and numbers of the runtime's and the driver's calls.
fn calls(program: &Path, method: &str, folder: &Path) -> BTreeMap<(String, String), usize> {
    let trace = folder.join("trace.jsonl");
    let output = cutrace()
        .args(["record", "--sim", "-q", "--method", method, "-o"])
        .arg(&trace)
        .arg(program)
        .output()
        .expect("cutrace runs");
    assert!(output.status.success(), "{output:?}");
    let mut calls = BTreeMap::new();
    for line in common::read(&trace) {
        let (layer, name) = (line["layer"].as_str(), line["name"].as_str());
        if let (Some(layer @ ("runtime" | "driver")), Some(name)) = (layer, name)
            && line["type"] == "userspace"
            && line["phase"] == "E"
        {
            *calls
                .entry((layer.to_owned(), name.to_owned()))
                .or_default() += 1;
        }
    }
    calls
}

#[test]
fn each_call_of_a_linked_in_runtime_is_recorded_once() {
    let (Some(own), Some(shared)) = (linked_in("vector_add"), common::program("vector_add")) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    for method in ["preload", "preload,cupti"] {
        let recorded = calls(&own, method, folder.path());
        assert_eq!(recorded, calls(&shared, method, folder.path()), "{method}");
        let count = |layer: &str, name: &str| {
            let key = (layer.to_owned(), name.to_owned());
            recorded.get(&key).copied().unwrap_or(0)
        };
        assert_eq!(count("runtime", "cudaMalloc"), 3, "{recorded:?}");
        assert_eq!(count("driver", "cuMemAlloc_v2"), 3, "{recorded:?}");
    }
}

/// What is preloaded already stays in front.
#[test]
fn other_preloads_stay() {
    let script = "echo $LD_PRELOAD";
    let output = cutrace()
        .args(["softgpu", "--", "/bin/sh", "-c", script])
        .env("LD_PRELOAD", "libdl.so.2")
        .output()
        .expect("cutrace runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("libdl.so.2:"), "{said}");
    assert!(
        said.trim_end().ends_with("libcutrace_redirect.so"),
        "{said}"
    );
}
