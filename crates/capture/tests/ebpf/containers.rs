//! Libraries that are not where the tracer would look for them: in another mount namespace, under
//! another root with a loader of its own, in Python's wheels.

use super::calls::{flood, flood_options};
use super::common::{HERE, compile, drivers, ready, run};
use capture::ebpf::{AttachMode, Options};
use capture::launch::Exit;
use event::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn skip(why: &str) {
    let required = std::env::var_os("CUTRACE_REQUIRE_ALL").is_some_and(|it| it == "1");
    assert!(!required, "must not be skipped here: {why}");
    eprintln!("skipped: {why}");
}

#[test]
fn a_library_in_another_mount_namespace() {
    let Some(_turn) = ready() else {
        return;
    };
    let Some(driver) = drivers().pop() else {
        return;
    };
    let program = compile("exports.c", "exports", &["-ldl"]);
    let list = program.with_extension("names_inside");
    fs::write(&list, "cuInit\ncuDriverGetVersion\n").expect("written");
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("libcuda.so.1");
    let shell = format!(
        "mount -t tmpfs none {0} && cp {1} {2} && exec {3} {2} {4} >/dev/null",
        folder.path().display(),
        driver.display(),
        inside.display(),
        program.display(),
        list.display()
    );
    let (exit, kept, report) = run(&Options::default(), &["unshare", "-m", "sh", "-c", &shell]);
    assert_eq!(exit, Exit::Code(0));
    assert!(!inside.exists(), "it is there for its own processes only");
    let paths: Vec<&str> = report.libraries.iter().map(|one| &*one.path).collect();
    assert_eq!(paths, [inside.to_str().expect("text")]);
    let count = |name: &str| kept.begun().filter(|event| &*event.name == name).count();
    assert_eq!((count("cuInit"), count("cuDriverGetVersion")), (1, 1));
    assert_eq!(report.ended.late_loads, 0, "{:?}", report.notes);
}

/// A root with a program, its libraries and a loader of its own.
fn root_of(program: &Path) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let listed = Command::new("ldd").arg(program).output().expect("ldd");
    let text = String::from_utf8(listed.stdout).expect("text");
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    for path in words.map(PathBuf::from).chain([program.to_owned()]) {
        let inside = root.path().join(path.strip_prefix("/").expect("absolute"));
        fs::create_dir_all(inside.parent().expect("a folder")).expect("made");
        fs::copy(&path, inside).expect("copied");
    }
    root
}

#[test]
fn a_program_under_another_root_with_a_loader_of_its_own() {
    let Some(_turn) = ready() else {
        return;
    };
    let (program, library) = flood();
    let program = fs::canonicalize(program).expect("there");
    let root = root_of(&program);
    const EACH: usize = 200;
    // The first meets a loader that nobody knows; from then on it is known.
    let shell = format!(
        "chroot {0} {1} 1; chroot {0} {1} {EACH}",
        root.path().display(),
        program.display()
    );
    let (exit, kept, report) = run(
        &flood_options(None, AttachMode::Session),
        &["sh", "-c", &shell],
    );
    assert_eq!(exit, Exit::Code(0));
    let paths: Vec<&str> = report.libraries.iter().map(|one| &*one.path).collect();
    let name = library.file_name().and_then(|name| name.to_str());
    assert_eq!(paths.len(), 1, "{paths:?} {:?}", report.notes);
    assert_eq!(paths[0].rsplit('/').next(), name);
    let last = report.processes.last().expect("seen").pid;
    let calls = kept.begun().filter(|event| event.pid == last).count();
    assert_eq!(calls, 4 * EACH, "{:?}", report.notes);
}

#[test]
fn the_runtime_of_a_python_wheel() {
    let Some(_turn) = ready() else {
        return;
    };
    let venv = Path::new(HERE).join("../../target/nvcc");
    let python = venv.join("bin/python3");
    let found = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "ls {}/lib/python3*/site-packages/nvidia/*/lib/libcudart.so.[0-9]*",
            venv.display()
        ))
        .output()
        .expect("sh");
    let text = String::from_utf8(found.stdout).expect("text");
    let Some(wheel) = text.lines().next() else {
        return skip("target/nvcc is not there: make nvcc");
    };
    let script = format!(
        "import ctypes\n\
         version = ctypes.c_int()\n\
         assert ctypes.CDLL('{wheel}').cudaRuntimeGetVersion(ctypes.byref(version)) == 0\n\
         assert version.value >= 12000"
    );
    let python = python.display().to_string();
    let (exit, kept, report) = run(&Options::default(), &[&python, "-c", &script]);
    assert_eq!(exit, Exit::Code(0));
    let paths: Vec<&str> = report.libraries.iter().map(|one| &*one.path).collect();
    assert_eq!(paths.len(), 1, "{paths:?}");
    assert!(paths[0].contains("site-packages/nvidia/"), "{paths:?}");
    let calls: Vec<_> = kept.closed().collect();
    assert_eq!(calls.len(), 1);
    assert_eq!(&*calls[0].name, "cudaRuntimeGetVersion");
    assert_eq!(calls[0].status.as_ref().map(|it| it.code), Some(0));
    let version = calls[0].arg("runtimeVersion").and_then(Value::as_u64);
    assert!(version >= Some(12_000), "{:?}", calls[0]);
}
