//! Operations among lanes, alone and in divergent code.

use crate::support::outputs;

fn store(body: &str) -> String {
    format!("{body} st.global.u32 [%rd2], %r9; ret;")
}

/// Shuffle by the definition in the PTX manual.
fn shuffle(mode: &str, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let segment = c >> 8 & 31;
    let most = (lane & segment) | (c & 31 & !segment);
    let least = lane & segment;
    let (b, lane) = (b as i32 & 31, lane as i32);
    let (j, valid) = match mode {
        "up" => (lane - b, lane - b >= most as i32),
        "down" => (lane + b, lane + b <= most as i32),
        "bfly" => (lane ^ b, lane ^ b <= most as i32),
        _ => {
            let j = least as i32 | (b & !(segment as i32));
            (j, j <= most as i32)
        }
    };
    (if valid { j as u32 } else { lane as u32 }, valid)
}

#[test]
fn shuffles_with_every_clamp_and_segment() {
    for mode in ["up", "down", "bfly", "idx"] {
        for b in [0u32, 1, 3, 5, 16, 31, 33] {
            for c in [
                0u32, 31, 7, 0x1800, 0x181F, 0x1C1F, 0x1000, 0x101F, 0x1F1F, 0x0F0F,
            ] {
                let got = outputs(
                    &store(&format!(
                        "add.u32 %r1, %r0, 100;
                         shfl.sync.{mode}.b32 %r2|%p1, %r1, {b}, {c}, -1;
                         selp.u32 %r3, 1000, 0, %p1;
                         add.u32 %r9, %r2, %r3;"
                    )),
                    32,
                );
                for (lane, value) in got.into_iter().enumerate() {
                    let (source, valid) = shuffle(mode, lane as u32, b, c);
                    let expected = source + 100 + u32::from(valid) * 1000;
                    assert_eq!(value, expected, "{mode} {b} {c:#x} lane {lane}");
                }
            }
        }
    }
}

#[test]
fn votes() {
    let body = |vote: &str| {
        store(&format!(
            "setp.lt.u32 %p1, %r0, 5; vote.sync.{vote}, -1; selp.u32 %r9, 1, 0, %p2;"
        ))
    };
    assert_eq!(outputs(&body("all.pred %p2, %p1"), 32), [0; 32]);
    assert_eq!(outputs(&body("any.pred %p2, %p1"), 32), [1; 32]);
    assert_eq!(outputs(&body("any.pred %p2, !%p1"), 4), [0; 4]);
    assert_eq!(outputs(&body("all.pred %p2, %p1"), 4), [1; 4]);
    assert_eq!(outputs(&body("uni.pred %p2, %p1"), 32), [0; 32]);
    let ballot = store("setp.lt.u32 %p1, %r0, 5; vote.sync.ballot.b32 %r9, !%p1, -1;");
    assert_eq!(outputs(&ballot, 16), [0xFFE0; 16]);
}

#[test]
fn matches() {
    let body = store("shr.u32 %r1, %r0, 3; match.any.sync.b32 %r9, %r1, -1;");
    let expected: Vec<u32> = (0..32).map(|lane| 0xFF << (lane / 8 * 8)).collect();
    assert_eq!(outputs(&body, 32), expected);
    let body = store(
        "cvt.u64.u32 %rd5, %r0; shr.u64 %rd5, %rd5, 5;
         match.all.sync.b64 %r1|%p1, %rd5, -1; selp.u32 %r9, %r1, 7, %p1;",
    );
    assert_eq!(outputs(&body, 64), [u32::MAX; 64]);
    let body = store("match.all.sync.b32 %r1|%p1, %r0, -1; selp.u32 %r9, 1, %r1, %p1;");
    assert_eq!(outputs(&body, 32), [0; 32]);
}

#[test]
fn reductions() {
    let cases = [
        ("add.u32", 496),
        ("min.u32", 0),
        ("max.s32", 31),
        ("and.b32", 0),
        ("or.b32", 31),
        ("xor.b32", 0),
    ];
    for (form, expected) in cases {
        let body = store(&format!("redux.sync.{form} %r9, %r0, -1;"));
        assert_eq!(outputs(&body, 32), [expected; 32], "{form}");
    }
    let body = store("sub.s32 %r1, 10, %r0; redux.sync.min.s32 %r9, %r1, -1;");
    assert_eq!(outputs(&body, 32), [-21i32 as u32; 32]);
}

#[test]
fn election_and_lane_masks() {
    let body = store(
        "setp.lt.u32 %p0, %r0, 7; @%p0 bra done;
         elect.sync %r1|%p1, 0xFFFFFF80; selp.u32 %r9, %r1, 99, %p1; bra end;
         done: mov.u32 %r9, %lanemask_lt; end:",
    );
    let expected: Vec<u32> = (0..32)
        .map(|lane: u32| match lane {
            0..7 => (1 << lane) - 1,
            7 => 7,
            _ => 99,
        })
        .collect();
    assert_eq!(outputs(&body, 32), expected);
}

#[test]
fn sync_operations_wait_for_lanes_on_other_paths() {
    // Odd lanes take a detour; both reach the shuffle, which must see all of them.
    let body = store(
        "and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, %r0;
         @%p1 bra meet;
         mov.u32 %r3, 0;
         loop: add.u32 %r3, %r3, 1; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r3, %r0; @%p2 bra loop;
         meet: shfl.sync.bfly.b32 %r9, %r2, 1, 31, -1;",
    );
    let value = |lane: u32| if lane % 2 == 1 { lane * 2 } else { lane };
    let expected: Vec<u32> = (0..32).map(|lane| value(lane ^ 1)).collect();
    assert_eq!(outputs(&body, 32), expected);
}

#[test]
fn warp_barriers_meet_from_different_places() {
    // Each half writes, waits, and reads what the other half wrote.
    let body = store(
        ".shared .b32 s[32];
         mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.u32 %r2, %r1, %r2;
         xor.b32 %r3, %r0, 16; shl.b32 %r3, %r3, 2; add.u32 %r3, %r1, %r3;
         setp.lt.u32 %p1, %r0, 16;
         @%p1 bra low;
         add.u32 %r4, %r0, 500; st.shared.u32 [%r2], %r4;
         bar.warp.sync -1;
         ld.shared.u32 %r9, [%r3];
         bra end;
         low: add.u32 %r4, %r0, 900; st.shared.u32 [%r2], %r4;
         bar.warp.sync -1;
         ld.shared.u32 %r9, [%r3];
         end:",
    );
    let expected: Vec<u32> = (0..32)
        .map(|lane| if lane < 16 { lane + 516 } else { lane + 884 })
        .collect();
    assert_eq!(outputs(&body, 32), expected);
}

#[test]
fn different_masks_in_one_instruction() {
    let body = store(
        "setp.lt.u32 %p1, %r0, 8; selp.u32 %r1, 0x000000FF, 0xFFFFFF00, %p1;
         redux.sync.add.u32 %r9, %r0, %r1;",
    );
    let expected: Vec<u32> = (0..32)
        .map(|lane| if lane < 8 { 28 } else { 468 })
        .collect();
    assert_eq!(outputs(&body, 32), expected);
}

#[test]
fn exited_lanes_are_not_waited_for() {
    let body = store(
        "setp.ge.u32 %p1, %r0, 20; @%p1 exit;
         redux.sync.add.u32 %r9, 1, -1;",
    );
    let mut expected = vec![20; 20];
    expected.resize(32, 0);
    assert_eq!(outputs(&body, 32), expected);
}

#[test]
fn active_mask_after_divergence_and_reconvergence() {
    let body = store(
        "setp.lt.u32 %p1, %r0, 10; @%p1 bra low;
         activemask.b32 %r1; bra end;
         low: activemask.b32 %r1;
         end: activemask.b32 %r2; setp.eq.u32 %p2, %r2, -1; selp.u32 %r9, %r1, 0, %p2;",
    );
    let expected: Vec<u32> = (0..32)
        .map(|lane| if lane < 10 { 0x3FF } else { !0x3FF })
        .collect();
    assert_eq!(outputs(&body, 32), expected);
}
