//! `--stack` by the kernel: who called is always known, the rest by frame pointers.

use super::{common::cutrace, read, ready};
use std::path::{Path, PathBuf};
use std::process::Command;

fn chain(folder: &Path, flag: &str) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/record/stacks/chain.c");
    let program = folder.join("chain");
    let built = Command::new("cc")
        .args(["-g", "-O1", flag, "-o"])
        .arg(&program)
        .args([source, "-pthread", "-ldl"])
        .status()
        .expect("a compiler");
    assert!(built.success());
    program
}

/// The names of cuInit's stack, and its first frame.
fn stack(option: &str, flag: &str) -> (Vec<String>, serde_json::Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = chain(folder.path(), flag);
    let path = folder.path().join("trace.jsonl");
    let output = cutrace()
        .args(["--sim", "-q", "--method=ebpf", option, "-o"])
        .arg(&path)
        .arg(&program)
        .output()
        .expect("started");
    assert!(output.status.success(), "{output:?}");
    let lines = read(&path);
    let begun = |line: &&serde_json::Value| line["name"] == "cuInit" && line["phase"] == "B";
    let call = lines.iter().find(begun).expect("seen");
    let frames = call["stack"].as_array().cloned().unwrap_or_default();
    let name = |frame: &serde_json::Value| frame["sym"].as_str().unwrap_or("?").to_owned();
    let first = frames.first().cloned().unwrap_or_default();
    (frames.iter().map(name).collect(), first)
}

#[test]
fn frames_have_names_and_lines() {
    let Some(_turn) = ready() else {
        return;
    };
    let (names, first) = stack("--stack", "-fno-omit-frame-pointer");
    let guessed = "frames may be missing here";
    assert_eq!(names[..5], ["inner", guessed, "middle", "outer", "main"]);
    let file = first["file"].as_str().unwrap_or_default();
    assert!(file.ends_with("chain.c"), "{first}");
    assert!(
        first["line"].as_u64().is_some_and(|line| line > 10),
        "{first}"
    );
    // Who called is on the stack, whatever the program was built with.
    let (names, _) = stack("--stack", "-fomit-frame-pointer");
    assert_eq!(names[0], "inner");
    assert_eq!(
        stack("--stack=memory", "-fno-omit-frame-pointer").0,
        [""; 0]
    );
}

/// Hooks of a file on a library's function bring who called, too.
#[test]
fn hooks_on_libraries_bring_their_stacks() {
    let Some(_turn) = ready() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let program = chain(folder.path(), "-fno-omit-frame-pointer");
    let library = folder.path().join("libcuda.so.1");
    let source = folder.path().join("driver.c");
    std::fs::write(&source, "int cuInit(unsigned flags) { return 0; }").expect("written");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-o"]);
    let built = compiler.args([&library, &source]).status();
    assert!(built.expect("a compiler").success());
    let (hooks, path) = (folder.path().join("h.toml"), folder.path().join("t.jsonl"));
    let text = format!(
        "[[hook]]\nprobe = \"uprobe:{}:cuInit\"\nstack = true\n",
        library.display()
    );
    std::fs::write(&hooks, text).expect("written");
    let output = cutrace()
        .args(["-q", "--method=kernel", "--hooks"])
        .args([&hooks, Path::new("-o"), &path, &program])
        .env("LD_LIBRARY_PATH", folder.path())
        .output()
        .expect("started");
    let lines = read(&path);
    let call = lines.iter().find(|line| line["name"] == "cuInit");
    let call = call.unwrap_or_else(|| panic!("{output:?}"));
    let frames = call["stack"].as_array().cloned().unwrap_or_default();
    let address = |frame: &serde_json::Value| frame["addr"].as_str().map(str::to_owned);
    let found: Vec<_> = frames.iter().filter_map(address).collect();
    // inner, middle, outer and main, at least.
    assert!(found.len() >= 4, "{call}");
    assert!(found.iter().take(4).all(|frame| frame.len() > 6), "{call}");
}
