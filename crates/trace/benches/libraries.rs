//! What is written by hand beside the library that one would take instead, on the same input: reading Arrow
//! (arrow-ipc), reading JSON lines (serde_json), writing CSV (arrow-csv). Ours goes all the way to records, or
//! comes from them; a library's time is of its part alone. Best of the rounds, seconds of processor.
//!
//! cargo bench -p cutrace-trace --bench libraries        environment: EVENTS (1,000,000), ROUNDS (3)

mod measure;
mod workload;

use arrow_ipc::reader::StreamReader;
use measure::{Result, number, timed};
use serde::{Deserialize, de::IgnoredAny};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    env,
    fs::{self, File},
    hint::black_box,
    io::{BufReader, BufWriter, Write},
    path::Path,
    process::Command,
};
use trace::{Parts, create, open_with};

/// A real trace: its lines are repeated.
const REAL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/traces/demo.jsonl"
);

fn main() -> Result<()> {
    let words: Vec<String> = env::args().collect();
    if let [_, verb, path, ..] = &words[..]
        && verb == "read-by-arrow-ipc"
    {
        return arrow_ipc(Path::new(path)).map(drop);
    }
    let (events, rounds) = (number("EVENTS", 1_000_000), number("ROUNDS", 3));
    let turns = events.div_ceil(workload::EVENTS_A_TURN);
    let folder = tempfile::tempdir()?;
    let arrow = folder.path().join("bench.arrows");
    let jsonl = folder.path().join("real.jsonl");
    let csv = folder.path().join("bench.csv");
    let mut writer = create(&arrow, &workload::meta())?;
    workload::run(turns, |record| writer.write(record))?;
    writer.finish()?;
    let lines = repeat(Path::new(REAL), &jsonl, events)?;
    let text = fs::read_to_string(&jsonl)?;
    println!(
        "{} rows of Arrow, {lines} lines of JSON ({} bytes), {rounds} rounds",
        turns * workload::RECORDS_A_TURN,
        text.len()
    );
    type Run<'a> = (&'a str, Box<dyn Fn() -> Result<u64> + 'a>);
    let runs: [Run<'_>; 8] = [
        (
            "Arrow: ours, to records",
            Box::new(|| ours(&arrow, Parts::ALL)),
        ),
        (
            "Arrow: ours, without arguments",
            Box::new(|| ours(&arrow, Parts::NONE)),
        ),
        (
            "Arrow: arrow-ipc, to columns",
            Box::new(|| arrow_ipc(&arrow)),
        ),
        (
            "JSON: ours, to records",
            Box::new(|| ours(&jsonl, Parts::ALL)),
        ),
        (
            "JSON: serde_json, to a struct",
            Box::new(|| serde::<Line<'_>>(&text)),
        ),
        (
            "JSON: serde_json, nothing kept",
            Box::new(|| serde::<IgnoredAny>(&text)),
        ),
        (
            "CSV: ours, from records",
            Box::new(|| ours_csv(&csv, turns)),
        ),
        (
            "CSV: arrow-csv, from columns",
            Box::new(|| arrow_csv(&arrow, &csv)),
        ),
    ];
    for (what, run) in &runs {
        let mut best = f64::INFINITY;
        let mut count = 0;
        for _ in 0..rounds {
            let time = timed(|| {
                count = run()?;
                Ok(())
            })?;
            best = best.min(time.cpu.as_secs_f64());
        }
        let rate = count as f64 / best / 1e6;
        println!("{what:<32} {best:>7.3} s {rate:>7.2} million a second");
    }
    hostile(folder.path())
}

/// The head, the lines between it and the tail as often as need be, the tail.
fn repeat(from: &Path, to: &Path, least: u64) -> Result<u64> {
    let text = fs::read_to_string(from)?;
    let lines: Vec<&str> = text.lines().collect();
    let [head, body @ .., tail] = &lines[..] else {
        return Err("a trace of two lines".into());
    };
    let times = least.div_ceil(body.len() as u64);
    let mut out = BufWriter::new(File::create(to)?);
    writeln!(out, "{head}")?;
    for _ in 0..times {
        for line in body {
            writeln!(out, "{line}")?;
        }
    }
    writeln!(out, "{tail}")?;
    out.flush()?;
    Ok(times * body.len() as u64 + 2)
}

fn ours(path: &Path, parts: Parts) -> Result<u64> {
    let mut reader = open_with(path, parts)?;
    let mut records = 0;
    while let Some(batch) = reader.next_batch()? {
        records += black_box(batch).len() as u64;
    }
    Ok(records)
}

fn arrow_ipc(path: &Path) -> Result<u64> {
    let mut rows = 0;
    for batch in StreamReader::try_new(BufReader::new(File::open(path)?), None)? {
        rows += black_box(batch?).num_rows() as u64;
    }
    Ok(rows)
}

/// The fields that lines of events have, borrowed where they can be.
#[derive(Deserialize)]
#[expect(dead_code, reason = "parsed, not looked at")]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    event_id: Option<u64>,
    ts: Option<f64>,
    pid: Option<u32>,
    tid: Option<u32>,
    #[serde(borrow)]
    layer: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    category: Option<Cow<'a, str>>,
    #[serde(borrow)]
    phase: Option<Cow<'a, str>>,
    op_id: Option<u64>,
    depth: Option<u32>,
    duration_us: Option<f64>,
    status: Option<i64>,
    #[serde(borrow)]
    result: Option<Cow<'a, str>>,
    #[serde(borrow)]
    details: Option<BTreeMap<Cow<'a, str>, serde_json::Value>>,
}

fn serde<'a, T: Deserialize<'a>>(text: &'a str) -> Result<u64> {
    let mut lines = 0;
    for line in text.lines() {
        black_box(serde_json::from_str::<T>(line)?);
        lines += 1;
    }
    Ok(lines)
}

fn ours_csv(path: &Path, turns: u64) -> Result<u64> {
    let mut writer = create(path, &workload::meta())?;
    workload::run(turns, |record| writer.write(record))?;
    writer.finish()?;
    Ok(turns * workload::RECORDS_A_TURN)
}

fn arrow_csv(arrow: &Path, path: &Path) -> Result<u64> {
    let mut writer = arrow_csv::Writer::new(BufWriter::new(File::create(path)?));
    let mut rows = 0;
    for batch in StreamReader::try_new(BufReader::new(File::open(arrow)?), None)? {
        let batch = batch?;
        writer.write(&batch)?;
        rows += batch.num_rows() as u64;
    }
    Ok(rows)
}

/// A trace whose columns say that they unpack to more than there is: the length of each packed buffer is replaced.
fn hostile(folder: &Path) -> Result<()> {
    let path = folder.join("hostile.arrows");
    let mut writer = create(&path, &workload::meta())?;
    workload::run(1, |record| writer.write(record))?;
    writer.finish()?;
    let mut bytes = fs::read(&path)?;
    // Each buffer is its length in 8 bytes, then a zstd frame, which begins so.
    let frames: Vec<usize> = (8..bytes.len() - 4)
        .filter(|at| bytes[*at..].starts_with(&[0x28, 0xb5, 0x2f, 0xfd]))
        .collect();
    for length in [1i64 << 40, i64::MAX] {
        for at in &frames {
            bytes[at - 8..*at].copy_from_slice(&length.to_le_bytes());
        }
        fs::write(&path, &bytes)?;
        let mut reader = open_with(&path, Parts::ALL)?;
        while reader.next_batch()?.is_some() {}
        let warnings = reader.warnings().as_slice().len();
        let child = Command::new(env::current_exe()?)
            .arg("read-by-arrow-ipc")
            .arg(&path)
            .output()?;
        let words = String::from_utf8_lossy(&child.stderr);
        println!(
            "columns that claim {length} bytes: ours ends with {warnings} warning; arrow-ipc: {}, {:?}",
            child.status,
            words.lines().next().unwrap_or_default()
        );
    }
    Ok(())
}
