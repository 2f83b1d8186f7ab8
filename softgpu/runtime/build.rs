//! Compares what the sources define with NVIDIA's export list and writes, to OUT_DIR:
//! `stubs.rs` (the functions that are missing, answering cudaErrorNotSupported, and the lists
//! of both), `version.map` (the linker's version script) and `coverage.txt`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let (major, other) = if env::var_os("CARGO_FEATURE_CUDA12").is_some() {
        (12, "v13")
    } else {
        (13, "v12")
    };
    let list = root.join(format!("exports/libcudart-{major}.txt"));
    println!("cargo::rerun-if-changed={}", list.display());
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");

    let exports: BTreeSet<String> = read(&list).lines().map(str::to_owned).collect();
    let mut defined = BTreeSet::new();
    collect(&root.join("src"), other, &mut defined);

    let stubs: Vec<_> = exports.difference(&defined).collect();
    let implemented: Vec<_> = exports.intersection(&defined).collect();
    fs::write(out.join("stubs.rs"), stub_source(&stubs, &implemented)).expect("OUT_DIR");
    fs::write(out.join("version.map"), version_script(major, &exports)).expect("OUT_DIR");
    fs::write(out.join("coverage.txt"), coverage(major, &stubs, &exports)).expect("OUT_DIR");
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Adds the names of the functions defined under a folder, the other version's folder left out.
fn collect(folder: &Path, other: &str, names: &mut BTreeSet<String>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() && path.file_name() != Some(other.as_ref()) {
            collect(&path, other, names);
        } else if path.extension() == Some("rs".as_ref()) {
            let source = read(&path);
            for (at, _) in source.match_indices(" fn ") {
                names.extend(defined_at(&source[at + 4..]));
            }
            names.extend(entry_point_names(&source));
        }
    }
}

/// The names between `fn` and the parameters: one, or with its per-thread form two.
fn defined_at(text: &str) -> impl Iterator<Item = String> + '_ {
    let names = text.split('(').next().unwrap_or_default();
    names
        .split(',')
        .map(str::trim)
        .filter(|name| is_export(name))
        .map(str::to_owned)
}

/// cudaGetDriverEntryPoint and its three kin come from a macro that lists them line by line.
fn entry_point_names(source: &str) -> Vec<String> {
    let Some((_, rest)) = source.split_once("entry_points! {\n") else {
        return Vec::new();
    };
    let body = rest.split('}').next().unwrap_or_default();
    body.split([',', ';', '\n'])
        .map(str::trim)
        .filter(|n| is_export(n))
        .map(str::to_owned)
        .collect()
}

fn is_export(name: &str) -> bool {
    (name.starts_with("cuda") || name.starts_with("__cuda"))
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn stub_source(stubs: &[&String], implemented: &[&String]) -> String {
    let mut text = String::new();
    for name in stubs {
        // A function with any parameters may be called so: it looks at none of them. What the
        // compiler's own code calls must not leave an error for the program to find.
        let answer = if name.starts_with("__") {
            "crate::error::Error::NOT_SUPPORTED.0"
        } else {
            "crate::error::finish(Err(crate::error::Error::NOT_SUPPORTED))"
        };
        writeln!(
            text,
            "#[unsafe(no_mangle)]\npub extern \"C\" fn {name}() -> std::ffi::c_int {{\n    \
             crate::error::not_implemented({name:?});\n    {answer}\n}}\n"
        )
        .expect("to a string");
    }
    writeln!(text, "pub const STUBS: &[&str] = &{stubs:?};").expect("to a string");
    writeln!(text, "pub const IMPLEMENTED: &[&str] = &{implemented:?};").expect("to a string");
    text
}

fn version_script(major: u32, exports: &BTreeSet<String>) -> String {
    let mut text = format!("libcudart.so.{major} {{\n  global:\n");
    for name in exports {
        writeln!(text, "    {name};").expect("to a string");
    }
    text + "  local: *;\n};\n"
}

fn coverage(major: u32, stubs: &[&String], exports: &BTreeSet<String>) -> String {
    let done = exports.len() - stubs.len();
    let mut text = format!(
        "libcudart.so.{major}: {done} of {} functions implemented ({:.1} %); the rest answer \
         cudaErrorNotSupported:\n",
        exports.len(),
        100.0 * done as f64 / exports.len() as f64,
    );
    for name in stubs {
        writeln!(text, "  {name}").expect("to a string");
    }
    text
}
