//! Programs whose libraries hold stubs of CUDA's functions, which look the real ones up and go there: each
//! call is recorded once, and nothing that is injected can lead back into itself.

use super::{path, record};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// What each library's `work` calls, and how often.
const CALLS: [(&str, usize); 10] = [
    ("cuDevicePrimaryCtxRetain", 1),
    ("cuMemAlloc_v2", 1),
    ("cuMemsetD8Async", 20),
    ("cuMemcpyDtoH_v2", 1),
    ("cuStreamSynchronize", 1),
    ("cuMemFree_v2", 1),
    ("cudaMalloc", 20),
    ("cudaMemset", 20),
    ("cudaFree", 20),
    ("cudaDeviceSynchronize", 1),
];

fn build(source: &str, output: &Path, flags: &[&str]) -> PathBuf {
    let source = format!("{}/tests/record/stubs/{source}", env!("CARGO_MANIFEST_DIR"));
    let built = Command::new(std::env::var_os("CC").unwrap_or("cc".into()))
        .args(["-O1", "-o"])
        .arg(output)
        .arg(source)
        .args(flags)
        .arg("-ldl")
        .status();
    assert!(built.is_ok_and(|status| status.success()), "it is built");
    output.to_owned()
}

fn stubs(folder: &Path, name: &str, kind: &str) -> String {
    let flags = ["-shared", "-fPIC", &format!("-D{kind}")];
    let library = build("library.c", &folder.join(name), &flags);
    path(&library).to_owned()
}

/// Of functions that the runtime calls as well, only calls that no runtime function made.
fn made_by_program(run: &super::Run, name: &str) -> usize {
    run.calls(name).filter(|line| line["depth"] == 0).count()
}

#[test]
fn stubs_of_every_kind_and_order_are_recorded_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let main = build("main.c", &folder.path().join("main"), &[]);
    let lazy = stubs(folder.path(), "liblazy.so", "LAZY");
    let trampolines = stubs(folder.path(), "libtrampolines.so", "TRAMPOLINES");
    let exported = stubs(folder.path(), "libexported.so", "EXPORTED");
    let (driver, runtime) = ("libcuda.so.1", "libcudart.so.13");
    let orders: [(&[&str], usize); 7] = [
        (&[driver, &lazy], 1),
        (&[&lazy, driver], 1),
        (&[driver, &trampolines, runtime], 1),
        (&[&trampolines, &lazy], 2),
        (&[driver, &lazy, &trampolines], 2),
        (&[driver, &exported], 1),
        (&[&exported, driver, &lazy], 2),
    ];
    for method in ["preload", "preload,cupti", "preload,events", "auto"] {
        for (order, libraries) in orders {
            let command: Vec<&str> = [path(&main)].iter().chain(order).copied().collect();
            let run = record(&["--method", method], &command);
            let stderr = run.stderr();
            assert_eq!(
                run.output.status.code(),
                Some(7),
                "{method} {order:?}\n{stderr}"
            );
            for (name, count) in CALLS {
                let found = made_by_program(&run, name);
                assert_eq!(
                    found,
                    count * libraries,
                    "{method} {order:?} {name}\n{stderr}"
                );
            }
            assert!(stderr.contains("Events lost: 0"), "{stderr}");
            // Nothing that stands in for a function is among the program's calls.
            if method != "preload" {
                let timed = run
                    .of_type("gpu")
                    .filter(|line| line["phase"] == "B")
                    .count();
                assert!(
                    timed >= 40 * libraries,
                    "{method} {order:?}: {timed} timed\n{stderr}"
                );
            }
            let ours = made_by_program(&run, "cuEventRecord");
            assert_eq!(ours, 0, "{method} {order:?}\n{stderr}");
            let notes = stderr.contains("CUDA runtime without symbols");
            assert!(!notes, "{method} {order:?}\n{stderr}");
        }
    }
}
