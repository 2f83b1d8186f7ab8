//! The tables of `cutrace report`, whole, for a run that has something for each of them.

#[path = "../../analyse/tests/script/mod.rs"]
mod script;

use analyse::Report;
use event::{
    Arg, Backend, ClockError, Extent, Gpu, Hooks, Ioctl, Layer, Lost, Meta, Overhead, Record,
    Summary,
};
use render::{Style, columns, tables};
use script::{Script, at};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const START: u64 = 50 * MS;

/// Loading, ten iterations of three kernels with a copy and a wait each, a pause between the
/// fifth and the sixth, one failed call and one that never returns.
fn run(gpu_times: bool) -> Report {
    let mut script = Script::new();
    let on = |tid, start, end| at(tid, START + start, START + end);
    script.span("cuInit", on(10, MS, 4 * MS));
    script.span("cuModuleLoadData", on(10, 5 * MS, 9 * MS));
    for (number, start) in [9 * MS + 100 * US, 9 * MS + 400 * US]
        .into_iter()
        .enumerate()
    {
        script.span("cudaMalloc", on(10, start, start + 150 * US));
        script.span("cuMemAlloc_v2", on(10, start + 10 * US, start + 140 * US));
        for call in 0..2 {
            let begin = start + 20 * US + call * 50 * US;
            let mut ioctl = script.event("ioctl", on(10, begin, begin + 30 * US));
            ioctl.ioctl = Some(Box::new(Ioctl {
                cmd: 0xc030_462b + call,
                decoded: if call == 0 {
                    vec![Arg::new("name", "NV_ESC_RM_ALLOC")]
                } else {
                    Vec::new()
                },
            }));
            script.add(ioctl);
            script.span("nvidia_ioctl", on(10, begin + 5 * US, begin + 25 * US));
        }
        if number == 1 {
            script.failed(
                "cuMemAlloc_v2",
                on(10, start + 160 * US, start + 170 * US),
                2,
            );
        }
    }
    for iteration in 0..10 {
        let pause = if iteration >= 5 { 20 * MS } else { 0 };
        let begin = 12 * MS + iteration * 2 * MS + pause;
        let mut copy = script.event("cuMemcpyHtoDAsync_v2", on(10, begin, begin + 20 * US));
        copy.stream = Some(7);
        script.add(copy);
        for (step, kernel) in [
            "void scale<float>(float*, float, int)",
            "void scale<double>(double*, double, int)",
            "softmax(float*, int)",
        ]
        .into_iter()
        .enumerate()
        {
            let step = begin + 30 * US + step as u64 * 10 * US;
            let correlation = 100 * iteration + step;
            let id = script.launch(kernel, on(10, step, step + 5 * US));
            script.change(id, |launch| {
                launch.correlation = Some(correlation);
                launch.stream = Some(7);
            });
            if gpu_times {
                let work = begin + 50 * US + (step - begin) * 10;
                script.gpu(kernel, 7, on(0, work, work + 150 * US), Some(correlation));
            }
        }
        let wait = script.span(
            "cuStreamSynchronize",
            on(10, begin + 100 * US, begin + 1_900 * US),
        );
        script.change(wait, |wait| wait.stream = Some(7));
    }
    script.open("cuCtxSynchronize", 11, START + 60 * MS);
    let mut records = script.records();
    records.push(Record::Lost(Lost {
        ts: START + 61 * MS,
        count: 3,
        source: Some("preload".into()),
        layer: Some(Layer::Driver),
        pid: None,
        tid: None,
    }));
    let mut analysis = analyse::Analysis::new(&meta());
    records.iter().for_each(|record| analysis.add(record));
    analysis.finish(Some(&tail()))
}

fn meta() -> Meta {
    Meta {
        start_ns: START,
        hooks: Hooks {
            attached: 700,
            total: 702,
        },
        backends: vec![Backend {
            name: "preload".into(),
            hooks: Hooks {
                attached: 700,
                total: 702,
            },
            missing: vec!["cuGLInit: not in this library".into()],
        }],
        gpus: vec![Gpu {
            index: 0,
            name: "softgpu".into(),
            memory: Some(4 << 30),
            simulated: true,
            ..Gpu::default()
        }],
        ..Meta::default()
    }
}

fn tail() -> Summary {
    Summary {
        end_ns: START + 64 * MS,
        lost: 3,
        overhead: Some(Overhead {
            total_ns: 21_000,
            per_event_ns: 150.0,
        }),
        clocks: vec![ClockError {
            source: "tsc".into(),
            error_ns: 38,
            pairs: 12,
        }],
        ..Summary::default()
    }
}

type TableOf = fn(&Report, &Style) -> String;

const TABLES: [(&str, TableOf); 7] = [
    ("summary", tables::summary),
    ("top", tables::top),
    ("categories", tables::categories),
    ("idle", tables::idle),
    ("gpu", tables::gpu),
    ("ioctls", tables::ioctls),
    ("coverage", tables::coverage),
];

#[test]
fn every_table_of_a_run_with_gpu_times() {
    let report = run(true);
    for (name, table) in TABLES {
        insta::assert_snapshot!(name, table(&report, &Style::default()));
    }
}

#[test]
fn a_run_without_gpu_times_says_so() {
    let report = run(false);
    let style = Style::default();
    insta::assert_snapshot!("summary_from_launches", tables::summary(&report, &style));
    insta::assert_snapshot!("idle_from_launches", tables::idle(&report, &style));
    insta::assert_snapshot!("gpu_from_launches", tables::gpu(&report, &style));
}

/// A trace as it lies in a file, with something of every layer.
#[test]
fn every_table_of_a_recorded_trace() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/traces/layers.jsonl"
    );
    let mut reader = trace::open(std::path::Path::new(path)).expect("the fixture is a trace");
    let mut analysis = analyse::Analysis::new(reader.meta());
    for record in reader.by_ref() {
        analysis.add(&record.expect("a whole record"));
    }
    let report = analysis.finish(reader.summary());
    for (name, table) in TABLES {
        insta::assert_snapshot!(format!("layers_{name}"), table(&report, &Style::default()));
    }
}

#[test]
fn tables_fit_80_columns_and_colours_do_not_move_them() {
    for gpu_times in [false, true] {
        let report = run(gpu_times);
        for (name, table) in TABLES {
            let plain = table(&report, &Style::default());
            for line in plain.lines() {
                assert!(columns(line) <= 80, "{name}: {line}");
                assert_eq!(line, line.trim_end(), "{name}");
            }
            let coloured = table(
                &report,
                &Style {
                    color: true,
                    ..Style::default()
                },
            );
            let widths = |text: &str| text.lines().map(columns).collect::<Vec<_>>();
            assert_eq!(widths(&plain), widths(&coloured), "{name}");
            let ascii = table(
                &report,
                &Style {
                    unicode: false,
                    ..Style::default()
                },
            );
            assert!(ascii.is_ascii(), "{name}: {ascii}");
        }
    }
}

#[test]
fn tables_of_nothing_are_short_and_say_so() {
    let report = analyse::Analysis::new(&Meta::default()).finish(None);
    for (name, table) in TABLES {
        let text = table(&report, &Style::default());
        assert!(
            !text.is_empty() && text.lines().count() < 40,
            "{name}: {text}"
        );
        assert!(!text.contains("NaN"), "{name}: {text}");
    }
}

#[test]
fn names_of_any_kind_do_not_break_tables() {
    let mut script = Script::new();
    let long = "x".repeat(5_000);
    for (place, name) in ["cu\x1b[31mRed", "", &long, "ünïcödé", "a\nb"]
        .into_iter()
        .enumerate()
    {
        let start = 1_000 * place as u64;
        script.launch(name, at(1, start, start + 500));
        let mut event = script.event(name, at(1, start + 600, start + 700));
        event.extent = Extent::Closed(100);
        script.add(event);
    }
    let report = script.report(1, 10_000);
    for (name, table) in TABLES {
        let text = table(&report, &Style::default());
        assert!(!text.contains('\x1b'), "{name}");
        assert!(
            text.lines().all(|line| columns(line) <= 80),
            "{name}: {text}"
        );
    }
}
