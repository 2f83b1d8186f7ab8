//! Modifiers in every order that ptxas takes (13.0, sm_90: tried one by one).

use crate::support::{kernel, outputs};
use softgpu_machine::program::Program;

/// Instructions whose modifiers ptxas takes in any order, with their operands.
const ANY_ORDER: &[(&str, &[&str], &str)] = &[
    ("vote", &["sync", "ballot", "b32"], "%r9, %p1, -1"),
    ("vote", &["sync", "any", "pred"], "%p2, %p1, -1"),
    ("vote", &["sync", "all", "pred"], "%p2, !%p1, -1"),
    ("vote", &["sync", "uni", "pred"], "%p2, %p1, -1"),
    ("match", &["any", "sync", "b32"], "%r9, %r1, -1"),
    ("match", &["all", "sync", "b64"], "%r9|%p2, %rd3, -1"),
    ("shfl", &["sync", "up", "b32"], "%r9, %r1, 1, 0, -1"),
    ("shfl", &["sync", "down", "b32"], "%r9, %r1, 1, 31, -1"),
    ("shfl", &["sync", "bfly", "b32"], "%r9|%p2, %r1, 1, 31, -1"),
    ("shfl", &["sync", "idx", "b32"], "%r9, %r1, 1, 31, -1"),
    ("redux", &["sync", "add", "u32"], "%r9, %r1, -1"),
    ("redux", &["sync", "min", "s32"], "%r9, %r1, -1"),
    ("redux", &["sync", "xor", "b32"], "%r9, %r1, -1"),
    (
        "atom",
        &["relaxed", "gpu", "global", "add", "u32"],
        "%r9, [%rd0], %r1",
    ),
    ("atom", &["global", "cas", "b32"], "%r9, [%rd0], %r1, %r2"),
    (
        "atom",
        &["acquire", "cta", "shared", "exch", "b64"],
        "%rd3, [%r1], %rd4",
    ),
    (
        "red",
        &["relaxed", "gpu", "global", "add", "u32"],
        "[%rd0], %r1",
    ),
    ("red", &["global", "add", "f32"], "[%rd0], %f1"),
    (
        "ld",
        &["relaxed", "gpu", "global", "v2", "u64"],
        "{%rd3, %rd4}, [%rd0]",
    ),
    (
        "ld",
        &["global", "nc", "v4", "u32"],
        "{%r1, %r2, %r3, %r4}, [%rd0]",
    ),
    ("ld", &["volatile", "global", "u32"], "%r1, [%rd0]"),
    (
        "st",
        &["relaxed", "gpu", "global", "v2", "u64"],
        "[%rd0], {%rd3, %rd4}",
    ),
    ("fence", &["acq_rel", "gpu"], ""),
];

/// Those where it takes a few.
const SOME_ORDERS: &[&str] = &[
    "activemask.b32 %r9",
    "elect.sync %r9|%p2, -1",
    "bar.sync 0",
    "bar.cta.sync 0",
    "bar.warp.sync -1",
    "bar.red.popc.u32 %r9, 0, %p1",
    "bar.red.u32.popc %r9, 0, %p1",
    "bar.cta.red.popc.u32 %r9, 0, %p1",
    "bar.cta.red.u32.popc %r9, 0, %p1",
    "barrier.sync.aligned 0",
    "barrier.aligned.sync 0",
    "barrier.cta.sync.aligned 0",
    "barrier.cta.aligned.sync 0",
    "barrier.cta.red.and.aligned.pred %p2, 0, %p1",
    "barrier.cta.red.and.pred.aligned %p2, 0, %p1",
    "barrier.cta.red.aligned.and.pred %p2, 0, %p1",
    "barrier.cta.red.aligned.pred.and %p2, 0, %p1",
    "barrier.cta.red.pred.and.aligned %p2, 0, %p1",
    "barrier.cta.red.pred.aligned.and %p2, 0, %p1",
    "barrier.cluster.arrive.release.aligned",
    "barrier.cluster.arrive.aligned.release",
    "barrier.cluster.wait.acquire.aligned",
    "barrier.cluster.wait.aligned.acquire",
    "vote.sync.ballot.sync.b32 %r9, %p1, -1",
];

/// Those that ptxas refuses from PTX 6.4 on.
const REFUSED: &[&str] = &[
    "vote.ballot.b32 %r9, %p1",
    "vote.all.pred %p2, %p1",
    "shfl.up.b32 %r9, %r1, 1, 0",
];

fn orders(words: &[&str]) -> Vec<Vec<String>> {
    if words.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, first) in words.iter().enumerate() {
        let rest: Vec<&str> = [&words[..at], &words[at + 1..]].concat();
        for mut order in orders(&rest) {
            order.insert(0, (*first).to_owned());
            all.push(order);
        }
    }
    all
}

fn load(instruction: &str) -> Result<(), String> {
    let text = kernel(&format!("{instruction}; ret;")).replace("sm_80", "sm_90");
    Program::build(&text)
        .map(drop)
        .map_err(|why| why.to_string())
}

#[test]
fn every_order_of_modifiers_that_ptxas_takes_loads() {
    let mut refused = Vec::new();
    let mut count = 0;
    for (opcode, words, operands) in ANY_ORDER {
        for order in orders(words) {
            let instruction = format!("{opcode}.{} {operands}", order.join("."));
            count += 1;
            refused.extend(load(&instruction).err());
        }
    }
    for instruction in SOME_ORDERS {
        refused.extend(load(instruction).err());
    }
    assert!(count > 600, "{count}");
    assert!(refused.is_empty(), "{refused:#?}");
    for instruction in REFUSED {
        let why = load(instruction).expect_err(instruction);
        assert!(why.contains("without .sync"), "{why}");
    }
}

#[test]
fn the_order_of_modifiers_changes_nothing() {
    for order in orders(&["sync", "ballot", "b32"]) {
        let vote = order.join(".");
        let body = format!(
            "setp.lt.u32 %p1, %r0, 5; vote.{vote} %r9, %p1, -1; st.global.u32 [%rd2], %r9; ret;"
        );
        assert_eq!(outputs(&body, 32), [0x1F; 32], "{vote}");
    }
}
