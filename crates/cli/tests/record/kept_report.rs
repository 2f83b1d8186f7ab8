//! What was found in a trace is kept in its tail: `report` reads only that, and says the same as it would of the rows.

use super::common::cutrace;
use super::sizes::calls;
use serde_json::Value;
use std::path::Path;

const PARTS: [&str; 5] = ["summary", "top", "categories", "calls", "coverage"];

fn report(part: &str, trace: &Path, options: &[&str]) -> String {
    let output = cutrace()
        .args(["report", part])
        .arg(trace)
        .args(options)
        .output()
        .expect("cutrace runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The same but for the last digits of fractions, which JSON does not keep.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) if one.is_f64() && other.is_f64() => {
            let (one, other) = (one.as_f64().unwrap_or(0.0), other.as_f64().unwrap_or(1.0));
            (one - other).abs() <= 1e-12 * one.abs()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && (one.iter())
                    .all(|(key, one)| other.get(key).is_some_and(|other| same(one, other)))
        }
        (one, other) => one == other,
    }
}

#[test]
fn a_report_that_was_kept_says_what_the_rows_say() {
    let (folder, _) = calls(&["-o", "x.arrows"], 40_000, |_| {});
    let kept = folder.path().join("x.arrows");
    assert!(trace::found(&kept).is_some(), "it was kept");
    let rows = folder.path().join("rows.arrows");
    let copied = cutrace()
        .args(["export", "-f", "arrow", "-o"])
        .args([&rows, &kept])
        .status()
        .expect("cutrace runs");
    assert!(copied.success());
    assert!(trace::found(&rows).is_none(), "copies have rows only");
    for part in PARTS {
        assert_eq!(report(part, &kept, &[]), report(part, &rows, &[]), "{part}");
        let [one, other] = [&kept, &rows].map(|trace| {
            let text = report(part, trace, &["--json"]);
            serde_json::from_str::<Value>(&text).expect("JSON")
        });
        assert!(same(&one, &other), "{part}: {one:#} {other:#}");
    }
}

#[test]
fn what_another_build_found_is_not_believed() {
    let (folder, _) = calls(&["-o", "x.arrows"], 30_000, |_| {});
    let path = folder.path().join("x.arrows");
    let expected = report("top", &path, &[]);
    let mut reader = trace::open(&path).expect("a trace");
    let other = folder.path().join("other.arrows");
    let mut writer = trace::create(&other, reader.meta()).expect("created");
    for record in reader.by_ref() {
        writer.write(&record.expect("whole")).expect("written");
    }
    let (mut found, summary) = trace::found(&path).expect("kept");
    found["version"] = "another".into();
    found["report"]["functions"]["functions"] = Value::Array(Vec::new());
    writer.keep(found.to_string());
    writer.finish_with(&summary).expect("finished");
    assert_eq!(report("top", &other, &[]), expected);
}
