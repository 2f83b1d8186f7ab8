//! GPU times with answers worked out by hand: from call to start, overlap, speed, gaps, who waits.

mod script;

use event::{Category, Direction, Kind, Layer, Transfer, What};
use script::{At, Script, at};

/// A copy: its call, what that meant, and the GPU's work for it.
fn copy(script: &mut Script, direction: Direction, size: u64, call: At, stream: u64, work: At) {
    let meant = Transfer {
        direction,
        size,
        duration: Some(call.end - call.start),
        src: Some(0x1000),
        dst: Some(0x2000),
    };
    let id = script.means("cuMemcpyAsync", call, What::Transfer(meant));
    script.change(id, |event| event.correlation = Some(event.id));
    let name = format!("memcpy {}", direction.as_str());
    script.gpu(&name, stream, work, Some(id));
}

/// A launch and its kernel; the kernel's id.
fn kernel(script: &mut Script, call: At, stream: u64, work: At) -> u64 {
    let id = script.launch("k", call);
    script.change(id, |event| event.correlation = Some(event.id));
    script.gpu("k", stream, work, Some(id))
}

#[test]
fn queue_delay_is_from_the_calls_beginning_to_the_works() {
    let mut script = Script::new();
    // 40, 100 and 700 ns after their calls began; one has no call.
    kernel(&mut script, at(1, 100, 120), 1, at(0, 140, 300));
    kernel(&mut script, at(1, 200, 220), 1, at(0, 300, 1_000));
    let last = kernel(&mut script, at(1, 300, 320), 1, at(0, 1_000, 1_100));
    script.gpu("stray", 2, at(0, 400, 500), None);
    let queue = script.report(0, 2_000).correlation.queue;
    assert_eq!((queue.linked, queue.unlinked), (3, 1));
    assert_eq!((queue.max_ns, queue.max_op_id), (700, Some(last)));
    // Quantiles are kept in steps of a few per cent.
    assert!((95..=105).contains(&queue.p50_ns), "{}", queue.p50_ns);
}

#[test]
fn copies_beside_kernels_count_the_time_both_ran() {
    let mut script = Script::new();
    // Kernels 1000..2000 and 3000..4000 in one stream; copies 1500..2500 and 3900..4100 in another.
    kernel(&mut script, at(1, 100, 110), 1, at(0, 1_000, 2_000));
    kernel(&mut script, at(1, 120, 130), 1, at(0, 3_000, 4_000));
    let h2d = Direction::HostToDevice;
    copy(
        &mut script,
        h2d,
        64_000,
        at(1, 140, 150),
        2,
        at(0, 1_500, 2_500),
    );
    copy(
        &mut script,
        h2d,
        32_000,
        at(1, 160, 170),
        2,
        at(0, 3_900, 4_100),
    );
    let report = script.report(100, 10_100);
    assert_eq!(report.gpu.copies_beside_kernels_ns, 500 + 100);
    assert_eq!(
        (report.gpu.all.busy_ns, report.gpu.all.sum_ns),
        (2_600, 3_200)
    );
    assert_eq!(report.gpu.all.share, 0.26);
    let busy: Vec<_> = (report.gpu.categories.iter())
        .map(|row| (row.category, row.work.busy_ns))
        .collect();
    assert_eq!(
        busy,
        [(Category::Kernel, 2_000), (Category::Transfer, 1_200)]
    );
    // 96,000 bytes in 1,200 ns, by the GPU's times and not by those of the calls.
    let way = &report.transfers.directions[0];
    assert_eq!((way.busy_ns, way.timed_bytes), (1_200, 96_000));
    assert_eq!(way.bytes_per_second, Some(80_000_000_000));
}

#[test]
fn gaps_are_what_the_host_did_in_them() {
    let mut script = Script::new();
    kernel(&mut script, at(1, 0, 100), 1, at(0, 100, 200));
    // From 200 to 1000 nothing ran: 500 ns of it in cuMemAlloc, the rest outside of calls.
    script.span("cuMemAlloc_v2", at(1, 300, 800));
    kernel(&mut script, at(1, 900, 950), 1, at(0, 1_000, 1_100));
    let report = script.report(0, 1_100);
    let gap = &report.idle.gaps[0];
    assert_eq!((gap.start_ns, gap.end_ns), (200, 1_000));
    assert_eq!((gap.host.allocating_ns, gap.host.launching_ns), (500, 50));
    assert_eq!((gap.host.untraced_ns, gap.host.total_ns()), (250, 800));
    assert_eq!(
        (report.idle.all.busy_ns, report.idle.all.idle_ns),
        (200, 900)
    );
    assert_eq!(
        (report.idle.all.leading_ns, report.idle.all.between_ns),
        (100, 800)
    );
}

#[test]
fn who_waits_for_whom_is_told_by_when_calls_began() {
    let mut script = Script::new();
    // A first of which nothing is known; then two that the GPU waited for, 300 and 200 ns; then two
    // that were given to it while it was busy.
    kernel(&mut script, at(1, 0, 10), 1, at(0, 100, 200));
    kernel(&mut script, at(1, 400, 410), 1, at(0, 500, 600));
    kernel(&mut script, at(1, 700, 710), 1, at(0, 800, 2_000));
    kernel(&mut script, at(1, 900, 910), 1, at(0, 2_000, 3_000));
    kernel(&mut script, at(1, 950, 960), 1, at(0, 3_000, 3_100));
    let pace = script.report(0, 4_000).gpu.pace;
    assert_eq!((pace.launch_bound, pace.gpu_bound), (2, 3));
    assert_eq!(pace.waited_ns, 300 + 200);
}

#[test]
fn waits_of_the_host_are_no_work() {
    let mut script = Script::new();
    kernel(&mut script, at(1, 0, 100), 1, at(0, 100, 400));
    let mut longest = 0;
    for (name, tid, start, end) in [
        ("wait for stream", 1, 150, 400),
        ("wait for stream", 2, 200, 350),
        ("wait for stream", 1, 500, 510),
        ("wait for event", 1, 520, 530),
    ] {
        let mut event = script.event(name, at(tid, start, end));
        (event.layer, event.kind) = (Layer::Gpu, Kind::GpuWait);
        (event.category, event.stream) = (Category::Sync, Some(1));
        let id = script.add(event);
        if start == 150 {
            longest = id;
        }
    }
    let report = script.report(0, 1_000);
    assert_eq!(
        (report.gpu.all.operations, report.gpu.all.busy_ns),
        (1, 300)
    );
    assert_eq!(report.overview.counts.gpu_operations, 1);
    assert_eq!(report.gpu.stream_count, 1);
    let rows: Vec<_> = (report.gpu.waits.iter())
        .map(|row| (&*row.name, row.count, row.sum_ns, row.waited_ns))
        .collect();
    assert_eq!(
        rows,
        [
            ("wait for stream", 3, 410, 260),
            ("wait for event", 1, 10, 10)
        ]
    );
    let first = &report.gpu.waits[0];
    assert_eq!(
        (first.longest_ns, first.longest_op_id),
        (250, Some(longest))
    );
}
