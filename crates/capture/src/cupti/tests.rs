//! Frames as a process writes them, calls as the injected library sees them.

use super::link::Calls;
use super::process::Process;
use super::tap::Tap;
use super::watch::Session;
use super::{frames::Frames, work};
use crate::{Deadline, Sink, SinkError};
use event::{Backend, Category, Event, Extent, Kind, Layer, Record, gpu_times};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// CUPTI's clock is this far ahead.
const AHEAD: u64 = 1_700_000_000_000_000_000;
const PID: u32 = 77;

fn frame(kind: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = gpu_times::frame(kind, payload.len()).to_vec();
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len() + gpu_times::padding(payload.len()), 0);
    bytes
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn put(record: &mut [u8], at: usize, bytes: &[u8]) {
    record[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A driver call's record of CUPTI 13.
fn api(thread: u32, correlation: u32, start: u64, end: u64) -> Vec<u8> {
    let mut record = vec![0; 40];
    put(&mut record, 0, &4u32.to_le_bytes());
    put(&mut record, 8, &(AHEAD + start).to_le_bytes());
    put(&mut record, 16, &(AHEAD + end).to_le_bytes());
    put(&mut record, 28, &thread.to_le_bytes());
    put(&mut record, 32, &correlation.to_le_bytes());
    record
}

/// A kernel's, with a length that only some version has.
fn kernel(correlation: u32, start: u64, end: u64, length: usize) -> Vec<u8> {
    let mut record = vec![0; length];
    put(&mut record, 0, &10u32.to_le_bytes());
    put(&mut record, 16, &(AHEAD + start).to_le_bytes());
    put(&mut record, 24, &(AHEAD + end).to_le_bytes());
    put(&mut record, 44, &1u32.to_le_bytes());
    put(&mut record, 48, &7u32.to_le_bytes());
    put(&mut record, 92, &correlation.to_le_bytes());
    put(&mut record, 104, &0x5000u64.to_le_bytes());
    record
}

fn records(records: &[Vec<u8>]) -> Vec<u8> {
    let mut payload = Vec::new();
    for record in records {
        payload.extend_from_slice(&(record.len() as u64).to_le_bytes());
        payload.extend_from_slice(record);
        payload.resize(payload.len() + gpu_times::padding(record.len()), 0);
    }
    frame(gpu_times::RECORDS, &payload)
}

fn process() -> Process {
    let mut process = Process::new(PID);
    for host in [0, 1_000_000_000] {
        let pair = words(&[host, AHEAD + host + 10, host + 20]);
        process.frame(gpu_times::CLOCK, &pair, 0);
    }
    let name = [&0x5000u64.to_le_bytes()[..], b"_Z4stepPiii"].concat();
    process.frame(gpu_times::NAME, &name, 0);
    process
}

fn give(process: &mut Process, frame: &[u8]) {
    let (kind, bytes) = gpu_times::header(frame).expect("a frame");
    process.frame(kind, &frame[16..16 + bytes], 0);
}

fn call(id: u64, layer: Layer, tid: u32, start: u64, end: u64) -> Event {
    let name = if layer == Layer::Runtime {
        "cudaLaunchKernel"
    } else {
        "cuLaunchKernel"
    };
    let mut event = Event::new(id, layer, Category::Kernel, name, start);
    (event.pid, event.tid) = (PID, tid);
    event.extent = Extent::Closed(end - start);
    event.context = Some(0xc0);
    event.stream = Some(0xabc);
    event
}

#[test]
fn work_finds_the_call_of_its_own_thread_in_all_versions() {
    let calls = Calls::default();
    // Two threads launch at the same time, one through the runtime, whose driver call is inside.
    calls.add(&call(2, Layer::Driver, 1, 1_200, 1_900));
    calls.add(&call(1, Layer::Runtime, 1, 1_000, 2_000));
    calls.add(&call(3, Layer::Driver, 2, 1_100, 2_100));
    calls.add(&call(4, Layer::Driver, 2, 2_300, 2_900));
    calls.until(10_000);
    let mut process = process();
    give(
        &mut process,
        &records(&[
            api(1, 51, 1_050, 1_950),
            api(2, 52, 1_150, 2_050),
            api(2, 53, 2_350, 2_850),
            kernel(52, 3_000, 3_500, 160),
            kernel(51, 3_500, 3_600, 208),
            kernel(53, 3_600, 3_700, 216),
            kernel(99, 4_000, 4_100, 248),
        ]),
    );
    let mut found = process.take_work(&calls, 1, true);
    found.sort_by_key(|work| work.start);
    let causes: Vec<Option<u64>> = (found.iter())
        .map(|work| work.cause.map(|cause| cause.id))
        .collect();
    assert_eq!(causes, [Some(3), Some(2), Some(4), None]);
    assert_eq!(process.counts.unlinked, 1);
    let event = work::event(&found[0], 9);
    assert_eq!(&*event.name, "step(int*, int, int)");
    assert_eq!((event.start, event.duration()), (3_000, Some(500)));
    assert_eq!((event.context, event.stream), (Some(0xc0), Some(0xabc)));
    assert_eq!(event.correlation, Some(3));
    // What the calls have taught holds for work without one.
    let event = work::event(&found[3], 10);
    assert_eq!((event.context, event.stream), (Some(0xc0), Some(0xabc)));
}

#[test]
fn work_waits_for_calls_that_have_not_been_seen_yet() {
    let calls = Calls::default();
    let mut process = process();
    give(&mut process, &records(&[kernel(51, 3_000, 3_500, 216)]));
    assert!(process.take_work(&calls, 1, false).is_empty());
    assert_eq!(process.earliest_waiting(), Some(3_000));
    give(&mut process, &records(&[api(1, 51, 1_050, 1_950)]));
    assert!(process.take_work(&calls, 1, false).is_empty());
    calls.add(&call(7, Layer::Driver, 1, 1_000, 2_000));
    let found = process.take_work(&calls, 1, false);
    assert_eq!(found[0].cause.map(|cause| cause.id), Some(7));
    assert_eq!(process.earliest_waiting(), None);
    // A call that nobody saw is not waited for once all calls of its time are known.
    give(
        &mut process,
        &records(&[api(9, 60, 5_000, 6_000), kernel(60, 6_000, 7_000, 216)]),
    );
    assert!(process.take_work(&calls, 1, false).is_empty());
    calls.until(2_000_000_000);
    assert_eq!(process.take_work(&calls, 1, false).len(), 1);
}

/// A deep queue: the work comes long after its call, which is not kept that long.
#[test]
fn calls_are_found_before_their_work_comes() {
    let calls = Calls::default();
    calls.add(&call(7, Layer::Driver, 1, 1_000, 2_000));
    let mut process = process();
    give(&mut process, &records(&[api(1, 51, 1_050, 1_950)]));
    assert!(process.take_work(&calls, 1, false).is_empty());
    calls.forget(u64::MAX);
    calls.until(u64::MAX);
    give(&mut process, &records(&[kernel(51, 90_000, 91_000, 216)]));
    let found = process.take_work(&calls, 1, false);
    assert_eq!(found[0].cause.map(|cause| cause.id), Some(7));
}

#[test]
fn a_runtime_without_symbols_is_known_by_the_driver_call_inside() {
    let calls = Calls::default();
    // CUPTI tells of the runtime's call; only the driver's below it was seen, off its middle.
    calls.add(&call(5, Layer::Driver, 1, 1_100, 1_300));
    calls.add(&call(6, Layer::Driver, 1, 9_000, 9_900));
    calls.until(20_000);
    let mut process = process();
    give(
        &mut process,
        &records(&[api(1, 51, 1_000, 5_000), kernel(51, 6_000, 7_000, 216)]),
    );
    let found = process.take_work(&calls, 1, false);
    assert_eq!(found[0].cause.map(|cause| cause.id), Some(5));
}

/// Some 200,000 launches from eight threads, with times as close as they come.
#[test]
fn every_launch_of_many_threads_is_told_apart() {
    const EACH: u64 = 25_000;
    let calls = Calls::default();
    let mut process = process();
    let (mut given, mut expected) = (Vec::new(), Vec::new());
    let mut correlation = 0;
    for step in 0..EACH {
        for thread in 0..8u32 {
            correlation += 1;
            let jitter = (step * 7919 + u64::from(thread) * 104_729) % 700;
            let start = step * 4_000 + jitter;
            let id = u64::from(correlation) * 3;
            calls.add(&call(id, Layer::Driver, thread, start, start + 3_200));
            given.push(api(thread, correlation, start + 90, start + 3_100));
            given.push(kernel(correlation, start + 3_000, start + 3_500, 216));
            expected.push(id);
        }
    }
    calls.until(u64::MAX);
    for part in given.chunks(4_096) {
        give(&mut process, &records(part));
    }
    let found = process.take_work(&calls, 1, false);
    let found: Vec<u64> = found
        .iter()
        .map(|work| work.cause.expect("a cause").id)
        .collect();
    assert_eq!(found, expected);
}

/// Launches of 300 ns, 20 ns apart, of a clock that is known within 400: a neighbour is as near as that.
/// What CUPTI tells comes before the calls have been seen, or some of them, or all.
#[test]
fn back_to_back_launches_are_not_given_to_their_neighbours() {
    const EACH: u64 = 2_000;
    for seen_before in [0, 1, 500, EACH] {
        let calls = Calls::default();
        let mut process = Process::new(PID);
        for host in [0, 1_000_000_000] {
            let pair = words(&[host, AHEAD + host + 400, host + 800]);
            process.frame(gpu_times::CLOCK, &pair, 0);
        }
        let (mut given, mut expected) = (Vec::new(), Vec::new());
        let event = |step: u64, thread: u32| {
            let start = 1_000 + step * 320 + u64::from(thread) * 40;
            let id = 1 + step * 8 + u64::from(thread);
            let mut event = call(id, Layer::Driver, thread, start, start + 300);
            event.stream = Some(0x100 + u64::from(thread % 4));
            event
        };
        for step in 0..EACH {
            for thread in 0..8u32 {
                let seen = event(step, thread);
                let correlation = seen.id as u32;
                given.push(api(thread, correlation, seen.start + 60, seen.start + 250));
                let mut kernel = kernel(correlation, seen.start + 9_000, seen.start + 9_100, 216);
                put(&mut kernel, 48, &(7 + thread % 4).to_le_bytes());
                given.push(kernel);
                expected.push((u64::from(correlation), seen.id, seen.stream));
            }
        }
        let see = |steps: std::ops::Range<u64>| {
            for step in steps {
                for thread in 0..8 {
                    calls.add(&event(step, thread));
                }
            }
        };
        see(0..seen_before);
        for part in given.chunks(1_000) {
            give(&mut process, &records(part));
        }
        let mut found = process.take_work(&calls, 1, false);
        see(seen_before..EACH);
        calls.until(u64::MAX);
        found.extend(process.take_work(&calls, 1, false));
        let mut found: Vec<_> = (found.iter())
            .map(|work| {
                let Event {
                    correlation,
                    stream,
                    ..
                } = work::event(work, 1);
                let number = super::process::place(&work.record).correlation;
                (u64::from(number), correlation.expect("a call"), stream)
            })
            .collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{seen_before} seen before");
    }
}

#[test]
fn a_neighbour_is_no_cause_where_the_call_itself_was_seen() {
    let calls = Calls::default();
    // Another call ended just before; of this one only the runtime's part was seen.
    calls.add(&call(3, Layer::Driver, 1, 900, 1_000));
    calls.add(&call(4, Layer::Runtime, 1, 1_010, 1_400));
    calls.until(u64::MAX);
    let mut process = process();
    give(
        &mut process,
        &records(&[api(1, 51, 1_050, 1_350), kernel(51, 2_000, 3_000, 216)]),
    );
    let found = process.take_work(&calls, 1, false);
    assert_eq!(found[0].cause.map(|cause| cause.id), Some(4));
}

/// A synchronisation record of CUPTI 13.
fn wait(kind: u32, correlation: u32, start: u64, end: u64, stream: u32, event: u32) -> Vec<u8> {
    let mut record = vec![0; 56];
    put(&mut record, 0, &38u32.to_le_bytes());
    put(&mut record, 4, &kind.to_le_bytes());
    put(&mut record, 8, &(AHEAD + start).to_le_bytes());
    put(&mut record, 16, &(AHEAD + end).to_le_bytes());
    for (at, word) in [(24, correlation), (28, 1), (32, stream), (36, event)] {
        put(&mut record, at, &word.to_le_bytes());
    }
    record
}

#[test]
fn waits_lie_on_their_threads_and_are_no_work() {
    let calls = Calls::default().with_waits(true);
    // A copy that waits inside, and after it a wait of its own.
    let mut inner = call(2, Layer::Driver, 1, 1_400, 1_900);
    (inner.category, inner.name) = (Category::Sync, "cuStreamSynchronize".into());
    assert!(calls.wants(&inner) && !Calls::default().wants(&inner));
    let mut own = call(4, Layer::Driver, 1, 3_000, 3_900);
    (own.category, own.name) = (Category::Sync, "cuStreamSynchronize".into());
    let copy = call(1, Layer::Driver, 1, 1_100, 1_300);
    for seen in [&copy, &inner, &own] {
        calls.add(seen);
    }
    calls.until(u64::MAX);
    let mut process = process();
    give(
        &mut process,
        &records(&[
            // CUPTI tells of the runtime's copy, whose driver calls were seen.
            api(1, 51, 1_000, 2_000),
            api(1, 52, 3_050, 3_850),
            kernel(51, 1_250, 1_350, 216),
            wait(3, 52, 3_100, 3_800, 7, u32::MAX),
            wait(1, 52, 3_100, 3_800, u32::MAX, 5),
        ]),
    );
    let found = process.take_work(&calls, 1, true);
    let causes: Vec<Option<u64>> = (found.iter())
        .map(|work| work.cause.map(|cause| cause.id))
        .collect();
    assert_eq!(causes, [Some(1), Some(4), Some(4)]);
    assert_eq!((process.counts.kernels, process.counts.waits), (1, 2));
    let event = work::event(&found[1], 9);
    assert_eq!(
        (event.kind, event.category),
        (Kind::GpuWait, Category::Sync)
    );
    assert_eq!((&*event.name, event.tid), ("wait for stream", 1));
    assert_eq!((event.start, event.duration()), (3_100, Some(700)));
    assert_eq!((event.stream, event.correlation), (Some(0xabc), Some(4)));
    let event = work::event(&found[2], 9);
    assert_eq!((&*event.name, event.stream), ("wait for event", None));
    assert_eq!(event.arg("event").and_then(event::Value::as_u64), Some(5));
}

#[test]
fn damage_ends_a_file_and_never_the_tracer() {
    let mut seed = 7u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let whole = [
        frame(gpu_times::NOTE, b"x"),
        records(&[
            api(1, 1, 10, 20),
            kernel(1, 30, 40, 216),
            wait(3, 1, 12, 18, 7, 9),
        ]),
    ]
    .concat();
    for _ in 0..500 {
        let mut bytes = whole.clone();
        for _ in 0..1 + random() % 8 {
            let at = random() as usize % bytes.len();
            bytes[at] = random() as u8;
        }
        bytes.truncate(random() as usize % (bytes.len() + 1));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cupti.1.2");
        std::fs::write(&path, &bytes).expect("writable");
        let mut process = process();
        let mut frames = Frames::open(&path).expect("there");
        frames.read(|kind, payload| process.frame(kind, payload, 0));
        for work in process.take_work(&Calls::default(), 1, true) {
            work::event(&work, 1);
        }
    }
}

#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<Vec<Record>>>);

impl Sink for Recorded {
    fn begin(&mut self, _: Backend) -> Result<(), SinkError> {
        Ok(())
    }
    fn write(&mut self, record: &mut Record) -> Result<(), SinkError> {
        self.0.lock().expect("not poisoned").push(record.clone());
        Ok(())
    }
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Short programs are not held up until the next look, 20 ms later.
#[test]
fn a_session_ends_when_it_is_told_to() {
    let quickest = (0..10).map(|_| {
        let session = Session::create(Calls::default()).expect("a session");
        let recording = session
            .start(Recorded::default(), Deadline::default())
            .expect("a thread");
        std::thread::sleep(Duration::from_millis(3));
        let told = Instant::now();
        recording.finish();
        told.elapsed()
    });
    let quickest = quickest.min().expect("ten");
    assert!(quickest < Duration::from_millis(8), "{quickest:?}");
}

#[test]
fn a_session_reads_what_a_process_appends_and_gives_spans_in_order() {
    let calls = Calls::default();
    let session = Session::create(calls.clone()).expect("a session");
    let variables = session
        .environment("/lib/a.so".as_ref(), None)
        .expect("nobody else");
    assert!(
        session
            .environment("/a".as_ref(), Some("/x".as_ref()))
            .is_none()
    );
    let folder = variables[0].1.clone();
    let kept = Recorded::default();
    let recording = session
        .start(kept.clone(), Deadline::default())
        .expect("a thread");
    let mut tap = Tap::new(Recorded::default(), Some(calls));
    let seen = call(4, Layer::Driver, 1, 1_000, 2_000);
    tap.give(Record::Event(seen)).expect("kept");
    let path = std::path::Path::new(&folder).join("cupti.77.1");
    let mut file = std::fs::File::create(path).expect("writable");
    let pair = words(&[0, AHEAD + 10, 20]);
    for part in [
        frame(gpu_times::BEGIN, b"version=130000 path=/x/libcupti.so.13"),
        frame(gpu_times::CLOCK, &pair),
        records(&[kernel(51, 3_000, 9_000, 216), kernel(51, 4_000, 5_000, 216)]),
        records(&[api(1, 51, 1_050, 1_950)]),
        frame(gpu_times::DROPPED, &words(&[12])),
        frame(gpu_times::END, &[]),
    ] {
        // In pieces: readers see half a frame.
        let (a, b) = part.split_at(part.len() / 2);
        file.write_all(a).expect("writable");
        file.flush().expect("writable");
        file.write_all(b).expect("writable");
    }
    let tapped = tap.finish();
    let (_, report) = recording.finish();
    assert_eq!((report.counts.kernels, report.counts.unlinked), (2, 0));
    assert!(
        report.notes.lines().iter().any(|note| note.contains("12")),
        "{:?}",
        report.notes
    );
    let clock = report.clocks.first().expect("known");
    assert_eq!((clock.pairs, clock.error_ns), (1, 10));
    let records = kept.0.lock().expect("not poisoned");
    let lost = records.iter().filter_map(|record| match record {
        Record::Lost(lost) => Some(lost.count),
        _ => None,
    });
    assert_eq!(lost.collect::<Vec<_>>(), [12]);
    let shown: Vec<(u64, bool)> = (records.iter())
        .filter_map(|record| match record {
            Record::Event(event) => {
                assert_eq!(event.correlation, Some(4));
                Some((record.ts(), event.extent == Extent::Open))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        shown,
        [(3_000, true), (4_000, true), (5_000, false), (9_000, false)]
    );
    let passed = tapped.0.lock().expect("not poisoned");
    assert!(matches!(&passed[0], Record::Event(event) if event.correlation == Some(4)));
}

fn timed(kind: u64, thread: u32, given: u64, taken: u64) -> gpu_times::Timed {
    gpu_times::Timed {
        kind,
        thread: thread.into(),
        given,
        taken,
        start: taken + 100,
        end: taken + 900,
        error: 4_000,
        clock_error: 700,
        every: 1,
        ..gpu_times::Timed::default()
    }
}

#[test]
fn work_between_events_gets_its_name_from_the_call_around_it() {
    let calls = Calls::default();
    let mut process = process();
    let pieces = [
        timed(gpu_times::Timed::KERNEL, 1, 1_250, 1_800),
        timed(gpu_times::Timed::GRAPH, 1, 3_100, 3_200),
        // Damaged: it ends before it begins.
        gpu_times::Timed {
            end: 1,
            ..timed(gpu_times::Timed::COPY, 1, 1, 2)
        },
    ];
    let payload: Vec<u8> = pieces.iter().flat_map(|piece| piece.encode()).collect();
    give(&mut process, &frame(gpu_times::TIMED, &payload));
    give(&mut process, &frame(gpu_times::COUNTED, &words(&[9, 3, 1])));
    assert!(process.take_work(&calls, 1, false).is_empty());
    // A call that ended just before is not it.
    calls.add(&call(7, Layer::Driver, 1, 700, 990));
    assert!(process.take_work(&calls, 1, false).is_empty());
    // The driver's call has ended, the runtime's around it, which says what was launched, has not. By
    // their clocks the inner one begins first.
    calls.add(&call(2, Layer::Driver, 1, 1_000, 1_900));
    assert!(process.take_work(&calls, 1, false).is_empty());
    let outer = call(1, Layer::Runtime, 1, 1_010, 2_000);
    calls.add(&outer);
    let launch = event::Launch {
        kernel: "step".into(),
        grid: [1; 3],
        block: [1; 3],
        shared: 0,
    };
    calls.meant(&event::Meaning::of(&outer, event::What::Launch(launch)));
    let found = process.take_work(&calls, 1, false);
    assert_eq!(found.len(), 1, "the graph's call has not come");
    let told = work::event(&found[0], 5);
    assert_eq!((&*told.name, told.correlation), ("step", Some(2)));
    assert_eq!(
        told.arg("source").and_then(event::Value::as_str),
        Some("events")
    );
    assert_eq!((told.start, told.duration()), (1_900, Some(800)));
    let found = process.take_work(&calls, 1, true);
    assert_eq!(&*work::event(&found[0], 6).name, "graph");
    assert_eq!((process.counts.kernels, process.counts.graphs), (1, 1));
    assert_eq!((process.counted, process.timed_error), ([9, 3, 1], 700));
}
