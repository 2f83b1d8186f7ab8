//! What is said of real programs, recorded on a GPU by tests/gpu/corpus: judged by hand, with the reasons in docs/FINDINGS.md.
//! Each has at most one thing wrong with it. What is wrong must come first, and nothing else may be called serious.

use analyse::{Analysis, Report, findings::Severity};
use render::{Style, tables};
use std::{fs::File, io::Read, path::Path};

/// Each program, and what may be called serious in it (high or medium), in that order.
const PROGRAMS: [(&str, &[&str]); 24] = [
    ("asserts", &["gpu-crash"]),
    ("big", &[]),
    ("busy", &[]),
    ("churn", &["allocation-in-loop"]),
    ("compile", &["host-bound"]),
    ("cupy", &["host-bound", "small-launches"]),
    ("ddp", &["host-bound", "small-launches", "small-copies"]),
    ("decode", &["host-bound", "small-launches"]),
    ("eager", &["host-bound", "small-launches"]),
    ("graphs", &[]),
    ("illegal", &["gpu-crash"]),
    ("jax", &["pauses", "starved"]),
    ("leak", &["leak", "host-bound", "small-launches"]),
    ("leaks", &["leak", "allocation-in-loop"]),
    ("loading", &["starved"]),
    ("oom", &["out-of-memory"]),
    ("refused", &["failed-calls"]),
    ("sample", &[]),
    ("serial", &["transfer-bound"]),
    ("streams", &[]),
    ("syncs", &["sync-after-every-launch", "small-launches"]),
    ("tiny", &["small-launches"]),
    ("transfer", &["transfer-bound", "pageable-copies"]),
    ("triton", &[]),
];

fn report(name: &str) -> Report {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/corpus");
    let packed = File::open(Path::new(folder).join(format!("{name}.jsonl.zst"))).expect(name);
    let mut lines = Vec::new();
    ruzstd::decoding::StreamingDecoder::new(packed)
        .expect("zstd")
        .read_to_end(&mut lines)
        .expect("readable");
    let file = tempfile::Builder::new()
        .suffix(".jsonl")
        .tempfile()
        .expect("a file");
    std::fs::write(file.path(), lines).expect("written");
    let mut reader = trace::open(file.path()).expect("a trace");
    let mut analysis = Analysis::new(reader.meta());
    for record in reader.by_ref() {
        analysis.add(&record.expect("readable"));
    }
    analysis.finish(reader.summary())
}

#[test]
fn what_is_wrong_comes_first_and_nothing_else_is_serious() {
    let mut said = String::new();
    let mut wrong = Vec::new();
    for (name, expected) in PROGRAMS {
        let report = report(name);
        let serious: Vec<_> = (report.findings.iter())
            .filter(|finding| matches!(finding.severity, Severity::High | Severity::Medium))
            .map(|finding| finding.id.clone())
            .collect();
        if serious != expected {
            wrong.push(format!("{name}: {serious:?} instead of {expected:?}"));
        }
        let style = Style::default();
        let gpu = tables::gpu_in_short(&report, &style);
        let head: Vec<&str> = gpu.lines().take_while(|line| !line.is_empty()).collect();
        said.push_str(&format!(
            "# {name}\n{}\n{}\n",
            head.join("\n"),
            tables::top_findings(&report, 3, &style)
        ));
    }
    assert!(wrong.is_empty(), "{wrong:#?}\n{said}");
    insta::assert_snapshot!(said);
}
