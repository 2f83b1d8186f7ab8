//! Asks git which commit is built. This is a crate of its own because its script runs after every commit; the binary's
//! script, which builds the libraries it carries, must not.

#[path = "src/day.rs"]
mod day;

use day::day;
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/day.rs");
    println!("cargo::rerun-if-env-changed=CUTRACE_COMMIT");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../..")
        .canonicalize()
        .expect("the workspace root exists");
    let (commit, date) = from_git(&root).unwrap_or_else(from_environment);
    for (name, value) in [
        ("COMMIT", commit),
        ("DATE", date),
        ("TARGET", env::var("TARGET").expect("cargo sets it")),
    ] {
        println!("cargo::rustc-env=CUTRACE_BUILD_{name}={value}");
    }
}

/// The commit and its day. A source tree inside of somebody else's repository has no `.git` of its own.
fn from_git(root: &Path) -> Option<(String, String)> {
    if !root.join(".git").exists() {
        return None;
    }
    let git = |words: &[&str]| output(Command::new("git").arg("-C").arg(root).args(words));
    let line = git(&["log", "-1", "--abbrev=10", "--format=%h %cs"])?;
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    // Whichever of them changes with a commit, a checkout or a reset. One that is missing would make this run always.
    for name in (["HEAD", "logs/HEAD", "packed-refs"].into_iter()).chain(branch.as_deref()) {
        let Some(path) = git(&["rev-parse", "--git-path", name]) else {
            continue;
        };
        let path = root.join(path);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let (commit, date) = line.split_once(' ')?;
    Some((commit.to_owned(), date.to_owned()))
}

/// For builds from a tarball.
fn from_environment() -> (String, String) {
    let unknown = || "unknown".to_owned();
    let commit = env::var("CUTRACE_COMMIT")
        .ok()
        .filter(|name| !name.is_empty());
    let seconds = env::var("SOURCE_DATE_EPOCH")
        .ok()
        .and_then(|text| text.parse().ok());
    (
        commit.map_or_else(unknown, |name| name.chars().take(10).collect()),
        seconds.map_or_else(unknown, day),
    )
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|it| it.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
