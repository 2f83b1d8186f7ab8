//! Contexts on traces made by hand.

mod stage;

use analyse::contexts::{ContextSweep, Contexts};
use event::{Arg, Category, Record};
use stage::{Stage, US};

fn analysed(records: &[Record]) -> Contexts {
    let mut sweep = ContextSweep::default();
    for record in records {
        sweep.add(record);
    }
    sweep.finish()
}

/// The latest record is a call's end: gives it an argument.
fn with(stage: &mut Stage, name: &str, value: u64) {
    if let Some(Record::Event(event)) = stage.records.last_mut() {
        event.args.push(Arg::new(name, value));
    }
}

#[test]
fn lives_of_contexts() {
    let mut stage = Stage::new();
    stage.context = None;
    stage.call("cuCtxCreate_v2", 100 * US);
    with(&mut stage, "pctx", 0xa);
    stage.context = Some(0xa);
    stage.call("cuStreamCreate", 10 * US);
    stage.tid = 2;
    stage.call("cuStreamCreate", 10 * US);
    let destroy = stage.call("cuCtxDestroy_v2", 30 * US).id;
    with(&mut stage, "ctx", 0xa);
    let contexts = analysed(&stage.records);
    assert_eq!(
        (contexts.created, contexts.destroyed, contexts.seen),
        (1, 1, 1)
    );
    assert_eq!(
        (contexts.creation_ns, contexts.destruction_ns),
        (100 * US, 30 * US)
    );
    let one = &contexts.contexts[0];
    assert_eq!(
        (one.created_at_ns, one.destroyed_at_ns),
        (Some(100 * US), Some(150 * US))
    );
    assert_eq!(
        (one.destroyed_op_id, one.calls, one.threads),
        (Some(destroy), 3, 2)
    );
}

#[test]
fn the_primary_context_is_made_once() {
    let mut stage = Stage::new();
    stage.context = None;
    for _ in 0..3 {
        stage.call("cuDevicePrimaryCtxRetain", 10 * US);
        with(&mut stage, "pctx", 0xa);
    }
    let contexts = analysed(&stage.records);
    assert_eq!((contexts.created, contexts.seen), (1, 1));
}

#[test]
fn a_reading_without_arguments_still_knows_when_the_primary_context_came() {
    let mut stage = Stage::new();
    stage.context = None;
    let first = stage.call("cuDevicePrimaryCtxRetain", 10 * US).id;
    stage.call("cuDevicePrimaryCtxRetain", 10 * US);
    stage.context = Some(0xa);
    stage.call("cuMemsetD8_v2", US);
    let contexts = analysed(&stage.records);
    assert_eq!((contexts.created, contexts.seen), (1, 1));
    let one = &contexts.contexts[0];
    assert_eq!(
        (one.created_at_ns, one.created_op_id),
        (Some(10 * US), Some(first))
    );
}

#[test]
fn switches_are_counted_where_the_context_changes() {
    let mut stage = Stage::new();
    for round in 0..4u64 {
        stage.context = Some(0xa + round % 2);
        stage.call("cuCtxSetCurrent", 5 * US);
        stage.wait(95 * US);
        stage.call("cuMemsetD8_v2", 0);
    }
    // Another thread that never switches.
    stage.tid = 2;
    stage.context = Some(0xa);
    stage.nested("cudaSetDevice", "cuCtxSetCurrent", 10 * US, 0);
    stage.call("cuMemsetD8_v2", 0);
    let contexts = analysed(&stage.records);
    assert_eq!(
        (contexts.switches, contexts.set_calls, contexts.seen),
        (3, 5, 2)
    );
    assert_eq!(contexts.set_ns, 30 * US);
    let thread = &contexts.threads[0];
    assert_eq!((thread.tid, thread.switches, thread.set_calls), (1, 3, 4));
    // At 105, 205 and 305 µs.
    assert_eq!(
        (thread.shortest_ns, thread.mean_ns),
        (Some(100 * US), Some(100 * US))
    );
    assert_eq!((thread.from_ns, thread.to_ns), (105 * US, 305 * US));
    assert_eq!(
        contexts.threads[1].set_calls, 1,
        "a call inside a call is the same one"
    );
}

#[test]
fn the_gpu_switches_between_processes() {
    let mut stage = Stage::new();
    for round in 0..6u32 {
        stage.pid = 1 + round % 2;
        stage.gpu("kernel", Category::Kernel, u64::from(round) * 10, 5);
    }
    let contexts = analysed(&stage.records);
    assert_eq!(
        (contexts.gpus[0].switches, contexts.gpus[0].processes),
        (5, 2)
    );
    assert_eq!(contexts.switches, 0);
}
