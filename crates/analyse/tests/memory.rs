//! Memory on traces made by hand, with answers worked out by hand.

mod stage;

use analyse::frees::BadFree;
use analyse::leaks::Judged;
use analyse::memory::{Memory, MemorySweep};
use event::{Arg, MemorySpace, Record, Summary, What};
use proptest::prelude::*;
use stage::{MS, Stage};

fn ended(exit: Option<i32>) -> Option<Summary> {
    Some(Summary {
        exit,
        ..Summary::default()
    })
}

fn analysed(records: &[Record], summary: Option<Summary>) -> Memory {
    let mut sweep = MemorySweep::new(0);
    for record in records {
        sweep.add(record);
    }
    sweep.finish(summary.as_ref())
}

#[test]
fn the_high_water_mark_and_what_is_left() {
    let mut stage = Stage::new();
    stage.alloc(0x1000, 100); // 10 µs
    stage.alloc(0x2000, 50); // 20 µs: 150
    stage.free(0x1000); // 25 µs: 50
    stage.alloc(0x1000, 70); // 35 µs: 120, the address again
    stage.alloc_in("cuMemAllocHost_v2", MemorySpace::Host, 0x9000, 1000);
    stage.free_by("cuMemFreeHost", 0x9000);
    let memory = analysed(&stage.records, ended(Some(0)));
    assert_eq!((memory.allocations, memory.allocated_bytes), (4, 1220));
    assert_eq!((memory.frees, memory.freed_bytes), (2, 1100));
    assert_eq!((memory.live, memory.live_bytes), (2, 120));
    let device = &memory.uses[1];
    assert_eq!((device.pid, device.device), (Some(1), Some(0)));
    assert_eq!(device.space.space, Some(MemorySpace::Device));
    assert_eq!(
        (device.space.peak_bytes, device.space.peak_at_ns),
        (150, 20_000)
    );
    assert_eq!(
        (
            memory.uses[0].space.peak_bytes,
            memory.uses[0].space.live_bytes
        ),
        (1000, 0)
    );
    assert_eq!(
        (memory.bad_frees.bad_count, memory.bad_frees.unseen),
        (0, 0)
    );
    // The level of device memory, by 1024 ns: 0 until 10 µs, then 100, 150, 50 and 120.
    let peaks = &device.space.curve.peaks;
    assert_eq!(
        (peaks[8], peaks[9], peaks[18], peaks[19]),
        (0, 100, 100, 150)
    );
    assert_eq!((peaks[25], peaks.last()), (50, Some(&120)));
}

#[test]
fn leaks_are_grouped_by_stack_and_by_size_without_one() {
    let mut stage = Stage::new();
    stage.stack = vec![0xaaa, 0xbbb];
    let first = stage.alloc(0x1000, 100);
    let second = stage.alloc(0x2000, 300);
    stage.stack = vec![0xaaa, 0xccc];
    let third = stage.alloc(0x3000, 50);
    stage.stack.clear();
    let fourth = stage.alloc(0x4000, 7);
    let fifth = stage.alloc(0x5000, 7);
    let kept: Vec<_> = (analysed(&stage.records, ended(Some(0)))
        .leaks
        .groups
        .into_iter())
    .map(|leak| (leak.holder.count, leak.holder.bytes, leak.holder.op_ids))
    .collect();
    assert_eq!(
        kept,
        [
            (2, 400, vec![first, second]),
            (1, 50, vec![third]),
            (2, 14, vec![fourth, fifth]),
        ]
    );
}

#[test]
fn only_a_program_that_ended_well_leaks_what_it_holds() {
    let mut stage = Stage::new();
    stage.alloc(0x1000, 100);
    let judged = |exit| {
        let leaks = analysed(&stage.records, ended(exit)).leaks;
        (leaks.judged, leaks.count, leaks.bytes, leaks.groups.len())
    };
    assert_eq!(judged(Some(0)), (Judged::ProgramEnded, 1, 100, 1));
    assert_eq!(judged(Some(139)), (Judged::ProgramFailed, 0, 0, 0));
    assert_eq!(judged(None), (Judged::EndUnknown, 0, 0, 0));
    assert_eq!(analysed(&stage.records, None).live_bytes, 100);
    stage.lose(3);
    let leaks = analysed(&stage.records, ended(Some(0))).leaks;
    assert_eq!((leaks.judged, leaks.count), (Judged::EventsLost, 0));
}

/// `-e cudaMalloc` leaves the frees out: what is held at the end is no leak then.
#[test]
fn with_frees_left_out_nobody_knows_what_was_leaked() {
    let left_out = |option: &str| {
        ended(Some(0)).map(|summary| Summary {
            left_out: vec![option.into()],
            ..summary
        })
    };
    let mut stage = Stage::new();
    stage.alloc(0x1000, 100);
    stage.alloc(0x2000, 200);
    let judged = |stage: &Stage, option: &str| {
        let leaks = analysed(&stage.records, left_out(option)).leaks;
        (leaks.judged, leaks.count)
    };
    assert_eq!(judged(&stage, "-e cudaMalloc"), (Judged::CallsLeftOut, 0));
    stage.free(0x2000);
    assert_eq!(judged(&stage, "-e memory"), (Judged::ProgramEnded, 1));
    assert_eq!(
        judged(&stage, "--min-duration 1ms"),
        (Judged::CallsLeftOut, 0)
    );
}

#[test]
fn growth_is_a_leak_however_the_program_ended() {
    let mut stage = Stage::new();
    // Ten buffers of one size, all at once, as a model's layers are.
    for layer in 0..10 {
        stage.alloc(0x10_0000 + layer * 0x1000, 4096);
    }
    // However long it takes until work begins.
    stage.wait(1_000 * MS);
    // Eight rounds that each keep a buffer, and use one that they free.
    for round in 0..8 {
        stage.alloc(0x20_0000 + round * 0x1000, 512);
        stage.alloc(0x30_0000, 2048);
        stage.launch("step", 4_000);
        stage.free(0x30_0000);
        stage.wait(MS);
    }
    let leaks = analysed(&stage.records, ended(None)).leaks;
    assert_eq!(leaks.groups.len(), 1);
    let leak = &leaks.groups[0];
    assert!(leak.grows && !leak.with_context);
    assert_eq!((leak.holder.count, leak.holder.bytes), (8, 4096));
    assert_eq!(leak.holder.launches_between, 7);
    let all = analysed(&stage.records, ended(Some(0))).leaks;
    assert_eq!((all.count, all.bytes), (18, 45_056));
    assert_eq!(all.groups.iter().filter(|leak| leak.grows).count(), 1);
}

#[test]
fn a_destroyed_context_takes_its_memory_along() {
    let mut stage = Stage::new();
    stage.alloc(0x1000, 100);
    stage.context = Some(0xd0);
    stage.alloc(0x2000, 30);
    let mut destroy = stage.call("cuCtxDestroy_v2", 1_000);
    destroy.args = vec![Arg::new("ctx", 0xc0u64)];
    *stage.records.last_mut().unwrap() = destroy.into();
    let memory = analysed(&stage.records, ended(Some(1)));
    assert_eq!((memory.live, memory.live_bytes), (1, 30));
    let leak = &memory.leaks.groups[0];
    assert!(leak.with_context);
    assert_eq!((memory.leaks.groups.len(), leak.holder.bytes), (1, 100));
    assert_eq!(memory.freed_bytes, 100);
}

#[test]
fn memory_with_a_handle_goes_with_its_handle_or_its_mapping() {
    let mut stage = Stage::new();
    let create = "cuMemCreate";
    stage.alloc_in(create, MemorySpace::Device, 1, 100);
    stage.alloc_in(create, MemorySpace::Device, 2, 200);
    // An address that has the same value as a handle is another matter.
    stage.alloc(1, 7);
    stage.free_by("cuMemUnmap", 1);
    stage.free_by("cuMemRelease", 2);
    let memory = analysed(&stage.records, ended(Some(0)));
    assert_eq!((memory.live, memory.live_bytes), (1, 7));
    assert_eq!(memory.bad_frees.of_older_memory, 0);
}

#[test]
fn two_processes_may_have_one_pointer() {
    let mut stage = Stage::new();
    stage.alloc(0x1000, 100);
    stage.pid = 2;
    stage.alloc(0x1000, 200);
    stage.free(0x1000);
    let memory = analysed(&stage.records, ended(Some(0)));
    assert_eq!(
        (memory.live, memory.live_bytes, memory.bad_frees.unseen),
        (1, 100, 0)
    );
    assert_eq!(memory.spaces[0].peak_bytes, 300);
    assert_eq!(memory.leaks.groups[0].holder.pid, 1);
}

#[test]
fn older_memory_is_no_mistake_and_freeing_twice_is() {
    let mut stage = Stage::new();
    stage.free(0x7000);
    stage.alloc(0x1000, 100);
    stage.free(0x1000);
    let twice = stage.free(0x1000);
    stage.alloc(0x1000, 100);
    stage.free(0x1000);
    let frees = analysed(&stage.records, ended(Some(0))).bad_frees;
    assert_eq!((frees.of_older_memory, frees.bad_count), (1, 1));
    assert_eq!(
        (frees.bad[0].what, frees.bad[0].op_id),
        (BadFree::Twice, twice)
    );
}

/// Its node makes it at every launch, and the trace says so once.
#[test]
fn memory_of_a_graph_may_be_freed_after_each_launch() {
    let mut stage = Stage::new();
    stage.alloc_in("cudaGraphAddMemAllocNode", MemorySpace::Device, 0x1000, 100);
    stage.free_by("cudaFreeAsync", 0x1000);
    stage.free_by("cudaFreeAsync", 0x1000);
    let memory = analysed(&stage.records, ended(Some(0)));
    assert_eq!((memory.bad_frees.bad_count, memory.live), (0, 0));
    assert_eq!((memory.allocated_bytes, memory.freed_bytes), (100, 100));
}

/// The last two records are a call, which failed freeing `ptr`.
fn with_pointer(stage: &mut Stage, ptr: u64) {
    if let Some(Record::Event(event)) = stage.records.last_mut() {
        event.args = vec![Arg::new("dptr", ptr)];
    }
}

#[test]
fn refused_frees_say_why() {
    let mut stage = Stage::new();
    stage.alloc(0x1000, 100);
    stage.free(0x1000);
    stage.returned("cuMemFree_v2", 100, 1);
    with_pointer(&mut stage, 0x1000);
    stage.alloc_in("cuMemAllocHost_v2", MemorySpace::Host, 0x5000, 10);
    stage.returned("cuMemFree_v2", 100, 1);
    with_pointer(&mut stage, 0x5000);
    stage.pid = 2;
    stage.returned("cuMemFree_v2", 100, 1);
    with_pointer(&mut stage, 0x5000);
    stage.returned("cuMemFree_v2", 100, 1);
    with_pointer(&mut stage, 0xffff);
    // The driver is shutting down: destructors' frees fail in every such program.
    stage.returned("cuMemFree_v2", 100, 4);
    // The runtime's call and the driver's inside it are one mistake.
    let outer = stage.nested("cudaFree", "cuMemFree_v2", 5_000, 1);
    let frees = analysed(&stage.records, ended(Some(0))).bad_frees;
    let what: Vec<_> = frees.bad.iter().map(|bad| bad.what).collect();
    assert_eq!(
        what,
        [
            BadFree::Twice,
            BadFree::WrongFunction,
            BadFree::OfAnotherProcess,
            BadFree::Refused,
            BadFree::Refused
        ]
    );
    assert_eq!(
        (&*frees.bad[4].function, frees.bad[4].op_id),
        ("cudaFree", outer)
    );
    assert_eq!(frees.bad_count, 5);
}

#[test]
fn small_allocations_that_stay_hold_whole_blocks() {
    const MIB: u64 = 1 << 20;
    let mut stage = Stage::new();
    let at = |block: u64| 0x1_0000_0000 + block * 2 * MIB;
    for block in 0..8 {
        stage.alloc(at(block), MIB);
        stage.alloc(at(block) + MIB, 4096);
    }
    for block in 0..8 {
        stage.free(at(block));
    }
    let hint = analysed(&stage.records, None).fragmentation.unwrap();
    assert_eq!(
        (hint.live_bytes, hint.block_held_bytes),
        (8 * 4096, 16 * MIB)
    );
}

#[test]
fn too_many_to_follow_are_counted_and_said() {
    let mut stage = Stage::new();
    for place in 1..=25 {
        stage.alloc(place << 12, 100);
    }
    let mut sweep = MemorySweep::following(0, 10);
    stage.records.iter().for_each(|record| sweep.add(record));
    let memory = sweep.finish(ended(Some(0)).as_ref());
    assert_eq!((memory.not_followed, memory.live), (15, 25));
    assert_eq!(
        (memory.live_bytes, memory.spaces[0].peak_bytes),
        (2500, 2500)
    );
    assert_eq!(
        memory.holders[0].count, 10,
        "places are known of those followed"
    );
    // Frees that say their size, as tracers do that saw the allocation, bring it down again.
    for place in 1..=25 {
        stage.free(place << 12);
        if let Some(Record::Meaning(meaning)) = stage.records.last_mut()
            && let What::Memory(memory) = &mut meaning.what
        {
            memory.size = Some(100);
            memory.space = Some(MemorySpace::Device);
        }
    }
    let mut sweep = MemorySweep::following(0, 10);
    stage.records.iter().for_each(|record| sweep.add(record));
    let memory = sweep.finish(ended(Some(0)).as_ref());
    assert_eq!(
        (memory.not_followed, memory.live, memory.live_bytes),
        (0, 0, 0)
    );
    assert_eq!(
        (memory.freed_bytes, memory.bad_frees.of_older_memory),
        (2500, 0)
    );
}

#[test]
fn sizes_of_a_hostile_trace_do_not_wrap() {
    let mut stage = Stage::new();
    for round in 0..4u64 {
        stage.alloc(u64::MAX - round, u64::MAX);
    }
    stage.now = u64::MAX - 100_000;
    stage.alloc(1, u64::MAX);
    for round in 0..4u64 {
        stage.free(u64::MAX - round);
    }
    let memory = analysed(&stage.records, ended(Some(0)));
    assert_eq!(
        (memory.allocated_bytes, memory.live_bytes),
        (u64::MAX, u64::MAX)
    );
    assert_eq!(memory.live, 1);
    // An hour behind the origin is the origin.
    let mut sweep = MemorySweep::new(u64::MAX);
    stage.records.iter().for_each(|record| sweep.add(record));
    assert_eq!(sweep.finish(None).spaces[0].peak_at_ns, u64::MAX);
}

proptest! {
    #[test]
    fn what_is_live_is_what_was_allocated_less_what_was_freed(
        steps in prop::collection::vec((any::<bool>(), 1u32..4, 1u64..20, 0u64..1 << 40), 0..300)
    ) {
        let mut stage = Stage::new();
        for (alloc, pid, slot, size) in steps {
            stage.pid = pid;
            if alloc {
                stage.alloc(slot << 20, size);
            } else {
                stage.free(slot << 20);
            }
        }
        let memory = analysed(&stage.records, ended(Some(0)));
        prop_assert_eq!(memory.live_bytes, memory.allocated_bytes - memory.freed_bytes);
        let peak = memory.spaces.first().map_or(0, |space| space.peak_bytes);
        prop_assert!(peak >= memory.live_bytes);
        let uses = memory.uses.iter().map(|one| one.space.live_bytes).sum::<u64>();
        prop_assert_eq!(uses, memory.live_bytes);
        prop_assert_eq!(memory.leaks.bytes, memory.live_bytes);
        let held = memory.holders.iter().map(|holder| holder.bytes).sum::<u64>();
        prop_assert_eq!(held, memory.live_bytes);
    }
}
