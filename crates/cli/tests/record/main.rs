//! `cutrace record` on real CUDA programs, built by nvcc, on the software device.

mod calls;
#[path = "../common/mod.rs"]
mod common;
mod companions;
mod containers;
mod demo;
mod gpu_events;
mod gpu_times;
mod h200;
mod kept_report;
mod latest;
mod live;
mod losses;
mod normalise;
mod notes;
mod operators;
mod output;
mod own_threads;
mod places;
mod privileges;
mod processes;
mod programs;
mod progress;
mod ranges;
mod samples;
mod sizes;
mod stacks;
mod stubs;
mod syscalls;
mod transparency;

use common::{cutrace, program, read, repository};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

/// A finished run: its trace, and what was said.
struct Run {
    folder: TempDir,
    output: Output,
    lines: Vec<Value>,
}

impl Run {
    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn trace(&self) -> PathBuf {
        self.folder.path().join("trace.jsonl")
    }

    fn of_type<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.lines.iter().filter(move |line| line["type"] == kind)
    }

    /// The beginnings of calls of a function.
    fn calls<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        self.of_type("userspace")
            .filter(move |line| line["name"] == name && line["phase"] == "B")
    }

    fn summary(&self) -> &Value {
        let last = self.lines.last().expect("a trace has lines");
        assert_eq!(
            last["type"], "summary",
            "the last line is the summary: {last}"
        );
        last
    }
}

/// Records a command with softgpu in front.
fn record(options: &[&str], command: &[&str]) -> Run {
    record_with(options, command, |_| {})
}

fn record_with(options: &[&str], command: &[&str], prepare: impl FnOnce(&mut Command)) -> Run {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut cutrace = cutrace();
    cutrace
        .args(["record", "--sim", "-o"])
        .arg(folder.path().join("trace.jsonl"))
        .args(options)
        .arg("--")
        .args(command);
    prepare(&mut cutrace);
    let output = cutrace.output().expect("cutrace runs");
    let lines = read(&folder.path().join("trace.jsonl"));
    Run {
        folder,
        output,
        lines,
    }
}

fn path(program: &Path) -> &str {
    program.to_str().expect("UTF-8")
}

/// A C program of this folder.
fn compile(name: &str, folder: &Path) -> PathBuf {
    let program = folder.join(name);
    let source = format!("{}/tests/record/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let built = Command::new(std::env::var_os("CC").unwrap_or("cc".into()))
        .args(["-O1", "-o"])
        .arg(&program)
        .args([&source, "-ldl", "-lpthread"])
        .status();
    assert!(
        built.is_ok_and(|status| status.success()),
        "the program is built"
    );
    program
}
