//! Every finding on a trace made to show it, and no finding on a healthy one.

mod stage;

use analyse::Analysis;
use analyse::findings::{Finding, Severity};
use event::{Category, Direction, Extent, Gpu, MemorySpace, Meta, Record, Summary};
use proptest::prelude::*;
use stage::{MS, Stage, US};

fn findings_of(records: &[Record], meta: &Meta) -> Vec<Finding> {
    let mut analysis = Analysis::new(meta);
    for record in records {
        analysis.add(record);
    }
    let end = records.iter().map(Record::ts).max().unwrap_or(0);
    let summary = Summary {
        end_ns: end,
        exit: Some(0),
        ..Summary::default()
    };
    analysis.finish(Some(&summary)).findings
}

fn findings(stage: &Stage) -> Vec<Finding> {
    findings_of(&stage.records, &Meta::default())
}

fn ids(found: &[Finding]) -> Vec<&str> {
    found.iter().map(|finding| &*finding.id).collect()
}

#[track_caller]
fn the(id: &str, found: &[Finding]) -> Finding {
    let one = found.iter().find(|finding| finding.id == id);
    let one = one.unwrap_or_else(|| panic!("no {id} among {:#?}", ids(found)));
    assert!(!one.numbers.is_empty(), "no finding without its numbers");
    assert!(!one.title.is_empty() && !one.detail.is_empty() && !one.advice.is_empty());
    assert!(one.from_ns <= one.to_ns);
    one.clone()
}

/// Loads a model from pinned memory, then 50 rounds: an async copy, two kernels of 500 µs on the
/// GPU with no gap between rounds, and one wait a round.
fn healthy(stage: &mut Stage) {
    stage.call("cuInit", MS);
    stage.call("cuDevicePrimaryCtxRetain", 2 * MS);
    stage.stream = Some(0x20);
    stage.alloc_in("cuMemHostAlloc", MemorySpace::Host, 0x1000, 1 << 20);
    stage.alloc(0x10_0000, 1 << 20);
    stage.copy(
        "cuMemcpyHtoD_v2",
        Direction::HostToDevice,
        1 << 20,
        100 * US,
        [0x1000, 0x10_0000],
    );
    for _ in 0..50 {
        round(stage);
    }
    stage.stream = None;
    stage.free(0x10_0000);
    stage.free_by("cuMemFreeHost", 0x1000);
}

fn round(stage: &mut Stage) {
    let start = stage.now;
    stage.copy(
        "cuMemcpyHtoDAsync_v2",
        Direction::HostToDevice,
        4096,
        2 * US,
        [0x1000, 0x10_0000],
    );
    stage.launch("forward", 3 * US);
    stage.launch("backward", 3 * US);
    stage.gpu(
        "[CUDA memcpy HtoD]",
        Category::Transfer,
        start + 3 * US,
        5 * US,
    );
    stage.gpu("forward", Category::Kernel, start + 8 * US, 500 * US);
    stage.gpu("backward", Category::Kernel, start + 508 * US, 500 * US);
    stage.call("cuStreamSynchronize", 995 * US);
    stage.wait(5 * US);
}

#[test]
fn a_healthy_run_has_no_findings() {
    let mut stage = Stage::new();
    healthy(&mut stage);
    assert_eq!(ids(&findings(&stage)), [""; 0]);
    assert_eq!(ids(&findings(&Stage::new())), [""; 0]);
}

/// Rounds of a launch and a wait, with `more` in each, and no GPU times.
fn rounds(count: u64, mut more: impl FnMut(&mut Stage, u64)) -> Stage {
    let mut stage = Stage::new();
    stage.stream = Some(0x20);
    for turn in 0..count {
        more(&mut stage, turn);
        for _ in 0..3 {
            stage.launch("step", 3 * US);
        }
        stage.call("cuStreamSynchronize", 900 * US);
    }
    stage
}

#[test]
fn copies_that_take_the_time() {
    let stage = rounds(40, |stage, _| {
        stage.copy(
            "cuMemcpyHtoD_v2",
            Direction::HostToDevice,
            8 << 20,
            MS,
            [0x7000, 0x10_0000],
        );
    });
    let found = findings(&stage);
    let bound = the("transfer-bound", &found);
    // 39 or 40 of 1 ms in 40 rounds of 1.909 ms.
    assert_eq!(bound.severity, Severity::High);
    assert!((0.50..0.54).contains(&bound.share), "{}", bound.share);
    assert!(
        bound
            .detail
            .contains("8 MiB went from one host address to one device address 40 times")
    );
    let pageable = the("pageable-copies", &found);
    assert_eq!(pageable.cost_bytes, Some(40 * (8 << 20)));
    assert!(pageable.cost_ns < bound.cost_ns);
    assert_eq!(found[0].id, "transfer-bound", "the greatest cost first");
}

#[test]
fn pinned_copies_are_not_called_pageable() {
    let stage = rounds(40, |stage, turn| {
        if turn == 0 {
            stage.alloc_in("cuMemHostAlloc", MemorySpace::Host, 0x7000, 8 << 20);
        }
        stage.copy(
            "cuMemcpyHtoD_v2",
            Direction::HostToDevice,
            8 << 20,
            MS,
            [0x7000, 0x90_0000],
        );
    });
    let found = findings(&stage);
    assert!(ids(&found).contains(&"transfer-bound"));
    assert!(!ids(&found).contains(&"pageable-copies"));
}

#[test]
fn many_small_copies() {
    let stage = rounds(40, |stage, _| {
        for place in 0..10 {
            stage.copy(
                "cuMemcpyHtoD_v2",
                Direction::HostToDevice,
                64,
                20 * US,
                [0x7000 + place, 0x10_0000],
            );
        }
    });
    let small = the("small-copies", &findings(&stage));
    // Ten of 20 µs in every step.
    let each = small.cost_per_step_ns.expect("there are steps");
    assert!((195 * US..=200 * US).contains(&each), "{each}");
    assert!(small.title.contains("400 copies"));
}

#[test]
fn a_wait_after_every_launch() {
    let mut stage = Stage::new();
    for _ in 0..40 {
        stage.launch("step", 3 * US);
        stage.call("cuCtxSynchronize", 100 * US);
        stage.wait(47 * US);
    }
    let sync = the("sync-after-every-launch", &findings(&stage));
    // A gap of 47 µs in every step: launching itself gives the GPU work.
    assert_eq!(sync.cost_per_step_ns, Some(47 * US));
    assert!(sync.title.contains("40 of 40"));
    assert_eq!(sync.op_ids.len(), 8);
    // Three launches a wait are no such thing.
    assert!(!ids(&findings(&rounds(40, |_, _| {}))).contains(&"sync-after-every-launch"));
}

#[test]
fn kernels_shorter_than_their_launches() {
    let mut stage = Stage::new();
    for turn in 0..300u64 {
        let start = stage.now;
        stage.launch("tiny", 5 * US);
        stage.gpu("tiny", Category::Kernel, start + 5 * US, 2 * US);
        if turn % 100 == 99 {
            stage.call("cuCtxSynchronize", 5 * US);
        }
    }
    let small = the("small-launches", &findings(&stage));
    assert!(
        small.title.contains("300 ran for 2 µs on average"),
        "{}",
        small.title
    );
    assert!(small.advice.contains("CUDA graph"));
    // In a graph, they are fine.
    for record in &mut stage.records {
        if let Record::Event(event) = record
            && &*event.name == "cuLaunchKernel"
        {
            event.name = "cuGraphLaunch".into();
            event.category = Category::Graph;
        }
    }
    assert!(!ids(&findings(&stage)).contains(&"small-launches"));
}

#[test]
fn a_default_stream_among_others() {
    let mut stage = Stage::new();
    for turn in 0..60 {
        stage.stream = Some(if turn % 2 == 0 { 0 } else { 0x30 });
        let at = stage.now;
        stage.launch("k", 3 * US);
        stage.gpu("k", Category::Kernel, at + 3 * US, 90 * US);
        stage.wait(100 * US);
    }
    let found = the("default-stream", &findings(&stage));
    assert_eq!(found.cost_ns, Some(30 * 90 * US));
    // With per-thread default streams there is none.
    for record in &mut stage.records {
        if let Record::Meaning(meaning) = record {
            meaning.name = "cuLaunchKernel_ptsz".into();
        }
    }
    assert!(!ids(&findings(&stage)).contains(&"default-stream"));
}

#[test]
fn allocation_in_the_loop_and_a_leak_in_it() {
    let stage = rounds(40, |stage, turn| {
        stage.alloc(0x10_0000 + turn * 0x1_0000, 0x1_0000);
        stage.alloc(0x5_0000, 0x800);
        stage.free(0x5_0000);
    });
    let found = findings(&stage);
    let inside = the("allocation-in-loop", &found);
    assert!(inside.detail.contains("cuMemAlloc_v2"));
    let allocations = inside
        .numbers
        .iter()
        .find(|number| number.name == "allocations")
        .unwrap();
    // Two in each of the steps after the first few.
    assert!((64..=80).contains(&allocations.value), "{allocations:?}");
    assert!(inside.title.contains("2.0 times"), "{}", inside.title);
    let leak = the("leak", &found);
    assert_eq!(leak.severity, Severity::High);
    assert!(
        leak.title.contains("grows by 64 KiB with each step"),
        "{}",
        leak.title
    );
    assert!(
        leak.detail
            .contains("cuMemAlloc_v2 (64 KiB each) allocates most of it"),
        "{}",
        leak.detail
    );
    assert_eq!(
        found.iter().filter(|finding| finding.id == "leak").count(),
        1
    );
    // From a pool in stream order it is as it should be.
    let pooled = rounds(40, |stage, _| {
        stage.alloc_in("cuMemAllocAsync", MemorySpace::Device, 0x5_0000, 0x800);
        stage.free_by("cuMemFreeAsync", 0x5_0000);
    });
    assert!(!ids(&findings(&pooled)).contains(&"allocation-in-loop"));
}

#[test]
fn what_is_kept_for_life_is_a_word_only() {
    let stage = rounds(40, |stage, turn| {
        if turn == 0 {
            stage.alloc(0x10_0000, 1 << 30);
        }
    });
    let kept = the("never-freed", &findings(&stage));
    assert_eq!(
        (kept.severity, kept.cost_bytes),
        (Severity::Low, Some(1 << 30))
    );
}

#[test]
fn bad_frees_are_named() {
    let stage = rounds(40, |stage, turn| {
        if turn == 3 {
            stage.returned("cuMemFree_v2", 5 * US, 1);
        }
    });
    let found = findings(&stage);
    let bad = the("bad-free", &found);
    assert!(
        bad.detail.contains("CUDA_ERROR_INVALID_VALUE"),
        "{}",
        bad.detail
    );
    assert_eq!(bad.op_ids.len(), 1);
}

#[test]
fn one_long_gap_and_many_short_ones() {
    let mut stage = Stage::new();
    for turn in 0..40 {
        let start = stage.now;
        stage.launch("k", 3 * US);
        stage.gpu("k", Category::Kernel, start + 3 * US, 997 * US);
        stage.call("cuCtxSynchronize", 997 * US);
        stage.wait(if turn == 20 { 30 * MS } else { 400 * US });
    }
    let found = findings(&stage);
    let pause = the("pauses", &found);
    // From the end of one kernel to the beginning of the next.
    assert_eq!(pause.cost_ns, Some(30 * MS + 3 * US));
    assert!(
        pause
            .detail
            .contains("in its own code, or waiting for something else"),
        "{}",
        pause.detail
    );
    assert_eq!(
        (pause.op_ids.len(), pause.to_ns - pause.from_ns),
        (2, 30 * MS + 3 * US)
    );
    // The rest is the wait after every launch, said once.
    let wait = the("sync-after-every-launch", &found);
    let each = wait.cost_per_step_ns.expect("there are steps");
    assert!((385 * US..=403 * US).contains(&each), "{each}");
    assert_eq!(ids(&found).len(), 2, "{:?}", ids(&found));
}

/// A program that gives the GPU little work and makes it wait: how its steps are called depends on
/// where the time goes.
fn waits(gaps: u64, each: u64) -> Vec<Finding> {
    let mut stage = Stage::new();
    for _ in 0..60 {
        for _ in 0..gaps {
            for _ in 0..2 {
                let start = stage.now;
                stage.launch("k", 3 * US);
                stage.gpu("k", Category::Kernel, start + 3 * US, 100 * US);
                stage.wait(100 * US);
            }
            stage.wait(each);
        }
        stage.call("cuCtxSynchronize", US);
    }
    findings(&stage)
}

#[test]
fn a_step_that_waits_once_is_starved_and_one_that_waits_often_host_bound() {
    let starved = the("starved", &waits(1, 2 * MS));
    assert_eq!(starved.severity, Severity::High);
    assert!(
        starved.detail.contains("one gap of about 2 ms"),
        "{}",
        starved.detail
    );
    let bound = the("host-bound", &waits(40, 300 * US));
    assert!(bound.share <= 1.0 && bound.share > 0.5, "{}", bound.share);
    assert!(bound.advice.contains("CUDA graphs"), "{}", bound.advice);
}

/// Each kernel is launched while the one before it runs, and yet begins late.
#[test]
fn work_that_is_queued_in_time_is_no_waiting_for_the_host() {
    let mut stage = Stage::new();
    let mut free = stage.now;
    for _ in 0..80 {
        for name in ["a", "b"] {
            let op = stage.launch(name, 3 * US);
            let start = (free + 60 * US).max(stage.now);
            stage.caused(op, name, start, 100 * US);
            free = start + 100 * US;
            stage.wait(free - stage.now - 50 * US);
        }
        stage.call("cuCtxSynchronize", US);
    }
    let bound = the("host-bound", &findings(&stage));
    assert!(bound.title.contains("queued in time"), "{}", bound.title);
    assert!(bound.severity >= Severity::Medium, "{:?}", bound.severity);
}

/// A result is read back once in a hundred steps.
#[test]
fn copies_now_and_then_are_not_in_each_step() {
    let stage = rounds(400, |stage, turn| {
        if turn % 100 == 50 {
            stage.copy(
                "cuMemcpyDtoH_v2",
                Direction::DeviceToHost,
                64 << 20,
                60 * MS,
                [0x10_0000, 0x7000],
            );
        }
    });
    let bound = the("transfer-bound", &findings(&stage));
    assert!(
        bound.title.contains("between its steps"),
        "{}: {}",
        bound.title,
        bound.detail
    );
    assert_eq!(bound.cost_per_step_ns, None);
}

#[test]
fn a_pool_that_fills_up_in_the_first_steps_is_no_leak() {
    let stage = rounds(40, |stage, turn| {
        if turn < 8 {
            stage.alloc(0x10_0000 + turn * 0x1_0000, 2 << 20);
        }
    });
    let found = findings(&stage);
    assert!(!ids(&found).contains(&"leak"), "{:?}", ids(&found));
}

#[test]
fn context_thrash() {
    let mut stage = Stage::new();
    for turn in 0..120 {
        stage.context = Some(0xa0 + turn % 2);
        stage.call("cuCtxSetCurrent", 20 * US);
        stage.launch("k", 3 * US);
        stage.wait(100 * US);
    }
    let thrash = the("context-thrash", &findings(&stage));
    assert_eq!(thrash.cost_ns, Some(120 * 20 * US));
    assert!(thrash.title.contains("119 times"));
}

#[test]
fn two_processes_on_one_gpu() {
    let mut stage = Stage::new();
    for turn in 0..300 {
        stage.pid = 1 + turn % 2;
        stage.gpu("k", Category::Kernel, u64::from(turn) * 100 * US, 90 * US);
        stage.now = u64::from(turn) * 100 * US;
    }
    let found = the("gpu-context-switches", &findings(&stage));
    assert!(
        found
            .title
            .contains("GPU 0 switches between contexts 299 times")
    );
}

#[test]
fn failures_that_were_passed_over() {
    let mut stage = Stage::new();
    for _ in 0..5 {
        stage.nested("cudaMalloc", "cuMemAlloc_v2", 20 * US, 2);
        stage.returned("cuStreamQuery", US, 600);
        stage.returned("cudaGetLastError", US, 2);
    }
    for _ in 0..5 {
        stage.nested("cudaLaunchKernel", "cuLaunchKernel", 20 * US, 1);
    }
    stage.call("cuCtxGetCurrent", US);
    let found = findings(&stage);
    let failed = the("failed-calls", &found);
    assert!(
        failed
            .detail
            .contains("cudaLaunchKernel cudaErrorInvalidValue (5×)"),
        "{}",
        failed.detail
    );
    assert!(
        failed.title.starts_with("5 calls"),
        "the driver's call inside is the same: {}",
        failed.title
    );
    // What a program ends of comes first.
    let full = the("out-of-memory", &found);
    assert_eq!(found[0].id, "out-of-memory");
    assert!(
        full.detail.contains("5 allocations failed"),
        "{}",
        full.detail
    );
    // A program that stops at its first failure has not passed it over.
    let mut stage = Stage::new();
    stage.call("cuInit", MS);
    stage.returned("cuMemAlloc_v2", US, 2);
    assert_eq!(ids(&findings(&stage)), ["out-of-memory"]);
}

#[test]
fn a_crash_comes_first_and_names_the_last_kernel() {
    let mut stage = rounds(40, |stage, turn| {
        stage.alloc(0x10_0000 + turn * 0x1_0000, 0x1_0000);
    });
    stage.launch("scribble(float*)", 3 * US);
    stage.returned("cuCtxSynchronize", US, 700);
    stage.returned("cuMemFree_v2", US, 700);
    let found = findings(&stage);
    assert_eq!(found[0].id, "gpu-crash", "{:?}", ids(&found));
    assert!(found[0].title.contains("scribble"), "{}", found[0].title);
    assert_eq!(found[0].severity, Severity::High);
}

#[test]
fn slow_beginnings() {
    let mut stage = Stage::new();
    stage.call("cuModuleLoadData", 300 * MS);
    stage.launch("k", 200 * MS);
    for _ in 0..50 {
        stage.launch("k", 3 * US);
        stage.wait(2 * MS);
    }
    let found = findings(&stage);
    assert_eq!(ids(&found), ["start-up"], "never an idle gap");
    let start = the("start-up", &found);
    assert_eq!(
        (start.cost_ns, start.severity),
        (Some(300 * MS), Severity::Low)
    );
    assert!(
        start.detail.contains("the first cuLaunchKernel 200 ms"),
        "{}",
        start.detail
    );
    // A load that has not ended when the program is killed.
    let mut killed = Stage::new();
    killed.call("cuInit", MS);
    killed.call("cuModuleLoadData", 300 * MS);
    killed.records.pop();
    killed.tid += 1;
    killed.call("cuCtxGetCurrent", US);
    let found = findings(&killed);
    let cost = the("start-up", &found).cost_ns.expect("it took long");
    assert!(cost >= 300 * MS, "{cost}");
    // A first copy that is larger than the others is no slow beginning.
    let mut copies = Stage::new();
    for size in [1u64 << 30, 4, 4, 4, 4, 4] {
        copies.copy(
            "cuMemcpyHtoD_v2",
            Direction::HostToDevice,
            size,
            100 * US + size / 10,
            [1, 2],
        );
    }
    assert!(!ids(&findings(&copies)).contains(&"start-up"));
}

#[test]
fn lost_events_are_a_caveat_of_their_own() {
    let mut stage = rounds(10, |_, _| {});
    stage.lose(7);
    let lost = the("lost-events", &findings(&stage));
    assert_eq!((lost.severity, lost.cost_ns), (Severity::Note, None));
    assert!(lost.title.contains("7 events were lost"));
}

/// The demo with its three faults, and without them, as recorded on softgpu.
#[test]
fn the_demos_three_faults_are_named_and_its_healthy_twin_has_none() {
    let recorded = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/traces/");
        let mut reader = trace::open(format!("{folder}{name}")).expect("the fixture is there");
        let mut analysis = Analysis::new(reader.meta());
        for record in reader.by_ref() {
            analysis.add(&record.expect("readable"));
        }
        analysis.finish(reader.summary())
    };
    let report = recorded("demo.jsonl");
    assert!(report.overview.simulated);
    let found = report.findings;
    let bound = the("transfer-bound", &found);
    assert_eq!(
        (&*found[0].id, &*found[1].id),
        ("leak", "transfer-bound"),
        "what ends the program comes before what slows it down"
    );
    assert!(
        bound
            .detail
            .contains("32 MiB went from one host address to one device address 33 times")
    );
    let pause = the("pauses", &found);
    assert!(
        pause.cost_ns.unwrap() >= 80 * MS,
        "the program slept that long"
    );
    let leak = the("leak", &found);
    assert!(
        leak.title.contains("256 KiB with each step"),
        "{}",
        leak.title
    );
    let expected = [
        "allocation-in-loop",
        "leak",
        "pageable-copies",
        "pauses",
        "transfer-bound",
    ];
    let mut all = ids(&found);
    all.sort_unstable();
    assert_eq!(all, expected, "nothing else is wrong with it");
    assert_eq!(ids(&recorded("demo_healthy.jsonl").findings), [""; 0]);
}

#[test]
fn softgpu_is_not_taken_for_hardware() {
    let meta = Meta {
        gpus: vec![Gpu {
            simulated: true,
            ..Gpu::default()
        }],
        ..Meta::default()
    };
    // Launching takes all the time: true of softgpu, and says nothing.
    let mut stage = Stage::new();
    for _ in 0..300 {
        stage.launch("k", 30 * US);
    }
    assert!(ids(&findings(&stage)).contains(&"small-launches"));
    assert!(!ids(&findings_of(&stage.records, &meta)).contains(&"small-launches"));
}

proptest! {
    /// Whatever the numbers, nothing panics, and what is found has finite shares and ordered ranges.
    #[test]
    fn hostile_numbers(values in prop::collection::vec((0u8..8, any::<u64>(), any::<u64>()), 0..60)) {
        let mut stage = Stage::new();
        for (what, x, y) in values {
            match what {
                0 => { stage.alloc(x, y); }
                1 => { stage.free(x); }
                2 => { stage.copy("cuMemcpyHtoD_v2", Direction::HostToDevice, x, y % MS, [y, x]); }
                3 => { stage.launch("k", x % MS); }
                4 => { stage.gpu("k", Category::Kernel, x, y); }
                5 => { stage.returned("cuMemFree_v2", x % MS, y as i64); }
                6 => { stage.now = x % (1 << 62); }
                _ => { stage.call("cuCtxSynchronize", x % MS); }
            }
        }
        if let Some(Record::Event(event)) = stage.records.first_mut() {
            event.extent = Extent::Closed(u64::MAX);
        }
        for finding in findings(&stage) {
            prop_assert!(finding.share.is_finite() && finding.share >= 0.0);
            prop_assert!(finding.from_ns <= finding.to_ns);
            prop_assert!(!finding.numbers.is_empty());
        }
    }
}
