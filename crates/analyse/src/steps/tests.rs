use super::*;
use event::{Arg, Category, Extent, Layer};

fn operator(name: &str, start: u64, duration: u64) -> Event {
    let mut event = Event::new(1, Layer::Framework, Category::Other, name, start);
    (event.pid, event.extent) = (1, Extent::Closed(duration));
    event
}

fn gpu(name: &str, category: Category, start: u64) -> Event {
    let mut event = Event::new(9, Layer::Gpu, category, name, start);
    event.pid = 1;
    event
}

impl StepSweep {
    fn work(&mut self, event: &Event, called: u64, duration: u64) {
        self.gpu_began(event);
        self.gpu_ended(event, called, duration);
    }
}

#[test]
fn the_most_trusted_mark_makes_the_steps() {
    let mut sweep = StepSweep::default();
    for step in 0..4u64 {
        let at = step * 100;
        sweep.ended(&operator("Optimizer.zero_grad#SGD.zero_grad", at, 5), 5);
        let data = format!("{DATA}_SingleProcessDataLoaderIter.__next__");
        sweep.ended(&operator(&data, at + 10, 20), 20);
        sweep.begun(&operator("aten::add", at + 31, 1));
        sweep.begun(&operator("aten::add", at + 32, 1));
        if step == 2 {
            // Its step is under way, as long as the program waits for the GPU.
            sweep.work(&gpu("memcpy H2D", Category::Transfer, 233), 195, 7);
            sweep.work(
                &gpu("ncclDevKernel_AllReduce", Category::Kernel, 240),
                200,
                3,
            );
            // The host is ahead: started in the step before, and running in this one.
            sweep.work(&gpu("gemm", Category::Kernel, 250), 170, 20);
        }
        sweep.ended(&operator("Optimizer.step#SGD.step", at + 60, 30), 30);
        // Another optimizer of the same program is no mark of its own.
        sweep.ended(&operator("Optimizer.step#AdamW.step", at + 91, 2), 2);
    }
    // Before the first end, and after the last.
    let copy = gpu("memcpy H2D", Category::Transfer, 500);
    sweep.work(&copy, 20, 7);
    sweep.work(&copy, 395, 7);
    let found = sweep.finish();
    assert_eq!(found.mark.as_deref(), Some("Optimizer.step#SGD.step"));
    assert_eq!(found.steps.len(), 3);
    let row = &found.steps[1];
    assert_eq!((row.start_ns, row.length_ns, row.operators), (190, 100, 2));
    assert_eq!((row.data_ns, row.gpu_operations, row.gpu_ns), (20, 2, 10));
    assert_eq!((row.copies, row.copy_ns, row.communication_ns), (1, 7, 3));
    assert_eq!((row.busy_ns, row.exposed_copy_ns), (30, 7));
    assert_eq!(row.exposed_communication_ns, 3);
    let others = [found.steps[0], found.steps[2]];
    assert_eq!(others.map(|row| row.gpu_operations), [1, 0]);
    assert_eq!(others.map(|row| row.busy_ns), [0, 0]);
    assert!(!found.decodes);
}

#[test]
fn another_process_has_its_own_work() {
    let mut sweep = StepSweep::default();
    sweep.ended(&operator("Optimizer.step#SGD.step", 0, 10), 10);
    let mut other = gpu("gemm", Category::Kernel, 12);
    other.pid = 2;
    sweep.work(&other, 11, 5);
    sweep.device_memory(2, 1000);
    sweep.ended(&operator("Optimizer.step#SGD.step", 30, 10), 10);
    let row = sweep.finish().steps[0];
    assert_eq!(
        (row.gpu_operations, row.busy_ns, row.memory_bytes),
        (0, 0, 0)
    );
}

#[test]
fn numbered_steps_are_one_mark() {
    let mut sweep = StepSweep::default();
    for step in 0..3u64 {
        let name = format!("ProfilerStep#{step}");
        sweep.ended(&operator(&name, step * 10, 10), 10);
    }
    let found = sweep.finish();
    assert_eq!(
        (found.mark.as_deref(), found.steps.len()),
        (Some("ProfilerStep#"), 2)
    );
    assert!(StepSweep::default().finish().is_empty());
}

#[test]
fn ranges_are_steps_by_their_word() {
    let mut sweep = StepSweep::default();
    for step in 0..4u64 {
        let mut inner = operator(&format!("micro batch {step}"), step * 100, 10);
        inner.kind = Kind::Range;
        sweep.ended(&inner, 10);
        let mut outer = operator(&format!("train_step {step}"), step * 100, 90);
        outer.kind = Kind::Range;
        sweep.ended(&outer, 90);
        let mut other = operator("stepping stone", step * 100, 95);
        other.kind = Kind::Range;
        sweep.ended(&other, 95);
        // No range but an operator of that name.
        sweep.ended(&operator("my::step", step * 100, 99), 99);
    }
    let found = sweep.finish();
    assert_eq!(found.mark.as_deref(), Some("train_step"));
    assert_eq!(found.steps.len(), 3);
}

#[test]
fn a_decoding_loop_chooses_tokens() {
    let embedding = |tokens: i64| {
        let shape =
            |sizes: &[i64]| Value::List(sizes.iter().map(|size| Value::Int(*size)).collect());
        let mut event = operator("aten::embedding", 0, 1);
        let shapes = Value::List(vec![shape(&[512, 64]), shape(&[2, tokens])]);
        event.args = vec![Arg::new("shapes", shapes)];
        event
    };
    let run = |backward: bool| {
        let mut sweep = StepSweep::default();
        for step in 0..10u64 {
            sweep.begun(&embedding(if step == 1 { 32 } else { 1 }));
            sweep.ended(&operator("aten::argmax", step * 50, 5), 5);
        }
        if backward {
            let mut event = operator("AddmmBackward0", 600, 1);
            event.args = vec![Arg::new("scope", "backward")];
            sweep.begun(&event);
        }
        sweep.finish()
    };
    let found = run(false);
    assert!(found.decodes);
    assert_eq!(found.steps.len(), 9);
    let [first, second] = [found.steps[0], found.steps[1]];
    assert_eq!((first.tokens, first.sequences), (64, 2));
    assert!(first.is_prefill() && !second.is_prefill());
    assert!(run(true).is_empty(), "evaluation in a training loop");
}

#[test]
fn memory_is_the_most_of_the_step() {
    let mut sweep = StepSweep::default();
    let end = |at| operator("Optimizer.step#SGD.step", at, 10);
    sweep.device_memory(1, 100);
    sweep.ended(&end(0), 10);
    sweep.device_memory(1, 300);
    sweep.device_memory(1, 200);
    sweep.ended(&end(20), 10);
    sweep.ended(&end(40), 10);
    let found = sweep.finish();
    let memory: Vec<u64> = found.steps.iter().map(|row| row.memory_bytes).collect();
    assert_eq!((memory, found.of_tensors), (vec![300, 200], false));
}
