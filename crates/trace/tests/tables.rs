//! CSV and Parquet hold the rows of the Arrow form, as other readers see them.

mod common;

use common::{Trace, any_trace};
use event::{Category, Event, Extent, Layer, Meta, Record, Summary};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use proptest::prelude::*;
use trace::Format;

/// Records split into fields, quotes undone; None is no value.
fn parse_csv(text: &str) -> Vec<Vec<Option<String>>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), None::<String>);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                let field = field.get_or_insert_default();
                while let Some(inside) = letters.next() {
                    if inside != '"' {
                        field.push(inside);
                    } else if letters.next_if_eq(&'"').is_some() {
                        field.push('"');
                    } else {
                        break;
                    }
                }
            }
            ',' => row.push(field.take()),
            '\n' => {
                row.push(field.take());
                rows.push(std::mem::take(&mut row));
            }
            other => field.get_or_insert_default().push(other),
        }
    }
    rows
}

fn parquet_rows(bytes: Vec<u8>) -> (Vec<Vec<Option<String>>>, Vec<String>) {
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a Parquet file");
    let pairs = reader.metadata().file_metadata().key_value_metadata();
    let keys = pairs.map_or(Vec::new(), |pairs| {
        pairs.iter().map(|pair| pair.key.clone()).collect()
    });
    let rows = reader.get_row_iter(None).expect("rows").map(|row| {
        let row = row.expect("a row");
        let cells = row.get_column_iter().map(|(_, field)| match field {
            Field::Null => None,
            Field::Str(text) => Some(text.clone()),
            other => Some(other.to_string()),
        });
        cells.collect()
    });
    (rows.collect(), keys)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn csv_and_parquet_say_the_same(trace in any_trace()) {
        let csv = String::from_utf8(trace.write(Format::Csv)).expect("UTF-8");
        let csv = parse_csv(&csv);
        prop_assert_eq!(csv[0][0].as_deref(), Some("ts_ns"));
        let phase = csv[0].iter().position(|name| name.as_deref() == Some("phase")).expect("a column");
        // A whole span is two records.
        let whole = csv.iter().filter(|row| row[phase].as_deref() == Some("X")).count();
        prop_assert_eq!(csv.len() + whole, trace.records.len() + 1);
        let (parquet, keys) = parquet_rows(trace.write(Format::Parquet));
        let parquet: Vec<Vec<Option<String>>> = parquet
            .into_iter()
            .map(|row| row.into_iter().map(|cell| cell.map(defused)).collect())
            .collect();
        prop_assert_eq!(&csv[1..], &parquet[..]);
        prop_assert!(keys.contains(&"cutrace".to_owned()) && keys.contains(&"cutrace_summary".to_owned()));
        // Rows that go from an Arrow file to a Parquet file without becoming records are the same.
        let folder = tempfile::tempdir().expect("a folder");
        let (arrows, made) = (folder.path().join("t.arrows"), folder.path().join("t.parquet"));
        let mut finished = trace.clone();
        finished.summary.get_or_insert_default();
        std::fs::write(&arrows, finished.write(Format::Arrow)).expect("written");
        let report = trace::convert(&[&arrows], &made).expect("converted");
        prop_assert_eq!(report.warnings, Vec::<String>::new());
        let (rows, keys) = parquet_rows(std::fs::read(&made).expect("there"));
        let rows: Vec<Vec<Option<String>>> = rows
            .into_iter()
            .map(|row| row.into_iter().map(|cell| cell.map(defused)).collect())
            .collect();
        prop_assert_eq!(&csv[1..], &rows[..]);
        prop_assert!(keys.contains(&"cutrace_summary".to_owned()));
        // Counted as when every record is read.
        let other = folder.path().join("t.jsonl");
        let counted = trace::convert(&[&arrows], &other).expect("converted");
        prop_assert_eq!((report.events, report.lost), (counted.events, counted.lost));
    }
}

/// A text that a spreadsheet would take for a formula, as CSV has it; numbers stay numbers.
fn defused(cell: String) -> String {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula && cell.parse::<i128>().is_err() {
        return format!("'{cell}");
    }
    cell
}

#[test]
fn a_csv_table() {
    let mut event = Event::new(1, Layer::Driver, Category::Memory, "k<int, \"x\">", 1_000);
    event.extent = Extent::Open;
    let begin = Record::from(event.clone());
    event.extent = Extent::Closed(500);
    let trace = Trace {
        meta: Meta::default(),
        records: vec![begin, event.into()],
        summary: Some(Summary::default()),
    };
    let text = String::from_utf8(trace.write(Format::Csv)).expect("UTF-8");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("ts_ns,pid,tid,type,layer,name,category,phase,op_id,"));
    assert!(
        lines[1].starts_with(
            "1000,0,0,userspace,driver,\"k<int, \"\"x\"\">\",memory,X,1,0,,,,,,,500,0,"
        )
    );
}

#[test]
fn csv_is_not_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv");
    trace::create(&path, &Meta::default())
        .and_then(trace::Writer::finish)
        .expect("written");
    let error = trace::open(&path).err().expect("refused").to_string();
    assert!(error.contains("which cutrace only writes"), "{error}");
}

#[test]
fn parquet_is_read_back_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/traces");
    for name in ["demo", "layers", "h200_graph"] {
        let trace = fixtures.join(format!("{name}.jsonl"));
        let table = folder.path().join(format!("{name}.parquet"));
        trace::convert(&[&trace], &table).expect("written");
        let records = |path: &std::path::Path| {
            let mut reader = trace::open(path).expect("a trace");
            let mut records: Vec<String> = (reader.by_ref())
                .map(|record| format!("{:?}", record.expect("a record")))
                .collect();
            // Records of one moment may come in another order.
            records.sort();
            (reader.meta().clone(), reader.summary().cloned(), records)
        };
        let (wanted, found) = (records(&trace), records(&table));
        assert!(wanted.2.len() > 10, "{name}");
        assert_eq!(wanted.2, found.2, "{name}");
        assert_eq!((wanted.0.host, wanted.1), (found.0.host, found.1), "{name}");
    }
}
