//! Real CUDA programs, built by nvcc, on the software device.

mod common;
#[path = "softgpu/linked_in.rs"]
mod linked_in;

use common::{cutrace, repository, skip};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// Programs that run with probes in them: tests/gpu_probes, tests/gpu/probes.sh.
const WITH_PROBES: [&str; 4] = ["probed", "probe_cost", "loads", "endless"];

/// The programs `make -C tests/programs` built.
fn programs() -> Vec<PathBuf> {
    programs_in("target/programs")
}

fn programs_in(folder: &str) -> Vec<PathBuf> {
    let Ok(folder) = fs::read_dir(repository().join(folder)) else {
        return Vec::new();
    };
    let mut found: Vec<_> = folder
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
        })
        .collect();
    found.sort();
    found
}

fn program(name: &str) -> Option<PathBuf> {
    programs()
        .into_iter()
        .find(|path| path.file_name().is_some_and(|it| it == name))
}

fn run(path: &Path) -> (String, Duration) {
    let start = Instant::now();
    let output = Command::new("timeout")
        .arg("120")
        .arg(env!("CARGO_BIN_EXE_cutrace"))
        .args(["softgpu", "--"])
        .arg(path)
        .output()
        .expect("timeout is in coreutils");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{}: {}\n{stdout}\n{}",
        path.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    (stdout, start.elapsed())
}

#[test]
fn every_test_program_gives_right_results() {
    let programs = programs();
    if programs.is_empty() {
        return skip("the test programs are not built; type: make programs");
    }
    let sources = fs::read_dir(repository().join("tests/programs"))
        .expect("the sources are in the repository")
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|it| it == "cu"))
        .count();
    assert!(
        programs.len() >= sources,
        "{} programs of {sources} sources",
        programs.len()
    );
    for path in programs {
        let name = path
            .file_name()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        if WITH_PROBES.contains(&&*name) {
            continue;
        }
        let (stdout, took) = run(&path);
        assert!(
            stdout.contains(&format!("PASS {name}")),
            "{name} did not pass:\n{stdout}"
        );
        eprintln!("{name}: {:.2} s", took.as_secs_f64());
    }
}

/// The bars of the project, on two cores, process start and result check included.
#[test]
fn the_interpreter_is_fast_enough() {
    for (name, seconds) in [("vector_add", 2.0), ("matmul_tiled", 5.0)] {
        let Some(path) = program(name) else {
            return skip("the test programs are not built; type: make programs");
        };
        let (_, took) = run(&path);
        assert!(
            took.as_secs_f64() < seconds,
            "{name} took {took:?}, more than {seconds} s"
        );
    }
}

#[test]
fn status_signals_and_output_are_the_programs_own() {
    let shell = |script: &str| {
        cutrace()
            .args(["softgpu", "--", "sh", "-c", script])
            .output()
            .expect("cutrace runs")
    };
    let output = shell("echo out; echo err >&2; exit 7");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"err\n");
    assert_eq!(shell("kill -TERM $$").status.signal(), Some(libc::SIGTERM));
    assert_eq!(shell("kill -KILL $$").status.signal(), Some(libc::SIGKILL));

    let missing = cutrace()
        .args(["softgpu", "--", "no-such-program"])
        .output()
        .expect("runs");
    assert_eq!(missing.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no-such-program"));
}

#[test]
fn its_libraries_serve_programs_that_run_without_cutrace() {
    let Some(path) = program("vector_add") else {
        return skip("target/programs is not built: make programs");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let said = cutrace()
        .args(["softgpu", "--unpack"])
        .arg(folder.path())
        .output()
        .expect("it runs");
    assert!(said.status.success(), "{said:?}");
    let alone = Command::new(&path)
        .env("LD_LIBRARY_PATH", folder.path())
        .output()
        .expect("it runs");
    assert!(alone.status.success(), "{alone:?}");
    assert_eq!(String::from_utf8_lossy(&alone.stdout), run(&path).0);
}

#[test]
fn the_list_names_every_export_of_a_real_driver() {
    let output = cutrace()
        .args(["softgpu", "--list", "--all"])
        .output()
        .expect("cutrace runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let exports =
        fs::read_to_string(repository().join("fixtures/driver/libcuda-580.159.04.exports"))
            .expect("the fixture is in the repository");
    for name in exports
        .lines()
        .filter(|name| name.starts_with("cu") && !name.starts_with("cudbg"))
    {
        assert!(
            text.lines().any(|line| line.trim() == name),
            "{name} is not listed"
        );
    }
}

/// One file copied to an empty machine is enough: no repository, no environment, any folder.
#[test]
fn the_demo_runs_from_a_copy_of_the_binary_alone() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let copy = home.path().join("cutrace");
    fs::copy(env!("CARGO_BIN_EXE_cutrace"), &copy).expect("copied");
    let demo = || {
        Command::new(&copy)
            .arg("demo")
            .env_clear()
            .env("HOME", home.path())
            .current_dir(home.path())
            .output()
            .expect("the copy runs")
    };
    for round in ["first, unpacking", "second, unpacked"] {
        let output = demo();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{round}: {output:?}");
        assert!(
            stdout.contains("softgpu"),
            "{round}: the device says what it is:\n{stdout}"
        );
        assert_eq!(
            stdout.matches("results right").count(),
            1,
            "{round}:\n{stdout}"
        );
        // The three things that are wrong with it are named.
        for finding in ["transfer-bound", "pauses", "leak"] {
            assert!(stdout.contains(finding), "{round}: no {finding}:\n{stdout}");
        }
        for file in ["trace.jsonl", "trace.pftrace", "report.html"] {
            let path = home.path().join("traces/demo").join(file);
            let size = fs::metadata(&path).map_or(0, |data| data.len());
            assert!(size > 10_000, "{round}: {file} has {size} bytes");
        }
    }
}

#[test]
fn a_cache_folder_others_can_write_is_refused() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let cache = home.path().join("cutrace");
    fs::create_dir(&cache).expect("made");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).expect("set");
    let output = cutrace()
        .arg("demo")
        .current_dir(home.path())
        .env("XDG_CACHE_HOME", home.path())
        .env("TMPDIR", home.path().join("elsewhere"))
        .output()
        .expect("cutrace runs");
    let libraries = fs::read_dir(&cache).expect("there").count();
    assert_eq!(libraries, 0, "nothing may be unpacked there: {output:?}");
}
