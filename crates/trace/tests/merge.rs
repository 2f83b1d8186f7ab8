//! Converting files, and making several one.

mod common;

use common::{FORMATS, Trace, any_trace};
use event::{Category, Event, Extent, Layer, Meta, ProcessName, Record, Summary, Watched};
use proptest::prelude::*;
use std::{collections::HashMap, fs};
use trace::{Error, Format, convert, create, open};

fn extension(format: Format) -> &'static str {
    match format {
        Format::Jsonl => "jsonl",
        Format::Arrow => "arrows",
        Format::Csv => "csv",
        Format::Parquet => "parquet",
    }
}

/// `count` spans one after the other, 10 ns each, from the start on.
fn spans(meta: Meta, count: u64) -> Trace {
    let mut records = Vec::new();
    for id in 1..=count {
        let mut event = Event::new(
            id,
            Layer::Driver,
            Category::Memory,
            "cuMemAlloc_v2",
            meta.start_ns + id * 20,
        );
        (event.pid, event.parent, event.correlation) = (7, id.checked_sub(1), Some(id));
        event.extent = Extent::Open;
        records.push(event.clone().into());
        event.extent = Extent::Closed(10);
        records.push(event.into());
    }
    let summary = Summary {
        events: count,
        lost: 1,
        end_ns: meta.start_ns + 1_000,
        ..Summary::default()
    };
    Trace {
        meta,
        records,
        summary: Some(summary),
    }
}

fn meta(boot: &str, start_ns: u64, start_unix_ns: u64) -> Meta {
    let mut meta = Meta {
        start_ns,
        start_unix_ns: Some(start_unix_ns),
        ..Meta::default()
    };
    meta.host.boot_id = Some(boot.into());
    meta
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_converted_there_and_back_is_the_same_file(trace in any_trace()) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        fs::write(file("a.jsonl"), trace.write(Format::Jsonl)).expect("written");
        convert(&[file("a.jsonl")], file("b.arrows")).expect("converted");
        let report = convert(&[file("b.arrows")], file("c.jsonl")).expect("converted");
        prop_assert_eq!(report.warnings, Vec::<String>::new());
        prop_assert_eq!(
            fs::read_to_string(file("a.jsonl")).expect("read"),
            fs::read_to_string(file("c.jsonl")).expect("read")
        );
    }

    #[test]
    fn merging_keeps_every_record_in_order(traces in prop::collection::vec(any_trace(), 1..4)) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut inputs = Vec::new();
        for (place, (trace, format)) in traces.iter().zip(FORMATS.into_iter().cycle()).enumerate() {
            // One clock, ids small enough to be kept apart.
            let mut trace = trace.clone();
            trace.meta.host.boot_id = Some("b".into());
            for record in &mut trace.records {
                if let Record::Event(event) = record {
                    (event.parent, event.correlation) = (None, None);
                }
            }
            let path = folder.path().join(format!("{place}.{}", extension(format)));
            fs::write(&path, trace.write(format)).expect("written");
            inputs.push(path);
        }
        let output = folder.path().join("merged.jsonl");
        let starts: Vec<u64> = traces.iter().map(|trace| trace.meta.start_ns).collect();
        let (least, most) = (starts.iter().min(), starts.iter().max());
        prop_assume!(most.zip(least).is_some_and(|(most, least)| most - least < 1 << 61));
        let report = convert(&inputs, &output).expect("merged");
        let (merged, warnings) = Trace::read(&fs::read(&output).expect("read")).expect("a trace");
        prop_assert_eq!(warnings, Vec::<String>::new());
        prop_assert_eq!(report.warnings, Vec::<String>::new());
        prop_assert!(merged.records.is_sorted_by_key(Record::ts));
        let all: usize = traces.iter().map(|trace| trace.records.len()).sum();
        prop_assert_eq!(merged.records.len(), all);
    }
}

#[test]
fn clocks_of_two_machines_are_brought_together() {
    let folder = tempfile::tempdir().expect("a folder");
    // The second machine was booted 1,000 ns after the first; its trace began 5 ns later.
    let first = spans(meta("one", 5_000, 1_000_005_000), 3);
    let second = spans(meta("two", 4_005, 1_000_005_005), 3);
    let inputs = [
        folder.path().join("1.jsonl"),
        folder.path().join("2.arrows"),
    ];
    fs::write(&inputs[0], first.write(Format::Jsonl)).expect("written");
    fs::write(&inputs[1], second.write(Format::Arrow)).expect("written");
    let output = folder.path().join("merged.arrows");
    let report = convert(&inputs, &output).expect("merged");
    assert_eq!(
        (report.events, report.lost, report.warnings.len()),
        (6, 2, 0)
    );

    let mut reader = open(&output).expect("a trace").whole();
    let events: Vec<Event> = reader
        .by_ref()
        .map(|record| match record.expect("whole") {
            Record::Event(event) => event,
            other => panic!("{other:?}"),
        })
        .collect();
    let starts: Vec<u64> = events.iter().map(|event| event.start).collect();
    assert_eq!(starts, [5_020, 5_025, 5_040, 5_045, 5_060, 5_065]);
    let mut ids = HashMap::new();
    for event in &events {
        assert!(
            ids.insert(event.id, event.correlation).is_none(),
            "ids are unique"
        );
    }
    // Parents still lead to the span before, in the same trace.
    assert_eq!(events[2].parent, Some(events[0].id));
    assert_eq!(events[3].parent, Some(events[1].id));
    assert_eq!(reader.meta().start_ns, 5_000);
    assert_eq!(reader.meta().merged.len(), 2);
    let summary = reader.summary().expect("a tail");
    assert_eq!((summary.events, summary.lost), (6, 2));
}

#[test]
fn what_is_watched_is_what_all_have_watched_and_names_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let watched = [None, Some((5_100, 5_900)), Some((5_300, 6_500))];
    let mut inputs = Vec::new();
    for (place, watched) in watched.into_iter().enumerate() {
        let mut trace = spans(meta("one", 5_000, 1_000_005_000), 1);
        let summary = trace.summary.as_mut().expect("a summary");
        summary.watched = watched.map(|(start_ns, end_ns)| Watched { start_ns, end_ns });
        // One process is in all of them, and one in each.
        summary.processes = [7, 10 + place as u32]
            .map(|pid| ProcessName {
                pid,
                name: format!("p{pid}"),
                ..ProcessName::default()
            })
            .to_vec();
        let path = folder.path().join(format!("{place}.jsonl"));
        fs::write(&path, trace.write(Format::Jsonl)).expect("written");
        inputs.push(path);
    }
    let merged = |inputs: &[std::path::PathBuf]| {
        let output = folder.path().join("merged.arrows");
        convert(inputs, &output).expect("merged");
        let (merged, _) = Trace::read(&fs::read(&output).expect("read")).expect("a trace");
        merged.summary.expect("a summary")
    };
    let all = merged(&inputs);
    let (start_ns, end_ns) = (5_300, 5_900);
    assert_eq!(all.watched, Some(Watched { start_ns, end_ns }));
    let pids: Vec<u32> = all.processes.iter().map(|process| process.pid).collect();
    assert_eq!(pids, [7, 10, 11, 12]);
    assert_eq!(merged(&inputs[..1]).watched, None);
}

#[test]
fn traces_without_a_wall_clock_are_merged_with_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let inputs = [folder.path().join("1.jsonl"), folder.path().join("2.jsonl")];
    for input in &inputs {
        fs::write(input, spans(Meta::default(), 1).write(Format::Jsonl)).expect("written");
    }
    let report = convert(&inputs, folder.path().join("m.jsonl")).expect("merged");
    assert_eq!(report.events, 2);
    assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
}

#[test]
fn the_output_may_be_an_input_and_leaves_nothing_behind_on_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.jsonl");
    let trace = spans(Meta::default(), 5).write(Format::Jsonl);
    fs::write(&path, &trace).expect("written");
    convert(&[&path], &path).expect("converted");
    assert_eq!(fs::read(&path).expect("read"), trace);

    let mut huge = spans(Meta::default(), 1);
    for record in &mut huge.records {
        if let Record::Event(event) = record {
            event.id = u64::MAX;
        }
    }
    let other = folder.path().join("u.jsonl");
    fs::write(&other, huge.write(Format::Jsonl)).expect("written");
    let error = convert(&[&path, &other], folder.path().join("m.jsonl"));
    assert!(matches!(error, Err(Error::MergeId(u64::MAX))), "{error:?}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
}

#[test]
fn what_cannot_be_converted_is_said_plainly() {
    let folder = tempfile::tempdir().expect("a folder");
    let none: [&str; 0] = [];
    assert!(matches!(
        convert(&none, folder.path().join("m.jsonl")),
        Err(Error::NoInput)
    ));
    let wrong = convert(&["t.jsonl"], folder.path().join("m.json"));
    assert!(
        wrong
            .expect_err("no such format")
            .to_string()
            .contains("use .jsonl, .arrows, .csv or .parquet")
    );
    let missing = convert(
        &[folder.path().join("no.jsonl")],
        folder.path().join("m.jsonl"),
    );
    assert!(
        missing
            .expect_err("no such file")
            .to_string()
            .contains("no.jsonl")
    );
    assert!(create(folder.path().join("new/folder/t.arrows"), &Meta::default()).is_ok());
}

/// A trace of one host's rank: process 4097 on GPU 0, as in every container.
fn rank(host: &str, rank: u32) -> Trace {
    let mut meta = meta(host, 1_000 + u64::from(rank), 5_000_000 + u64::from(rank));
    meta.pid = Some(4097);
    meta.host.name = host.into();
    meta.identity.rank = Some(rank);
    meta.identity.run = Some("exp".into());
    meta.gpus.push(event::Gpu {
        name: "NVIDIA H200".into(),
        uuid: Some(format!("GPU-{host}")),
        ..event::Gpu::default()
    });
    let mut trace = spans(meta, 2);
    for record in &mut trace.records {
        if let Record::Event(event) = record {
            (event.pid, event.tid, event.device) = (4097, 4098, Some(0));
        }
    }
    let summary = trace.summary.as_mut().expect("a tail");
    summary.processes.push(ProcessName {
        pid: 4097,
        parent: Some(1),
        name: "python3".into(),
        ..ProcessName::default()
    });
    trace
}

/// What the merged trace has: its head and tail, and of each event the process, the thread and the GPU.
type Merged = (Meta, Summary, Vec<(u32, u32, Option<u32>)>);

fn merged(traces: &[Trace]) -> Result<Merged, Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let inputs: Vec<_> = (traces.iter().enumerate())
        .map(|(place, trace)| {
            let path = folder.path().join(format!("{place}.arrows"));
            fs::write(&path, trace.write(Format::Arrow)).expect("written");
            path
        })
        .collect();
    let output = folder.path().join("merged.jsonl");
    convert(&inputs, &output)?;
    let mut reader = open(&output).expect("a trace").whole();
    let seen = (reader.by_ref())
        .map(|record| match record.expect("whole") {
            Record::Event(event) => (event.pid, event.tid, event.device),
            other => panic!("{other:?}"),
        })
        .collect();
    let summary = reader.summary().expect("a tail").clone();
    Ok((reader.meta().clone(), summary, seen))
}

#[test]
fn processes_and_gpus_of_two_hosts_stay_apart() {
    let (head, tail, seen) = merged(&[rank("node1", 0), rank("node2", 1)]).expect("merged");
    let offset = head.merged[1].process_offset;
    assert!(offset > 4_194_304 - 1, "{offset}");
    let counts =
        |wanted: (u32, u32, Option<u32>)| seen.iter().filter(|found| **found == wanted).count();
    assert_eq!(counts((4097, 4098, Some(0))), 2);
    assert_eq!(counts((4097 + offset, 4098 + offset, Some(1))), 2);
    let gpus: Vec<_> = (head.gpus.iter())
        .map(|gpu| (gpu.index, gpu.uuid.as_deref()))
        .collect();
    assert_eq!(gpus, [(0, Some("GPU-node1")), (1, Some("GPU-node2"))]);
    assert_eq!(
        (head.identity.run.as_deref(), head.identity.rank),
        (Some("exp"), None)
    );
    let whose: Vec<_> = (tail.processes.iter())
        .map(|process| {
            let origin = process.origin.as_ref().expect("an origin");
            (process.pid, origin.host.as_str(), origin.rank, origin.pid)
        })
        .collect();
    assert_eq!(
        whose,
        [
            (4097, "node1", Some(0), 4097),
            (4097 + offset, "node2", Some(1), 4097)
        ]
    );
}

#[test]
fn containers_of_one_host_are_apart_and_share_its_gpus() {
    let mut traces = [rank("node1", 0), rank("node1", 1), rank("node1", 2)];
    for (trace, devices) in traces.iter_mut().zip(["0", "1", "0"]) {
        trace.meta.identity.visible_devices = Some(devices.into());
        trace.meta.gpus.push(event::Gpu {
            index: 1,
            uuid: Some("GPU-other".into()),
            ..event::Gpu::default()
        });
    }
    traces[1].meta.identity.pid_namespace = Some(2);
    traces[2].meta.identity.pid_namespace = Some(2);
    traces[0].meta.identity.pid_namespace = Some(1);
    let (head, _, seen) = merged(&traces).expect("merged");
    let offset = head.merged[1].process_offset;
    assert!(offset > 0 && head.merged[2].process_offset == offset);
    for wanted in [
        (4097, 4098, Some(0)),
        (4097 + offset, 4098 + offset, Some(1)),
        (4097 + offset, 4098 + offset, Some(0)),
    ] {
        assert_eq!(
            seen.iter().filter(|found| **found == wanted).count(),
            2,
            "{wanted:?} in {seen:?}"
        );
    }
}

#[test]
fn what_cannot_be_merged_is_refused() {
    let mut no_clock = rank("node2", 1);
    no_clock.meta.start_unix_ns = None;
    let refused = merged(&[rank("node1", 0), no_clock]);
    assert!(matches!(refused, Err(Error::MergeClock(2))), "{refused:?}");
    let mut beyond = rank("node2", 1);
    for record in &mut beyond.records {
        if let Record::Event(event) = record {
            event.pid = 1 << 30;
        }
    }
    let refused = merged(&[rank("node1", 0), beyond]);
    assert!(
        matches!(refused, Err(Error::MergeProcess(_))),
        "{refused:?}"
    );
}
