//! Traces of older versions are read as they always were.

mod common;

use common::Trace;
use std::{fs, path::PathBuf};
use trace::{Format, Parts, Reader};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

#[test]
fn rows_of_version_1_are_the_lines_they_were_made_of() {
    for name in ["layers", "h200_vector_add"] {
        let lines = fs::read(fixture(&format!("traces/{name}.jsonl"))).expect("lines");
        let rows = fs::read(fixture(&format!("version1/{name}.arrows"))).expect("rows");
        let (of_lines, _) = Trace::read(&lines).expect("readable");
        let (of_rows, warnings) = Trace::read(&rows).expect("readable");
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(of_rows, of_lines, "{name}");
        // And on to this version's rows and back.
        let rows = of_rows.write(Format::Arrow);
        let (again, warnings) = Trace::read(&rows).expect("readable");
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(again, of_lines, "{name}");
        assert_eq!(again.write(Format::Jsonl), of_lines.write(Format::Jsonl));
    }
}

#[test]
fn parts_of_version_1_can_be_left_unread() {
    let rows = fs::read(fixture("version1/layers.arrows")).expect("rows");
    let count = |parts| {
        let reader = Reader::with(std::io::Cursor::new(rows.clone()), None, parts);
        reader.expect("readable").count()
    };
    assert_eq!(count(Parts::NONE), count(Parts::ALL));
}
