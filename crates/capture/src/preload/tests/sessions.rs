//! A whole session over hand-made files, with its threads and its clock.

use super::calls::{Recorded, lines};
use super::{RawCall, RingFile};
use crate::preload::clock::timestamp;
use crate::preload::{Options, Session};
use event::ring::RingState;
use event::{Extent, Record};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

fn describe(folder: &Path, pid: u32) {
    let text = format!(
        "process pid={pid} ppid=1 tsc_hz=1 exe=/bin/app\nclock {} {}\n\
         library 0 hooked=2 exported=3 method=patch path=/lib/libcuda.so.1\n\
         function 0 0 cuCtxSynchronize\nnote something odd\n",
        timestamp(),
        crate::clock::monotonic(),
    );
    fs::write(folder.join(format!("process.{pid}.1")), text).expect("written");
}

#[test]
fn a_session_drains_while_the_program_runs_and_cleans_up() {
    let session = Session::create(Options::default()).expect("a session");
    let folder = session.folder().to_owned();
    let start = session.start_ns();
    let recording = session.start(Recorded::default()).expect("threads");
    describe(&folder, 7);
    let mut ring = RingFile::create(&folder, 7, 7, 64);
    // More than the ring holds: only draining makes room.
    for call in 0..1_000u64 {
        while call + 1 - ring.tail() > 60 {
            std::thread::sleep(Duration::from_micros(100));
        }
        let now = timestamp();
        ring.call(now..now + 100, 0, [0; 4]);
    }
    ring.close();
    // A second thread, that dies in a call.
    let mut other = RingFile::create(&folder, 7, 8, 64);
    other.begin(timestamp(), RawCall::default());
    let (sink, report) = recording.finish();
    assert_eq!(
        sink.records.len(),
        2_001,
        "{:?}",
        lines(&sink.records).last()
    );
    assert!(sink.records.is_sorted_by_key(Record::ts));
    assert!(sink.records[0].ts() >= start);
    let last = sink.records[2_000].ts();
    assert!(
        last - start < 60_000_000_000,
        "within the test: {}",
        last - start
    );
    assert_eq!((report.calls, report.lost, report.late), (1_001, 0, 0));
    assert_eq!(report.hooks(), (2, 3));
    let backend = sink.backend.expect("begun");
    assert_eq!(
        (backend.hooks.attached, backend.hooks.total),
        report.hooks()
    );
    // The second thread's ring is still open on its side.
    let running = "1 process was still running when the command ended and is no longer traced";
    assert_eq!(report.notes.lines(), ["something odd", running]);
    assert_eq!(report.processes[0].exe, "/bin/app");
    assert!(report.clock.error_ns < 1_000_000, "{:?}", report.clock);
    assert!(!folder.exists(), "the session leaves nothing behind");
}

#[test]
fn a_ring_serves_one_thread_after_the_other() {
    let session = Session::create(Options::default()).expect("a session");
    let folder = session.folder().to_owned();
    let recording = session.start(Recorded::default()).expect("threads");
    describe(&folder, 7);
    let mut ring = RingFile::create(&folder, 7, 100, 64);
    for thread in 0..20u32 {
        for _ in 0..10 {
            let now = timestamp();
            ring.call(now..now + 100, 0, [0; 4]);
        }
        ring.set_dropped(u64::from(thread) + 1);
        // What an ended thread leaves in flight stays open, and is not the next one's.
        if thread % 2 == 1 {
            ring.begin(timestamp(), RawCall::default());
        }
        ring.close();
        let begun = Instant::now();
        while ring.state() != Some(RingState::Free) {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "never given back"
            );
            std::thread::sleep(Duration::from_micros(100));
        }
        ring.hand_over(101 + thread);
    }
    let (sink, report) = recording.finish();
    assert_eq!((report.calls, report.lost), (210, 20));
    let mut threads = BTreeMap::<u32, u32>::new();
    for record in &sink.records {
        if let Record::Event(event) = record
            && event.extent == Extent::Open
        {
            *threads.entry(event.tid).or_default() += 1;
        }
    }
    let expected = (0..20).map(|thread| (100 + thread, 10 + thread % 2));
    assert_eq!(threads, expected.collect());
}

#[test]
fn calls_that_no_ring_counts_are_counted() {
    let session = Session::create(Options::default()).expect("a session");
    let counters = session.folder().join("counters");
    let count = |lost: u64| {
        let file = fs::File::options().write(true).open(&counters);
        let file = file.expect("there");
        file.write_all_at(&lost.to_le_bytes(), 0).expect("written");
    };
    count(3);
    let recording = session.start(Recorded::default()).expect("threads");
    std::thread::sleep(Duration::from_millis(120));
    count(10);
    let (sink, report) = recording.finish();
    assert_eq!(report.lost, 10);
    let lost = sink.records.iter().map(|record| match record {
        Record::Lost(lost) => (lost.count, lost.pid),
        other => panic!("{other:?}"),
    });
    assert_eq!(lost.collect::<Vec<_>>(), [(3, None), (7, None)]);
}

#[test]
fn a_child_that_may_not_write_says_who_it_is_by_its_parents_rings() {
    let session = Session::create(Options::default()).expect("a session");
    let folder = session.folder().to_owned();
    let recording = session.start(Recorded::default()).expect("threads");
    describe(&folder, 7);
    let mut ring = RingFile::create(&folder, 7, 7, 64);
    let now = timestamp();
    ring.call(now..now + 100, 0, [0; 4]);
    ring.close();
    while ring.state() != Some(RingState::Free) {
        std::thread::sleep(Duration::from_micros(100));
    }
    // The parent, from behind a chroot; then its child.
    ring.say(7, "function 5 0 cuInit\n");
    let now = timestamp();
    let monotonic = crate::clock::monotonic();
    ring.say(9, "process pid=9 ppid=0 tsc_hz=1 ns=0 exe=/bin/app\n");
    ring.say(
        9,
        &format!("clock {now} {monotonic}\nnote from the child\n"),
    );
    ring.put(12, &9u32.to_le_bytes());
    ring.hand_over(9);
    ring.call(now..now + 100, 5, [0; 4]);
    let (sink, report) = recording.finish();
    let names = sink.records.iter().filter_map(|record| match record {
        Record::Event(event) if event.extent == Extent::Open => Some((event.pid, &*event.name)),
        _ => None,
    });
    let names: Vec<_> = names.collect();
    assert_eq!(names, [(7, "cuCtxSynchronize"), (9, "cuInit")]);
    assert!(
        report
            .notes
            .lines()
            .iter()
            .any(|note| note == "from the child")
    );
    assert_eq!(report.processes.len(), 2);
    assert_eq!(report.processes[1].parent, 7);
}

#[test]
fn damaged_rings_are_given_up_and_reported() {
    let session = Session::create(Options::default()).expect("a session");
    let folder = session.folder().to_owned();
    let mut ring = RingFile::create(&folder, 7, 7, 64);
    ring.set_head(u64::MAX);
    drop(ring);
    fs::write(folder.join("rings.9.0"), "garbage").expect("written");
    let recording = session.start(Recorded::default()).expect("threads");
    let (sink, report) = recording.finish();
    assert!(sink.records.is_empty());
    assert_eq!(report.notes.lines().len(), 1, "{:?}", report.notes);
}
