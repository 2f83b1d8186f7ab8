use super::*;
use event::{Arg, Category, Layer};

fn operator(id: u64, name: &str, tid: u32, start: u64, extent: Extent) -> Event {
    let mut event = Event::new(id, Layer::Framework, Category::Other, name, start);
    event.extent = extent;
    (event.pid, event.tid) = (1, tid);
    event
}

fn launch(id: u64, tid: u32, start: u64) -> Event {
    let mut event = Event::new(id, Layer::Driver, Category::Kernel, "cuLaunchKernel", start);
    (event.pid, event.tid, event.correlation) = (1, tid, Some(id));
    event.extent = Extent::Open;
    event
}

fn work(cause: u64, start: u64, duration: u64) -> Event {
    let mut event = Event::new(1000 + cause, Layer::Gpu, Category::Kernel, "k", start);
    (event.pid, event.correlation) = (1, Some(cause));
    event.extent = Extent::Closed(duration);
    event
}

fn row<'a>(found: &'a Operators, name: &str) -> &'a Operator {
    let mut rows = found.operators.iter();
    rows.find(|row| &*row.name == name).expect("a row")
}

#[test]
fn times_are_told_apart_by_who_spent_them() {
    let mut sweep = OperatorSweep::default();
    sweep.operator(&operator(1, "aten::linear", 1, 0, Extent::Open));
    sweep.operator(&operator(2, "aten::addmm", 1, 10, Extent::Open));
    sweep.call(&launch(3, 1, 20));
    sweep.operator(&operator(2, "aten::addmm", 1, 10, Extent::Closed(30)));
    sweep.call(&launch(4, 1, 50));
    sweep.operator(&operator(1, "aten::linear", 1, 0, Extent::Closed(60)));
    // In no operator, and on a thread that has none.
    sweep.call(&launch(5, 1, 70));
    sweep.call(&launch(6, 2, 30));
    for (cause, duration) in [(3, 100), (4, 7), (5, 1), (6, 1)] {
        sweep.gpu(&work(cause, 200, duration), duration);
    }
    let (found, ..) = sweep.finish();
    let linear = row(&found, "aten::linear");
    assert_eq!((linear.count, linear.total_ns, linear.self_ns), (1, 60, 30));
    assert_eq!((linear.gpu_operations, linear.gpu_ns), (2, 107));
    assert_eq!((linear.self_gpu_operations, linear.self_gpu_ns), (1, 7));
    let addmm = row(&found, "aten::addmm");
    assert_eq!(
        (addmm.self_ns, addmm.self_gpu_ns, addmm.gpu_ns),
        (30, 100, 100)
    );
    assert_eq!(&*found.operators[0].name, "aten::addmm");
    assert_eq!((found.count, found.inside, found.outside), (2, 2, 2));
}

#[test]
fn an_operator_in_itself_counts_its_time_once() {
    let mut sweep = OperatorSweep::default();
    for (id, start) in [(1, 0), (2, 5)] {
        sweep.operator(&operator(id, "aten::to", 1, start, Extent::Open));
    }
    sweep.call(&launch(3, 1, 6));
    sweep.operator(&operator(2, "aten::to", 1, 5, Extent::Closed(10)));
    sweep.operator(&operator(1, "aten::to", 1, 0, Extent::Closed(20)));
    sweep.gpu(&work(3, 50, 4), 4);
    let (found, ..) = sweep.finish();
    let to = row(&found, "aten::to");
    assert_eq!((to.count, to.total_ns, to.self_ns), (2, 20, 20));
    assert_eq!((to.gpu_operations, to.gpu_ns), (1, 4));
}

#[test]
fn work_of_a_graph_belongs_to_the_operator_that_captured_it() {
    let mut sweep = OperatorSweep::default();
    sweep.operator(&operator(1, "aten::addmm", 1, 0, Extent::Open));
    sweep.operator(&operator(1, "aten::addmm", 1, 0, Extent::Closed(10)));
    sweep.operator(&operator(2, "replay", 1, 20, Extent::Open));
    sweep.call(&launch(3, 1, 25));
    let mut kernel = work(3, 30, 8);
    let origin = vec![Arg::new("op_id", 1u64), Arg::new("operator", "aten::addmm")];
    kernel.args = vec![Arg::new("origin", Value::Map(origin))];
    sweep.gpu(&kernel, 8);
    let (found, ..) = sweep.finish();
    assert_eq!(row(&found, "aten::addmm").self_gpu_ns, 8);
    assert_eq!(row(&found, "replay").gpu_operations, 0);
}

#[test]
fn backward_work_counts_for_the_module_of_the_forward_operator() {
    let mut sweep = OperatorSweep::default();
    let with = |mut event: Event, scope: &str| {
        event.args = vec![Arg::new("scope", scope), Arg::new("seq", 7u64)];
        event
    };
    for (id, name) in [(1, "nn.Module: Net"), (2, "nn.Module: Net.0")] {
        sweep.operator(&operator(id, name, 1, id, Extent::Open));
    }
    let forward = operator(3, "aten::linear", 1, 3, Extent::Open);
    sweep.operator(&with(forward, "operator"));
    for (id, name) in [
        (3, "aten::linear"),
        (2, "nn.Module: Net.0"),
        (1, "nn.Module: Net"),
    ] {
        sweep.operator(&operator(id, name, 1, id, Extent::Closed(10)));
    }
    let backward = operator(4, "AddmmBackward0", 2, 50, Extent::Open);
    sweep.operator(&with(backward, "backward"));
    sweep.call(&launch(5, 2, 55));
    sweep.gpu(&work(5, 60, 9), 9);
    let (found, ..) = sweep.finish();
    assert_eq!(row(&found, "AddmmBackward0").self_gpu_ns, 9);
    for name in ["nn.Module: Net", "nn.Module: Net.0"] {
        let row = row(&found, name);
        assert_eq!((row.gpu_ns, row.self_gpu_ns), (9, 0), "{name}");
        assert!(row.module().is_some_and(|module| module.starts_with("Net")));
    }
}

#[test]
fn names_without_end_are_counted_and_not_kept() {
    let mut sweep = OperatorSweep::default();
    for id in 0..MOST_NAMES as u64 + 10 {
        let name = format!("op {id}");
        sweep.operator(&operator(id, &name, 1, id, Extent::Open));
        sweep.operator(&operator(id, &name, 1, id, Extent::Closed(1)));
    }
    let (found, ..) = sweep.finish();
    assert_eq!((found.operators.len(), found.left_out), (MOST_NAMES, 10));
}

#[test]
fn ranges_of_xla_are_operators() {
    let mut sweep = OperatorSweep::default();
    let module = "XlaModule:#hlo_module=jit_f,program_id=3#";
    let thunk = "Thunk:#name=jit(f)/add,hlo_op=add.1,unique_hlo_op_id=7#";
    sweep.range(&operator(1, module, 1, 0, Extent::Open));
    sweep.range(&operator(2, thunk, 1, 10, Extent::Open));
    sweep.range(&operator(3, "my range", 1, 11, Extent::Open));
    sweep.call(&launch(4, 1, 12));
    sweep.range(&operator(2, thunk, 1, 10, Extent::Closed(30)));
    sweep.range(&operator(1, module, 1, 0, Extent::Closed(60)));
    sweep.gpu(&work(4, 200, 100), 100);
    let (found, ..) = sweep.finish();
    assert_eq!(found.operators.len(), 2);
    let add = row(&found, "jit(f)/add (add.1)");
    assert_eq!((add.count, add.self_ns, add.self_gpu_ns), (1, 30, 100));
    let whole = row(&found, "jit_f (module)");
    assert_eq!(
        (whole.self_ns, whole.gpu_ns, whole.self_gpu_ns),
        (30, 100, 0)
    );
}
