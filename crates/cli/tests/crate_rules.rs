//! The arrows of docs/ARCHITECTURE.md: which crate may depend on which, checked over `cargo metadata`.

use std::{collections::BTreeMap, process::Command};

/// crate → what it may depend on, of ours. A crate that is not here has no place in the design.
const RULES: &[(&str, &[&str])] = &[
    ("event", &[]),
    ("cuda", &["event"]),
    ("trace", &["event"]),
    ("preload", &["event", "cuda"]),
    ("activity", &["event", "cuda", "preload"]),
    ("capture", &["event", "cuda", "names", "ptx", "gpubpf"]),
    ("gpubpf", &["ptx"]),
    ("names", &[]),
    ("ptx", &["names"]),
    ("probe", &["cuda", "ptx"]),
    ("softgpu", &["ptx"]),
    ("cudart", &[]),
    ("cupti", &[]),
    ("redirect", &[]),
    ("pinned", &[]),
    ("analyse", &["event", "cuda", "names", "trace"]),
    ("render", &["event", "analyse"]),
];

#[test]
fn crates_depend_only_on_what_the_design_allows() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let rules: BTreeMap<&str, &[&str]> = RULES.iter().copied().collect();
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() >= 6, "the workspace has its crates");
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        if name == "cutrace" {
            continue; // The binary may use all.
        }
        let name = name
            .strip_prefix("cutrace-")
            .unwrap_or_else(|| panic!("{name} is not called cutrace-…"));
        let allowed = rules
            .get(name)
            .unwrap_or_else(|| panic!("crate {name} is not in the design: add it to the rules"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let wanted = dependency["name"].as_str().expect("a name");
            if dependency["kind"].is_string() {
                continue; // Tests may look across.
            }
            assert_ne!(wanted, "cutrace", "{name} must not depend on the binary");
            if let Some(wanted) = wanted.strip_prefix("cutrace-") {
                assert!(
                    allowed.contains(&wanted),
                    "{name} must not depend on {wanted}"
                );
            }
        }
    }
}
