//! Adding real traces to a lake: once, twice, side by side, after crashes; checking and removing.

mod common;

use arrow_array::{
    RecordBatch,
    cast::AsArray,
    types::{Int64Type, UInt32Type},
};
use common::{another, fixture, repeated};
use lake::{Added, Dialect, Error, Expired, Lake, Sizes, Table};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn add(lake: &Lake, trace: &Path) -> Added {
    lake::add(lake, trace, &mut |_| {}).expect("added")
}

#[test]
fn a_trace_is_added_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = Lake::at(folder.path().join("lake"));
    let Added::New(entry) = add(&lake, &fixture()) else {
        panic!("it is new");
    };
    assert!(
        entry.rows > 100 && entry.bytes > 1000 && entry.files.len() == 1 && entry.tables.len() == 2,
        "{entry:?}"
    );
    // Whatever the file is called, and in whatever format it is.
    let copy = folder.path().join("copy.arrows");
    trace::convert(&[fixture()], &copy).expect("converted");
    assert_eq!(add(&lake, &copy), Added::Known(entry.clone()));
    let checked = lake::check(&lake, true).expect("checked");
    assert_eq!(
        (checked.traces, checked.files, checked.rows),
        (1, 3, entry.rows)
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
    let checked = lake::check(&lake, true).expect("checked");
    assert_eq!(
        (checked.traces, checked.unlisted.len()),
        (0, 3),
        "{checked:?}"
    );
    let again = add(&lake, &fixture());
    assert!(
        matches!(&again, Added::New(new) if new.files == entry.files),
        "{again:?}"
    );
    assert!(
        lake::check(&lake, true)
            .expect("checked")
            .unlisted
            .is_empty()
    );
    // A file that was cut off.
    let file = folder.path().join(&entry.files[0]);
    let bytes = fs::read(&file).expect("read");
    fs::write(&file, &bytes[..bytes.len() / 2]).expect("written");
    let checked = lake::check(&lake, true).expect("checked");
    assert!(
        checked.broken[0].contains("not a whole Parquet file"),
        "{checked:?}"
    );
}

#[test]
fn what_killed_writers_left_aside_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = Lake::at(folder.path().join("lake"));
    let aside = lake.root().join("_unfinished");
    // Killed before there was a lock; and in the middle.
    fs::create_dir_all(aside.join("a.1.0")).expect("made");
    fs::create_dir_all(aside.join("b.1.0/lake")).expect("made");
    for name in ["lock", "events.parquet", "lake/x"] {
        fs::write(aside.join("b.1.0").join(name), "").expect("written");
    }
    add(&lake, &fixture());
    let left = fs::read_dir(&aside).expect("there").flatten();
    let left = left.filter(|found| found.path().is_dir());
    assert_eq!(left.count(), 0);
}

#[test]
fn two_writers_of_one_trace_and_of_two() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = another(folder.path(), 60, None);
    let lake = Lake::at(folder.path().join("lake"));
    std::thread::scope(|scope| {
        for trace in [fixture(), fixture(), other.clone(), other] {
            let lake = &lake;
            scope.spawn(move || add(lake, &trace));
        }
    });
    let checked = lake::check(&lake, true).expect("checked");
    assert_eq!(checked.traces, 2, "{checked:?}");
    assert!(
        checked.broken.is_empty() && checked.unlisted.is_empty(),
        "{checked:?}"
    );
}

#[test]
fn old_traces_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let later = another(folder.path(), 1_000_000, None);
    let lake = Lake::at(folder.path().join("lake"));
    let old = add(&lake, &fixture()).entry().clone();
    let young = add(&lake, &later).entry().clone();
    let which = Expired {
        before_ns: Some(old.end_ns + 1),
        runs: None,
    };
    let removed = lake::expire(&lake, &which).expect("removed");
    assert_eq!(removed, [old]);
    assert_eq!(lake.entries().expect("listed"), [young]);
    assert!(lake::check(&lake, true).expect("checked").broken.is_empty());
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

/// Every record of a trace, as a line a record: what a reader sees, without the order of those of one moment.
fn records(path: &Path) -> Vec<String> {
    let reader = trace::open(path).expect("open");
    let mut lines: Vec<String> = reader
        .map(|record| format!("{:?}", record.expect("a record")))
        .collect();
    lines.sort();
    lines
}

fn entry_path(lake: &Lake, name: &str) -> PathBuf {
    lake.root().join("_manifest").join(format!("{name}.json"))
}

#[test]
fn what_is_read_back_is_the_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    for trace in [
        "traces/demo.jsonl",
        "arrows/graph.jsonl",
        "arrows/streams.jsonl",
    ] {
        let trace = traces.join(trace);
        let lake = Lake::at(folder.path().join("lake"));
        let entry = add(&lake, &trace).entry().clone();
        let wanted = records(&trace);
        assert!(wanted.len() > 100, "{}", trace.display());
        let back = records(&entry_path(&lake, &entry.name));
        assert_eq!(wanted.len(), back.len(), "{}", trace.display());
        for (wanted, back) in wanted.iter().zip(&back) {
            assert_eq!(wanted, back, "{}", trace.display());
        }
        // The file alone, too, and times that never go back.
        assert_eq!(records(&lake.root().join(&entry.files[0])), wanted);
        let reader = trace::open(entry_path(&lake, &entry.name)).expect("open");
        let times: Vec<u64> = reader
            .map(|record| record.expect("a record").ts())
            .collect();
        assert!(times.is_sorted(), "{}", trace.display());
    }
}

/// What rows are sorted by.
fn keys(batch: &RecordBatch) -> Vec<(u32, u32, i64)> {
    let column = |name: &str| batch.column_by_name(name).expect("a column");
    let number = |name: &str, row: usize| column(name).as_primitive::<UInt32Type>().value(row);
    let starts = column("start_ns").as_primitive::<Int64Type>();
    (0..batch.num_rows())
        .map(|row| (number("pid", row), number("tid", row), starts.value(row)))
        .collect()
}

#[test]
fn rows_are_sorted_within_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = Lake::at(folder.path().join("lake"));
    let entry = add(&lake, &fixture()).entry().clone();
    let mut rows =
        trace::ParquetRows::open(lake.root().join(&entry.files[0]), 1 << 20).expect("open");
    let batch = rows.next_batch().expect("read").expect("rows");
    let keys = keys(&batch);
    assert!(keys.len() > 100 && keys.is_sorted());
}

#[test]
fn compaction_changes_files_and_no_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = Lake::at(folder.path().join("lake"));
    // One run, host and rank: its name follows from program and second, so it is given.
    let mut names = Vec::new();
    for number in 0..5 {
        let trace = of_run(folder.path(), "exp", number);
        names.push((trace.clone(), add(&lake, &trace).entry().name.clone()));
    }
    let before: Vec<Vec<String>> = (names.iter()).map(|(trace, _)| records(trace)).collect();
    let rows = lake::check(&lake, true).expect("checked").rows;
    let done = lake::compact(&lake, false).expect("compacted");
    assert_eq!(
        (done.files_before, done.files_after, done.rows),
        (5, 1, rows)
    );
    let entries = lake.entries().expect("listed");
    assert_eq!((entries.len(), lake.files(&entries).len()), (5, 1));
    assert_eq!(lake.tables(&entries, Table::Runs).len(), 1);
    // The views read the tables that were put together, too.
    for dialect in [Dialect::DuckDb, Dialect::Spark] {
        let views = lake::views(&lake, &entries, dialect);
        for table in [Table::Names, Table::Runs] {
            let file = &entries[0].tables[&table];
            let view = format!("view lake_{} ", table.as_str());
            let view = views.lines().find(|line| line.contains(&view));
            let view = view.expect("a view");
            assert_eq!(
                view.matches(&file.display().to_string()).count(),
                1,
                "{view}"
            );
            assert_eq!(view.matches(".parquet").count(), 1, "{view}");
        }
    }
    let checked = lake::check(&lake, true).expect("checked");
    assert!(
        checked.is_whole() && checked.unlisted.is_empty(),
        "{checked:?}"
    );
    assert_eq!((checked.rows, checked.replaced), (rows, 15), "{checked:?}");
    // Each recording is what it was.
    for ((_, name), wanted) in names.iter().zip(&before) {
        assert_eq!(&records(&entry_path(&lake, name)), wanted);
    }
    // Adding one again adds nothing, compacting again changes nothing but removes the old files.
    assert!(matches!(add(&lake, &names[0].0), Added::Known(_)));
    let again = lake::compact(&lake, true).expect("compacted");
    assert_eq!((again.files_before, again.removed), (0, 15));
    // One recording of a shared file goes; the others stay.
    let first = entries
        .iter()
        .min_by_key(|entry| entry.end_ns)
        .expect("one")
        .clone();
    let which = Expired {
        before_ns: Some(first.end_ns + 1),
        runs: Some("ex*".into()),
    };
    let gone = lake::expire(&lake, &which).expect("expired");
    assert_eq!(gone.len(), 1);
    let checked = lake::check(&lake, true).expect("checked");
    assert!(checked.is_whole(), "{checked:?}");
    assert_eq!((checked.traces, checked.rows), (4, rows - first.rows));
    for ((_, name), wanted) in names
        .iter()
        .zip(&before)
        .filter(|((_, name), _)| *name != first.name)
    {
        assert_eq!(&records(&entry_path(&lake, name)), wanted);
    }
    // And the rest.
    let which = Expired {
        before_ns: None,
        runs: Some("exp".into()),
    };
    assert_eq!(lake::expire(&lake, &which).expect("expired").len(), 4);
    let checked = lake::check(&lake, true).expect("checked");
    assert_eq!(
        (checked.traces, checked.unlisted.len(), checked.replaced),
        (0, 0, 0),
        "{checked:?}"
    );
}

#[test]
fn a_large_recording_has_several_files() {
    let folder = tempfile::tempdir().expect("a folder");
    // Several batches of an Arrow trace: what waits in memory goes into the file that is ended.
    let trace = repeated(folder.path(), 160);
    let small = Sizes {
        file_bytes: 60_000,
        group_rows: 1_000,
    };
    let lake = Lake::at(folder.path().join("lake")).with_sizes(small);
    let entry = add(&lake, &trace).entry().clone();
    assert!(entry.files.len() > 2, "{:?}", entry.files);
    let mut rows = 0;
    for file in &entry.files {
        let path = lake.root().join(file);
        let mut reader = trace::ParquetRows::open(&path, 1 << 20).expect("Parquet");
        let batch = reader.next_batch().expect("rows").expect("rows");
        assert_eq!(batch.num_rows() as u64, reader.total());
        rows += reader.total();
        // Sorted within each; and none is much larger than it should be.
        assert!(keys(&batch).is_sorted(), "{}", file.display());
        let bytes = fs::metadata(&path).expect("there").len();
        assert!(bytes < 16 * small.file_bytes, "{bytes}");
    }
    assert_eq!(rows, entry.rows);
    let checked = lake::check(&lake, true).expect("checked");
    assert!(checked.is_whole() && checked.rows == rows, "{checked:?}");
    // And it is read back as one.
    let whole = Lake::at(folder.path().join("whole"));
    let same = add(&whole, &trace).entry().clone();
    assert_eq!((same.files.len(), same.rows), (1, entry.rows));
    let wanted = records(&trace);
    assert!(wanted.len() > 100_000, "{}", wanted.len());
    assert_eq!(records(&entry_path(&lake, &entry.name)), wanted);
    assert_eq!(records(&entry_path(&whole, &same.name)), wanted);
}

/// A copy of the fixture as one of several recordings of a run.
fn of_run(folder: &Path, run: &str, number: u64) -> PathBuf {
    let trace = another(folder, 60 * (number + 1), None);
    let text = fs::read_to_string(&trace).expect("read");
    let (head, rest) = text.split_once('\n').expect("a head");
    let mut head: serde_json::Value = serde_json::from_str(head).expect("a head");
    head["identity"] = serde_json::json!({"run": run, "rank": 3, "world_size": 8});
    fs::write(&trace, format!("{head}\n{rest}")).expect("written");
    trace
}

/// The first lines of the fixture: a trace that is still being written, or whose tracer died.
fn unfinished(path: &Path, lines: usize) {
    let text = fs::read_to_string(fixture()).expect("read");
    let lines: Vec<&str> = text.lines().take(lines).collect();
    fs::write(path, lines.join("\n") + "\n").expect("written");
}

#[test]
fn a_trace_that_grows_is_asked_as_it_is_and_added_when_it_is_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("x.jsonl");
    let (lake, cache) = (folder.path().join("lake"), folder.path().join("cache"));
    let (lake, cache) = (Lake::at(lake), Lake::at(cache));
    let mut rows = Vec::new();
    for lines in [50, 100] {
        unfinished(&trace, lines);
        let added = lake::add_with(&lake, &trace, &mut |_| None, &mut |_| {});
        let why = added.expect_err("it is not whole").to_string();
        assert!(why.contains("still being recorded"), "{why}");
        rows.push(add(&cache, &trace).entry().rows);
        let known = add(&cache, &trace);
        assert!(matches!(known, Added::Known(_)) && known.entry().is_unfinished());
    }
    fs::copy(fixture(), &trace).expect("copied");
    rows.push(add(&cache, &trace).entry().rows);
    assert!(
        rows.is_sorted() && rows[0] < rows[1] && rows[1] < rows[2],
        "{rows:?}"
    );
    let added = lake::add_with(&lake, &trace, &mut |_| None, &mut |_| {});
    assert_eq!(added.expect("added").entry().rows, rows[2]);
}

#[test]
fn snapshots_of_one_process_are_recordings_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = Lake::at(folder.path().join("lake"));
    for lines in [50, 100] {
        let part = folder.path().join("part.jsonl");
        unfinished(&part, lines);
        let snapshot = folder.path().join(format!("{lines}.arrows"));
        trace::convert(&[&part], &snapshot).expect("converted");
        assert!(matches!(add(&lake, &snapshot), Added::New(_)));
        assert!(matches!(add(&lake, &snapshot), Added::Known(_)));
    }
    assert_eq!(lake.entries().expect("listed").len(), 2);
}

#[test]
fn what_was_merged_is_asked_and_not_added() {
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = ["node1", "node2"].map(|host| {
        let trace = format!("../../fixtures/two-hosts/{host}.jsonl");
        Path::new(env!("CARGO_MANIFEST_DIR")).join(trace)
    });
    let merged = folder.path().join("merged.arrows");
    trace::convert(&hosts, &merged).expect("merged");
    let lake = Lake::at(folder.path().join("lake"));
    let one = add(&lake, &hosts[0]).entry().rows;
    let Added::New(both) = add(&lake, &merged) else {
        panic!("it has more than its first part");
    };
    assert_eq!(both.rows, 2 * one);
    let added = lake::add_with(&lake, &merged, &mut |_| None, &mut |_| {});
    assert!(matches!(added, Err(Error::Merged(_))), "{added:?}");
}

#[test]
fn foreign_and_truncated_files_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = Lake::at(folder.path());
    let entry = add(&lake, &fixture()).entry().clone();
    let file = folder.path().join(&entry.files[0]);
    let foreign = file.with_file_name("mine.parquet");
    fs::write(&foreign, b"PAR1 not a table PAR1").expect("written");
    let checked = lake::check(&lake, false).expect("checked");
    assert!(
        checked.is_whole() && checked.foreign.len() == 1,
        "{checked:?}"
    );
    assert!(trace::open(&foreign).is_err());
    let bytes = fs::read(&file).expect("read");
    for length in [0, 3, 4, 8, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&file, &bytes[..length]).expect("written");
        let checked = lake::check(&lake, false).expect("checked");
        assert_eq!(checked.broken.len(), 1, "{length}: {checked:?}");
        assert!(
            trace::open(entry_path(&lake, &entry.name)).is_err(),
            "{length}"
        );
    }
}
