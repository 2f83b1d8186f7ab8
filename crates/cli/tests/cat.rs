//! `cutrace cat`: any trace as JSON lines.

mod common;

use common::{cutrace, repository, usual_signals};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn run(words: &[&str], folder: &Path) -> Output {
    let mut command = cutrace();
    command.args(words).current_dir(folder);
    command.output().expect("cutrace runs")
}

fn succeeds(words: &[&str], folder: &Path) -> Vec<u8> {
    let output = run(words, folder);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    output.stdout
}

fn fixtures() -> Vec<PathBuf> {
    let folder = repository().join("fixtures/traces");
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .expect("fixtures")
        .map(|entry| entry.expect("listed").path())
        .filter(|path| path.extension().is_some_and(|name| name == "jsonl"))
        .collect();
    found.sort();
    assert!(found.len() > 2, "{found:?}");
    found
}

#[test]
fn lines_are_passed_on_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    for path in fixtures() {
        let printed = succeeds(&["cat", path.to_str().expect("UTF-8")], folder.path());
        assert!(
            printed == fs::read(&path).expect("read"),
            "{}",
            path.display()
        );
    }
    // Odd ones, too.
    fs::write(folder.path().join("odd.jsonl"), "{\"half\": \nno JSON").expect("written");
    let printed = succeeds(&["cat", "odd.jsonl"], folder.path());
    assert_eq!(printed, b"{\"half\": \nno JSON");
}

#[test]
fn arrow_has_the_lines_that_it_was_made_of() {
    let folder = tempfile::tempdir().expect("a folder");
    for path in fixtures() {
        let path = path.to_str().expect("UTF-8");
        // As cutrace writes it today.
        succeeds(&["export", path, "-o", "lines.jsonl"], folder.path());
        succeeds(
            &["export", "lines.jsonl", "-o", "packed.arrows"],
            folder.path(),
        );
        let lines = fs::read_to_string(folder.path().join("lines.jsonl")).expect("read");
        let printed = succeeds(&["cat", "packed.arrows"], folder.path());
        let printed = String::from_utf8(printed).expect("UTF-8");
        for (printed, line) in printed.lines().zip(lines.lines()) {
            assert_eq!(printed, line, "{path}");
        }
        assert_eq!(printed.len(), lines.len(), "{path}");
        // The same from a pipe.
        let mut command = cutrace();
        let packed = fs::File::open(folder.path().join("packed.arrows")).expect("there");
        let piped = command
            .args(["cat", "-"])
            .stdin(packed)
            .output()
            .expect("runs");
        assert!(piped.stdout == printed.as_bytes(), "{path}");
    }
}

#[test]
fn a_tail_that_is_missing_is_not_made_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = fixtures().remove(0);
    let text = fs::read_to_string(&path).expect("read");
    let cut = &text[..text.trim_end().rfind('\n').expect("lines") + 1];
    fs::write(folder.path().join("cut.jsonl"), cut).expect("written");
    // Export counts what there is; an Arrow stream without a tail is one that was killed.
    succeeds(
        &[
            "export",
            path.to_str().expect("UTF-8"),
            "-o",
            "packed.arrows",
        ],
        folder.path(),
    );
    let packed = fs::read(folder.path().join("packed.arrows")).expect("read");
    fs::write(
        folder.path().join("cut.arrows"),
        &packed[..packed.len() - 100],
    )
    .expect("written");
    let output = run(&["cat", "cut.arrows"], folder.path());
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(!printed.contains("\"type\":\"summary\""), "{printed}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("warning: cut.arrows: "));
    assert!(output.status.success());
}

#[test]
fn the_newest_trace_is_meant() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = run(&["cat"], folder.path());
    assert_eq!(none.status.code(), Some(2));
    let traces = folder.path().join("traces");
    fs::create_dir(&traces).expect("made");
    fs::copy(&fixtures()[0], traces.join("one.jsonl")).expect("copied");
    let printed = succeeds(&["cat"], folder.path());
    assert!(printed == fs::read(&fixtures()[0]).expect("read"));
}

#[test]
fn who_has_read_enough_is_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = fixtures().pop().expect("one");
    let text = path.to_str().expect("UTF-8");
    succeeds(&["export", text, "-o", "packed.arrows"], folder.path());
    for trace in [text, "packed.arrows"] {
        let script = r#""$0" cat "$1" | head -c 1; exit "${PIPESTATUS[0]}""#;
        let mut shell = Command::new("bash");
        usual_signals(&mut shell);
        let output = shell
            .args(["-c", script, env!("CARGO_BIN_EXE_cutrace"), trace])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("bash runs");
        assert_eq!(output.stdout, b"{");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{said}");
    }
}

#[test]
fn the_program_cat_is_traced_by_other_words() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file"), "meow\n").expect("written");
    for words in [
        &["-q", "--", "cat", "file"][..],
        &["record", "-q", "cat", "file"],
        &["--", "cat", "file"],
    ] {
        assert_eq!(succeeds(words, folder.path()), b"meow\n", "{words:?}");
    }
    let verb = run(&["cat", "file"], folder.path());
    assert_eq!(verb.status.code(), Some(2), "no trace: {verb:?}");
    let help = succeeds(&["cat", "--help"], folder.path());
    assert!(String::from_utf8_lossy(&help).contains("cutrace -- cat FILE"));
}

/// The one report that reads an Arrow trace by columns.
#[test]
fn top_is_the_same_of_rows_and_of_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    for path in fixtures() {
        let path = path.to_str().expect("UTF-8");
        succeeds(&["export", path, "-o", "packed.arrows"], folder.path());
        for more in [&["--json"][..], &[]] {
            let shown = |trace: &str| {
                let words = [&["report", "top", trace], more].concat();
                String::from_utf8(succeeds(&words, folder.path())).expect("UTF-8")
            };
            assert_eq!(shown("packed.arrows"), shown(path), "{path}");
        }
    }
}
