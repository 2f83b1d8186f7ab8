//! docs/TRACE-FORMAT.md says what is so: its example is a trace as cutrace writes it, its
//! one-liners give what stands below them, its columns are the columns.

mod common;

use common::{Trace, read_document};
use std::{fs, process::Command};
use trace::Format;

/// The contents of the document's blocks of that language, in order.
fn blocks(language: &str) -> Vec<String> {
    let document = read_document();
    let mut blocks = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        if line.strip_prefix("```") == Some(language) {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push(block.join("\n") + "\n");
        }
    }
    blocks
}

#[test]
fn the_example_is_a_trace_as_it_is_written() {
    let example = blocks("jsonl").remove(0);
    let (trace, warnings) = Trace::read(example.as_bytes()).expect("a trace");
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(
        String::from_utf8(trace.write(Format::Jsonl)).expect("UTF-8"),
        example
    );
    // It shows what there is to show.
    for word in [
        "\"phase\":\"B\"",
        "\"phase\":\"E\"",
        "ioctl",
        "alloc",
        "free",
        "transfer",
        "launch",
        "lost",
        "stack",
    ] {
        assert!(example.contains(word), "the example has no {word}");
    }
}

#[test]
fn the_columns_are_the_columns() {
    let trace = Trace::read(blocks("jsonl").remove(0).as_bytes())
        .expect("a trace")
        .0;
    let reader = arrow_ipc::reader::StreamReader::try_new(
        std::io::Cursor::new(trace.write(Format::Arrow)),
        None,
    )
    .expect("any Arrow reader reads it");
    let schema = reader.schema();
    let columns: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| format!("{} {}", field.name(), field.data_type()))
        .collect();
    assert_eq!(columns.join("\n") + "\n", blocks("columns").remove(0));
    let rows: usize = reader.map(|batch| batch.expect("whole").num_rows()).sum();
    // Six of its spans are whole, and one row each; the last never ended.
    assert_eq!(rows, trace.records.len() - 6 + 1);
}

#[test]
fn the_one_liners_say_what_they_say() {
    if Command::new("jq").arg("--version").output().is_err() {
        println!("skipped: jq not installed");
        assert!(
            std::env::var_os("CUTRACE_REQUIRE_ALL").is_none(),
            "skipped: jq not installed, and it must not be"
        );
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("trace.jsonl"), blocks("jsonl").remove(0)).expect("written");
    let (commands, answers) = (blocks("sh"), blocks("text"));
    assert_eq!(commands.len(), 4);
    for (command, answer) in commands.iter().zip(&answers) {
        let output = Command::new("bash")
            .args(["-o", "pipefail", "-c", command])
            .current_dir(folder.path())
            .output()
            .expect("bash runs");
        assert!(
            output.status.success(),
            "{command}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            *answer,
            "{command}"
        );
    }
}
