use super::*;
use crate::{Writer, open};
use event::{Category, Event, Extent, Layer, Lost, Meta, Record};

/// Calls of threads that are held up for various times, as they come.
fn records(count: u64) -> Vec<Record> {
    let mut chance = 7u64;
    let mut below = |most: u64| {
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (chance >> 33) % most
    };
    let mut came: Vec<(u64, Record)> = Vec::new();
    for id in 1..=count {
        let (start, duration, held_up) = (1_000 + id * 10, below(300), below(5_000));
        let mut event = Event::new(id, Layer::Driver, Category::Query, "cuCtxGetId", start);
        event.tid = (id % 7) as u32;
        event.extent = Extent::Open;
        came.push((start + held_up, Record::Event(event.clone())));
        event.extent = Extent::Closed(duration);
        // Never before its beginning.
        came.push((start + duration + held_up, Record::Event(event)));
        if id.is_multiple_of(50) {
            came.push((start, lost(start)));
        }
    }
    came.sort_by_key(|(time, _)| *time);
    came.into_iter().map(|(_, record)| record).collect()
}

fn lost(ts: u64) -> Record {
    Record::Lost(Lost {
        ts,
        count: 1,
        source: None,
        layer: None,
        pid: None,
        tid: None,
    })
}

fn write(path: &Path, records: &[Record]) -> u64 {
    let meta = Meta {
        start_ns: 5_000,
        ..Meta::default()
    };
    let mut writer = crate::create(path, &meta).expect("created");
    for (number, record) in records.iter().enumerate() {
        writer.write(record).expect("written");
        // Batches of few rows: late records belong into earlier ones.
        if number % 20 == 0 {
            writer.flush().expect("flushed");
        }
    }
    let late = Writer::late(&writer);
    writer.finish().expect("finished");
    late
}

fn read(path: &Path) -> (Vec<Record>, Vec<String>) {
    let mut reader = open(path).expect("a trace");
    let records = reader.by_ref().collect::<Result<Vec<_>>>().expect("whole");
    let warnings = reader.warnings().as_slice().iter();
    (records, warnings.map(ToString::to_string).collect())
}

#[test]
fn late_records_find_their_places_in_memory_and_out_of_it() {
    for name in ["x.jsonl", "x.arrows"] {
        // All in memory; and hundreds of runs.
        for memory in [late::MOST_BYTES, 3_000] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join(name);
            let late = write(&path, &records(4_000));
            assert!(late > 1_000, "{late}");
            let (mut expected, warnings) = read(&path);
            assert!(warnings[0].contains("not in time order"), "{warnings:?}");
            expected.sort_by_key(Record::ts);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
            let moved = put_in_order_within(&path, memory).expect("ordered");
            assert_eq!(moved, late, "{name}");
            let (ordered, warnings) = read(&path);
            assert_eq!(warnings, [""; 0], "{name}");
            assert_eq!(ordered, expected, "{name} {memory}");
            assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o640);
            assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1);
            // And again: nothing is left to move.
            assert_eq!(put_in_order(&path).expect("ordered"), 0);
            if name == "x.jsonl" {
                let text = fs::read_to_string(&path).expect("text");
                let mut lines = text.lines().skip(1);
                for number in 1..=8_080 {
                    let line = lines.next().expect("a line");
                    assert!(
                        line.starts_with(&format!("{{\"event_id\":{number},")),
                        "{line}"
                    );
                }
                assert!(lines.next().is_some_and(|line| line.contains("summary")));
                assert_eq!(lines.next(), None);
            }
        }
    }
}

#[test]
fn a_trace_that_cannot_be_put_in_order_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.jsonl");
    write(&path, &records(100));
    let before = fs::read(&path).expect("there");
    fs::create_dir(unfinished_name(&path)).expect("in the way");
    assert!(put_in_order(&path).is_err());
    assert_eq!(fs::read(&path).expect("there"), before);
    assert!(put_in_order(folder.path().join("none.jsonl")).is_err());
    // What is no file cannot be replaced.
    let link = folder.path().join("full.jsonl");
    std::os::unix::fs::symlink("/dev/full", &link).expect("a link");
    assert!(put_in_order(&link).is_err());
}

#[test]
fn a_link_stays_a_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, link) = (
        folder.path().join("x.jsonl"),
        folder.path().join("link.jsonl"),
    );
    write(&path, &records(100));
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    put_in_order(&link).expect("ordered");
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(read(&path).1, [""; 0]);
}

/// A span that is only heard of when it is over has its beginning's line late.
#[test]
fn a_beginning_that_is_told_with_its_end_comes_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.jsonl");
    let instant = Event::new(1, Layer::Gpu, Category::Kernel, "x", 6_000);
    let mut span = Event::new(2, Layer::Gpu, Category::Kernel, "y", 5_500);
    span.extent = Extent::Closed(1_000);
    let late = write(&path, &[Record::Event(instant), Record::Event(span)]);
    assert_eq!((late, put_in_order(&path).expect("ordered")), (1, 1));
    let (records, warnings) = read(&path);
    let times: Vec<u64> = records.iter().map(Record::ts).collect();
    assert_eq!((times, warnings.len()), (vec![5_500, 6_000, 6_500], 0));
}
