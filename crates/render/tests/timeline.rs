//! The terminal timeline, whole, on small traces and on odd ones.

mod traces;

use event::{Category, Event, Extent, Layer, Meta, Record};
use render::{
    Output, Style, Timeline,
    timeline::{Options, around},
};
use traces::{Builder, START, inference, meta};

fn drawn(records: &[Record], meta: &Meta, options: Options) -> String {
    let mut out = Vec::new();
    let mut timeline = Timeline::new(&mut out, meta, options);
    for record in records {
        timeline.record(record).expect("memory can be written");
    }
    timeline.finish(None).expect("memory can be written");
    drop(timeline);
    String::from_utf8(out).expect("UTF-8")
}

fn options(width: usize, unicode: bool) -> Options {
    Options {
        style: Style {
            width,
            unicode,
            ..Style::default()
        },
        ..Options::default()
    }
}

/// No line is wider than asked for.
fn fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(
            line.chars().count() <= width,
            "{line:?} is wider than {width}"
        );
    }
}

#[test]
fn a_run_at_all_widths() {
    for width in [40, 80, 200] {
        for unicode in [true, false] {
            let text = drawn(&inference(), &meta(), options(width, unicode));
            fits(&text, width);
            assert!(unicode || text.is_ascii());
            let name = format!("run_{width}_{}", if unicode { "unicode" } else { "ascii" });
            insta::assert_snapshot!(name, text);
        }
    }
    for width in (40..240).step_by(7) {
        fits(&drawn(&inference(), &meta(), options(width, true)), width);
    }
}

#[test]
fn rows_by_depth_and_a_part_of_the_time() {
    let deep = Options {
        depth: 3,
        ..options(80, true)
    };
    insta::assert_snapshot!("depth", drawn(&inference(), &meta(), deep));
    let part = Options {
        from: Some(300_000),
        to: Some(450_000),
        ..options(80, true)
    };
    insta::assert_snapshot!("part", drawn(&inference(), &meta(), part.clone()));
    let nothing = Options {
        from: Some(1_000_000_000),
        to: None,
        ..part
    };
    let text = drawn(&inference(), &meta(), nothing);
    assert_eq!(text, "no events in this part of the trace\n");
}

#[test]
fn around_an_event() {
    let records = inference();
    let alloc = records.iter().find_map(|record| match record {
        Record::Event(event) if &*event.name == "cuMemAlloc_v2" && event.duration().is_some() => {
            Some(event)
        }
        _ => None,
    });
    let range = around(alloc.expect("it is there"), START);
    let options = Options {
        from: Some(range.start),
        to: Some(range.end),
        ..options(80, true)
    };
    insta::assert_snapshot!("around", drawn(&records, &meta(), options));
}

#[test]
fn colours_change_nothing_but_the_looks() {
    let plain = drawn(&inference(), &meta(), options(80, true));
    let mut options = options(80, true);
    options.style.color = true;
    let coloured = drawn(&inference(), &meta(), options);
    assert_ne!(plain, coloured);
    let mut stripped = String::new();
    let mut rest = &coloured[..];
    while let Some((before, after)) = rest.split_once('\x1b') {
        stripped.push_str(before);
        rest = after.split_once('m').expect("an escape ends").1;
    }
    stripped.push_str(rest);
    assert_eq!(stripped, plain);
}

#[test]
fn a_column_shows_what_took_most_of_it_not_what_came_last() {
    let mut trace = Builder::new();
    // A thousand turns: nine tenths copying, then a short launch.
    for turn in 0..1_000 {
        let at = turn * 10_000;
        trace.call(
            (1, 1),
            "cuMemcpyHtoD_v2",
            Category::Transfer,
            at,
            Some(9_000),
        );
        trace.call(
            (1, 1),
            "cuLaunchKernel",
            Category::Kernel,
            at + 9_000,
            Some(1_000),
        );
    }
    let text = drawn(&trace.records(), &meta(), options(80, false));
    let row = text
        .lines()
        .find(|line| line.starts_with("thread 1"))
        .expect("a row");
    assert!(row.contains("=====") && !row.contains('o'), "{row}");
    assert!(row.ends_with("100 %"), "{row}");
}

#[test]
fn idle_time_is_seen_and_many_short_calls_are_little() {
    let mut trace = Builder::new();
    for turn in 0..1_000 {
        trace.call(
            (1, 1),
            "cuLaunchKernel",
            Category::Kernel,
            turn * 1_000_000,
            Some(4_000),
        );
    }
    trace.call(
        (1, 2),
        "cuCtxSynchronize",
        Category::Sync,
        400_000_000,
        Some(100_000_000),
    );
    let text = drawn(&trace.records(), &meta(), options(80, false));
    let row = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .map(str::to_owned)
    };
    let (launches, waits) = (row("thread 1"), row("thread 2"));
    assert!(
        launches.is_some_and(|row| row.contains("......") && row.ends_with(" <1 %")),
        "{text}"
    );
    assert!(
        waits.is_some_and(|row| row.contains("     ::::") && row.ends_with(" 10 %")),
        "{text}"
    );
}

#[test]
fn odd_traces_are_drawn_too() {
    assert_eq!(
        drawn(&[], &meta(), options(80, true)),
        "no events in this trace\n"
    );
    // One instant, and times as they stand without a head.
    let mut one = Builder::new();
    one.instant((1, 1), "nvidia_isr", 5);
    insta::assert_snapshot!(
        "instant",
        drawn(&one.records(), &Meta::default(), options(60, true))
    );

    let mut open = Builder::new();
    open.call((1, 1), "cuCtxSynchronize", Category::Sync, 0, None);
    open.instant((1, 1), "nvidia_isr", 1_000);
    let text = drawn(&open.records(), &meta(), options(60, true));
    assert!(
        text.contains("░░░░░░░░░░") && text.contains("100 %"),
        "{text}"
    );

    // Times that step back, ends before beginnings, and ends of all time.
    let mut event = Event::new(
        1,
        Layer::Driver,
        Category::Sync,
        "cuCtxSynchronize",
        START + 500,
    );
    let mut records: Vec<Record> = Vec::new();
    for (id, start, extent) in [
        (1, 500, Extent::Open),
        (2, 400, Extent::Open),
        (1, 100, Extent::Closed(10)),
        (2, 300, Extent::Closed(1)),
        (3, 50, Extent::Closed(u64::MAX)),
        (4, 0, Extent::Instant),
    ] {
        (event.id, event.start, event.extent) = (id, START + start, extent);
        records.push(event.clone().into());
    }
    fits(&drawn(&records, &meta(), options(60, true)), 60);
    event.start = u64::MAX;
    event.extent = Extent::Instant;
    fits(&drawn(&[event.into()], &meta(), options(60, true)), 60);
}

#[test]
fn ten_thousand_threads_are_folded() {
    let mut trace = Builder::new();
    for tid in 0..10_000u32 {
        let at = u64::from(tid) * 1_000;
        trace.call(
            (1, tid + 1),
            "cuInit",
            Category::Init,
            at,
            Some(u64::from(tid)),
        );
    }
    let text = drawn(&trace.records(), &meta(), options(80, true));
    fits(&text, 80);
    assert!(text.contains("9984 more threads"), "{text}");
    let first = text
        .lines()
        .find(|line| line.starts_with("thread"))
        .expect("a row");
    assert!(
        first.starts_with("thread 10000"),
        "the busiest first: {first}"
    );
    assert!(text.lines().count() < 30);
}
