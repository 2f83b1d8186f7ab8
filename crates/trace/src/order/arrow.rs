//! Arrow streams are written anew: their rows are packed together.

use super::late::Late;
use crate::{
    Error, Format, Result, Writer, jsonl,
    source::{Reader, open},
    time::since,
};
use event::Record;
use std::{fs::File, path::Path};

pub fn order(path: &Path, out: File, mut late: Late) -> Result<u64> {
    let mut latest = i64::MIN;
    let mut line = Vec::new();
    let reader = open(path)?;
    let start = reader.meta().start_ns;
    each_record(reader.ahead(), |record, time| {
        if time < latest {
            line.clear();
            jsonl::encode(record, start, &mut line)?;
            late.push(time, &line)?;
        }
        latest = latest.max(time);
        Ok(())
    })?;
    let moved = late.count;
    let mut late = late.sorted()?;
    let mut lines = jsonl::OneByOne::starting_at(start);
    let reader = open(path)?;
    let mut writer = Writer::new(out, Format::Arrow, reader.meta())?;
    let mut latest = i64::MIN;
    let reader = each_record(reader.ahead(), |record, time| {
        if time < latest {
            return Ok(());
        }
        latest = time;
        while let Some(earlier) = late.before(time)? {
            let record = lines.decode(&earlier).map_err(Error::NotATrace)?;
            writer.write(&record)?;
        }
        writer.write(record)
    })?;
    match reader.summary() {
        Some(summary) => writer.finish_with(summary)?,
        None => drop(writer.finish()?),
    }
    Ok(moved)
}

fn each_record(
    mut reader: Reader,
    mut take: impl FnMut(&Record, i64) -> Result<()>,
) -> Result<Reader> {
    let start = reader.meta().start_ns;
    while let Some(records) = reader.next_batch()? {
        for record in records {
            take(record, since(start, record.ts())?)?;
        }
    }
    Ok(reader)
}
