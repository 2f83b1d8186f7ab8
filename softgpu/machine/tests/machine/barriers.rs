//! Barriers of a block: all warps, some of them, with exits, with reductions; clusters.

use crate::support::{Arg, Device, kernel, outputs};

#[test]
fn all_warps_meet_again_and_again() {
    // A prefix doubling over shared memory needs every barrier.
    let body = ".shared .b32 s[256];
        mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1;
        st.shared.u32 [%r2], 1; mov.u32 %r3, 1;
        loop: bar.sync 0;
        mov.u32 %r5, 0; setp.ge.u32 %p1, %r0, %r3;
        shl.b32 %r4, %r3, 2; sub.u32 %r4, %r2, %r4;
        @%p1 ld.shared.u32 %r5, [%r4];
        bar.sync 0;
        ld.shared.u32 %r6, [%r2]; add.u32 %r6, %r6, %r5; st.shared.u32 [%r2], %r6;
        shl.b32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 256; @%p2 bra loop;
        bar.sync 0; ld.shared.u32 %r6, [%r2]; st.global.u32 [%rd2], %r6; ret;";
    assert_eq!(outputs(body, 256), (1..=256).collect::<Vec<_>>());
}

#[test]
fn exited_warps_and_lanes_are_not_waited_for() {
    let body = ".shared .b32 s;
        setp.ge.u32 %p1, %r0, 70; @%p1 ret;
        setp.eq.u32 %p2, %r0, 69; @%p2 st.shared.u32 [s], 5;
        bar.sync 0; ld.shared.u32 %r1, [s]; st.global.u32 [%rd2], %r1; ret;";
    let mut expected = vec![5; 70];
    expected.resize(160, 0);
    assert_eq!(outputs(body, 160), expected);
}

#[test]
fn named_barriers_for_some_warps() {
    // Warps 0 and 1 exchange through barrier 1, warps 2 and 3 through barrier 2.
    let body = ".shared .b32 s[128];
        mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1;
        xor.b32 %r3, %r0, 32; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r1;
        st.shared.u32 [%r2], %r0;
        shr.u32 %r4, %r0, 6; add.u32 %r4, %r4, 1;
        barrier.sync %r4, 64;
        ld.shared.u32 %r5, [%r3]; st.global.u32 [%rd2], %r5; ret;";
    let expected: Vec<u32> = (0..128).map(|thread| thread ^ 32).collect();
    assert_eq!(outputs(body, 128), expected);
}

#[test]
fn producers_arrive_and_consumers_wait() {
    let body = ".shared .b32 s[32];
        mov.u32 %r1, s; and.b32 %r2, %r0, 31; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %r1;
        setp.lt.u32 %p1, %r0, 32; @%p1 bra consumer;
        mul.lo.u32 %r3, %r0, 3; st.shared.u32 [%r2], %r3; bar.arrive 3, 64; ret;
        consumer: bar.sync 3, 64; ld.shared.u32 %r4, [%r2]; st.global.u32 [%rd2], %r4; ret;";
    let mut expected: Vec<u32> = (0..32).map(|lane| (lane + 32) * 3).collect();
    expected.resize(64, 0);
    assert_eq!(outputs(body, 64), expected);
}

#[test]
fn barriers_in_both_branches_of_a_warp() {
    let body = "setp.lt.u32 %p1, %r0, 7; @%p1 bra low;
        bar.sync 0; mov.u32 %r1, 1; bra end;
        low: bar.sync 0; mov.u32 %r1, 2; end: st.global.u32 [%rd2], %r1; ret;";
    let expected: Vec<u32> = (0..64)
        .map(|thread| if thread < 7 { 2 } else { 1 })
        .collect();
    assert_eq!(outputs(body, 64), expected);
}

#[test]
fn reductions_over_the_block() {
    let body = "setp.lt.u32 %p1, %r0, 50;
        barrier.red.popc.u32 %r1, 0, %p1;
        barrier.red.and.pred %p2, 0, %p1;
        barrier.red.or.pred %p3, 0, !%p1;
        selp.u32 %r2, 1000, 0, %p2; selp.u32 %r3, 2000, 0, %p3;
        add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;
        st.global.u32 [%rd2], %r1; ret;";
    assert_eq!(outputs(body, 96), [2050; 96]);
    assert_eq!(outputs(body, 40), [1040; 40]);
}

#[test]
fn memory_barrier_objects() {
    // A phase completes when all 64 threads have arrived; each then sees all stores.
    let body = ".shared .align 8 .b64 bar; .shared .b32 s[64];
        mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1;
        setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [bar], 64;
        bar.sync 0;
        st.shared.u32 [%r2], %r0;
        mbarrier.arrive.shared.b64 %rd5, [bar];
        again: mbarrier.test_wait.shared.b64 %p2, [bar], %rd5; @!%p2 bra again;
        xor.b32 %r3, %r0, 63; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r1;
        ld.shared.u32 %r4, [%r3]; st.global.u32 [%rd2], %r4; ret;";
    let expected: Vec<u32> = (0..64).map(|thread| thread ^ 63).collect();
    assert_eq!(outputs(body, 64), expected);
}

#[test]
fn clusters_share_memory_and_barriers() {
    let text = kernel(
        ".shared .b32 s;
         mov.u32 %r1, %cluster_ctarank; add.u32 %r2, %r1, 70; st.shared.u32 [s], %r2;
         barrier.cluster.arrive; barrier.cluster.wait;
         xor.b32 %r3, %r1, 1; mov.u32 %r4, s;
         mapa.shared::cluster.u32 %r5, %r4, %r3;
         ld.shared::cluster.u32 %r6, [%r5];
         mov.u32 %r7, %ctaid.x; mul.wide.u32 %rd5, %r7, 4; add.u64 %rd5, %rd5, %rd0;
         st.global.u32 [%rd5], %r6;
         barrier.cluster.arrive; barrier.cluster.wait; ret;",
    );
    let mut device = Device::new();
    let loaded = device.load(&text);
    let out = device.allocate(8 * 4);
    let args = [Arg::Pointer(out), Arg::Pointer(0)];
    device
        .launch_with(&loaded, "main", 8, 32, &args, |l| l.cluster = [2, 1, 1])
        .unwrap();
    let expected: Vec<u32> = (0..8).map(|block| ((block % 2) ^ 1) + 70).collect();
    assert_eq!(device.download::<u32>(out, 8), expected);
}
