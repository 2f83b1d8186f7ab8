//! What the end-to-end tests share: the binary, and what to do when something is missing.

mod limited;

#[allow(unused_imports)] // Not every test file needs all of it.
pub use limited::{limit, usual_signals};

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The parts of `report`.
#[allow(dead_code)] // Not every test file needs it.
pub const PARTS: [&str; 15] = [
    "summary",
    "top",
    "calls",
    "categories",
    "operators",
    "modules",
    "steps",
    "idle",
    "memory",
    "transfers",
    "contexts",
    "ioctls",
    "gpu",
    "findings",
    "coverage",
];

/// Those that say something of a framework's program: snapshots of other traces leave them out.
#[allow(dead_code)] // Not every test file needs it.
pub const PARTS_OF_FRAMEWORKS: [&str; 3] = ["operators", "modules", "steps"];

/// What makes softgpu the same on every machine.
pub const SAME_GPU: [(&str, &str); 2] =
    [("CUTRACE_SOFTGPU_SMS", "2"), ("CUTRACE_SOFTGPU_MEM", "8G")];

/// The binary. Every call gives the test time again, see [`limit`].
pub fn cutrace() -> Command {
    limit();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cutrace"));
    usual_signals(&mut command).envs(SAME_GPU);
    command
}

pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Says why a test cannot run here; where everything must run (CI), that is a failure.
#[allow(dead_code)] // Not every test file needs it.
pub fn skip(why: &str) {
    assert!(
        std::env::var_os("CUTRACE_REQUIRE_ALL").is_none_or(|value| value != "1"),
        "must not be skipped here: {why}"
    );
    eprintln!("skipped: {why}");
}

/// A program that `make programs` built; None, with a word about it, where it is not there.
#[allow(dead_code)] // Not every test file needs it.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = repository().join("target/programs").join(name);
    if path.is_file() {
        return path.canonicalize().ok();
    }
    skip("the test programs are not built; type: make programs");
    None
}

/// The lines of a trace; every one must be whole.
#[allow(dead_code)] // Not every test file needs it.
pub fn read(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}")))
        .collect()
}
