//! The traced program behaves as without us, and what cannot be done is said.

use super::{path, program, record, record_with};
use crate::common::cutrace;
use std::{fs, os::unix::process::ExitStatusExt, process::Command};

#[test]
fn status_signals_and_output_are_the_programs_own() {
    let shell = |script: &str| record(&["-q"], &["sh", "-c", script]).output;
    let output = shell("echo out; echo err >&2; exit 7");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"err\n");
    assert_eq!(shell("kill -TERM $$").status.signal(), Some(libc::SIGTERM));
    assert_eq!(shell("kill -KILL $$").status.signal(), Some(libc::SIGKILL));
}

#[test]
fn a_program_prints_the_same_traced_and_untraced() {
    let Some(program) = program("driver_api") else {
        return;
    };
    let plain = cutrace()
        .args(["softgpu", "--"])
        .arg(&program)
        .output()
        .expect("cutrace runs");
    let traced = record(&["-q"], &[path(&program)]).output;
    assert_eq!((plain.status, plain.stdout), (traced.status, traced.stdout));
    assert_eq!(plain.stderr, traced.stderr);
}

#[test]
fn a_command_that_cannot_run_leaves_no_trace() {
    for (command, code, words) in [
        ("no-such-program", 127, "not found"),
        ("/", 126, "a folder"),
        ("/etc/passwd", 126, "not executable"),
    ] {
        let run = record(&[], &[command]);
        assert_eq!(run.output.status.code(), Some(code), "{command}");
        assert!(run.stderr().contains(words), "{command}: {}", run.stderr());
        assert!(!run.trace().exists(), "{command}");
    }
}

#[test]
fn an_output_that_cannot_be_written_stops_before_the_program() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("file"), "").expect("written");
    let mark = folder.path().join("mark");
    let output = cutrace()
        .arg("-o")
        .arg(folder.path().join("file/trace.jsonl"))
        .arg("touch")
        .arg(&mark)
        .output()
        .expect("cutrace runs");
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(!mark.exists(), "the program did not run");
    let usage = cutrace()
        .args(["-o", "trace.txt", "true"])
        .output()
        .expect("cutrace runs");
    assert_eq!(usage.status.code(), Some(2), "{usage:?}");
}

#[test]
fn a_full_disk_ends_the_trace_and_not_the_program() {
    let Some(program) = program("vector_add") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["full.jsonl", "full.arrows"] {
        let trace = folder.path().join(name);
        std::os::unix::fs::symlink("/dev/full", &trace).expect("a link");
        let output = cutrace()
            .args(["--sim", "--no-summary", "-o"])
            .arg(&trace)
            .arg(&program)
            .output()
            .expect("cutrace runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{output:?}");
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("PASS"),
            "{output:?}"
        );
        assert!(stderr.contains("No space left"), "{stderr}");
        assert!(stderr.contains("at least "), "{stderr}");
    }
}

#[test]
fn nothing_to_trace_is_said_and_the_trace_is_whole() {
    let run = record(&[], &["true"]);
    assert_eq!(run.output.status.code(), Some(0));
    let stderr = run.stderr();
    // Two lines, and no zeros.
    let lines: Vec<&str> = stderr.lines().collect();
    let [why, trace] = &*lines else {
        panic!("{stderr}");
    };
    let words = "cutrace: no CUDA call: the program loaded no CUDA library (libcuda, libcudart)";
    assert!(why.starts_with(words), "{stderr}");
    assert_eq!(*trace, format!("Trace: {}", run.trace().display()));
    assert_eq!(run.lines.len(), 2, "{:?}", run.lines);
    assert_eq!(run.summary()["exit"], 0);
}

#[test]
fn without_an_output_the_trace_is_named_after_the_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for _ in 0..2 {
        let mut run = cutrace();
        run.arg("true").current_dir(folder.path());
        assert!(run.output().expect("cutrace runs").status.success());
    }
    let traces = fs::read_dir(folder.path().join("traces")).expect("there");
    let files = traces
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let names: Vec<_> = files.map(|entry| entry.file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for name in names {
        let name = name.to_str().expect("UTF-8");
        assert!(
            name.starts_with("trace_20") && name.ends_with(".jsonl"),
            "{name}"
        );
    }
}

#[test]
fn what_was_preloaded_stays_preloaded() {
    let run = record_with(
        &["-q"],
        &["sh", "-c", "echo \"$LD_PRELOAD\""],
        |cutrace: &mut Command| {
            cutrace.env("LD_PRELOAD", "libm.so.6");
        },
    );
    let stdout = String::from_utf8_lossy(&run.output.stdout).into_owned();
    let stdout = stdout.trim_end();
    assert!(
        stdout.starts_with("libm.so.6:/") && stdout.contains("/libcutrace_preload.so:"),
        "{stdout}"
    );
}

#[test]
fn why_nothing_could_be_hooked_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("empty.c");
    fs::write(&source, "int main(void) { return 3; }").expect("written");
    let build = |name: &str, flags: &[&str]| {
        let program = folder.path().join(name);
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
        compiler.arg("-o").arg(&program).arg(&source).args(flags);
        compiler
            .status()
            .is_ok_and(|status| status.success())
            .then_some(program)
    };
    let alone = build("alone", &["-static"]).expect("a static program");
    let run = record(&[], &[path(&alone)]);
    assert_eq!(run.output.status.code(), Some(3));
    let stderr = run.stderr();
    assert!(stderr.contains("is statically linked"), "{stderr}");

    let changing = build("changing", &[]).expect("a program");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    fs::set_permissions(&changing, mode).expect("our own file");
    let run = record(&[], &[path(&changing)]);
    assert_eq!(run.output.status.code(), Some(3));
    let stderr = run.stderr();
    assert!(stderr.contains("is setuid or setgid"), "{stderr}");
}

/// Its children find neither us nor the software device: they run as they would have.
#[test]
fn a_program_that_clears_its_environment_is_left_to_itself() {
    let run = record(
        &[],
        &[
            "env",
            "-i",
            "/bin/sh",
            "-c",
            "echo \"<$LD_PRELOAD>\"; exit 4",
        ],
    );
    assert_eq!(run.output.status.code(), Some(4));
    assert_eq!(run.output.stdout, b"<>\n");
    let stderr = run.stderr();
    assert!(stderr.contains("a cleared environment"), "{stderr}");
}

#[test]
fn a_child_without_its_environment_that_uses_cuda_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, program) = (folder.path().join("waits.c"), folder.path().join("waits"));
    let code = "#include <dlfcn.h>\n#include <unistd.h>\n\
        int main(void) { int (*init)(int) = dlsym(dlopen(\"libcuda.so.1\", 2), \"cuInit\"); \
        return init ? init(0) + usleep(900000) + usleep(900000) : 9; }";
    fs::write(&source, code).expect("written");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
    compiler.arg("-o").arg(&program).arg(&source).arg("-ldl");
    assert!(compiler.status().is_ok_and(|status| status.success()));
    let script = "env -i LD_LIBRARY_PATH=\"$LD_LIBRARY_PATH\" \"$0\"";
    let run = record(&[], &["sh", "-c", script, path(&program)]);
    assert!(run.output.status.success(), "{}", run.stderr());
    let named = format!(
        "({}) uses CUDA (libcuda.so.1) but was not traced",
        path(&program)
    );
    assert!(run.stderr().contains(&named), "{}", run.stderr());
}

#[test]
fn what_was_preloaded_comes_first_and_works() {
    let Some(program) = program("vector_add") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, library) = (folder.path().join("own.c"), folder.path().join("own.so"));
    let code = "#include <unistd.h>\n__attribute__((constructor)) static void here(void) \
        { (void)!write(2, \"preloaded\\n\", 10); }";
    fs::write(&source, code).expect("written");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library);
    assert!(
        compiler
            .arg(&source)
            .status()
            .is_ok_and(|status| status.success())
    );
    let run = record_with(&[], &[path(&program), "1000"], |cutrace: &mut Command| {
        cutrace.env("LD_PRELOAD", &library);
    });
    assert!(run.output.status.success(), "{}", run.stderr());
    assert!(run.stderr().contains("preloaded\n"), "{}", run.stderr());
    assert_eq!(run.calls("cudaMalloc").count(), 3);
}

#[test]
fn a_slip_is_no_command() {
    let told = |arguments: &[&str]| {
        let output = cutrace().args(arguments).output().expect("cutrace runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = told(&["reprot"]);
    assert_eq!(code, Some(127), "{said}");
    assert!(said.contains("did you mean: cutrace report"), "{said}");
    let (code, said) = told(&["--stack", "memory", "true"]);
    assert_eq!(code, Some(127), "{said}");
    assert!(said.contains("did you mean: --stack=memory"), "{said}");
    for arguments in [
        &["--metod=preload", "true"][..],
        &["record", "--metod", "preload", "true"],
        &["softgpu", "--lst"],
        &["gpu", "count", "kernel", "--no-sumary", "true"],
    ] {
        let (code, said) = told(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains("a similar argument exists"), "{said}");
    }
}

#[test]
fn an_older_trace_outlives_a_command_that_cannot_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("trace.jsonl");
    let run = |command: &str| {
        let mut line = cutrace();
        line.arg("-o").arg(&trace).args(["--no-summary", command]);
        line.status().expect("cutrace runs")
    };
    let long = "older\n".repeat(1000);
    fs::write(&trace, &long).expect("written");
    assert_eq!(run("no-such-program").code(), Some(127));
    assert_eq!(fs::read_to_string(&trace).expect("still there"), long);
    assert!(run("true").success());
    let newer = fs::read_to_string(&trace).expect("there");
    assert!(!newer.contains("older"), "nothing of the older is left");
}

#[test]
fn how_the_program_ended_is_told() {
    let words = |script: &str| record(&[], &["sh", "-c", script]).stderr();
    assert!(words("exit 3").contains("Note: the program exited with 3\n"));
    assert!(words("kill -SEGV $$").contains("Note: the program was killed by signal 11 ("));
    let well = words("exit 0");
    assert!(!well.contains("the program exited") && !well.contains("was ended"));
}
