//! What cutrace says about itself: version, help, manual pages, completions, and what it says when nothing is asked for.

mod common;

use common::{cutrace, skip};
use std::{fs, path::Path, process::Command};

/// What is said on both streams, and the exit status.
fn said(words: &[&str]) -> (String, String, Option<i32>) {
    let run = cutrace().args(words).output().expect("cutrace runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (text(run.stdout), text(run.stderr), run.status.code())
}

#[test]
fn the_version_names_the_commit_and_the_build() {
    for flag in ["--version", "-V"] {
        let (out, _, code) = said(&[flag]);
        assert_eq!(code, Some(0));
        let rest = out.strip_prefix("cutrace ").expect("a name");
        let (version, build) = rest.trim_end().split_once(' ').expect("a version");
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        let build = build.strip_prefix('(').and_then(|it| it.strip_suffix(')'));
        let parts: Vec<&str> = build.expect("in brackets").split(", ").collect();
        let [commit, date, target] = parts[..] else {
            panic!("{out}");
        };
        let is_commit = commit.len() >= 7 && commit.bytes().all(|it| it.is_ascii_hexdigit());
        assert!(is_commit || commit == "unknown", "{out}");
        assert!(date.len() == 10 || date == "unknown", "{out}");
        assert!(target.starts_with("x86_64-"), "{out}");
    }
}

#[test]
fn nothing_asked_for_shows_the_three_commands_and_the_newest_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let alone = || {
        let run = cutrace().current_dir(folder.path()).output();
        let run = run.expect("cutrace runs");
        assert_eq!((run.status.code(), &*run.stdout), (Some(2), &b""[..]));
        String::from_utf8(run.stderr).expect("UTF-8")
    };
    let text = alone();
    for words in [
        "cutrace ./app",
        "cutrace report",
        "cutrace view",
        "no trace in traces/ yet",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    fs::create_dir(folder.path().join("traces")).expect("a folder");
    let trace = folder.path().join("traces/trace_20261117_101010.jsonl");
    fs::write(
        &trace,
        "{\"type\":\"meta\",\"version\":1,\"command\":[\"./app\"],\"start_ns\":1}\n",
    )
    .expect("written");
    let text = alone();
    let wanted = "Newest trace: traces/trace_20261117_101010.jsonl\n  a moment ago, ";
    assert!(
        text.contains(wanted) && text.contains(", ./app\n"),
        "{text}"
    );
}

#[test]
fn verbs_are_listed_in_groups() {
    let (out, _, code) = said(&["--help"]);
    assert_eq!(code, Some(0));
    let places: Vec<usize> = [
        "\nRecord:",
        "\nWatch:",
        "\nLook at a trace:",
        "\nCompare:",
        "\nLook inside GPU kernels:",
        "\nMore:",
        "\nExamples:",
    ]
    .map(|title| out.find(title).unwrap_or_else(|| panic!("{title}: {out}")))
    .into();
    assert!(places.is_sorted(), "{out}");
}

/// Names of the files in a folder, in order.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("read")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn every_manual_page_is_sound() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man/man1");
    let (out, error, code) = said(&["man", "--into", pages.to_str().expect("UTF-8")]);
    assert_eq!((&*out, code), ("", Some(0)), "{error}");
    let names = files(&pages);
    for name in [
        "cutrace.1",
        "cutrace-record.1",
        "cutrace-gpu-run.1",
        "cutrace-hooks-check.1",
        "cutrace-man.1",
    ] {
        assert!(names.iter().any(|it| it == name), "{name}: {names:?}");
    }
    for (verb, name) in [
        (&["man"][..], "cutrace.1"),
        (&["man", "gpu", "run"], "cutrace-gpu-run.1"),
    ] {
        let (out, _, _) = said(verb);
        assert_eq!(out, fs::read_to_string(pages.join(name)).expect("read"));
    }
    if Command::new("man").arg("--version").output().is_err() {
        return skip("no man: type apt install man-db");
    }
    for name in names {
        let shown = Command::new("man")
            .args(["--warnings", "-l"])
            .arg(pages.join(&name))
            .envs([
                ("LC_ALL", "C.UTF-8"),
                ("MANWIDTH", "80"),
                ("MAN_KEEP_FORMATTING", ""),
            ])
            .output()
            .expect("man runs");
        let warnings = String::from_utf8_lossy(&shown.stderr);
        assert!(
            shown.status.success() && warnings.is_empty(),
            "{name}: {warnings}"
        );
        let text = String::from_utf8_lossy(&shown.stdout);
        for title in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "EXIT STATUS",
            "EXAMPLES",
            "SEE ALSO",
        ] {
            assert!(
                text.contains(&format!("\n{title}\n")),
                "{name}: {title}: {text}"
            );
        }
    }
}

#[test]
fn a_verb_that_does_not_exist_has_no_page() {
    let (_, error, code) = said(&["man", "recrod"]);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("did you mean cutrace man record?"),
        "{error}"
    );
}

#[test]
fn completions_are_written_for_every_shell() {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, error, code) = said(&[
        "completions",
        "--into",
        folder.path().to_str().expect("UTF-8"),
    ]);
    assert_eq!((&*out, code), ("", Some(0)), "{error}");
    let names = files(folder.path());
    let wanted = [
        "_cutrace",
        "_cutrace.ps1",
        "cutrace.bash",
        "cutrace.elv",
        "cutrace.fish",
    ];
    assert_eq!(names, wanted);
    let (bash, _, _) = said(&["completions", "bash"]);
    assert_eq!(
        bash,
        fs::read_to_string(folder.path().join("cutrace.bash")).expect("read")
    );
    // Older spellings are not offered.
    assert!(
        bash.contains("--per-thread") && bash.contains("--match"),
        "{bash}"
    );
    let (_, _, code) = said(&["completions"]);
    assert_eq!(code, Some(2));
}
