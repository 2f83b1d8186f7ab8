//! What is generated from NVIDIA's headers and committed is what the generators give today.
//! CUDA 13's headers are at hand where nvcc is; CUDA 12's come from a package of their own, so
//! that its files are compared only where $CUDA12_INCLUDE names their folders.

mod support;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{package, toolkit};

fn output(program: impl AsRef<OsStr>, script: &str, folders: &[PathBuf]) -> String {
    let script = package().join("gen").join(script);
    let output = Command::new(program)
        .arg(&script)
        .args(folders)
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", script.display());
    String::from_utf8(output.stdout).expect("ASCII")
}

fn committed(name: &str) -> String {
    std::fs::read_to_string(package().join("exports").join(name)).expect("a committed file")
}

/// The interpreter of the toolkit's venv, which has pycparser.
fn python(toolkit: &Path) -> PathBuf {
    let venv = toolkit.ancestors().map(|folder| folder.join("bin/python3"));
    venv.into_iter()
        .find(|python| python.exists())
        .unwrap_or_else(|| "python3".into())
}

#[test]
fn the_driver_table_is_fresh() {
    let Some(toolkit) = toolkit() else { return };
    output(
        "python3",
        "driver_table.py",
        &[toolkit.join("include"), "--check".into()],
    );
}

#[test]
fn the_layout_of_the_properties_is_fresh() {
    let Some(toolkit) = toolkit() else { return };
    let layout = output("sh", "device_prop.sh", &[toolkit.join("include")]);
    assert_eq!(layout, committed("device_prop-13.txt"));
}

#[test]
fn the_signatures_are_fresh() {
    let Some(toolkit) = toolkit() else { return };
    let signatures = output(
        python(&toolkit),
        "signatures.py",
        &[toolkit.join("include")],
    );
    assert_eq!(signatures, committed("signatures-13.txt"));
}

#[test]
fn the_files_of_cuda_12_are_fresh() {
    let (Some(toolkit), Some(folders)) = (toolkit(), std::env::var_os("CUDA12_INCLUDE")) else {
        eprintln!("skipped: $CUDA12_INCLUDE names no headers of CUDA 12");
        return;
    };
    let folders: Vec<_> = std::env::split_paths(&folders).collect();
    assert_eq!(
        output("sh", "device_prop.sh", &folders),
        committed("device_prop-12.txt")
    );
    let signatures = output(python(&toolkit), "signatures.py", &folders);
    assert_eq!(signatures, committed("signatures-12.txt"));
}
