//! Large lakes of recorded events, for bench/lake/run.
//!
//!     replicate make TRACE OUT.arrows ROWS             the trace's records, over and over, later and with other numbers
//!     replicate as IN.arrows OUT.arrows RUN HOST RANK START_UNIX_NS    the same rows as another recording
//!     replicate add LAKE TRACE…                        as `cutrace lake add`, without findings

use event::{Meta, Record};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    sync::{Arc, Mutex},
    time::Instant,
};

type Fallible = Result<(), Box<dyn std::error::Error>>;

fn main() -> Fallible {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["make", from, to, rows] => make(from, to, rows.parse()?),
        ["as", from, to, run, host, rank, start] => {
            rename(from, to, run, host, rank.parse()?, start.parse()?)
        }
        ["add", lake, traces @ ..] => add(lake, traces),
        _ => Err("make, as or add".into()),
    }
}

fn make(from: &str, to: &str, rows: u64) -> Fallible {
    let reader = trace::open(from)?;
    let mut meta = reader.meta().clone();
    meta.start_unix_ns.get_or_insert(1_700_000_000_000_000_000);
    let records = reader.collect::<Result<Vec<Record>, _>>()?;
    let end = records.iter().map(Record::ts).max().unwrap_or(0);
    let length = end.saturating_sub(meta.start_ns) + 1_000_000;
    let largest = records.iter().map(numbers).max().unwrap_or(0) + 1;
    let mut writer = trace::create(to, &meta)?;
    let (mut round, mut written) = (0, 0);
    while written < rows {
        for record in &records {
            let mut record = record.clone();
            shift(&mut record, round * length, round * largest);
            writer.write(&record)?;
            // A span is one row of a lake, whatever it is here.
            let begins =
                matches!(&record, Record::Event(event) if event.extent == event::Extent::Open);
            written += u64::from(!begins);
        }
        round += 1;
    }
    writer.finish()?;
    Ok(())
}

/// The largest number that a record has.
fn numbers(record: &Record) -> u64 {
    match record {
        Record::Event(event) => event
            .id
            .max(event.parent.unwrap_or(0))
            .max(event.correlation.unwrap_or(0)),
        Record::Meaning(meaning) => meaning.op,
        Record::Lost(_) => 0,
    }
}

fn shift(record: &mut Record, time: u64, number: u64) {
    match record {
        Record::Event(event) => {
            event.start += time;
            event.id += number;
            for other in [&mut event.parent, &mut event.correlation] {
                *other = other.map(|id| id + number);
            }
        }
        Record::Meaning(meaning) => {
            meaning.ts += time;
            meaning.op += number;
        }
        Record::Lost(lost) => lost.ts += time,
    }
}

/// Another head; the rows are copied as they are.
fn rename(from: &str, to: &str, run: &str, host: &str, rank: u32, start: u64) -> Fallible {
    let mut meta: Meta = trace::open(from)?.meta().clone();
    meta.host.name = host.into();
    meta.host.boot_id = Some(format!("boot-{host}"));
    meta.identity.run = Some(run.into());
    meta.identity.rank = Some(rank);
    meta.start_unix_ns = Some(start);
    let head = Shared::default();
    drop(trace::Writer::new(
        head.clone(),
        trace::Format::Arrow,
        &meta,
    )?);
    let mut from = File::open(from)?;
    let mut sizes = [0; 8];
    from.read_exact(&mut sizes)?;
    let size = u32::from_le_bytes(sizes[4..].try_into()?);
    from.seek(SeekFrom::Start(8 + u64::from(size)))?;
    let mut to = File::create(to)?;
    to.write_all(&head.0.lock().map_err(|_| "poisoned")?)?;
    io::copy(&mut from, &mut to)?;
    Ok(())
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Ok(mut all) = self.0.lock() {
            all.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn add(lake: &str, traces: &[&str]) -> Fallible {
    let lake = lake::Lake::at(lake);
    for trace in traces {
        let began = Instant::now();
        let added = lake::add(&lake, Path::new(trace), &mut |_| {})?;
        let entry = added.entry();
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "{} rows, {} bytes, {} files, {seconds:.2} s",
            entry.rows,
            entry.bytes,
            entry.files.len()
        );
    }
    Ok(())
}
