//! Adding real traces to a lake: once, twice, side by side, after crashes; checking and removing.

use lake::{Added, Lake};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/traces/demo.jsonl")
}

fn add(lake: &Lake, trace: &Path) -> Added {
    lake::add(lake, trace, &mut |_| {}).expect("added")
}

/// A copy of the fixture that was recorded at another time.
fn another(folder: &Path, seconds: u64) -> PathBuf {
    let text = fs::read_to_string(fixture()).expect("read");
    let (head, rest) = text.split_once('\n').expect("a head");
    let mut meta: event::Meta = serde_json::from_str(head).expect("a head");
    let start = meta.start_unix_ns.unwrap_or(1_700_000_000_000_000_000);
    meta.start_unix_ns = Some(start + seconds * 1_000_000_000);
    let mut head = serde_json::to_value(&meta).expect("a head");
    head["type"] = "meta".into();
    let path = folder.join(format!("{seconds}.jsonl"));
    fs::write(&path, format!("{head}\n{rest}")).expect("written");
    path
}

#[test]
fn a_trace_is_added_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = Lake::at(folder.path().join("lake"));
    let Added::New(entry) = add(&lake, &fixture()) else {
        panic!("it is new");
    };
    assert!(
        entry.rows > 100 && entry.bytes > 1000 && entry.files.len() == 1,
        "{entry:?}"
    );
    // Whatever the file is called, and in whatever format it is.
    let copy = folder.path().join("copy.arrows");
    trace::convert(&[fixture()], &copy).expect("converted");
    assert_eq!(add(&lake, &copy), Added::Known(entry.clone()));
    let checked = lake::check(&lake).expect("checked");
    assert_eq!(
        (checked.traces, checked.files, checked.rows),
        (1, 1, entry.rows)
    );
    assert!(
        checked.broken.is_empty() && checked.unlisted.is_empty(),
        "{checked:?}"
    );
}

#[test]
fn what_a_crash_left_is_replaced_by_adding_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = Lake::at(folder.path());
    let entry = add(&lake, &fixture()).entry().clone();
    // Files in place, and not listed yet.
    fs::remove_file(
        folder
            .path()
            .join("_manifest")
            .join(format!("{}.json", entry.name)),
    )
    .expect("removed");
    let checked = lake::check(&lake).expect("checked");
    assert_eq!(
        (checked.traces, checked.unlisted.len()),
        (0, 1),
        "{checked:?}"
    );
    let again = add(&lake, &fixture());
    assert!(
        matches!(&again, Added::New(new) if new.files == entry.files),
        "{again:?}"
    );
    assert!(lake::check(&lake).expect("checked").unlisted.is_empty());
    // A file that was cut off.
    let file = folder.path().join(&entry.files[0]);
    let bytes = fs::read(&file).expect("read");
    fs::write(&file, &bytes[..bytes.len() / 2]).expect("written");
    let checked = lake::check(&lake).expect("checked");
    assert!(
        checked.broken[0].contains("not a whole Parquet file"),
        "{checked:?}"
    );
}

#[test]
fn two_writers_of_one_trace_and_of_two() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = another(folder.path(), 60);
    let lake = Lake::at(folder.path().join("lake"));
    std::thread::scope(|scope| {
        for trace in [fixture(), fixture(), other.clone(), other] {
            let lake = &lake;
            scope.spawn(move || add(lake, &trace));
        }
    });
    let checked = lake::check(&lake).expect("checked");
    assert_eq!(checked.traces, 2, "{checked:?}");
    assert!(
        checked.broken.is_empty() && checked.unlisted.is_empty(),
        "{checked:?}"
    );
}

#[test]
fn old_traces_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let later = another(folder.path(), 1_000_000);
    let lake = Lake::at(folder.path().join("lake"));
    let old = add(&lake, &fixture()).entry().clone();
    let young = add(&lake, &later).entry().clone();
    let removed = lake::expire(&lake, old.end_ns + 1).expect("removed");
    assert_eq!(removed, [old]);
    assert_eq!(lake.entries().expect("listed"), [young]);
    assert!(lake::check(&lake).expect("checked").broken.is_empty());
}

#[test]
fn what_is_no_trace_and_what_is_no_lake_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.arrows");
    fs::write(&file, b"PAR1 this is something else").expect("written");
    let lake = Lake::at(folder.path().join("lake"));
    assert!(lake::add(&lake, &file, &mut |_| {}).is_err());
    assert!(Lake::open(folder.path()).is_err());
    let error = lake::named("@tops", lake::Dialect::DuckDb).expect_err("unknown");
    assert!(error.to_string().contains("@top, "), "{error}");
}
