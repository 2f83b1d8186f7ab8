//! Builds the shared libraries that the tests load and run programs on.
#![allow(dead_code)] // Each test file uses its part.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

pub fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder of this test run's own for what is built.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("the target folder is writable");
    folder
}

fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{errors}",
        output.status
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Those that crates/cli/build.rs builds together. Fewer of them would need fewer features of what they share, and be
/// built anew.
const TOGETHER: [&str; 5] = [
    "cutrace-softgpu-driver",
    "cutrace-softgpu-cupti",
    "cutrace-softgpu-redirect",
    "cutrace-gpu-times",
    "cutrace-gpu-probes",
];

/// Builds packages as static libraries. The folder is the one where the program that carries
/// the libraries builds them, so that each is built once.
fn archive(packages: &[&str], feature: Option<&str>, file: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("a target folder");
    let target = target.join("carried").join(feature.unwrap_or("base"));
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(package())
        .args(["build", "--lib", "--profile", "carried", "--quiet"])
        .arg("--target-dir")
        .arg(&target)
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    for name in packages {
        cargo.args(["--package", name]);
    }
    if let Some(feature) = feature {
        cargo.args(["--no-default-features", "--features", feature]);
    }
    run(&mut cargo);
    target.join("carried").join(file)
}

fn once(cell: &OnceLock<PathBuf>, build: impl FnOnce() -> PathBuf) -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _guard = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    cell.get_or_init(build).clone()
}

/// The folder with libcudart.so.12 and .13.
pub fn runtime_folder() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    once(&FOLDER, || {
        let folder = folder("runtime");
        for major in ["12", "13"] {
            let archive = archive(
                &["cutrace-softgpu-runtime"],
                Some(&format!("cuda{major}")),
                "libcudart.a",
            );
            let link = package().join("link.sh");
            let output = folder.join(format!("libcudart.so.{major}"));
            run(Command::new(link).arg(major).arg(archive).arg(output));
        }
        folder
    })
}

/// The folder with softgpu as libcuda.so.1.
pub fn softgpu_folder() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    once(&FOLDER, || {
        let folder = folder("softgpu");
        let archive = archive(&TOGETHER, None, "libsoftgpu_driver.a");
        let link = package().join("../driver/exports/link-libcuda");
        run(Command::new("sh")
            .arg(link)
            .arg(archive)
            .arg(folder.join("libcuda.so.1")));
        folder
    })
}

/// The CUDA toolkit of target/nvcc or of $CUDA_ROOT; without it a test says that it skips, or
/// fails where nothing may be skipped.
pub fn toolkit() -> Option<PathBuf> {
    let mut places: Vec<PathBuf> = std::env::var_os("CUDA_ROOT")
        .map(Into::into)
        .into_iter()
        .collect();
    let venv = package().join("../../target/nvcc/lib");
    let pythons = std::fs::read_dir(venv).into_iter().flatten().flatten();
    places.extend(pythons.map(|python| python.path().join("site-packages/nvidia/cu13")));
    let found = places
        .into_iter()
        .find(|place| place.join("bin/nvcc").exists());
    if found.is_none() {
        skip("no nvcc in target/nvcc or $CUDA_ROOT (scripts/setup-nvcc puts it there)");
    }
    found
}

pub fn skip(why: &str) {
    let required = std::env::var_os("CUTRACE_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!required, "{why}");
    eprintln!("skipped: {why}");
}

/// Compiles one of tests/programs against the shared runtime.
pub fn compile(toolkit: &Path, name: &str, out: &str, flags: &[&str]) -> PathBuf {
    let program = folder("programs").join(out);
    let beside = program.with_extension(format!("{}", std::process::id()));
    run(Command::new(toolkit.join("bin/nvcc"))
        .args([
            "-w",
            "-cudart",
            "shared",
            "-gencode",
            "arch=compute_75,code=compute_75",
        ])
        .args(flags)
        .arg("-o")
        .arg(&beside)
        .arg(package().join(format!("tests/programs/{name}.cu")))
        .arg(format!("-L{}", toolkit.join("lib").display()))
        .arg("-lcudart"));
    std::fs::rename(&beside, &program).expect("beside its place");
    program
}

/// Runs a program with only the given folders to find libraries in; its output, whatever its
/// end, and whether that was a good one.
pub fn run_with(program: &Path, arguments: &[&Path], folders: &[&Path]) -> (String, bool) {
    let path = std::env::join_paths(folders).expect("folders without colons");
    let output = Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", path)
        .output()
        .unwrap_or_else(|why| panic!("{}: {why}", program.display()));
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        text += &format!(
            "{}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    (text, output.status.success())
}
