//! The fixture is what its generator writes.

use std::path::Path;
use std::process::Command;

use crate::fixture::{SETS, path, repository, unpacked};

#[test]
fn the_generator_writes_the_fixture() {
    for (set, options) in SETS {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("conformance")
            .join(set);
        let status = Command::new("python3")
            .arg(repository().join("tests/gpu/conformance/generate.py"))
            .arg(&folder)
            .args(options)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .status()
            .expect("python3 runs");
        assert!(status.success(), "generate.py failed: {status}");
        let mut compared = 0;
        for entry in std::fs::read_dir(&folder).expect("generated files") {
            let entry = entry.expect("entry");
            let name = entry.file_name().into_string().expect("plain names");
            let made = match std::fs::read(entry.path()) {
                Ok(made) => made,
                Err(_) => continue,
            };
            let kept = if name == "cases.tsv" {
                std::fs::read(path(set, &name)).expect("cases.tsv")
            } else {
                unpacked(&path(set, &format!("{name}.gz")))
            };
            assert!(
                made == kept,
                "{name} of {set} differs: run generate.py again, and the hardware"
            );
            compared += 1;
        }
        assert!(compared >= 3, "only {compared} files");
    }
}
