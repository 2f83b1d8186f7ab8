//! `traces/latest` leads to the newest trace, whatever else is in the folder, and never costs a run.

use super::{compile, path};
use crate::common::cutrace;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Makes a few calls, in a folder.
fn run(
    program: &Path,
    folder: &Path,
    options: &[&str],
    prepare: impl FnOnce(&mut Command),
) -> Output {
    let mut command = cutrace();
    command
        .args(["record", "--sim", "--method=preload"])
        .args(options)
        .arg("--")
        .args([path(program), "many", "2000"])
        .current_dir(folder);
    prepare(&mut command);
    let output = command.output().expect("cutrace runs");
    assert!(output.status.success(), "{output:?}");
    output
}

fn latest(folder: &Path) -> PathBuf {
    fs::read_link(folder.join("traces/latest")).expect("a link")
}

/// The trace that a run says it wrote, without its folder.
fn written(output: &Output) -> PathBuf {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix("Trace: traces/"));
    let name = line.and_then(|line| line.split(' ').next());
    name.unwrap_or_else(|| panic!("{said}")).into()
}

#[test]
fn the_link_follows_every_run_and_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("losses", folder.path());
    let small = run(&program, folder.path(), &[], |_| {});
    assert_eq!(latest(folder.path()), written(&small));
    let large = run(&program, folder.path(), &[], |command| {
        command.env("CUTRACE_LINES_UP_TO", "100000");
    });
    assert_eq!(latest(folder.path()), written(&large));
    assert_eq!(latest(folder.path()).extension(), Some("arrows".as_ref()));
    // A name of one's own in the same folder; one elsewhere is nobody's newest.
    run(
        &program,
        folder.path(),
        &["-o", "traces/mine.jsonl"],
        |_| {},
    );
    assert_eq!(latest(folder.path()), Path::new("mine.jsonl"));
    run(&program, folder.path(), &["-o", "elsewhere.jsonl"], |_| {});
    assert_eq!(latest(folder.path()), Path::new("mine.jsonl"));
    assert!(!folder.path().join("latest").exists());
    // What cannot be started is no trace.
    let failed = cutrace()
        .arg("./nothing-here")
        .current_dir(folder.path())
        .output();
    assert!(!failed.expect("runs").status.success());
    assert_eq!(latest(folder.path()), Path::new("mine.jsonl"));
    // Scripts know the newest by this name, too; there is no such file, or globs would find it twice.
    for name in [
        "traces/latest",
        "traces/trace_latest.jsonl",
        "traces/trace_latest.arrows",
    ] {
        let report = cutrace()
            .args(["report", name])
            .current_dir(folder.path())
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&report.stderr);
        assert!(
            report.status.success() && said.contains("reading traces/mine.jsonl"),
            "{name}: {said}"
        );
    }
    assert!(!folder.path().join("traces/trace_latest.jsonl").exists());
}

#[test]
fn what_is_in_the_way_costs_the_link_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("losses", folder.path());
    let traces = folder.path().join("traces");
    fs::create_dir(&traces).expect("made");
    fs::write(traces.join("latest"), "mine").expect("written");
    run(&program, folder.path(), &[], |_| {});
    assert_eq!(
        fs::read_to_string(traces.join("latest")).expect("there"),
        "mine"
    );
    fs::remove_file(traces.join("latest")).expect("removed");
    fs::create_dir(traces.join("latest")).expect("made");
    run(&program, folder.path(), &[], |_| {});
    fs::remove_dir(traces.join("latest")).expect("still empty");
    // A link that leads nowhere gives way.
    symlink("gone.jsonl", traces.join("latest")).expect("made");
    let output = run(&program, folder.path(), &[], |_| {});
    assert_eq!(latest(folder.path()), written(&output));
    // One that leads nowhere later is no reason to give up.
    fs::remove_file(traces.join(latest(folder.path()))).expect("removed");
    let report = cutrace()
        .args(["report", "traces/latest"])
        .current_dir(folder.path())
        .output();
    assert!(report.expect("runs").status.success());
    // A folder in which only the trace itself can be written to.
    fs::write(traces.join("own.jsonl"), "").expect("written");
    fs::set_permissions(&traces, fs::Permissions::from_mode(0o555)).expect("set");
    run(&program, folder.path(), &["-o", "traces/own.jsonl"], |_| {});
    fs::set_permissions(&traces, fs::Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn of_runs_side_by_side_one_is_the_newest() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("losses", folder.path());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| run(&program, folder.path(), &[], |_| {}));
        }
    });
    let traces = folder.path().join("traces");
    assert!(traces.join(latest(folder.path())).is_file());
    let names: Vec<_> = fs::read_dir(&traces)
        .expect("there")
        .flatten()
        .map(|it| it.file_name())
        .collect();
    assert_eq!(names.len(), 5, "four traces and the link: {names:?}");
}
