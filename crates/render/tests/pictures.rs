//! Chrome's and Perfetto's files, read back by the rules that their viewers read them by.

use event::{
    Arg, Category, Event, Extent, Gpu, Launch, Layer, Lost, Meaning, Memory, MemoryOp, MemorySpace,
    Meta, Record, Status, Summary, What,
};
use render::{Chrome, FlameSvg, Folded, Output, Perfetto, Weight};
use serde_json::Value as Json;
use std::collections::HashMap;

fn meta() -> Meta {
    Meta {
        command: vec!["./app".into(), "</script>\"\n".into()],
        pid: Some(10),
        start_ns: 1_000_000,
        start_unix_ns: Some(1_763_172_000_000_000_000),
        gpus: vec![Gpu {
            name: "softgpu".into(),
            simulated: true,
            ..Gpu::default()
        }],
        ..Meta::default()
    }
}

fn call(id: u64, name: &str, category: Category, start: u64, duration: u64) -> [Event; 2] {
    let mut event = Event::new(id, Layer::Driver, category, name, 1_000_000 + start);
    (event.pid, event.tid) = (10, 11);
    event.args = vec![Arg::new("count", 3u64)];
    event.extent = Extent::Open;
    let mut end = event.clone();
    end.extent = Extent::Closed(duration);
    end.status = Some(Status {
        code: 0,
        name: Some("CUDA_SUCCESS".into()),
    });
    [event, end]
}

fn work(id: u64, correlation: u64, start: u64, duration: u64) -> [Event; 2] {
    let [mut begin, mut end] = call(id, "k<float>(a, \"b\")", Category::Kernel, start, duration);
    for event in [&mut begin, &mut end] {
        event.layer = Layer::Gpu;
        event.correlation = Some(correlation);
        (event.device, event.stream) = (Some(0), Some(7));
        event.status = None;
    }
    [begin, end]
}

/// A launch whose two kernels overlap, an allocation and its free, a loss, a call that never ends
/// around one that begins at the same moment.
fn records() -> Vec<Record> {
    let [mut launch, mut launched] = call(1, "cuGraphLaunch", Category::Graph, 10, 20);
    launch.correlation = Some(99);
    launched.correlation = Some(99);
    let [first, first_end] = work(2, 99, 25, 100);
    let [second, second_end] = work(3, 99, 30, 100);
    let [alloc, allocated] = call(4, "cuMemAlloc_v2", Category::Memory, 200, 5);
    let [free, freed] = call(5, "cuMemFree_v2", Category::Memory, 210, 5);
    let [sync, _] = call(6, "cudaDeviceSynchronize", Category::Sync, 300, 0);
    let [mut inner, mut inner_end] = call(7, "cuCtxSynchronize", Category::Sync, 300, 1);
    for event in [&mut inner, &mut inner_end] {
        (event.parent, event.depth) = (Some(6), 1);
    }
    let [unfinished, _] = work(8, 100, 310, 0);
    let memory = |op, call: &Event| {
        let memory = Memory {
            op,
            size: Some(4096),
            ptr: 1,
            space: Some(MemorySpace::Device),
        };
        Record::from(Meaning::of(call, What::Memory(memory)))
    };
    let launch_meant = What::Launch(Launch {
        kernel: "k".into(),
        grid: [1; 3],
        block: [1; 3],
        shared: 0,
    });
    let lost = Lost {
        ts: 1_000_290,
        count: 5,
        source: None,
        layer: None,
        pid: Some(10),
        tid: None,
    };
    vec![
        launch.into(),
        first.into(),
        launched.clone().into(),
        Meaning::of(&launched, launch_meant).into(),
        second.into(),
        first_end.into(),
        second_end.into(),
        alloc.into(),
        allocated.clone().into(),
        memory(MemoryOp::Alloc, &allocated),
        free.into(),
        freed.clone().into(),
        memory(MemoryOp::Free, &freed),
        lost.into(),
        sync.into(),
        inner.into(),
        inner_end.into(),
        unfinished.into(),
    ]
}

fn show(mut output: impl Output) {
    for record in records() {
        output.record(&record).expect("written");
    }
    let summary = Summary {
        end_ns: 1_001_000,
        ..Summary::default()
    };
    output.finish(Some(&summary)).expect("finished");
}

fn chrome() -> Json {
    let mut bytes = Vec::new();
    show(Chrome::new(&mut bytes, &meta()));
    serde_json::from_slice(&bytes).expect("JSON")
}

/// As viewers do it: by time, and at the same time in the file's order.
#[test]
fn chrome_spans_nest_on_every_track() {
    let trace = chrome();
    let events = trace["traceEvents"].as_array().expect("a list");
    let number = |event: &Json, name: &str| event[name].as_f64().expect("a number");
    let mut spans: Vec<&Json> = events.iter().filter(|event| event["ph"] == "X").collect();
    spans.sort_by(|a, b| number(a, "ts").total_cmp(&number(b, "ts")));
    let mut open: HashMap<(u64, u64), Vec<f64>> = HashMap::new();
    let mut drawn = Vec::new();
    for span in spans {
        let track = (
            span["pid"].as_u64().expect("pid"),
            span["tid"].as_u64().expect("tid"),
        );
        let (start, length) = (number(span, "ts"), number(span, "dur"));
        let stack = open.entry(track).or_default();
        while stack.last().is_some_and(|end| *end <= start) {
            stack.pop();
        }
        assert!(
            stack.last().is_none_or(|end| *end + 1e-9 >= start + length),
            "{span} overlaps"
        );
        drawn.push(format!(
            "{}{} {:.0}{}",
            "  ".repeat(stack.len()),
            span["name"].as_str().expect("named"),
            length * 1_000.0,
            if span["args"]["unfinished"] == true {
                " unfinished"
            } else {
                ""
            },
        ));
        stack.push(start + length);
    }
    let expected = [
        "cuGraphLaunch 20",
        "k<float>(a, \"b\") 100",
        "k<float>(a, \"b\") 100",
        "cuMemAlloc_v2 5",
        "cuMemFree_v2 5",
        "cudaDeviceSynchronize 700 unfinished",
        "  cuCtxSynchronize 1",
        "k<float>(a, \"b\") 690 unfinished",
    ];
    assert_eq!(drawn, expected);
}

#[test]
fn chrome_names_tracks_and_ties_work_to_its_launch() {
    let trace = chrome();
    let events = trace["traceEvents"].as_array().expect("a list");
    let of_phase = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
    let names: Vec<_> = of_phase("M")
        .map(|event| event["args"]["name"].as_str().expect("a name"))
        .collect();
    let expected = [
        "thread 11",
        "GPU 0: softgpu",
        "stream 7",
        "stream 7 (2)",
        "app </script>\" ",
    ];
    assert_eq!(names, expected);
    // One launch of a graph, two kernels: two arrows. The third kernel's call is not in the trace.
    for phase in ["s", "f"] {
        let mut ids: Vec<_> = of_phase(phase).map(|event| event["id"].as_u64()).collect();
        ids.sort();
        assert_eq!(ids, [Some(1), Some(2)], "{phase}");
    }
    let memory: Vec<_> = of_phase("C").map(|event| &event["args"]["bytes"]).collect();
    assert_eq!(memory, [4096, 0]);
    let lost: Vec<_> = of_phase("i").map(|event| &event["args"]["count"]).collect();
    assert_eq!(lost, [5]);
}

#[test]
fn a_trace_of_nothing_is_a_file_that_opens() {
    let mut bytes = Vec::new();
    let mut output = Chrome::new(&mut bytes, &Meta::default());
    output.finish(None).expect("finished");
    drop(output);
    let trace: Json = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(trace["traceEvents"], Json::Array(Vec::new()));
    let mut bytes = Vec::new();
    Perfetto::new(&mut bytes, &Meta::default())
        .finish(None)
        .expect("finished");
    assert!(!bytes.is_empty());
}

#[test]
fn folded_stacks_and_their_difference() {
    let mut bytes = Vec::new();
    show(Folded::new(&mut bytes, Weight::Time, None));
    let text = String::from_utf8(bytes).expect("UTF-8");
    let expected = "cuGraphLaunch 20\ncuMemAlloc_v2 5\ncuMemFree_v2 5\n\
                    cudaDeviceSynchronize;cuCtxSynchronize 1\n";
    assert_eq!(text, expected);
    let baseline = vec![("cuGraphLaunch".to_owned(), 30), ("gone".to_owned(), 4)];
    let mut bytes = Vec::new();
    show(Folded::new(&mut bytes, Weight::Time, Some(baseline)));
    let text = String::from_utf8(bytes).expect("UTF-8");
    assert!(text.contains("cuGraphLaunch 30 20\n") && text.contains("gone 4 0\n"));
}

#[test]
fn a_flame_graph_holds_no_markup_of_the_program() {
    let mut bytes = Vec::new();
    let title = meta().command.join(" ");
    show(FlameSvg::new(&mut bytes, title, Weight::GpuTime, None));
    let text = String::from_utf8(bytes).expect("UTF-8");
    assert!(text.contains("k&lt;float&gt;(a, &quot;b&quot;)"));
    assert!(!text.contains("app </script>"));
    let mut nothing = FlameSvg::new(Vec::new(), String::new(), Weight::Bytes, None);
    let refused = nothing.finish(None).expect_err("nothing to draw");
    assert!(refused.to_string().contains("no call that copied"));
}
