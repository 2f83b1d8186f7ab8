//! A whole session over hand-made files, with its threads and its clock.

use super::calls::{Kept, lines};
use super::{Call, RingFile};
use crate::preload::clock::timestamp;
use crate::preload::{Options, Session};
use event::Record;
use std::fs;
use std::path::Path;
use std::time::Duration;

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
    let recording = session.start(Kept::default()).expect("threads");
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
    other.begin(timestamp(), Call::default());
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
    let running =
        "processes that were still running when the command ended, and are traced no longer: 1";
    assert_eq!(report.notes, ["something odd", running]);
    assert_eq!(report.processes[0].exe, "/bin/app");
    assert!(report.clock.error_ns < 1_000_000, "{:?}", report.clock);
    assert!(!folder.exists(), "the session leaves nothing behind");
}

#[test]
fn damaged_rings_are_given_up_and_reported() {
    let session = Session::create(Options::default()).expect("a session");
    let folder = session.folder().to_owned();
    let mut ring = RingFile::create(&folder, 7, 7, 64);
    ring.set_head(u64::MAX);
    fs::write(folder.join("ring.9.9.0"), "garbage").expect("written");
    let recording = session.start(Kept::default()).expect("threads");
    let (sink, report) = recording.finish();
    assert!(sink.records.is_empty());
    assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
}
