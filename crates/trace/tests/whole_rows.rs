//! A span that begins and ends within a batch is one row, and is read as the two records it was.

mod common;

use arrow_array::{Array, cast::AsArray, types::Int8Type};
use common::{Trace, any_trace};
use event::{Arg, Category, Event, Extent, Layer, Lost, Meta, Record, Status, Summary, Value};
use proptest::prelude::*;
use std::fs;
use trace::{Format, SpanLine, Spans, SpansRead, Writer};

fn span(id: u64, start: u64, length: u64) -> [Record; 2] {
    let mut event = Event::new(id, Layer::Driver, Category::Kernel, "cuLaunchKernel", start);
    event.tid = (id % 3) as u32;
    event.args = vec![Arg::new("f", Value::Pointer(id % 5))];
    event.extent = Extent::Open;
    let begin = Record::from(event.clone());
    event.extent = Extent::Closed(length);
    event.status = Some(Status {
        code: 0,
        name: Some("CUDA_SUCCESS".into()),
    });
    event.outputs = vec![Arg::new("out", id % 2)];
    [begin, event.into()]
}

fn trace(records: Vec<Record>) -> Trace {
    Trace {
        meta: Meta::default(),
        records,
        summary: Some(Summary::default()),
    }
}

/// The phases of the rows, as any Arrow reader sees them.
fn phases(bytes: Vec<u8>) -> String {
    let reader = arrow_ipc::reader::StreamReader::try_new(std::io::Cursor::new(bytes), None);
    let mut phases = String::new();
    for batch in reader.expect("a stream") {
        let batch = batch.expect("whole");
        let column = batch.column_by_name("phase").expect("a column");
        let column = column.as_dictionary::<Int8Type>();
        let words = column.values().as_string::<i32>();
        for row in 0..column.len() {
            phases.push_str(if column.is_null(row) {
                "-"
            } else {
                words.value(column.keys().value(row) as usize)
            });
        }
    }
    phases
}

#[test]
fn whole_spans_are_one_row() {
    let [outer, outer_end] = span(1, 100, 900);
    let [inner, inner_end] = span(2, 200, 100);
    let [open, _] = span(3, 300, 5);
    let trace = trace(vec![outer, inner, inner_end, open, outer_end]);
    let bytes = trace.write(Format::Arrow);
    assert_eq!(phases(bytes.clone()), "XXB-");
    assert_eq!(Trace::read(&bytes).expect("readable").0, trace);
}

/// Who learns of whole spans only hands in their ends: the files are the same, byte for byte.
#[test]
fn spans_handed_in_whole_are_written_as_their_two_records() {
    let spans: Vec<[Record; 2]> = (1..50).map(|id| span(id, 100 * id, 60)).collect();
    let both = trace(spans.iter().flatten().cloned().collect());
    let ends = trace(spans.iter().map(|[_, end]| end.clone()).collect());
    for format in [Format::Jsonl, Format::Arrow] {
        assert_eq!(ends.write(format), both.write(format), "{format:?}");
    }
}

#[test]
fn an_end_that_says_something_else_has_its_own_row() {
    let changes: [fn(&mut Event); 6] = [
        |end| end.context = Some(7),
        |end| end.name = "another".into(),
        |end| end.depth = 4,
        |end| end.start += 1,
        |end| end.correlation = Some(1),
        |end| end.category = Category::Other,
    ];
    for change in changes {
        let [begin, mut end] = span(1, 100, 50);
        if let Record::Event(end) = &mut end {
            change(end);
        }
        let bytes = trace(vec![begin, end]).write(Format::Arrow);
        assert_eq!(phases(bytes), "BE-");
    }
}

#[test]
fn many_rows_are_read_in_the_order_of_their_lines() {
    // Overlapping spans of the same moments, late ones, and ones that cross batches.
    let mut records: Vec<(u64, u64, Record)> = Vec::new();
    for id in 1..=90_000u64 {
        let start = 1_000 + id / 2 * 10;
        let length = [0, 10, 35, 200_000][(id % 4) as usize] * u64::from(!id.is_multiple_of(97));
        let [begin, end] = span(id, start, length);
        let late = if id.is_multiple_of(500) { 5_000 } else { 0 };
        records.push((start + late, id * 2, begin));
        records.push((start + length + late, id * 2 + 1, end));
    }
    records.sort_by_key(|(time, order, _)| (*time, *order));
    let trace = trace(records.into_iter().map(|(_, _, record)| record).collect());
    let bytes = trace.write(Format::Arrow);
    let found = phases(bytes.clone());
    assert!(found.matches('X').count() > 60_000);
    assert!(found.contains('B') && found.contains('E'));
    let (back, _) = Trace::read(&bytes).expect("readable");
    let mut expected = trace.records;
    assert_eq!(back.records.len(), expected.len());
    assert!(!expected.is_sorted_by_key(Record::ts));
    // Where batches begin, late ones stay behind.
    assert!(back.records.iter().filter(|it| late(it)).count() > 300);
    expected.sort_by_key(Record::ts);
    let mut found = back.records;
    let mut moved = found.windows(2).filter(|two| two[1].ts() < two[0].ts());
    assert!(moved.by_ref().count() < 10);
    found.sort_by_key(Record::ts);
    assert!(found == expected, "the order or contents differ");
}

fn late(record: &Record) -> bool {
    matches!(record, Record::Event(event) if event.id.is_multiple_of(500))
}

/// What a line says, to compare.
fn line_of(record: &Record) -> (u64, u64, &'static str, Option<u64>) {
    match record {
        Record::Event(event) => {
            let what = match event.extent {
                Extent::Open => "begin",
                Extent::Closed(_) => "end",
                Extent::Instant => "instant",
            };
            (event.id, event.start, what, event.duration())
        }
        Record::Meaning(meaning) if meaning.what.type_name() == "kernel" => {
            (0, meaning.ts, "launch", None)
        }
        other => (0, other.ts(), "other", None),
    }
}

/// Id, time, kind of line, duration.
type Row = (u64, u64, &'static str, Option<u64>);

fn spans_of(bytes: &[u8]) -> Option<Vec<Row>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.arrows");
    fs::write(&path, bytes).expect("written");
    let spans = Spans::open(&path).expect("readable")?;
    let mut found = Vec::new();
    let read = spans.each(|batch, lines| {
        batch.each(lines, &mut |line| {
            found.push(match line {
                SpanLine::Begin(event) => (event.id, event.start, "begin", None),
                SpanLine::End(event, length) => (event.id, event.start, "end", Some(length)),
                SpanLine::Instant(event) => (event.id, event.start, "instant", None),
                SpanLine::Launch { ts, .. } => (0, ts, "launch", None),
                SpanLine::Other { ts } => (0, ts, "other", None),
            });
        });
    });
    match read.expect("readable") {
        SpansRead::Whole(_) => Some(found),
        SpansRead::Irregular => None,
    }
}

#[test]
fn what_is_out_of_order_is_left_to_the_reader() {
    let [begin, end] = span(1, 100, 50);
    let late = Record::Lost(Lost {
        ts: 20,
        count: 1,
        source: None,
        layer: None,
        pid: None,
        tid: None,
    });
    let whole = trace(vec![begin.clone(), end.clone()]);
    assert!(spans_of(&whole.write(Format::Arrow)).is_some());
    // Within a batch it is put where it belongs.
    let bytes = trace(vec![begin.clone(), end.clone(), late.clone()]).write(Format::Arrow);
    let (read, warnings) = Trace::read(&bytes).expect("readable");
    assert_eq!(read.records, [late.clone(), begin.clone(), end.clone()]);
    assert_eq!(warnings, Vec::<String>::new());
    assert!(spans_of(&bytes).is_some());
    let out = common::Shared::default();
    let mut writer = Writer::new(out.clone(), Format::Arrow, &Meta::default()).expect("a head");
    for record in [begin, end, late] {
        writer.write(&record).expect("written");
        writer.flush().expect("a batch of its own");
    }
    assert_eq!(writer.late(), 1);
    writer.finish().expect("a tail");
    assert!(spans_of(&out.0.lock().expect("not poisoned")).is_none());
    // Without its tail, nobody knows whether it is whole.
    let cut = Trace {
        summary: None,
        ..whole
    };
    assert!(spans_of(&cut.write(Format::Arrow)).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn spans_are_the_lines_of_the_reader(trace in any_trace()) {
        let bytes = trace.write(Format::Arrow);
        let (read, warnings) = Trace::read(&bytes).expect("readable");
        if let Some(found) = spans_of(&bytes) {
            prop_assert_eq!(warnings, Vec::<String>::new());
            let expected: Vec<_> = read.records.iter().map(line_of).collect();
            prop_assert_eq!(found, expected);
        }
    }

    /// Damage ends in an answer or in none, without a panic.
    #[test]
    fn mutated_spans_do_no_harm(
        trace in any_trace(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = trace.write(Format::Arrow);
        for (place, byte) in hits {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.arrows");
        fs::write(&path, &bytes).expect("written");
        if let Ok(Some(spans)) = Spans::open(&path) {
            let _ = spans.each(|batch, lines| batch.each(lines, &mut |_| {}));
        }
        let _ = trace::convert(&[&path], folder.path().join("t.parquet"));
    }
}
