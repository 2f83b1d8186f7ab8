//! docs/ARCHITECTURE.md says how the project is built; here it is compared with the project.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document() -> String {
    fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("docs/ARCHITECTURE.md is there")
}

/// folder → the crates of ours it depends on
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The rows of the table of crates: a folder, what it holds, what it depends on.
fn documented(text: &str) -> Arrows {
    let (_, rest) = text.split_once("\n## Crates\n").expect("a table of crates");
    let section = rest.split("\n## ").next().unwrap_or(rest);
    section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let columns: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [folder, .., depends] = columns[..] else {
                panic!("not a row of three columns: {line}");
            };
            let names = depends
                .split(',')
                .map(str::trim)
                .filter(|name| *name != "–");
            (
                folder.trim_matches('`').to_owned(),
                names.map(str::to_owned).collect(),
            )
        })
        .collect()
}

/// What cargo knows. Dependencies of tests do not count: tests may look across.
fn real() -> Arrows {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let root = metadata["workspace_root"].as_str().expect("a root");
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
            let folder = manifest.parent().expect("a folder");
            let folder = folder.strip_prefix(root).expect("inside the workspace");
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            let ours = dependencies
                .iter()
                .filter(|dependency| !dependency["kind"].is_string())
                .filter_map(|dependency| dependency["name"].as_str()?.strip_prefix("cutrace-"));
            (
                folder.to_str().expect("a name").to_owned(),
                ours.map(str::to_owned).collect(),
            )
        })
        .collect()
}

#[test]
fn the_table_of_crates_is_what_cargo_knows() {
    let (documented, real) = (documented(&document()), real());
    assert!(real.len() >= 20, "{real:?}");
    for (folder, depends) in &real {
        let Some(said) = documented.get(folder) else {
            panic!("{folder} is not in docs/ARCHITECTURE.md's table of crates");
        };
        assert_eq!(
            said, depends,
            "what {folder} depends on, documented and real"
        );
    }
    for folder in documented.keys() {
        assert!(real.contains_key(folder), "{folder} is no crate any more");
    }
}

/// Data flows one way, whatever the table says.
#[test]
fn no_crate_reaches_against_the_flow() {
    let real = real();
    for (folder, forbidden) in [
        ("crates/render", &["capture"][..]),
        ("crates/analyse", &["capture", "render", "trace"]),
        ("crates/capture", &["analyse", "render"]),
        ("crates/trace", &["capture", "analyse", "render"]),
        ("crates/event", &["cuda", "trace", "capture"]),
        ("inject/preload", &["capture", "trace", "names"]),
    ] {
        for name in forbidden {
            assert!(
                !real[folder].contains(*name),
                "{folder} must not depend on {name}"
            );
        }
    }
}

/// Words in backquotes that begin with a folder of the project.
fn paths(text: &str) -> Vec<&str> {
    const FOLDERS: [&str; 11] = [
        "crates/",
        "inject/",
        "softgpu/",
        "bpf/",
        "web/",
        "docs/",
        "tests/",
        "scripts/",
        "bench/",
        "fixtures/",
        "fuzz/",
    ];
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)))
        .collect()
}

/// `a/{b,c}.rs` is two paths.
fn expanded(path: &str) -> Vec<String> {
    match (path.split_once('{'), path.split_once('}')) {
        (Some((before, _)), Some((_, after))) => {
            let inside = &path[before.len() + 1..path.len() - after.len() - 1];
            let each = inside.split(',');
            each.map(|part| format!("{before}{part}{after}")).collect()
        }
        _ => vec![path.to_owned()],
    }
}

#[test]
fn every_path_in_the_document_exists() {
    let text = document();
    let named = paths(&text);
    assert!(named.len() > 40, "{named:?}");
    for path in named.into_iter().flat_map(expanded) {
        // A command with its arguments is a path, too.
        let path = path.split_whitespace().next().unwrap_or_default();
        assert!(
            root().join(path).exists(),
            "docs/ARCHITECTURE.md names {path}, which does not exist"
        );
    }
}

/// README's rows are those of the registry, in whichever order they read best.
#[test]
fn the_ways_to_look_are_the_registrys() {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md is there");
    let (_, rest) = readme.split_once("\n## Ways to look\n").expect("a table");
    let section = rest.split("\n## ").next().unwrap_or(rest);
    let is_row = |line: &&str| line.starts_with('|') && !line.starts_with("|---");
    let rows = section.lines().filter(is_row).skip(1);
    let rows: BTreeSet<&str> = rows.collect();
    let table = capture::source::SOURCES.table();
    for row in &table {
        assert!(rows.contains(&**row), "README.md lacks this row:\n{row}");
    }
    assert_eq!(rows.len(), table.len(), "README.md has rows of its own");
}

/// Ids in the first column of the table of docs/FINDINGS.md, each in backquotes.
fn documented_findings(text: &str) -> Vec<&str> {
    let (_, rest) = text.split_once("\n| finding |").expect("a table");
    let rows = rest
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let rows = rows.filter(|line| line.starts_with("| `"));
    rows.filter_map(|line| line.trim_start_matches('|').split('|').next())
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect()
}

/// Each finding is explained once, and none is that does not exist.
#[test]
fn every_finding_is_in_the_document_and_no_other() {
    let text =
        fs::read_to_string(root().join("docs/FINDINGS.md")).expect("docs/FINDINGS.md is there");
    let documented = documented_findings(&text);
    let distinct: BTreeSet<&str> = documented.iter().copied().collect();
    assert_eq!(
        distinct.len(),
        documented.len(),
        "explained twice: {documented:?}"
    );
    let real: BTreeSet<&str> = analyse::findings::IDS.iter().copied().collect();
    let missing: Vec<_> = real.difference(&distinct).collect();
    assert!(missing.is_empty(), "docs/FINDINGS.md lacks {missing:?}");
    let invented: Vec<_> = distinct.difference(&real).collect();
    assert!(
        invented.is_empty(),
        "docs/FINDINGS.md explains {invented:?}, which no code reports"
    );
}

/// The walk through a source names files, and words that are in the code.
#[test]
fn the_walk_through_a_source_leads_somewhere() {
    let text = fs::read_to_string(root().join("docs/ADDING-A-SOURCE.md")).expect("the walk");
    let named = paths(&text);
    assert!(named.len() >= 8, "{named:?}");
    for path in &named {
        assert!(root().join(path).exists(), "{path} does not exist");
    }
    let mut code = String::new();
    for folder in [
        "crates/capture/src/source",
        "crates/capture/src/trace_file",
        "crates/capture/tests/example_source",
        "crates/capture/tests/example_source/load",
    ] {
        for entry in fs::read_dir(root().join(folder))
            .expect("a folder")
            .flatten()
        {
            code.push_str(&fs::read_to_string(entry.path()).unwrap_or_default());
        }
    }
    code.push_str(&fs::read_to_string(root().join("crates/capture/src/deadline.rs")).expect("it"));
    let is_name = |word: &&str| {
        word.chars().all(|it| it.is_alphanumeric() || it == '_') && !["auto", "all"].contains(word)
    };
    let words: BTreeSet<&str> = text.split('`').skip(1).step_by(2).filter(is_name).collect();
    assert!(words.len() >= 25, "{words:?}");
    for word in words {
        let defined = ["fn ", "struct ", "enum ", "trait ", "pub "].map(|it| format!("{it}{word}"));
        assert!(
            defined.iter().any(|it| code.contains(it)),
            "docs/ADDING-A-SOURCE.md names {word}, which is nowhere defined"
        );
    }
    // What is shown is the example's own.
    let example = root().join("crates/capture/tests/example_source/load/mod.rs");
    let example = fs::read_to_string(example).expect("the example");
    let shown = text
        .lines()
        .filter_map(|line| line.strip_prefix("        "));
    for line in shown.filter(|line| line.contains(": \"")) {
        assert!(example.contains(line), "{line}");
    }
}

/// Reports know by a trace's words who watched for what: the same sources that say so of themselves.
#[test]
fn reports_know_who_watches_for_what() {
    let names = |such: fn(&capture::source::Provides) -> bool| -> BTreeSet<&str> {
        let all = capture::source::SOURCES.all().map(|source| source.about());
        let such = all.filter(|about| such(&about.provides));
        such.map(|about| about.name).collect()
    };
    assert_eq!(names(|it| it.calls), BTreeSet::from(analyse::CALL_SOURCES));
    let requests = BTreeSet::from(analyse::REQUEST_SOURCES);
    assert_eq!(names(|it| it.requests), requests);
}
