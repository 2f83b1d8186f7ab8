//! Copies on traces made by hand, with answers worked out by hand.

mod stage;

use analyse::HostKind;
use analyse::transfers::{TimedBy, TransferSweep, Transfers};
use event::Direction::{DeviceToHost, HostToDevice};
use event::{Arg, Category, Direction, MemorySpace, Record};
use proptest::prelude::*;
use stage::{MS, Stage, US};

fn analysed(records: &[Record]) -> Transfers {
    let mut sweep = TransferSweep::default();
    for record in records {
        sweep.add(record);
    }
    sweep.finish()
}

const TO: &str = "cuMemcpyHtoD_v2";
const FROM: &str = "cuMemcpyDtoH_v2";

#[test]
fn directions_sizes_and_speed() {
    let mut stage = Stage::new();
    stage.copy(TO, HostToDevice, 4096, 10 * US, [0x10, 0x9000]);
    stage.copy(TO, HostToDevice, 6000, 30 * US, [0x10, 0x9000]);
    stage.copy(FROM, DeviceToHost, 1, 2 * US, [0x9000, 0x10]);
    stage.copy(FROM, DeviceToHost, 0, US, [0x9000, 0x10]);
    let transfers = analysed(&stage.records);
    assert_eq!((transfers.count, transfers.bytes), (4, 10_097));
    assert_eq!(transfers.busy_ns, 43 * US);
    let up = &transfers.directions[0];
    assert_eq!(
        (up.direction, up.count, up.bytes),
        (HostToDevice, 2, 10_096)
    );
    assert_eq!((up.timed_by, up.busy_ns), (TimedBy::Calls, 40 * US));
    // 10,096 bytes in 40 µs.
    assert_eq!(up.bytes_per_second, Some(252_400_000));
    assert_eq!(
        (up.sizes.len(), up.sizes[0].from_bytes, up.sizes[0].count),
        (1, 4096, 2)
    );
    let down: Vec<_> = (transfers.directions[1].sizes.iter())
        .map(|bin| (bin.from_bytes, bin.count))
        .collect();
    assert_eq!(down, [(0, 1), (1, 1)]);
}

#[test]
fn queueing_a_copy_says_nothing_of_its_speed() {
    let mut stage = Stage::new();
    stage.copy("cuMemcpyHtoDAsync_v2", HostToDevice, MS, US, [0x10, 0x9000]);
    let way = analysed(&stage.records).directions.remove(0);
    assert_eq!(
        (way.timed_by, way.bytes_per_second, way.queued),
        (TimedBy::Nothing, None, 1)
    );
    // The GPU knows: 1,000,000 bytes in 100 µs, the second copy overlapping the first.
    stage.copy("cuMemcpyHtoDAsync_v2", HostToDevice, MS, US, [0x10, 0x9000]);
    stage.gpu("[CUDA memcpy HtoD]", Category::Transfer, 50 * US, 100 * US);
    stage.gpu("[CUDA memcpy HtoD]", Category::Transfer, 100 * US, 100 * US);
    let way = analysed(&stage.records).directions.remove(0);
    assert_eq!((way.timed_by, way.busy_ns), (TimedBy::Gpu, 150 * US));
    assert_eq!(way.bytes_per_second, Some(13_333_333_333));
}

#[test]
fn a_copy_that_waits_for_kernels_is_not_slow() {
    let mut stage = Stage::new();
    stage.copy(TO, HostToDevice, 1000, US, [0x10, 0x9000]);
    stage.launch("k", US);
    // Most of this is the kernel.
    stage.copy(FROM, DeviceToHost, 1000, MS, [0x9000, 0x10]);
    stage.copy(FROM, DeviceToHost, 1000, US, [0x9000, 0x10]);
    stage.launch("k", US);
    stage.call("cuCtxSynchronize", MS);
    stage.copy(FROM, DeviceToHost, 1000, US, [0x9000, 0x10]);
    let transfers = analysed(&stage.records);
    let down = &transfers.directions[0];
    assert_eq!(
        (down.direction, down.count, down.waited),
        (DeviceToHost, 3, 1)
    );
    assert_eq!(
        (down.busy_ns, down.timed_bytes, down.waited_ns),
        (2 * US, 2000, MS)
    );
    assert_eq!(down.bytes_per_second, Some(1_000_000_000));
    assert_eq!(transfers.busy_ns, 3 * US);
    assert_eq!(transfers.rate.calls.iter().sum::<u64>(), 3);
}

#[test]
fn gpu_work_finds_its_direction_by_correlation() {
    let mut stage = Stage::new();
    stage.copy("cudaMemcpyAsync", DeviceToHost, 10, US, [1, 2]);
    let mark = stage.records.len() - 2;
    stage.gpu("memcpy", Category::Transfer, 5 * US, 7 * US);
    for place in [mark, mark + 2] {
        if let Record::Event(event) = &mut stage.records[place] {
            event.correlation = Some(77);
        }
    }
    let way = analysed(&stage.records).directions.remove(0);
    assert_eq!(
        (way.direction, way.timed_by, way.busy_ns),
        (DeviceToHost, TimedBy::Gpu, 7 * US)
    );
}

/// Count by kind of host memory.
fn kinds(records: &[Record]) -> Vec<(HostKind, u64)> {
    (analysed(records)
        .directions
        .iter()
        .flat_map(|way| &way.host))
    .map(|host| (host.memory, host.count))
    .collect()
}

#[test]
fn pinned_is_what_lies_in_a_pinned_range() {
    let mut stage = Stage::new();
    stage.alloc_in("cuMemHostAlloc", MemorySpace::Host, 0x1000, 0x100);
    stage.alloc_in("cuMemAllocManaged", MemorySpace::Managed, 0x8000, 0x100);
    for src in [0x1000, 0x10ff, 0x1100, 0xfff, 0x8010] {
        stage.copy(TO, HostToDevice, 1, US, [src, 0x9_0000]);
    }
    let expected = [
        (HostKind::Pinned, 2),
        (HostKind::Pageable, 2),
        (HostKind::Managed, 1),
    ];
    assert_eq!(kinds(&stage.records), expected);
    stage.free_by("cuMemFreeHost", 0x1000);
    stage.copy(TO, HostToDevice, 1, US, [0x1000, 0x9_0000]);
    assert_eq!(kinds(&stage.records)[1], (HostKind::Pageable, 3));
    // Another process has no such range.
    stage.pid = 2;
    stage.copy(TO, HostToDevice, 1, US, [0x8010, 0x9_0000]);
    assert_eq!(kinds(&stage.records)[1], (HostKind::Pageable, 4));
}

#[test]
fn a_trace_that_may_have_missed_a_pinned_range_says_unknown() {
    let copy = |stage: &mut Stage| stage.copy(TO, HostToDevice, 1, US, [0x10, 0x9000]);
    let mut lost = Stage::new();
    copy(&mut lost);
    lost.lose(1);
    assert_eq!(kinds(&lost.records), [(HostKind::Unknown, 1)]);
    let mut late = Stage::new();
    copy(&mut late);
    late.free_by("cudaFreeHost", 0x7000);
    assert_eq!(kinds(&late.records), [(HostKind::Unknown, 1)]);
    let mut registered = Stage::new();
    registered.call("cuMemHostRegister_v2", US);
    copy(&mut registered);
    assert_eq!(kinds(&registered.records), [(HostKind::Unknown, 1)]);
    // With its arguments the call says what it pins; the runtime's and the driver's say the same.
    let mut readable = Stage::new();
    let mut register = readable.call("cuMemHostRegister_v2", US);
    register.args = vec![Arg::new("p", 0x10u64), Arg::new("bytesize", 0x10u64)];
    *readable.records.last_mut().unwrap() = register.into();
    copy(&mut readable);
    assert_eq!(kinds(&readable.records), [(HostKind::Pinned, 1)]);
    let mut unregister = readable.call("cuMemHostUnregister", US);
    unregister.args = vec![Arg::new("p", 0x10u64)];
    *readable.records.last_mut().unwrap() = unregister.into();
    copy(&mut readable);
    assert_eq!(
        kinds(&readable.records),
        [(HostKind::Pinned, 1), (HostKind::Pageable, 1)]
    );
}

#[test]
fn places_and_repetition() {
    let mut stage = Stage::new();
    for round in 0..5 {
        stage.copy(TO, HostToDevice, 1000, US * (1 + round % 3), [0x10, 0x9000]);
        stage.copy(TO, HostToDevice, 10, US, [0x10 + round, 0x9000]);
    }
    let transfers = analysed(&stage.records);
    let place = &transfers.places[0];
    assert_eq!((place.count, place.bytes, place.copy_ns), (5, 5000, 9 * US));
    // The third round's call was the first of the longest: ids 1, 3, 5 are the large ones' first.
    assert_eq!((place.op_id, place.from_ns, place.to_ns), (5, 0, 13 * US));
    assert_eq!(transfers.repeated.len(), 1);
    let again = &transfers.repeated[0];
    assert_eq!(
        (again.size_bytes, again.count, again.first_op_id),
        (1000, 5, 1)
    );
}

proptest! {
    #[test]
    fn sums_match_the_meanings(copies in prop::collection::vec((0usize..5, any::<u64>(), 0u64..1000), 0..100)) {
        let mut stage = Stage::new();
        let (mut bytes, mut calls) = (0u64, 0);
        for (way, size, time) in &copies {
            stage.copy("cuMemcpy", Direction::ALL[*way], *size, *time, [*size, 1]);
            bytes = bytes.saturating_add(*size);
            calls += time;
        }
        let transfers = analysed(&stage.records);
        prop_assert_eq!((transfers.count, transfers.bytes), (copies.len() as u64, bytes));
        prop_assert_eq!(transfers.busy_ns, calls, "one thread's calls do not overlap");
        for way in &transfers.directions {
            prop_assert_eq!(way.sizes.iter().map(|bin| bin.count).sum::<u64>(), way.count);
            prop_assert_eq!(way.sizes.iter().map(|bin| bin.call_ns).sum::<u64>(), way.call_ns);
        }
    }
}
