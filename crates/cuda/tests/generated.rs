//! The committed tables are what the generator writes today.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Says why a test cannot run; where everything must run, that is a failure.
fn skip(why: &str) {
    assert!(
        std::env::var_os("CUTRACE_REQUIRE_ALL").is_none_or(|value| value != "1"),
        "must run here: {why}"
    );
    eprintln!("skipped: {why}");
}

#[test]
fn regenerating_changes_nothing() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fresh = tempfile::tempdir().unwrap();
    let output = Command::new(crate_folder.join("generate/run"))
        .arg("--out")
        .arg(fresh.path())
        .output()
        .unwrap();
    // 3: the headers or gcc are not there.
    if output.status.code() == Some(3) {
        return skip(String::from_utf8_lossy(&output.stderr).trim());
    }
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let committed = crate_folder.join("src/generated");
    let (old, new) = (files(&committed), files(fresh.path()));
    assert_eq!(
        old.keys().collect::<Vec<_>>(),
        new.keys().collect::<Vec<_>>()
    );
    for (name, old) in &old {
        let differing = old
            .lines()
            .zip(new[name].lines())
            .find(|(old, new)| old != new);
        assert!(
            *old == new[name],
            "{name} is stale: type crates/cuda/generate/run; first difference: {differing:?}"
        );
    }
}

/// The files below a folder with their text.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            found.extend(
                files(&path)
                    .into_iter()
                    .map(|(inner, text)| (format!("{name}/{inner}"), text)),
            );
        } else {
            found.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
    found
}
