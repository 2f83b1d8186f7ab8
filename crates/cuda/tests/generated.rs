//! The committed tables are what the generator writes today.

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
    let names = |folder: &Path| {
        let mut names: Vec<_> = folder
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&committed), names(fresh.path()));
    for name in names(&committed) {
        let old = std::fs::read_to_string(committed.join(&name)).unwrap();
        let new = std::fs::read_to_string(fresh.path().join(&name)).unwrap();
        let differing = old.lines().zip(new.lines()).find(|(old, new)| old != new);
        assert!(
            old == new,
            "{} is stale: type crates/cuda/generate/run; first difference: {differing:?}",
            name.display()
        );
    }
}
