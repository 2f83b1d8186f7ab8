//! A call that ended before anything else happened may be handed in as one record; the report is the same.

use analyse::Analysis;
use event::{Event, Record};
use std::path::Path;

/// The record of the end says all that the beginning does.
fn is_whole(begin: &Event, end: &Event) -> bool {
    let mut whole = Record::Event(end.clone());
    whole.as_beginning(|record| *record == Record::Event(begin.clone())) == Some(true)
}

#[test]
fn whole_spans_come_to_the_same_report() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/traces");
    let mut whole = 0;
    for entry in std::fs::read_dir(folder).expect("fixtures") {
        let path = entry.expect("an entry").path();
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        let mut reader = trace::open(&path).expect("a trace");
        let meta = reader.meta().clone();
        let records: Vec<Record> = reader.by_ref().map(|it| it.expect("whole")).collect();
        let summary = reader.summary().cloned();
        let (mut one_by_one, mut at_once) = (Analysis::new(&meta), Analysis::new(&meta));
        for record in &records {
            one_by_one.add(record);
        }
        let mut left = &records[..];
        while let [first, rest @ ..] = left {
            left = rest;
            if let (Record::Event(begin), Some(Record::Event(end))) = (first, rest.first())
                && is_whole(begin, end)
            {
                at_once.add_whole(&mut Record::Event(end.clone()));
                left = &rest[1..];
                whole += 1;
            } else {
                at_once.add(first);
            }
        }
        let expected = one_by_one.finish(summary.as_ref());
        let found = at_once.finish(summary.as_ref());
        assert_eq!(found, expected, "{}", path.display());
    }
    assert!(whole > 100, "{whole}");
}
