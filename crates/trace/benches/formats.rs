//! How fast both formats are written and read, beside Python's json module on the same file.
//! Times are of the processor, so that a busy machine does not show; wall-clock times follow in
//! brackets.
//!
//! cargo bench -p cutrace-trace        environment: EVENTS (1,000,000), ROUNDS (3)

mod measure;
mod workload;

use measure::{Result, Time, number, timed};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};
use trace::{Parts, create, open, open_with};

/// Reads the whole file line by line; writes as many lines from the first of its objects.
const PYTHON: &str = r#"
import json, sys, time
path, out = sys.argv[1:3]
begin, wall = time.process_time(), time.perf_counter()
kept, lines = [], 0
with open(path) as file:
    for line in file:
        value = json.loads(line)
        lines += 1
        if len(kept) < 50000:
            kept.append(value)
read = (time.process_time() - begin, time.perf_counter() - wall)
begin, wall = time.process_time(), time.perf_counter()
with open(out, "w") as file:
    for number in range(lines):
        file.write(json.dumps(kept[number % len(kept)], separators=(",", ":")))
        file.write("\n")
print(time.process_time() - begin, time.perf_counter() - wall, *read)
"#;

fn main() -> Result<()> {
    let events = number("EVENTS", 1_000_000);
    let rounds = number("ROUNDS", 3);
    let turns = events.div_ceil(workload::EVENTS_A_TURN);
    let folder = tempfile::tempdir()?;
    let jsonl = folder.path().join("bench.jsonl");
    let arrow = folder.path().join("bench.arrows");
    println!(
        "{} events ({} lines or rows), {rounds} rounds, best of each, seconds of processor (wall clock)",
        turns * workload::EVENTS_A_TURN,
        turns * workload::RECORDS_A_TURN
    );
    let names = ["jsonl", "arrow", "python json"];
    let mut best: [Option<(Time, Time)>; 3] = [None; 3];
    for round in 1..=rounds {
        let times = [
            (
                timed(|| write(&jsonl, turns))?,
                timed(|| read(&jsonl, turns))?,
            ),
            (
                timed(|| write(&arrow, turns))?,
                timed(|| read(&arrow, turns))?,
            ),
            python(&jsonl, &folder.path().join("python.jsonl"))?,
        ];
        for path in [&jsonl, &arrow] {
            let name = path.extension().unwrap_or_default().display();
            let time = timed(|| read_ahead(path, turns))?;
            println!("  round {round} {name} without arguments, in threads: read {time}");
        }
        for ((name, (write, read)), best) in names.iter().zip(times).zip(&mut best) {
            println!("  round {round} {name:<12} write {write} read {read}");
            let (best_write, best_read) = best.get_or_insert((write, read));
            *best_write = if write.cpu < best_write.cpu {
                write
            } else {
                *best_write
            };
            *best_read = if read.cpu < best_read.cpu {
                read
            } else {
                *best_read
            };
        }
    }
    let [Some(ours_jsonl), Some(ours_arrow), Some(python)] = best else {
        return Ok(());
    };
    println!(
        "{:<12} {:>16} {:>10} {:>16} {:>10} {:>12}",
        "", "write", "vs python", "read", "vs python", "bytes"
    );
    let rows = [
        (ours_jsonl, Some(&jsonl)),
        (ours_arrow, Some(&arrow)),
        (python, None),
    ];
    for (name, ((write, read), path)) in names.iter().zip(rows) {
        let size = path
            .map(fs::metadata)
            .transpose()?
            .map_or("-".into(), |file| file.len().to_string());
        let ratio = |python: Time, ours: Time| {
            format!("{:.1}x", python.cpu.as_secs_f64() / ours.cpu.as_secs_f64())
        };
        println!(
            "{name:<12} {:>16} {:>10} {:>16} {:>10} {size:>12}",
            write.to_string(),
            ratio(python.0, write),
            read.to_string(),
            ratio(python.1, read),
        );
    }
    Ok(())
}

fn write(path: &Path, turns: u64) -> Result<()> {
    let mut writer = create(path, &workload::meta())?;
    workload::run(turns, |record| writer.write(record))?;
    writer.finish()?;
    Ok(())
}

/// As the analyses read: begin and end records, without arguments, decoded ahead.
fn read_ahead(path: &Path, turns: u64) -> Result<()> {
    let mut reader = open_with(path, Parts::NONE)?.ahead();
    let mut records = 0;
    while let Some(batch) = reader.next_batch()? {
        records += batch.len() as u64;
    }
    assert_eq!(records, turns * workload::RECORDS_A_TURN);
    assert!(reader.warnings().is_empty());
    Ok(())
}

fn read(path: &Path, turns: u64) -> Result<()> {
    let mut reader = open(path)?.whole();
    let mut events = 0;
    for record in reader.by_ref() {
        record?;
        events += 1;
    }
    assert_eq!(events, turns * workload::EVENTS_A_TURN);
    assert!(
        reader.warnings().is_empty(),
        "{:?}",
        reader.warnings().as_slice()
    );
    Ok(())
}

fn python(path: &Path, out: &Path) -> Result<(Time, Time)> {
    let mut command = Command::new("python3");
    let output = command
        .args(["-c", PYTHON])
        .args([path, out])
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let times: Vec<f64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    let [write_cpu, write_wall, read_cpu, read_wall] = times[..] else {
        return Err("python3 did not report its times".into());
    };
    let time = |cpu, wall| Time {
        cpu: Duration::from_secs_f64(cpu),
        wall: Duration::from_secs_f64(wall),
    };
    Ok((time(write_cpu, write_wall), time(read_cpu, read_wall)))
}
