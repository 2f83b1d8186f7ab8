//! Calls one after the other, whole, on small traces and on odd ones.

mod traces;

use event::{Arg, Category, Event, Extent, Kind, Layer, Meta, Record, Selection, Value};
use render::{Output, Replay, Style, replay::Options};
use traces::{Builder, START, inference, meta};

fn replayed(records: &[Record], options: Options) -> String {
    let mut out = Vec::new();
    let mut replay = Replay::new(&mut out, &meta(), options);
    for record in records {
        replay.record(record).expect("memory can be written");
    }
    replay.finish(None).expect("memory can be written");
    drop(replay);
    String::from_utf8(out).expect("UTF-8")
}

fn ascii() -> Options {
    Options {
        style: Style {
            unicode: false,
            ..Style::default()
        },
        ..Options::default()
    }
}

#[test]
fn a_run() {
    insta::assert_snapshot!("run_unicode", replayed(&inference(), Options::default()));
    let text = replayed(&inference(), ascii());
    assert!(text.is_ascii());
    insta::assert_snapshot!("run_ascii", text);
}

/// A GPU is sampled ten times a second: a program that takes its time to begin would be hidden behind its samples.
#[test]
fn samples_in_a_row_are_one_line() {
    let mut records = Vec::new();
    for number in 0..6u64 {
        let at = START + number * 1_000;
        let (id, layer) = (number + 1, Layer::Gpu);
        let mut sample = Event::new(id, layer, Category::Other, "nvml", at);
        sample.kind = Kind::Counter;
        sample.device = Some(0);
        sample.args = vec![Arg::new("gpu_percent", number)];
        if number == 4 {
            sample = Event::new(id, Layer::Driver, Category::Memory, "cuMemFree_v2", at);
        }
        records.push(Record::Event(sample));
    }
    let folded = replayed(&records, ascii());
    let lines: Vec<&str> = folded.lines().map(str::trim_end).collect();
    assert_eq!(lines.len(), 3, "{folded}");
    assert!(lines[0].ends_with("nvml ... x 4"), "{folded}");
    assert!(lines[2].contains("nvml(gpu_percent=5)"), "{folded}");
    let full = Options {
        full: true,
        ..ascii()
    };
    assert_eq!(replayed(&records, full).lines().count(), 6);
}

/// Of a whole machine every line says whose it is.
#[test]
fn processes_are_named_where_somebody_can() {
    let named = Options {
        name_of: Some(|pid| Some(format!("app{pid}"))),
        ..Options::default()
    };
    let text = replayed(&inference(), named);
    let plain = replayed(&inference(), Options::default());
    assert_eq!(text.lines().count(), plain.lines().count());
    let calls = text.lines().filter(|line| line.contains("cuMemAlloc_v2("));
    let calls: Vec<&str> = calls.collect();
    assert!(!calls.is_empty());
    for line in calls {
        let mut words = line.split_whitespace().skip(1);
        let (name, number) = (words.next(), words.next().unwrap_or_default());
        let pid = number.split('/').next().unwrap_or_default();
        assert_eq!(name, Some(&*format!("app{pid}")), "{line}");
    }
}

#[test]
fn the_width_of_a_terminal_cuts_nothing() {
    let wide = replayed(&inference(), Options::default());
    for width in [40, 80, 200] {
        let mut options = Options::default();
        options.style.width = width;
        assert_eq!(replayed(&inference(), options), wide);
    }
}

#[test]
fn parts_of_a_run() {
    let selected = |text: &str| Options {
        selection: Selection::new(text.to_owned()),
        ..Options::default()
    };
    let names = |options| -> Vec<String> {
        let text = replayed(&inference(), options);
        text.lines().map(|line| line[29..].to_owned()).collect()
    };
    let memory = names(selected("memory,!ioctl"));
    assert_eq!(memory.len(), 3, "{memory:#?}");
    assert!(memory[0].starts_with("cuMemAlloc_v2("), "{memory:#?}");
    assert!(memory[1].contains("events lost"), "{memory:#?}");
    assert!(memory[2].starts_with("cuMemFree_v2("), "{memory:#?}");
    let gpu = names(selected("gpu"));
    assert_eq!(gpu.len(), 9, "eight kernels and a loss: {gpu:#?}");

    let worker = Options {
        tid: Some(4_243),
        ..Options::default()
    };
    insta::assert_snapshot!("worker", replayed(&inference(), worker));
    let part = Options {
        from: Some(325_000),
        to: Some(405_000),
        ..Options::default()
    };
    insta::assert_snapshot!("part", replayed(&inference(), part));
    let nothing = Options {
        pid: Some(1),
        ..selected("graph")
    };
    assert_eq!(replayed(&inference(), nothing), "");
}

#[test]
fn colours_mark_what_failed() {
    let mut options = Options::default();
    options.style.color = true;
    let text = replayed(&inference(), options);
    assert!(text.contains("\x1b[1;31mCUDA_ERROR_INVALID_VALUE\x1b[0m"));
}

#[test]
fn names_and_texts_cannot_paint_or_flood() {
    let mut event = Event::new(1, Layer::Driver, Category::Other, "evil\x1b[31m\n", START);
    event.args = vec![
        Arg::new("text", "\x1b[2J".to_owned() + &"x".repeat(1_000)),
        Arg::new("list", Value::List(vec![Value::from(1u64); 1_000])),
        Arg::new("pointer", Value::Pointer(0)),
    ];
    let text = replayed(&[event.into()], Options::default());
    assert!(
        !text.contains('\x1b') && text.lines().count() == 1,
        "{text:?}"
    );
    assert!(text.len() < 300 && text.contains("pointer=NULL"), "{text}");
}

#[test]
fn odd_traces_are_shown_too() {
    assert_eq!(replayed(&[], Options::default()), "");
    // Ends without beginnings, beginnings without ends inside of what ended, times that step.
    let event = |id, name: &str, at, extent| {
        let mut event = Event::new(id, Layer::Driver, Category::Sync, name, START + at);
        event.extent = extent;
        Record::from(event)
    };
    let records = [
        event(9, "cuNeverBegan", 5, Extent::Closed(5)),
        event(1, "cuOuter", 20, Extent::Open),
        event(2, "cuInnerNeverEnds", 30, Extent::Open),
        event(1, "cuOuter", 20, Extent::Closed(40)),
        event(3, "cuBack", 10, Extent::Open),
        event(3, "cuBack", 10, Extent::Closed(u64::MAX)),
        event(4, "cuOpenOuter", 70, Extent::Open),
        event(5, "cuOpenInner", 80, Extent::Open),
    ];
    insta::assert_snapshot!("odd", replayed(&records, Options::default()));
    // Before the start, which a trace without a head has at 0.
    let mut out = Vec::new();
    let late = Meta {
        start_ns: START + 1_000,
        ..Meta::default()
    };
    let mut replay = Replay::new(&mut out, &late, Options::default());
    replay.record(&records[0]).expect("written");
    replay.finish(None).expect("written");
    drop(replay);
    assert!(String::from_utf8_lossy(&out).contains("-0.000995"));
}

#[test]
fn ten_thousand_threads_take_turns() {
    let mut trace = Builder::new();
    for tid in 0..10_000u32 {
        trace.call(
            (1, tid + 1),
            "cuInit",
            Category::Init,
            u64::from(tid),
            Some(20_000),
        );
    }
    let text = replayed(&trace.records(), Options::default());
    assert_eq!(text.lines().count(), 10_000);
    assert!(text.contains("1/10000 "));
}

/// A pipe whose reader has gone: the error comes back as it is, for the caller to judge.
#[test]
fn a_broken_pipe_is_an_error_of_its_own_kind() {
    struct Broken;
    impl std::io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut replay = Replay::new(Broken, &meta(), Options::default());
    let error = inference()
        .iter()
        .find_map(|record| replay.record(record).err());
    assert_eq!(
        error.map(|error| error.kind()),
        Some(std::io::ErrorKind::BrokenPipe)
    );
}

#[test]
fn several_processes_are_named_at_the_end() {
    let event = |pid: u32| {
        let mut event = Event::new(pid.into(), Layer::Driver, Category::Init, "cuInit", 10);
        (event.pid, event.tid) = (pid, pid);
        event
    };
    let named = |pid: u32, name: &str| event::ProcessName {
        pid,
        name: name.into(),
        command: vec![format!("/bin/{name}"), "-x\u{1b}[2J".into()],
        ..event::ProcessName::default()
    };
    let summary = event::Summary {
        processes: vec![named(7, "parent"), named(8, "child")],
        ..event::Summary::default()
    };
    let shown = |pids: &[u32]| {
        let mut out = Vec::new();
        let mut replay = Replay::new(&mut out, &meta(), Options::default());
        for pid in pids {
            replay.record(&event(*pid).into()).expect("written");
        }
        replay.finish(Some(&summary)).expect("written");
        drop(replay);
        String::from_utf8(out).expect("UTF-8")
    };
    let text = shown(&[7, 8]);
    let last: Vec<&str> = text.lines().rev().take(2).collect();
    assert_eq!(
        last,
        ["process 8: child -x [2J", "process 7: parent -x [2J"]
    );
    assert!(!shown(&[7]).contains("parent"));
}

/// Times of the lines, in nanoseconds.
fn times(text: &str) -> Vec<u64> {
    let time = |line: &str| line[..13].trim().replace('.', "").parse().expect("a time");
    text.lines().map(time).collect()
}

#[test]
fn lines_never_go_back_in_time() {
    for options in [Options::default(), ascii()] {
        let times = times(&replayed(&inference(), options));
        assert!(times.is_sorted(), "{times:?}");
    }
}

fn query(id: u64, name: &str, start: u64, depth: u32) -> [Record; 2] {
    let mut call = Event::new(id, Layer::Driver, Category::Query, name, START + start);
    (call.pid, call.tid, call.depth) = (1, 1, depth);
    call.extent = Extent::Open;
    let mut end = call.clone();
    end.extent = Extent::Closed(1_000);
    [call.into(), end.into()]
}

#[test]
fn runs_of_a_query_are_one_line() {
    let mut outer = Event::new(1, Layer::Runtime, Category::Init, "cudaFree", START + 50);
    (outer.pid, outer.tid) = (1, 1);
    outer.extent = Extent::Open;
    let mut records = vec![Record::from(outer.clone())];
    for id in 2..400 {
        records.extend(query(id, "cuGetProcAddress_v2", id * 2_000, 1));
    }
    records.extend(query(500, "cuDeviceGetAttribute", 1_000_000, 1));
    for id in 501..504 {
        records.extend(query(id, "cuGetProcAddress_v2", id * 2_000, 1));
    }
    outer.extent = Extent::Closed(2_000_000);
    records.push(outer.into());
    records.extend(query(600, "cuDriverGetVersion", 3_000_000, 0));
    insta::assert_snapshot!(replayed(&records, Options::default()), @r"
         0.000050  1             cudaFree() {
         0.004000                  cuGetProcAddress_v2 … × 398 <398 µs>
         1.000000                  cuDeviceGetAttribute() <1.00 µs>
         1.002000                  cuGetProcAddress_v2 … × 3 <3.00 µs>
         2.000050                } cudaFree <2.00 ms>
         3.000000                cuDriverGetVersion() <1.00 µs>
    ");
    let full = Options {
        full: true,
        ..Options::default()
    };
    assert_eq!(
        replayed(&records, full).lines().count(),
        2 + 398 + 1 + 3 + 1
    );
}

/// Another thread's call is opened before what happens meanwhile.
#[test]
fn threads_take_turns() {
    let call = |id, tid, start, duration| {
        let mut call = Event::new(
            id,
            Layer::Driver,
            Category::Sync,
            format!("cu{id}"),
            START + start,
        );
        (call.pid, call.tid) = (1, tid);
        call.extent = Extent::Open;
        let mut end = call.clone();
        end.extent = Extent::Closed(duration);
        [Record::from(call), Record::from(end)]
    };
    let [slow, slow_end] = call(1, 1, 10, 100);
    let [quick, quick_end] = call(2, 2, 20, 10);
    let text = replayed(&[slow, quick, quick_end, slow_end], Options::default());
    insta::assert_snapshot!(text, @r"
         0.000010  1             cu1() {
         0.000020  1/2           cu2() <10 ns>
         0.000110  1             } cu1 <100 ns>
    ");
}
