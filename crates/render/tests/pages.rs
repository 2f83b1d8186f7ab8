//! The HTML report in a real browser: pages made here, looked at by `tests/web`.

#[path = "pages/extremes.rs"]
mod extremes;
#[path = "pages/story.rs"]
mod story;

use event::{Backend, Extent, Kind, Layer, Meta, Record, Summary};
use render::{Chrome, Html, Output};
use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
};

/// A page of any trace stays below this.
const MAX_PAGE: usize = 5_000_000;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Writes the page of a trace.
fn page(
    name: &str,
    meta: &Meta,
    records: impl IntoIterator<Item = Record>,
    summary: Option<&Summary>,
) {
    let mut out = Vec::new();
    let mut html = Html::new(&mut out, meta);
    for record in records {
        html.record(&record).expect("a record");
    }
    html.finish(summary).expect("a page");
    drop(html);
    assert!(out.len() < MAX_PAGE, "{name} has {} bytes", out.len());
    let folder = repository().join("target/pages");
    fs::create_dir_all(&folder).expect("target/ can be written");
    fs::write(folder.join(name), &out).expect("a page");
}

/// Bytes of a page that has too little room.
const PART: u64 = 700_000;

/// A page with too little room for its trace, and beside it a list of every span: `[id, start, end, status]`.
fn part() {
    let records = story::inference(1_500);
    let summary = story::summary(&records);
    let meta = story::meta();
    let mut out = Vec::new();
    let mut html = Html::new(&mut out, &meta).with_size(PART);
    let give = |html: &mut Html<_>| {
        for record in &records {
            html.record(record).expect("a record");
        }
    };
    give(&mut html);
    assert!(html.is_cut());
    html.again(Some(&summary));
    give(&mut html);
    html.finish(Some(&summary)).expect("a page");
    drop(html);
    assert!(out.len() as u64 <= PART, "{} bytes", out.len());
    let spans: Vec<_> = (records.iter())
        .filter_map(|record| match record {
            Record::Event(event) if event.kind != Kind::Counter => match event.extent {
                Extent::Closed(duration) => {
                    let start = event.start - meta.start_ns;
                    let status = event.status.as_ref().map(|status| status.code);
                    Some((event.id, start, start + duration, status))
                }
                _ => None,
            },
            _ => None,
        })
        .collect();
    let folder = repository().join("target/pages");
    fs::write(folder.join("part.html"), &out).expect("a page");
    let spans = serde_json::to_vec(&spans).expect("JSON");
    fs::write(folder.join("part.json"), spans).expect("written");
}

fn pages() {
    let records = story::inference(40);
    let summary = story::summary(&records);
    page("inference.html", &story::meta(), records, Some(&summary));
    page("hostile.html", &story::meta(), extremes::hostile(), None);
    page("empty.html", &Meta::default(), [], None);
    page(
        "threads.html",
        &story::meta(),
        extremes::threads(10_000),
        None,
    );
    page("dense.html", &story::meta(), extremes::dense(150_000), None);
    page("odd.html", &story::meta(), extremes::odd(), None);
    system_calls_only();
    recorded();
    from_corpus("big", "recorded-torch.html");
    from_corpus("transfer", "recorded-copies.html");
    part();
}

/// PyTorch programs on an H200, from fixtures/corpus.
fn from_corpus(name: &str, page_name: &str) {
    let packed = repository().join(format!("fixtures/corpus/{name}.jsonl.zst"));
    let packed = fs::File::open(packed).expect("fixtures/corpus");
    let mut lines = Vec::new();
    ruzstd::decoding::StreamingDecoder::new(packed)
        .expect("zstd")
        .read_to_end(&mut lines)
        .expect("readable");
    let input = std::io::Cursor::new(lines);
    let mut reader = trace::Reader::with(input, None, trace::Parts::ALL).expect("a trace");
    let meta = reader.meta().clone();
    let records: Vec<_> = reader
        .by_ref()
        .map(|record| record.expect("a record"))
        .collect();
    page(page_name, &meta, records, reader.summary());
}

/// Nobody looked for CUDA's calls.
fn system_calls_only() {
    let is_system_call =
        |record: &Record| matches!(record, Record::Event(event) if event.layer == Layer::Syscall);
    let records: Vec<_> = (story::inference(40).into_iter())
        .filter(is_system_call)
        .collect();
    assert!(!records.is_empty());
    let mut meta = story::meta();
    meta.backends = vec![Backend {
        name: "syscall".into(),
        ..Backend::default()
    }];
    page("system.html", &meta, records, None);
}

/// The traces of fixtures/traces: recorded ones, and one written by hand.
fn recorded() {
    let folder = repository().join("fixtures/traces");
    for entry in fs::read_dir(folder).expect("fixtures/traces").flatten() {
        let path = entry.path();
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        let mut reader = trace::open(&path).expect("a trace");
        let meta = reader.meta().clone();
        let records: Vec<_> = reader
            .by_ref()
            .map(|record| record.expect("a record"))
            .collect();
        let stem = path.file_stem().expect("a name").to_string_lossy();
        let mut json = Vec::new();
        let mut chrome = Chrome::new(&mut json, &meta);
        for record in &records {
            chrome.record(record).expect("a record");
        }
        chrome.finish(reader.summary()).expect("written");
        drop(chrome);
        page(
            &format!("recorded-{stem}.html"),
            &meta,
            records,
            reader.summary(),
        );
        let folder = repository().join("target/pages");
        fs::write(folder.join(format!("chrome-{stem}.json")), json).expect("written");
    }
}

/// Says why a test cannot run here; where everything must run (CI), that is a failure.
fn skip(why: &str) {
    assert!(
        std::env::var_os("CUTRACE_REQUIRE_ALL").is_none_or(|value| value != "1"),
        "must not be skipped here: {why}"
    );
    eprintln!("skipped: {why}");
}

fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

/// Where playwright-core is, installed if need be.
fn playwright(repository: &Path) -> Option<PathBuf> {
    let output = Command::new(repository.join("scripts/setup-browser"))
        .output()
        .ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| folder.trim().into())
}

#[test]
fn the_report_in_a_browser() {
    pages();
    let repository = repository();
    let Some(node) = found("node") else {
        return skip("node is missing (scripts/setup-packages test)");
    };
    let Some(chromium) = found("chromium").or_else(|| found("chromium-browser")) else {
        return skip("chromium is missing (scripts/setup-packages test)");
    };
    let Some(web) = playwright(&repository) else {
        return skip("playwright-core could not be installed (scripts/setup-browser)");
    };
    let output = Command::new(node)
        .arg("--test")
        .arg("--test-concurrency=2")
        .args(
            [
                "report", "details", "extremes", "finer", "part", "recorded", "chrome", "sizes",
            ]
            .map(|name| {
                repository
                    .join("tests/web")
                    .join(format!("{name}.test.mjs"))
            }),
        )
        .env("CUTRACE_WEB", web)
        .env("CUTRACE_PAGES", repository.join("target/pages"))
        .env("CUTRACE_CHROMIUM", chromium)
        .output()
        .expect("node runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // A run of no tests would succeed as well.
    let passed = (text.lines())
        .find_map(|line| {
            line.trim_start_matches(['#', 'ℹ', ' '])
                .strip_prefix("pass ")
        })
        .and_then(|count| count.trim().parse::<u32>().ok());
    assert!(passed.is_some_and(|passed| passed >= 20), "{text}");
}
