//! What real driver libraries export and the tables do not know, compared with committed lists:
//! nothing new goes unnoticed. A missing row costs parameter names, never the hook.

use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol, SymbolKind};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn skip(why: &str) {
    assert!(
        std::env::var_os("CUTRACE_REQUIRE_ALL").is_none_or(|value| value != "1"),
        "must run here: {why}"
    );
    eprintln!("skipped: {why}");
}

fn unknown(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<_> = names
        .filter(|name| name.starts_with("cu") || name.starts_with("__cuda"))
        .filter(|name| cuda::function(name).is_none())
        .collect();
    names.sort();
    names.dedup();
    names
        .iter()
        .map(|name| format!("{name} {}\n", cuda::category(name)))
        .collect()
}

/// The functions a shared library exports.
fn exports(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    file.dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text)
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .collect()
}

#[test]
fn unknown_exports_of_libcuda_580() {
    let listing =
        std::fs::read_to_string(root().join("fixtures/driver/libcuda-580.159.04.exports")).unwrap();
    assert!(listing.lines().count() > 600);
    insta::assert_snapshot!(unknown(listing.lines().map(str::to_owned)));
}

/// The library that scripts/fetch-libcuda put under target/libcuda for this branch.
fn fetched(branch: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir(root().join("target/libcuda")).ok()?;
    let version = versions.filter_map(Result::ok).find(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with(&format!("{branch}."))
    })?;
    Some(version.path().join("libcuda.so.1"))
}

#[test]
fn unknown_exports_of_libcuda_535() {
    match fetched("535") {
        Some(path) => insta::assert_snapshot!(unknown(exports(&path).into_iter())),
        None => skip("no libcuda 535: type scripts/fetch-libcuda"),
    }
}

#[test]
fn unknown_exports_of_libcuda_550() {
    match fetched("550") {
        Some(path) => insta::assert_snapshot!(unknown(exports(&path).into_iter())),
        None => skip("no libcuda 550: type scripts/fetch-libcuda"),
    }
}

/// A runtime library among the packages whose headers the tables come from.
fn runtime(path: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir(root().join("target/cuda-headers/lib")).ok()?;
    let library = |entry: std::fs::DirEntry| entry.path().join("site-packages/nvidia").join(path);
    versions
        .filter_map(Result::ok)
        .map(library)
        .find(|path| path.exists())
}

#[test]
fn unknown_exports_of_libcudart_13() {
    match runtime("cu13/lib/libcudart.so.13") {
        Some(path) => insta::assert_snapshot!(unknown(exports(&path).into_iter())),
        None => skip("no libcudart 13: type crates/cuda/generate/run --setup"),
    }
}

#[test]
fn unknown_exports_of_libcudart_12() {
    match runtime("cuda_runtime/lib/libcudart.so.12") {
        Some(path) => insta::assert_snapshot!(unknown(exports(&path).into_iter())),
        None => skip("no libcudart 12: type crates/cuda/generate/run --setup"),
    }
}
