//! Leaving parts unread, and reading in threads, change nothing but what was left out.

mod common;

use common::{FORMATS, Trace, any_trace};
use event::Record;
use proptest::prelude::*;
use trace::{Format, Parts, Reader};

fn parts() -> impl Strategy<Value = Parts> {
    any::<[bool; 3]>().prop_map(|[args, decoded, stack]| Parts {
        only: None,
        args,
        decoded,
        stack,
    })
}

/// What should be left of a record.
fn without(record: &Record, parts: Parts) -> Record {
    let mut record = record.clone();
    if let Record::Event(event) = &mut record {
        if !parts.args {
            event.args.clear();
            event.outputs.clear();
        }
        if let Some(ioctl) = &mut event.ioctl
            && !parts.decoded
        {
            ioctl.decoded.clear();
        }
        if !parts.stack {
            event.stack.clear();
        }
    }
    record
}

/// How a trace may be read.
#[derive(Debug, Clone, Copy)]
struct Way {
    parts: Parts,
    ahead: bool,
    whole: bool,
    batches: bool,
}

/// Records and warnings; the tail goes into the warnings, to be compared too.
fn read(bytes: &[u8], format: Format, way: Way) -> Option<(Vec<Record>, Vec<String>)> {
    let input = std::io::Cursor::new(bytes.to_vec());
    let mut reader = Reader::with(input, Some(format), way.parts).ok()?;
    if way.ahead {
        reader = reader.ahead();
    }
    if way.whole {
        reader = reader.whole();
    }
    let mut records = Vec::new();
    if way.batches {
        while let Some(batch) = reader.next_batch().expect("memory can be read") {
            records.extend_from_slice(batch);
        }
    } else {
        for record in reader.by_ref() {
            records.push(record.expect("memory can be read"));
        }
    }
    let mut warnings: Vec<String> = (reader.warnings().as_slice().iter())
        .map(ToString::to_string)
        .collect();
    warnings.push(format!("{:?}", reader.summary()));
    Some((records, warnings))
}

fn time_in_file(record: &Record) -> u64 {
    match record {
        Record::Event(event) => event.start,
        other => other.ts(),
    }
}

/// A trace long enough to be cut into several pieces.
fn repeated(trace: &Trace, times: u64) -> Trace {
    let mut records = Vec::new();
    let first = trace.records.iter().map(time_in_file).min().unwrap_or(0);
    let last = trace.records.iter().map(Record::ts).max().unwrap_or(0);
    for turn in 0..times {
        let later = |ts: u64| ts + turn * (last - first + 1);
        for record in &trace.records {
            let mut record = record.clone();
            match &mut record {
                Record::Event(event) => {
                    event.start = later(event.start);
                    event.id += turn * 1_000_000;
                }
                Record::Meaning(meaning) => meaning.ts = later(meaning.ts),
                Record::Lost(lost) => lost.ts = later(lost.ts),
            }
            records.push(record);
        }
    }
    Trace {
        records,
        ..trace.clone()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_way_of_reading_gives_the_same(trace in any_trace(), parts in parts(), whole: bool) {
        for format in FORMATS {
            let bytes = trace.write(format);
            let plain = Way { parts: Parts::ALL, ahead: false, whole, batches: false };
            let (records, warnings) = read(&bytes, format, plain).expect("readable");
            let expected: Vec<Record> =
                records.iter().map(|record| without(record, parts)).collect();
            for (ahead, batches) in [(false, true), (true, false), (true, true)] {
                let way = Way { parts, ahead, whole, batches };
                let (other, other_warnings) = read(&bytes, format, way).expect("readable");
                prop_assert_eq!(&other, &expected, "{:?}", way);
                prop_assert_eq!(&other_warnings, &warnings, "{:?}", way);
            }
        }
    }

    /// Damage is met at the same places, and told in the same words, by threads.
    #[test]
    fn damage_is_the_same_in_threads(
        trace in any_trace(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        for format in FORMATS {
            let mut bytes = trace.write(format);
            for (place, byte) in &hits {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            let plain = Way { parts: Parts::ALL, ahead: false, whole: false, batches: false };
            let threads = Way { ahead: true, ..plain };
            prop_assert_eq!(read(&bytes, format, plain), read(&bytes, format, threads));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, failure_persistence: None, ..ProptestConfig::default() })]

    /// Long enough for several pieces in each thread, and for several batches in each piece.
    #[test]
    fn long_traces_keep_their_order(trace in any_trace(), parts in parts(), whole: bool) {
        prop_assume!(trace.records.len() > 5);
        let trace = repeated(&trace, 40_000 / trace.records.len() as u64);
        for format in FORMATS {
            let bytes = trace.write(format);
            let plain = Way { parts, ahead: false, whole, batches: false };
            let threads = Way { ahead: true, batches: true, ..plain };
            let one = read(&bytes, format, plain).expect("readable");
            prop_assert!(one == read(&bytes, format, threads).expect("readable"));
            prop_assert!(one.0.len() > 10_000);
        }
    }
}

#[test]
fn a_reader_that_is_dropped_early_leaves_its_threads_to_end() {
    let trace = Trace {
        meta: event::Meta::default(),
        records: (0..50_000)
            .map(|id| {
                event::Event::new(id, event::Layer::Os, event::Category::Other, "x", id).into()
            })
            .collect(),
        summary: None,
    };
    for format in FORMATS {
        let bytes = trace.write(format);
        let input = std::io::Cursor::new(bytes);
        let mut reader = Reader::new(input, Some(format)).expect("readable").ahead();
        assert!(reader.next().is_some_and(|record| record.is_ok()));
        drop(reader);
    }
}
