//! Traces of the tests.

use event::Record;
use std::{
    fs,
    path::{Path, PathBuf},
};

pub fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/traces/demo.jsonl")
}

/// A copy of the fixture that was recorded at another time, in this run.
pub fn another(folder: &Path, seconds: u64, run: Option<&str>) -> PathBuf {
    let text = fs::read_to_string(fixture()).expect("read");
    let (head, rest) = text.split_once('\n').expect("a head");
    let mut meta: event::Meta = serde_json::from_str(head).expect("a head");
    let start = meta.start_unix_ns.unwrap_or(1_700_000_000_000_000_000);
    meta.start_unix_ns = Some(start + seconds * 1_000_000_000);
    meta.identity.run = run.map(str::to_owned);
    let mut head = serde_json::to_value(&meta).expect("a head");
    head["type"] = "meta".into();
    let path = folder.join(format!("{seconds}.jsonl"));
    fs::write(&path, format!("{head}\n{rest}")).expect("written");
    path
}

/// The fixture's events, several times over.
#[allow(dead_code)] // Not every test file needs it.
pub fn repeated(folder: &Path, times: u64) -> PathBuf {
    let reader = trace::open(fixture()).expect("a trace");
    let meta = reader.meta().clone();
    let records: Vec<Record> = reader.map(|record| record.expect("a record")).collect();
    let end = records.iter().map(Record::ts).max().expect("some");
    let ids = |record: &Record| match record {
        Record::Event(event) => event.id.max(event.correlation.unwrap_or(0)),
        _ => 0,
    };
    let most = records.iter().map(ids).max().expect("some") + 1;
    let path = folder.join("repeated.arrows");
    let mut writer = trace::create(&path, &meta).expect("created");
    for round in 0..times {
        let (later, more) = (round * (end - meta.start_ns + 1), round * most);
        for record in &records {
            let mut record = record.clone();
            match &mut record {
                Record::Event(event) => {
                    event.start += later;
                    event.id += more;
                    event.parent = event.parent.map(|id| id + more);
                    event.correlation = event.correlation.map(|id| id + more);
                }
                Record::Meaning(meaning) => {
                    meaning.ts += later;
                    meaning.op += more;
                }
                Record::Lost(lost) => lost.ts += later,
            }
            writer.write(&record).expect("written");
        }
    }
    writer.finish().expect("finished");
    path
}
