//! A framework's operators: how often each ran, its time on the host, and the GPU work that calls inside of it started.
//!
//! Operators of one name are one row. An operator calls others: `total` has their time, `self` has not. GPU work is
//! `self` of the innermost operator around its call, and in `total` of all around it; times of pieces of work are added
//! up, as PyTorch's profiler does.

use crate::steps::{StepSweep, Steps};
use event::{Event, Extent, Name, Value};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What a framework's operators come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Operators {
    /// Most GPU time of their own first, then most host time of their own.
    pub operators: Vec<Operator>,
    pub count: u64,
    /// GPU work whose call was made inside an operator, and in none.
    pub inside: u64,
    pub outside: u64,
    /// Operators whose names came when there were too many.
    pub left_out: u64,
}

impl Operators {
    pub fn is_empty(&self) -> bool {
        self.operators.is_empty()
    }
}

/// All operators of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operator {
    pub name: Name,
    /// `operator`, `backward`, `user`, …
    pub scope: Name,
    pub count: u64,
    /// Those that never ended.
    pub open: u64,
    /// Not counting one inside another of the same name.
    pub total_ns: u64,
    pub self_ns: u64,
    pub max_ns: u64,
    pub max_op_id: Option<u64>,
    pub gpu_operations: u64,
    pub gpu_ns: u64,
    pub self_gpu_operations: u64,
    pub self_gpu_ns: u64,
}

/// What ranges around a module's forward are called (`cutrace --modules`).
pub const MODULE: &str = "nn.Module: ";

impl Operator {
    /// The qualified name of the module whose forward it is.
    pub fn module(&self) -> Option<&str> {
        self.name.strip_prefix(MODULE)
    }
}

const MOST_NAMES: usize = 8192;
/// Forward operators whose backward may yet come, before the older half of them is forgotten.
const MOST_FORWARD: usize = 65_536;
const MOST_THREADS: usize = 65_536;
/// Operators open at a time on one thread.
const DEEPEST: usize = 1024;
/// Combinations of open operators that calls were made in.
const MOST_PATHS: usize = 65_536;
/// Calls whose work may yet come, as in `correlation`.
const PLACES: usize = 65_536;

#[derive(Default)]
pub(crate) struct OperatorSweep {
    rows: Vec<Operator>,
    names: HashMap<Name, u32, ahash::RandomState>,
    threads: HashMap<(u32, u32), Vec<OpenOperator>, ahash::RandomState>,
    /// Rows that were open around a call, the innermost first.
    paths: Vec<Box<[u32]>>,
    path_numbers: HashMap<Box<[u32]>, u32, ahash::RandomState>,
    calls: Vec<Option<CallInOperators>>,
    count: u64,
    inside: u64,
    outside: u64,
    left_out: u64,
    steps: StepSweep,
    /// Modules that forward operators ran in, by process and sequence number, newer and older.
    forward: [ForwardModules; 2],
}

/// The rows of modules that an operator ran in, by process and sequence number.
type ForwardModules = HashMap<(u32, u64), Box<[u32]>, ahash::RandomState>;

struct OpenOperator {
    id: u64,
    row: u32,
    /// Time of operators inside.
    inner_ns: u64,
    is_module: bool,
    /// Of a backward operator: the modules that its forward one ran in.
    modules: Box<[u32]>,
}

#[derive(Clone, Copy)]
struct CallInOperators {
    pid: u32,
    correlation: u64,
    /// None: in no operator.
    path: Option<u32>,
    start: u64,
}

impl OperatorSweep {
    pub fn operator(&mut self, event: &Event) {
        match event.extent {
            Extent::Instant => {}
            Extent::Open => self.begin(event),
            Extent::Closed(duration) => self.end(event, duration),
        }
    }

    fn begin(&mut self, event: &Event) {
        self.count += 1;
        self.steps.begun(event);
        let Some(row) = self.row(event) else {
            self.left_out += 1;
            return;
        };
        self.rows[row as usize].open += 1;
        let key = (event.pid, event.tid);
        if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&key) {
            return;
        }
        let modules = self.join(event);
        let open = self.threads.entry(key).or_default();
        if open.len() < DEEPEST {
            open.push(OpenOperator {
                id: event.id,
                row,
                inner_ns: 0,
                is_module: event.name.starts_with(MODULE),
                modules,
            });
        }
    }

    /// Forward and backward operators share a sequence number: the modules of the one are those of the other.
    fn join(&mut self, event: &Event) -> Box<[u32]> {
        let none = Box::default();
        let Some(sequence) = event.arg("seq").and_then(Value::as_u64) else {
            return none;
        };
        let key = (event.pid, sequence);
        if event.arg("scope").and_then(Value::as_str) == Some("backward") {
            let [newer, older] = &self.forward;
            let found = newer.get(&key).or_else(|| older.get(&key));
            return found.cloned().unwrap_or_default();
        }
        let Some(open) = self.threads.get(&(event.pid, event.tid)) else {
            return none;
        };
        let modules = open.iter().filter(|one| one.is_module).map(|one| one.row);
        let modules: Box<[u32]> = modules.collect();
        if !modules.is_empty() {
            if self.forward[0].len() >= MOST_FORWARD {
                self.forward.swap(0, 1);
                self.forward[0].clear();
            }
            self.forward[0].insert(key, modules);
        }
        none
    }

    fn end(&mut self, event: &Event, duration: u64) {
        self.steps.ended(event, duration);
        let mut inner_ns = 0;
        let mut is_outermost = true;
        let mut begun = None;
        if let Some(open) = self.threads.get_mut(&(event.pid, event.tid))
            && let Some(place) = open.iter().rposition(|one| one.id == event.id)
        {
            let ended = open.remove(place);
            inner_ns = ended.inner_ns;
            is_outermost = open.iter().all(|one| one.row != ended.row);
            begun = Some(ended.row);
            let around = place.checked_sub(1).and_then(|at| open.get_mut(at));
            if let Some(around) = around {
                around.inner_ns = around.inner_ns.saturating_add(duration);
            }
        }
        if begun.is_none() {
            self.count += 1;
        }
        let Some(row) = begun.or_else(|| self.row(event)) else {
            return;
        };
        let row = &mut self.rows[row as usize];
        row.open -= u64::from(begun.is_some() && row.open > 0);
        row.count += 1;
        row.self_ns = row
            .self_ns
            .saturating_add(duration.saturating_sub(inner_ns));
        if is_outermost {
            row.total_ns = row.total_ns.saturating_add(duration);
        }
        if duration >= row.max_ns {
            (row.max_ns, row.max_op_id) = (duration, Some(event.id));
        }
    }

    fn row(&mut self, event: &Event) -> Option<u32> {
        if let Some(&row) = self.names.get(&event.name) {
            return Some(row);
        }
        if self.rows.len() >= MOST_NAMES {
            return None;
        }
        let scope = match event.arg("scope") {
            Some(Value::Str(scope)) => scope.clone(),
            _ => "operator".into(),
        };
        let row = self.rows.len() as u32;
        self.rows.push(Operator {
            name: event.name.clone(),
            scope,
            count: 0,
            open: 0,
            total_ns: 0,
            self_ns: 0,
            max_ns: 0,
            max_op_id: None,
            gpu_operations: 0,
            gpu_ns: 0,
            self_gpu_operations: 0,
            self_gpu_ns: 0,
        });
        self.names.insert(event.name.clone(), row);
        Some(row)
    }

    /// A call begins that may start work on the GPU.
    #[inline]
    pub fn call(&mut self, event: &Event) {
        if self.rows.is_empty() {
            return;
        }
        let Some(correlation) = event.correlation else {
            return;
        };
        let path = self.open_path(event);
        if self.calls.is_empty() {
            self.calls.resize(PLACES, None);
        }
        self.calls[place_of(event.pid, correlation)] = Some(CallInOperators {
            pid: event.pid,
            correlation,
            path,
            start: event.start,
        });
    }

    /// The operators around a call that begins.
    fn open_path(&mut self, event: &Event) -> Option<u32> {
        let open = self.threads.get(&(event.pid, event.tid))?;
        let mut path: Vec<u32> = open.iter().rev().map(|one| one.row).collect();
        path.extend(open.iter().flat_map(|one| one.modules.iter()));
        let (_, around) = path.split_first_mut()?;
        around.sort_unstable();
        path.dedup();
        self.path(path.into())
    }

    fn path(&mut self, rows: Box<[u32]>) -> Option<u32> {
        if let Some(&path) = self.path_numbers.get(&rows) {
            return Some(path);
        }
        if self.paths.len() >= MOST_PATHS {
            return None;
        }
        let path = self.paths.len() as u32;
        self.paths.push(rows.clone());
        self.path_numbers.insert(rows, path);
        Some(path)
    }

    /// A range of the program's has ended.
    pub fn range(&mut self, event: &Event) {
        if let Extent::Closed(duration) = event.extent {
            self.steps.ended(event, duration);
        }
    }

    /// GPU memory that a process has of CUDA now.
    pub fn device_memory(&mut self, pid: u32, bytes: u64) {
        self.steps.device_memory(pid, bytes);
    }

    /// GPU work has begun.
    pub fn gpu_began(&mut self, event: &Event) {
        self.steps.gpu_began(event);
    }

    /// GPU work has ended.
    pub fn gpu(&mut self, event: &Event, duration: u64) {
        let call = event.correlation.and_then(|correlation| {
            let call = (*self.calls.get(place_of(event.pid, correlation))?)?;
            ((call.pid, call.correlation) == (event.pid, correlation)).then_some(call)
        });
        let called = call.map_or(event.start, |call| call.start);
        self.steps.gpu_ended(event, called, duration);
        if self.rows.is_empty() {
            return;
        }
        // A graph's work is of the operator that captured it, not of the one that launches the graph.
        if let Some(row) = self.captured_by(event) {
            self.inside += 1;
            let operator = &mut self.rows[row as usize];
            operator.gpu_operations += 1;
            operator.gpu_ns = operator.gpu_ns.saturating_add(duration);
            operator.self_gpu_operations += 1;
            operator.self_gpu_ns = operator.self_gpu_ns.saturating_add(duration);
            return;
        }
        let Some(path) = call.and_then(|call| call.path) else {
            self.outside += 1;
            return;
        };
        self.inside += 1;
        let path = &self.paths[path as usize];
        for (place, &row) in path.iter().enumerate() {
            let operator = &mut self.rows[row as usize];
            // The innermost may be around itself.
            if place > 0 && path.first() == Some(&row) {
                continue;
            }
            operator.gpu_operations += 1;
            operator.gpu_ns = operator.gpu_ns.saturating_add(duration);
            if place == 0 {
                operator.self_gpu_operations += 1;
                operator.self_gpu_ns = operator.self_gpu_ns.saturating_add(duration);
            }
        }
    }

    /// The operator whose call put this work into the graph that ran it.
    fn captured_by(&self, event: &Event) -> Option<u32> {
        let Some(Value::Map(origin)) = event.arg("origin") else {
            return None;
        };
        let operator = origin.iter().find(|arg| &*arg.name == "operator")?;
        self.names.get(operator.value.as_str()?).copied()
    }

    pub fn finish(self) -> (Operators, Steps) {
        let mut operators = self.rows;
        operators.sort_by(|a, b| {
            (b.self_gpu_ns, b.self_ns)
                .cmp(&(a.self_gpu_ns, a.self_ns))
                .then_with(|| a.name.cmp(&b.name))
        });
        let operators = Operators {
            operators,
            count: self.count,
            inside: self.inside,
            outside: self.outside,
            left_out: self.left_out,
        };
        (operators, self.steps.finish())
    }
}

fn place_of(pid: u32, correlation: u64) -> usize {
    (correlation.wrapping_add(u64::from(pid).wrapping_mul(0x9e37)) % PLACES as u64) as usize
}

#[cfg(test)]
mod tests {
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
        let (found, _) = sweep.finish();
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
        let (found, _) = sweep.finish();
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
        let (found, _) = sweep.finish();
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
        let (found, _) = sweep.finish();
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
        let (found, _) = sweep.finish();
        assert_eq!((found.operators.len(), found.left_out), (MOST_NAMES, 10));
    }
}
