//! Records of several sources become one trace.

use super::*;
use crate::SinkError;
use event::{Category, Event, Extent, Hooks, Kind, Layer, Lost, Meaning, What};
use std::sync::{Arc, Mutex};

#[derive(Default, Clone)]
struct Recorded {
    records: Arc<Mutex<Vec<Record>>>,
    begun: Arc<Mutex<Vec<Backend>>>,
    room: Option<usize>,
}

impl Sink for Recorded {
    fn begin(&mut self, backend: Backend) -> Result<(), SinkError> {
        assert!(
            self.records.lock().unwrap().is_empty(),
            "before all records"
        );
        self.begun.lock().unwrap().push(backend);
        Ok(())
    }

    fn write(&mut self, record: &mut Record) -> Result<(), SinkError> {
        let mut records = self.records.lock().unwrap();
        if self.room.is_some_and(|room| records.len() >= room) {
            return Err(std::io::Error::other("no room").into());
        }
        records.push(record.clone());
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

const WINDOW: Duration = Duration::from_millis(100);

fn span(id: u64, layer: Layer, start: u64, extent: Extent) -> Record {
    let mut event = Event::new(id, layer, Category::Memory, layer.as_str(), start);
    event.extent = extent;
    (event.pid, event.tid) = (1, 2);
    event.into()
}

fn backend(name: &str) -> Backend {
    Backend {
        name: name.into(),
        hooks: Hooks::default(),
        missing: Vec::new(),
    }
}

/// `layer id/parent@depth~correlation`, and B, E or i.
fn lines(kept: &Recorded) -> Vec<String> {
    let records = kept.records.lock().unwrap();
    let line = |record: &Record| match record {
        Record::Event(event) => {
            let phase = match event.extent {
                Extent::Open => "B",
                Extent::Closed(_) => "E",
                Extent::Instant => "i",
            };
            format!(
                "{} {phase} {}/{}@{}~{}",
                event.name,
                event.id,
                event.parent.unwrap_or(0),
                event.depth,
                event.correlation.unwrap_or(0)
            )
        }
        Record::Meaning(meaning) => format!("meaning {}", meaning.op),
        Record::Lost(lost) => format!("lost {}", lost.count),
    };
    records.iter().map(line).collect()
}

fn merge(kept: &Recorded) -> Merge<Nested<Recorded>> {
    Merge::new(Nested::new(kept.clone()), WINDOW).expect("a thread")
}

/// Two sources of one back end are merged, and that into all others: nobody overtakes what waits
/// in the inner merge, though it waits for longer than a window.
#[test]
fn a_merge_inside_of_a_merge_is_waited_for() {
    let kept = Recorded::default();
    let mut outer = merge(&kept);
    let (mut calls, inlet) = (outer.source("preload"), outer.source("ebpf"));
    let mut inner = Merge::new(inlet, WINDOW).expect("a thread");
    let (mut ioctls, silent) = (inner.source("system calls"), inner.source("calls"));
    calls.begin(backend("preload")).unwrap();
    ioctls.begin(backend("system calls")).unwrap();
    let start = crate::clock::monotonic();
    // The other source has not begun: the inner merge keeps this for a second.
    ioctls
        .give(span(1, Layer::Syscall, start + 10, Extent::Open))
        .unwrap();
    ioctls.until(start + 20);
    std::thread::sleep(Duration::from_millis(50));
    calls
        .give(span(1, Layer::Driver, start, Extent::Open))
        .unwrap();
    calls
        .give(span(1, Layer::Driver, start, Extent::Closed(100)))
        .unwrap();
    calls.until(start + 1_000);
    // Longer than the window, shorter than that second.
    std::thread::sleep(3 * WINDOW);
    ioctls
        .give(span(1, Layer::Syscall, start + 10, Extent::Closed(5)))
        .unwrap();
    drop((ioctls, silent));
    inner.finish().sink.finish();
    drop(calls);
    let merged = outer.finish();
    let names: Vec<String> = lines(&kept)
        .iter()
        .map(|line| line[..line.len().min(9)].to_owned())
        .collect();
    assert_eq!(names, ["driver B ", "syscall B", "syscall E", "driver E "]);
    assert_eq!(merged.late, 0);
    let begun = kept.begun.lock().unwrap();
    let names: Vec<&str> = begun.iter().map(|backend| &*backend.name).collect();
    assert_eq!(names, ["preload", "system calls", "calls"]);
}

#[test]
fn an_ioctl_lies_in_the_call_that_made_it() {
    let kept = Recorded::default();
    let mut merge = merge(&kept);
    let (mut calls, mut ioctls) = (merge.source("preload"), merge.source("syscall"));
    calls.begin(backend("preload")).unwrap();
    ioctls.begin(backend("syscall")).unwrap();
    // The system calls come in first, though the call around them was earlier.
    for record in [
        span(1, Layer::Syscall, 30, Extent::Open),
        span(1, Layer::Syscall, 30, Extent::Closed(10)),
        span(2, Layer::Syscall, 200, Extent::Open),
        span(2, Layer::Syscall, 200, Extent::Closed(1)),
    ] {
        ioctls.give(record).unwrap();
    }
    drop(ioctls);
    let mut closed = Event::new(2, Layer::Driver, Category::Memory, "cuMemAlloc_v2", 20);
    closed.extent = Extent::Closed(40);
    let memory = event::Memory {
        op: event::MemoryOp::Alloc,
        size: Some(4),
        ptr: 4,
        space: None,
    };
    for record in [
        span(1, Layer::Runtime, 10, Extent::Open),
        span(2, Layer::Driver, 20, Extent::Open),
        span(2, Layer::Driver, 20, Extent::Closed(40)),
        Meaning::of(&closed, What::Memory(memory)).into(),
        span(1, Layer::Runtime, 10, Extent::Closed(90)),
    ] {
        calls.give(record).unwrap();
    }
    calls.finish();
    let merged = merge.finish();
    assert_eq!((merged.late, merged.unwritten), (0, 0));
    assert_eq!(
        lines(&kept),
        [
            "runtime B 1/0@0~0",
            "driver B 3/1@1~0",
            "syscall B 2/3@2~1",
            "syscall E 2/3@2~1",
            "driver E 3/1@1~0",
            "meaning 3",
            "runtime E 1/0@0~0",
            "syscall B 4/0@0~0",
            "syscall E 4/0@0~0",
        ]
    );
    let begun = kept.begun.lock().unwrap();
    let names: Vec<&str> = begun.iter().map(|backend| &*backend.name).collect();
    assert_eq!(names, ["preload", "syscall"]);
}

/// Whole spans are told once; what other sources saw meanwhile is inside of them all the same.
#[test]
fn a_whole_span_is_split_where_something_happened_in_it() {
    let kept = Recorded::default();
    let mut merge = merge(&kept);
    let (mut calls, mut work) = (merge.source_of_calls("preload"), merge.source("cupti"));
    calls.begin(backend("preload")).unwrap();
    work.begin(backend("cupti")).unwrap();
    let mut kernel = |id, start, length, call| {
        let Record::Event(mut event) = span(id, Layer::Gpu, start, Extent::Closed(length)) else {
            unreachable!("a span");
        };
        event.correlation = Some(call);
        work.give_whole(event.into()).unwrap();
    };
    // They overlap, and the second ends first.
    kernel(1, 25, 200, 1);
    kernel(2, 28, 60, 1);
    drop(work);
    for (id, start, length) in [(1, 10, 5), (2, 20, 10), (3, 50, 38)] {
        let mut call = span(id, Layer::Driver, start, Extent::Closed(length));
        match id {
            1 => calls.write_whole(&mut call).unwrap(),
            _ => calls.give_whole(call).unwrap(),
        }
    }
    calls.finish();
    let merged = merge.finish();
    assert_eq!((merged.late, merged.unwritten), (0, 0));
    assert_eq!(
        lines(&kept),
        [
            "driver B 1/0@0~0",
            "driver E 1/0@0~0",
            "driver B 3/0@0~0",
            "gpu B 2/0@0~1",
            "gpu B 4/0@0~1",
            "driver E 3/0@0~0",
            "driver B 5/0@0~0",
            // Of one moment, the first source's is first.
            "driver E 5/0@0~0",
            "gpu E 4/0@0~1",
            "gpu E 2/0@0~1",
        ]
    );
}

#[test]
fn clocks_that_differ_a_little_lose_nothing() {
    let kept = Recorded::default();
    let mut merge = merge(&kept);
    let (mut calls, mut ioctls) = (merge.source("preload"), merge.source("syscall"));
    calls
        .give(span(1, Layer::Driver, 10, Extent::Open))
        .unwrap();
    calls
        .give(span(1, Layer::Driver, 10, Extent::Closed(20)))
        .unwrap();
    ioctls
        .give(span(1, Layer::Syscall, 20, Extent::Open))
        .unwrap();
    // It seems to end after the call that it was made in.
    ioctls
        .give(span(1, Layer::Syscall, 20, Extent::Closed(15)))
        .unwrap();
    drop((calls, ioctls));
    merge.finish();
    assert_eq!(lines(&kept)[3], "syscall E 2/1@1~1");
}

#[test]
fn what_is_no_thread_of_the_host_is_left_alone() {
    let kept = Recorded::default();
    let mut merge = merge(&kept);
    let (mut calls, mut gpu) = (merge.source_of_calls("preload"), merge.source("cupti"));
    calls
        .give(span(1, Layer::Driver, 10, Extent::Open))
        .unwrap();
    let Record::Event(mut work) = span(1, Layer::Gpu, 12, Extent::Closed(5)) else {
        unreachable!()
    };
    work.correlation = Some(77);
    gpu.give(work.into()).unwrap();
    let Record::Event(mut interrupt) = span(2, Layer::Os, 18, Extent::Instant) else {
        unreachable!()
    };
    interrupt.kind = Kind::Interrupt;
    gpu.give(interrupt.into()).unwrap();
    gpu.give(span(3, Layer::Os, 19, Extent::Instant)).unwrap();
    drop((calls, gpu));
    merge.finish();
    assert_eq!(
        lines(&kept),
        [
            "driver B 1/0@0~0",
            // The call that GPU work names is one of preload's, by its id there: 77 of two sources.
            "gpu E 2/0@0~153",
            "os i 4/0@0~0",
            "os i 6/1@1~0"
        ]
    );
}

#[test]
fn records_wait_for_a_source_that_says_where_it_is() {
    let kept = Recorded::default();
    let mut merge = merge(&kept);
    let (mut slow, mut quick) = (merge.source("preload"), merge.source("syscall"));
    for inlet in [&mut slow, &mut quick] {
        inlet.begin(backend("x")).unwrap();
    }
    let now = crate::clock::monotonic();
    slow.until(now - 10);
    for step in 0..3 {
        let at = now + step;
        quick
            .give(span(step + 1, Layer::Syscall, at, Extent::Instant))
            .unwrap();
    }
    quick.flush().unwrap();
    std::thread::sleep(WINDOW * 3);
    assert!(lines(&kept).is_empty(), "the slow one is still before them");
    slow.give(span(1, Layer::Driver, now - 5, Extent::Instant))
        .unwrap();
    slow.until(now + 1);
    let waited = std::time::Instant::now();
    while lines(&kept).len() < 3 && waited.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(lines(&kept).len(), 3, "those up to where it is");
    // One that never says anything is taken to be a window behind the clock.
    slow.until(u64::MAX);
    drop(slow);
    drop(quick);
    assert_eq!(merge.finish().late, 0);
    assert_eq!(lines(&kept)[0], "driver i 1/0@0~0");
    assert_eq!(lines(&kept).len(), 4);
}

#[test]
fn a_sink_that_fails_does_not_stop_the_sources() {
    let kept = Recorded {
        room: Some(2),
        ..Recorded::default()
    };
    let mut merge = merge(&kept);
    let mut source = merge.source("preload");
    for id in 1..=1000 {
        source
            .give(span(id, Layer::Driver, id, Extent::Instant))
            .unwrap();
    }
    let lost = Lost {
        ts: 2000,
        count: 3,
        source: None,
        layer: None,
        pid: None,
        tid: None,
    };
    source.give(lost.into()).unwrap();
    drop(source);
    let merged = merge.finish();
    assert_eq!(merged.unwritten, 999);
    assert_eq!(merged.failure.unwrap().to_string(), "no room");
}

#[test]
fn late_records_are_written_and_counted() {
    let kept = Recorded::default();
    let mut merge = merge(&kept);
    let mut source = merge.source("preload");
    for at in [5, 9, 7] {
        source
            .give(span(at, Layer::Driver, at, Extent::Instant))
            .unwrap();
    }
    drop(source);
    let merged = merge.finish();
    assert_eq!(merged.late, 1);
    assert_eq!(lines(&kept).len(), 3);
}

#[test]
fn threads_that_died_are_forgotten() {
    let mut nesting = nesting::Nesting::default();
    for tid in 0..200_000 {
        let Record::Event(mut event) = span(u64::from(tid) + 1, Layer::Driver, 1, Extent::Open)
        else {
            unreachable!()
        };
        event.tid = tid;
        nesting.place(&mut event);
    }
    assert!(nesting.threads() <= 1 << 16);
}

/// A source that is alone: no merge, the same parents.
fn alone(kept: &Recorded, records: Vec<Record>) -> Vec<String> {
    let mut nested = Nested::new(kept.clone());
    for record in records {
        nested.give(record).unwrap();
    }
    lines(kept)
}

#[test]
fn a_thread_that_begins_lies_in_nothing_that_was_left_open() {
    let kept = Recorded::default();
    let mut merge = merge(&kept);
    let (mut calls, other) = (merge.source("preload"), merge.source("syscall"));
    calls
        .give(span(1, Layer::Driver, 10, Extent::Open))
        .unwrap();
    // Another program in the same process: the first never returned from its call.
    calls.thread_begins(1, 2, 20).unwrap();
    calls
        .give(span(2, Layer::Driver, 20, Extent::Open))
        .unwrap();
    calls
        .give(span(3, Layer::Driver, 21, Extent::Open))
        .unwrap();
    drop((calls, other));
    merge.finish();
    let expected = ["driver B 1/0@0~0", "driver B 3/0@0~0", "driver B 5/3@1~0"];
    assert_eq!(lines(&kept), expected);
}

#[test]
fn ranges_outlive_the_calls_that_they_were_begun_in() {
    let range = |id, start, extent| {
        let Record::Event(mut event) = span(id, Layer::Library, start, extent) else {
            unreachable!()
        };
        event.kind = Kind::Range;
        Record::Event(event)
    };
    let records = vec![
        span(1, Layer::Driver, 10, Extent::Open),
        range(2, 11, Extent::Open),
        span(1, Layer::Driver, 10, Extent::Closed(10)),
        span(3, Layer::Driver, 30, Extent::Open),
        // It ends inside of a call, which goes on.
        range(2, 11, Extent::Closed(20)),
        span(4, Layer::Driver, 33, Extent::Instant),
        span(3, Layer::Driver, 30, Extent::Closed(9)),
    ];
    let expected = [
        "driver B 1/0@0~0",
        "library B 2/1@1~0",
        "driver E 1/0@0~0",
        "driver B 3/2@1~0",
        "library E 2/1@1~0",
        "driver i 4/3@1~0",
        "driver E 3/2@1~0",
    ];
    assert_eq!(alone(&Recorded::default(), records), expected);
}

#[test]
fn interrupts_lie_in_the_kernels_functions_and_in_no_call() {
    let on = |cpu: u32, tid: u32, id, layer, start, extent| {
        let Record::Event(mut event) = span(id, layer, start, extent) else {
            unreachable!()
        };
        (event.tid, event.cpu) = (tid, Some(cpu));
        if layer == Layer::Os {
            event.kind = Kind::Interrupt;
        }
        Record::Event(event)
    };
    let records = vec![
        on(0, 2, 1, Layer::Driver, 10, Extent::Open),
        on(0, 2, 2, Layer::Os, 11, Extent::Instant),
        on(0, 2, 3, Layer::Kernel, 12, Extent::Open),
        on(0, 2, 4, Layer::Os, 13, Extent::Open),
        on(0, 2, 5, Layer::Kernel, 14, Extent::Instant),
        // Every processor has a thread 0.
        on(0, 0, 6, Layer::Kernel, 20, Extent::Open),
        on(1, 0, 7, Layer::Kernel, 21, Extent::Instant),
        on(0, 0, 8, Layer::Kernel, 22, Extent::Instant),
    ];
    let expected = [
        "driver B 1/0@0~0",
        "os i 2/0@0~0",
        "kernel B 3/1@1~1",
        "os B 4/3@2~0",
        "kernel i 5/4@3~1",
        "kernel B 6/0@0~0",
        "kernel i 7/0@0~0",
        "kernel i 8/6@1~0",
    ];
    assert_eq!(alone(&Recorded::default(), records), expected);
}
