//! The last seconds of a run in memory, to be saved as a trace. Bounded by time and by size: what is older goes.

use anyhow::{Context, Result};
use capture::trace_file::{destination, latest};
use event::{Arg, Event, Meta, Record, Summary, Value, Watched};
use std::{collections::VecDeque, fs, path::PathBuf, sync::Arc, time::Duration};
use trace::{Format, Writer};

/// Records that are let go together.
const SEGMENT: usize = 1_024;
/// Estimated bytes of all records.
const MOST_BYTES: usize = 128 << 20;

pub struct Recent {
    keep_ns: u64,
    full: VecDeque<Arc<Segment>>,
    open: Segment,
    bytes: usize,
}

#[derive(Default, Clone)]
struct Segment {
    records: Vec<Record>,
    bytes: usize,
    last_ns: u64,
}

/// What was saved.
pub struct Saved {
    pub path: PathBuf,
    pub events: u64,
    pub seconds: f64,
}

impl Recent {
    pub fn new(keep: Duration) -> Self {
        Recent {
            keep_ns: u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX),
            full: VecDeque::new(),
            open: Segment::default(),
            bytes: 0,
        }
    }

    pub fn add(&mut self, record: &Record) {
        if self.keep_ns == 0 {
            return;
        }
        let (bytes, ts) = (bytes_of(record), record.ts());
        self.open.records.push(record.clone());
        self.open.bytes += bytes;
        self.open.last_ns = self.open.last_ns.max(ts);
        self.bytes += bytes;
        if self.open.records.len() < SEGMENT {
            return;
        }
        self.full
            .push_back(Arc::new(std::mem::take(&mut self.open)));
        let oldest = ts.saturating_sub(self.keep_ns);
        while let Some(first) = self.full.front()
            && (first.last_ns < oldest || self.bytes > MOST_BYTES)
        {
            self.bytes -= first.bytes;
            self.full.pop_front();
        }
    }

    /// All of it, without copying what is full.
    pub fn snapshot(&self) -> Snapshot {
        let mut segments: Vec<Arc<Segment>> = self.full.iter().cloned().collect();
        segments.push(Arc::new(self.open.clone()));
        let last = segments.iter().map(|one| one.last_ns).max().unwrap_or(0);
        Snapshot {
            segments,
            from: last.saturating_sub(self.keep_ns),
        }
    }
}

/// The last seconds at one moment.
pub struct Snapshot {
    segments: Vec<Arc<Segment>>,
    from: u64,
}

impl Snapshot {
    /// Writes a trace of it, named after the time.
    pub fn save(self, meta: &Meta) -> Result<Saved> {
        let records = || {
            let all = self.segments.iter().flat_map(|one| &one.records);
            all.filter(|record| record.ts() >= self.from)
        };
        let first = records()
            .map(Record::ts)
            .min()
            .context("nothing has been recorded yet")?;
        let last = records().map(Record::ts).max().unwrap_or(first);
        // The name of a new trace, in the format for many events; a person saves it, whatever the rank.
        let alone = event::Identity::default();
        let named = destination::open(None, &alone)?;
        let path = named.path.with_extension("arrows");
        let made = destination::open(Some(&path), &alone);
        let _ = fs::remove_file(&named.path);
        let meta = Meta {
            start_ns: first,
            start_unix_ns: (meta.start_unix_ns)
                .map(|unix| unix.saturating_add(first.saturating_sub(meta.start_ns))),
            ..meta.clone()
        };
        let mut writer = Writer::new(made?.file, Format::Arrow, &meta)?;
        for record in records() {
            writer.write(record)?;
        }
        let summary = Summary {
            end_ns: last,
            watched: Some(Watched {
                start_ns: first,
                end_ns: last,
            }),
            ..writer.summary()
        };
        let late = writer.late();
        writer.finish_with(&summary)?;
        if late > 0 {
            trace::put_in_order(&path)?;
        }
        latest::lead_to(&path);
        Ok(Saved {
            path,
            events: summary.events,
            seconds: last.saturating_sub(first) as f64 / 1e9,
        })
    }
}

/// About what it takes in memory.
fn bytes_of(record: &Record) -> usize {
    let of_event = |event: &Event| {
        let args = event.args.iter().chain(&event.outputs);
        args.map(of_arg).sum::<usize>() + event.stack.len() * size_of::<event::Frame>()
    };
    size_of::<Record>()
        + match record {
            Record::Event(event) => of_event(event),
            _ => 0,
        }
}

fn of_arg(arg: &Arg) -> usize {
    size_of::<Arg>()
        + match &arg.value {
            // Texts are often shared; a long one is a program's own.
            Value::Str(text) => text.len(),
            Value::List(list) => list.len() * size_of::<Value>(),
            Value::Map(map) => map.iter().map(of_arg).sum(),
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Layer};

    fn event(at: u64) -> Record {
        Event::new(at, Layer::Driver, Category::Other, "cuInit", at).into()
    }

    #[test]
    fn what_is_old_goes() {
        let mut recent = Recent::new(Duration::from_nanos(10_000));
        (0..100_000).for_each(|at| recent.add(&event(at)));
        let kept: usize = recent.full.iter().map(|one| one.records.len()).sum();
        assert!((10_000..13_000).contains(&kept), "{kept}");
        assert!(recent.bytes < 13_000 * 600);
        let snapshot = recent.snapshot();
        assert_eq!(snapshot.from, 99_999 - 10_000);
    }

    #[test]
    fn it_is_no_larger_than_its_limit_and_may_be_nothing() {
        let mut recent = Recent::new(Duration::from_secs(1_000));
        let mut large = Event::new(1, Layer::Driver, Category::Other, "f", 1);
        large.args = vec![Arg::new("text", Value::Str("x".repeat(100_000).into()))];
        let large = Record::from(large);
        (0..10_000).for_each(|_| recent.add(&large));
        assert!(recent.bytes <= MOST_BYTES + SEGMENT * 101_000);
        let mut nothing = Recent::new(Duration::ZERO);
        nothing.add(&event(1));
        assert!(nothing.snapshot().save(&Meta::default()).is_err());
    }
}
