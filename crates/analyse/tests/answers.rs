//! Answers computed by hand, on traces small enough to draw.

mod script;

use analyse::{
    idle::{Basis, GapPlace},
    phases::PhaseKind,
};
use event::{Category, Frame, FrameKind, Layer, Record};
use script::{Script, at, report};

/// Wall 0..1000:
///
///     cudaMalloc      100 ─────────── 400
///       cuMemAlloc_v2   120 ─────── 380
///         ioctl           150─200 250─350
///           nvidia_ioctl    160─190
fn nested() -> Script {
    let mut script = Script::new();
    script.span("cudaMalloc", at(7, 100, 400));
    script.span("cuMemAlloc_v2", at(7, 120, 380));
    script.span("ioctl", at(7, 150, 200));
    script.span("nvidia_ioctl", at(7, 160, 190));
    script.span("ioctl", at(7, 250, 350));
    script
}

#[test]
fn nested_calls_are_counted_once() {
    let report = nested().report(1, 1_001);
    let memory = &report.categories.categories[0];
    assert_eq!(memory.category, Category::Memory);
    // The runtime's call and the driver's are both about memory: 300, not 560.
    assert_eq!((memory.time.calls, memory.time.outermost_calls), (2, 1));
    assert_eq!((memory.time.total_ns, memory.busy_ns), (300, 300));
    // 300 less the 150 of the two ioctls.
    assert_eq!(memory.time.self_ns, 150);
    assert!((memory.share - 0.3).abs() < 1e-9 && memory.bottleneck);
    let function = |name: &str| {
        let mut rows = report.functions.functions.iter();
        let row = rows.find(|row| &*row.name == name).expect("it ran");
        (row.calls, row.total_ns, row.self_ns)
    };
    assert_eq!(function("cudaMalloc"), (1, 300, 40));
    assert_eq!(function("cuMemAlloc_v2"), (1, 260, 110));
    assert_eq!(function("ioctl"), (2, 150, 120));
    assert_eq!(function("nvidia_ioctl"), (1, 30, 30));
    assert_eq!(report.categories.threads[0].busy_ns, 300);
}

#[test]
fn the_first_call_is_the_one_that_began_first() {
    let mut script = Script::new();
    script.span("cuMemAlloc_v2", at(7, 100, 400));
    // Of another thread, begun later and done sooner.
    script.span("cuMemAlloc_v2", at(8, 150, 160));
    let report = script.report(1, 1_001);
    let row = &report.functions.functions[0];
    assert_eq!((row.calls, row.first_ns), (2, 300));
    let (from, to) = row.range_ns.expect("they take time");
    assert_eq!((row.first_start_ns, to - from), (from, 300));
}

#[test]
fn a_call_is_taken_apart_by_layer() {
    let report = nested().report(1, 1_001);
    let below = &report.correlation.functions[1];
    assert_eq!(&*below.name, "cuMemAlloc_v2");
    assert_eq!((below.total_ns, below.user_ns), (260, 110));
    assert_eq!((below.syscalls, below.syscall_ns), (2, 150));
    assert_eq!((below.kernel_calls, below.kernel_ns), (1, 30));
    let layers: Vec<_> = (report.correlation.layers.iter())
        .map(|layer| (layer.layer, layer.calls, layer.self_ns))
        .collect();
    let expected = [
        (Layer::Runtime, 1, 40),
        (Layer::Driver, 1, 110),
        (Layer::Syscall, 2, 120),
        (Layer::Kernel, 1, 30),
    ];
    assert_eq!(layers, expected);
    assert_eq!(report.correlation.host_ns, 300);
    let mut node = &report.correlation.tree[0];
    let mut path = vec![&*node.name];
    while let Some(child) = node.children.first() {
        path.push(&child.name);
        node = child;
    }
    assert_eq!(
        path,
        ["cudaMalloc", "cuMemAlloc_v2", "ioctl", "nvidia_ioctl"]
    );
}

/// Two streams:
///
///     stream 1   100 ──── 300        600 ── 700
///     stream 2       200 ──── 400
#[test]
fn summed_kernel_times_are_not_wall_time() {
    let mut script = Script::new();
    script.gpu("a", 1, at(0, 100, 300), None);
    script.gpu("b", 2, at(0, 200, 400), None);
    script.gpu("a", 1, at(0, 600, 700), None);
    let report = script.report(1, 1_001);
    assert_eq!((report.gpu.all.sum_ns, report.gpu.all.busy_ns), (500, 400));
    let streams: Vec<_> = (report.gpu.streams.iter())
        .map(|row| (row.stream, row.work.busy_ns))
        .collect();
    assert_eq!(streams, [(Some(1), 300), (Some(2), 200)]);
    let idle = &report.idle;
    assert_eq!(idle.basis, Basis::GpuTimes);
    assert_eq!(
        (idle.all.busy_ns, idle.all.idle_ns, idle.wall_ns),
        (400, 600, 1_000)
    );
    assert_eq!(
        (
            idle.all.leading_ns,
            idle.all.between_ns,
            idle.all.trailing_ns
        ),
        (99, 200, 301)
    );
}

/// The host waits in a call from 300 to 900, but the GPU is idle only in 500..800: a gap is what
/// the GPU did not do, however long something blocked.
#[test]
fn exposed_is_not_blocking() {
    let mut script = Script::new();
    script.span("cudaDeviceSynchronize", at(1, 300, 900));
    script.gpu("a", 1, at(0, 100, 500), None);
    script.gpu("b", 1, at(0, 800, 850), None);
    let report = script.report(100, 1_000);
    let gap = (report.idle.gaps.iter()).find(|gap| gap.place == GapPlace::Between);
    let gap = gap.expect("a gap");
    assert_eq!((gap.start_ns, gap.end_ns), (500, 800));
    assert_eq!(gap.host.synchronising_ns, 300);
    assert_eq!(gap.before.as_ref().map(|work| &*work.name), Some("a"));
    assert_eq!(gap.after.as_ref().map(|work| &*work.name), Some("b"));
    // Of the call's 600, 250 passed while the GPU worked.
    let sync = &report.categories.categories[0];
    assert_eq!((sync.category, sync.busy_ns), (Category::Sync, 600));
    assert_eq!(report.idle.all.host.synchronising_ns, 350);
}

/// What the host did in a gap of 100..900: freeing 50, copying 200, nothing traced 550.
#[test]
fn a_gap_says_what_the_host_did() {
    let mut script = Script::new();
    script.gpu("a", 1, at(0, 0, 100), None);
    script.span("cuMemFree_v2", at(1, 150, 200));
    script.span("cuMemcpyHtoD_v2", at(2, 190, 400));
    script.span("ioctl", at(3, 380, 410));
    script.gpu("b", 1, at(0, 900, 1_000), None);
    let report = script.report(0, 1_000);
    let host = report.idle.gaps[0].host;
    assert_eq!((host.allocating_ns, host.copying_ns), (50, 200));
    assert_eq!((host.system_calls_ns, host.untraced_ns), (10, 540));
    assert_eq!(host.total_ns(), 800);
}

/// Between calls that come from Python it is Python that runs.
#[test]
fn a_gap_between_calls_from_python_is_pythons() {
    let mut script = Script::new();
    script.gpu("a", 1, at(0, 10, 100), None);
    for (start, python) in [(200, true), (400, false), (600, true)] {
        let call = script.span("cuMemGetInfo_v2", at(1, start, start + 50));
        let frame = Frame {
            kind: if python {
                FrameKind::Python
            } else {
                FrameKind::Native
            },
            symbol: Some("train".into()),
            ..Frame::default()
        };
        script.change(call, |event| event.stack = [frame.clone()].into());
    }
    script.gpu("b", 1, at(0, 800, 900), None);
    let report = script.report(10, 900);
    let host = report.idle.gaps[0].host;
    assert_eq!((host.other_api_ns, host.total_ns()), (150, 700));
    // After the first and the third call; before the first nothing is known.
    assert_eq!((host.python_ns, host.untraced_ns), (150 + 150, 100 + 150));
}

/// The same, though the GPU's work is told only when it is over, and late.
#[test]
fn work_that_is_told_late_leaves_the_same_gaps() {
    let mut script = Script::new();
    script.span("cuMemFree_v2", at(1, 150, 200));
    script.span("cuMemcpyHtoD_v2", at(2, 190, 400));
    script.gpu("a", 1, at(0, 100, 120), None);
    script.gpu("b", 1, at(0, 250, 300), None);
    script.gpu("c", 1, at(0, 350, 410), None);
    let records = script.records();
    let late: Vec<Record> = (records.iter())
        .filter(|record| {
            !matches!(record, Record::Event(event)
                if event.layer == Layer::Gpu && event.extent == event::Extent::Open)
        })
        .cloned()
        .collect();
    let (told, told_late) = (report(&records, 100, 500), report(&late, 100, 500));
    assert_eq!(told.idle, told_late.idle);
    assert_eq!(told.gpu, told_late.gpu);
    assert_eq!(told.idle.all.host.allocating_ns, 50);
}

/// Without GPU times: work may go on from a launch to the wait for it.
#[test]
fn gaps_from_launches_lie_between_a_wait_and_the_next_launch() {
    let mut script = Script::new();
    script.launch("k", at(1, 100, 110));
    script.span("cuCtxSynchronize", at(1, 150, 400));
    script.span("cuMemAlloc_v2", at(1, 500, 600));
    script.launch("k", at(1, 700, 710));
    script.launch("k", at(1, 720, 730));
    script.span("cuCtxSynchronize", at(1, 740, 900));
    let report = script.report(1, 1_001);
    let idle = &report.idle;
    assert_eq!(idle.basis, Basis::Launches);
    assert_eq!((idle.all.busy_ns, idle.all.idle_ns), (500, 500));
    let gap = &idle.gaps[0];
    assert_eq!((gap.start_ns, gap.end_ns), (400, 700));
    assert_eq!((gap.host.allocating_ns, gap.host.untraced_ns), (100, 200));
}

/// A wait says nothing of work that another thread gives the stream meanwhile.
#[test]
fn a_wait_ends_only_what_was_before_it() {
    let mut script = Script::new();
    script.launch("a", at(1, 100, 110));
    script.span("cuStreamSynchronize", at(1, 120, 200));
    script.launch("b", at(2, 150, 160));
    let report = script.report(100, 1_000);
    assert_eq!(report.idle.all.idle_ns, 0);

    let mut script = Script::new();
    script.launch("a", at(1, 100, 110));
    script.span("cuStreamSynchronize", at(1, 120, 200));
    script.launch("b", at(2, 250, 260));
    script.span("cuStreamSynchronize", at(2, 270, 300));
    let report = script.report(100, 1_000);
    assert_eq!(
        (report.idle.all.between_ns, report.idle.all.trailing_ns),
        (50, 700)
    );
}

/// A copy that has returned is over, with all that was before it: runtime and driver as one.
#[test]
fn a_copy_that_returns_ends_the_work_before_it() {
    let mut script = Script::new();
    script.launch("a", at(1, 100, 110));
    script.span("cudaMemcpy", at(1, 150, 400));
    script.span("cuMemcpyDtoH_v2", at(1, 160, 390));
    let report = script.report(100, 1_000);
    assert_eq!(
        (report.idle.all.busy_ns, report.idle.all.trailing_ns),
        (300, 600)
    );
}

/// One event recorded in two streams one after the other: waiting for it says nothing of which.
#[test]
fn events_are_used_again_and_end_only_what_they_must() {
    let stream = |script: &mut Script, name: &str, place, stream| {
        let mut event = script.event(name, place);
        event.stream = Some(stream);
        script.add(event)
    };
    let mut script = Script::new();
    stream(&mut script, "cuLaunchKernel", at(1, 100, 110), 5);
    stream(&mut script, "cuEventRecord", at(1, 120, 130), 5);
    stream(&mut script, "cuLaunchKernel", at(1, 140, 150), 6);
    stream(&mut script, "cuEventRecord", at(1, 160, 170), 6);
    script.span("cuEventSynchronize", at(1, 180, 200));
    let doubtful = script.report(100, 1_000);
    assert_eq!(doubtful.idle.all.idle_ns, 0);

    let mut script = Script::new();
    stream(&mut script, "cuLaunchKernel", at(1, 100, 110), 5);
    stream(&mut script, "cuEventRecord", at(1, 120, 130), 5);
    script.span("cuEventSynchronize", at(1, 180, 200));
    let certain = script.report(100, 1_000);
    assert_eq!(certain.idle.all.idle_ns, 800);

    let mut script = Script::new();
    stream(&mut script, "cuLaunchKernel", at(1, 100, 110), 5);
    stream(&mut script, "cuEventRecord", at(1, 120, 130), 5);
    stream(&mut script, "cuLaunchKernel", at(1, 140, 150), 5);
    script.span("cuEventSynchronize", at(1, 180, 200));
    let more_came = script.report(100, 1_000);
    assert_eq!(more_came.idle.all.idle_ns, 0);
}

#[test]
fn gpu_work_is_found_by_its_correlation() {
    let mut script = Script::new();
    let mut outer = script.event("cudaLaunchKernel", at(1, 100, 130));
    outer.correlation = Some(42);
    script.add(outer);
    let mut inner = script.event("cuLaunchKernel", at(1, 105, 125));
    inner.correlation = Some(42);
    script.add(inner);
    script.gpu("vectorAdd", 0, at(0, 155, 355), Some(42));
    let lonely = script.gpu("unknown", 0, at(0, 400, 410), Some(7));
    let report = script.report(100, 1_000);
    let queue = &report.correlation.queue;
    assert_eq!((queue.linked, queue.unlinked, queue.max_ns), (1, 1, 50));
    assert!(queue.max_op_id.is_some_and(|op| op < lonely));
    for row in &report.correlation.functions {
        assert_eq!((row.gpu_operations, row.gpu_ns), (1, 200), "{}", row.name);
    }
    let launch = &report.correlation.tree[0].children[0];
    assert_eq!(
        (&*launch.name, &*launch.children[0].name),
        ("cuLaunchKernel", "vectorAdd")
    );
}

#[test]
fn a_call_that_never_returned_lasts_to_the_end() {
    let mut script = Script::new();
    script.span("cuInit", at(1, 100, 200));
    let stuck = script.open("cuStreamSynchronize", 1, 400);
    let report = script.report(100, 1_000);
    assert_eq!(report.overview.open_spans, 1);
    let sync = (report.functions.functions.iter()).find(|row| row.category == Category::Sync);
    let sync = sync.expect("it was called");
    assert_eq!(
        (sync.calls, sync.open, sync.total_ns, sync.max_ns),
        (1, 1, 600, 0)
    );
    assert!(
        report
            .functions
            .longest
            .iter()
            .all(|row| row.op_id != stuck)
    );
    assert_eq!(report.categories.threads[0].busy_ns, 700);
}

/// 3 launches an iteration, the middle one repeated: `prep`, `layer` × 4, `head`; 10 times.
#[test]
fn the_steady_state_is_the_outer_loop() {
    let mut script = Script::new();
    script.span("cuInit", at(1, 0, 1_000));
    script.span("cuMemAlloc_v2", at(1, 2_000, 3_000));
    script.launch("warm_up", at(1, 4_000, 4_010));
    for iteration in 0..10 {
        let start = 10_000 + 1_000 * iteration;
        script.launch("prep", at(1, start, start + 10));
        for layer in 1..=4 {
            script.launch(
                "layer",
                at(1, start + 100 * layer, start + 100 * layer + 10),
            );
        }
        script.launch("head", at(1, start + 600, start + 610));
        script.span("cuStreamSynchronize", at(1, start + 700, start + 800));
    }
    script.span("cuMemFree_v2", at(1, 21_000, 21_500));
    let report = script.report(0, 22_000);
    let steady = &report.phases.loops[0];
    assert_eq!(
        (&*steady.mark, steady.launches_per_iteration),
        ("prep", 6.0)
    );
    assert_eq!(
        (steady.iterations, steady.start_ns, steady.end_ns),
        (9, 10_000, 19_000)
    );
    assert_eq!((steady.min_ns, steady.max_ns), (1_000, 1_000));
    assert!(steady.p50_ns.abs_diff(1_000) <= 16);
    let phases: Vec<_> = (report.phases.phases.iter())
        .map(|phase| (phase.kind, phase.start_ns))
        .collect();
    assert_eq!(
        phases,
        [
            (PhaseKind::Initialisation, 0),
            (PhaseKind::Loading, 2_000),
            (PhaseKind::Steady, 10_000),
            (PhaseKind::Teardown, 19_800),
        ]
    );
}

#[test]
fn a_trace_of_nothing_is_idle_throughout() {
    let report = Script::new().report(500, 1_500);
    assert_eq!(
        (report.overview.wall_ns, report.overview.events),
        (1_000, 0)
    );
    assert_eq!(
        (report.idle.all.busy_ns, report.idle.all.idle_ns),
        (0, 1_000)
    );
    assert_eq!(report.idle.gaps[0].host.untraced_ns, 1_000);
    assert!(report.categories.categories.is_empty() && report.functions.functions.is_empty());
    serde_json::to_string(&report).expect("it is plain data");
}

/// With --kernel, threads that sleep are in the trace: they are not busy, and no layer's work.
#[test]
fn waiting_is_not_busy() {
    let mut records = Vec::new();
    let mut span = |id, layer, category, name: &str, start, length| {
        let mut event = event::Event::new(id, layer, category, name, start);
        (event.pid, event.tid) = (1, id as u32);
        event.extent = event::Extent::Open;
        records.push(event::Record::from(event.clone()));
        event.extent = event::Extent::Closed(length);
        records.push(event.into());
    };
    span(
        1,
        event::Layer::Os,
        event::Category::Other,
        "off-cpu",
        0,
        1_000,
    );
    span(
        2,
        event::Layer::Driver,
        event::Category::Sync,
        "cuCtxSynchronize",
        2_000,
        100,
    );
    let mut analysis = analyse::Analysis::new(&event::Meta::default());
    for record in &records {
        analysis.add(record);
    }
    let report = analysis.finish(None);
    let categories: Vec<_> = (report.categories.categories.iter())
        .map(|row| (row.category, row.busy_ns))
        .collect();
    assert_eq!(categories, [(event::Category::Sync, 100)]);
    let layers: Vec<_> = report
        .correlation
        .layers
        .iter()
        .map(|row| row.layer)
        .collect();
    assert_eq!(layers, [event::Layer::Driver]);
    // They are still counted, and listed by name.
    let known = |name: &str| {
        report
            .functions
            .functions
            .iter()
            .any(|row| &*row.name == name)
    };
    assert!(known("off-cpu"));
}

/// Without GPU times idle time follows from the calls: if some were left out, it is not known.
#[test]
fn with_calls_left_out_nobody_knows_when_the_gpu_was_idle() {
    let mut analysis = analyse::Analysis::new(&event::Meta::default());
    for start in [1_000, 900_000] {
        let name = "cuLaunchKernel";
        let mut call = event::Event::new(
            start,
            event::Layer::Driver,
            event::Category::Kernel,
            name,
            start,
        );
        call.extent = event::Extent::Open;
        analysis.add(&call.clone().into());
        call.extent = event::Extent::Closed(10);
        analysis.add(&call.into());
    }
    let summary = event::Summary {
        end_ns: 1_000_000,
        left_out: vec!["--min-duration 1ms".into()],
        ..event::Summary::default()
    };
    let report = analysis.finish(Some(&summary));
    assert!(report.working.is_none());
    let why = report.idle_unknown().expect("unknown");
    assert!(why.contains("--min-duration 1ms"), "{why}");
    let idle = |id: &str| ["idle-gpu", "idle-gap", "host-bound", "starved"].contains(&id);
    assert!(!report.findings.iter().any(|finding| idle(&finding.id)));
}
