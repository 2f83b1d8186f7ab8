//! A framework's operators: how often each ran, its time on the host, and the GPU work that calls inside of it started.
//! PyTorch's are events of their own; XLA's are ranges.
//!
//! Operators of one name are one row. An operator calls others: `total` has their time, `self` has not. GPU work is
//! `self` of the innermost operator around its call, and in `total` of all around it; times of pieces of work are added
//! up, as PyTorch's profiler does.

use crate::kernel_classes;
use crate::line_waits::{Around, LineWait, LineWaitSweep};
use crate::steps::{StepSweep, Steps};
use crate::tensors::{OwnerName, TensorMemory, TensorSweep};
use event::{Category, Event, Extent, Name, Value};
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
    /// Lines of Python that wait for the GPU, most time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<LineWait>,
}

impl Operators {
    pub fn is_empty(&self) -> bool {
        self.operators.is_empty() && self.waits.is_empty()
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
    /// Of ranges: a line of Python that begins one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Name>,
    /// Of a module: what no module inside it started.
    #[serde(default, skip_serializing_if = "OwnWork::is_none")]
    pub own: OwnWork,
}

/// GPU work of a module itself, forward and backward, once the program's steps have warmed up: compilers try out kernels in the
/// first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnWork {
    /// How often its forward ran, and how long forward and backward took on the host.
    pub calls: u64,
    pub host_ns: u64,
    pub kernels: u64,
    pub gpu_ns: u64,
    /// Kernels that a compiler could fuse: elementwise, reductions, normalisation, copies.
    pub fusible: u64,
    pub fusible_ns: u64,
}

impl OwnWork {
    fn is_none(&self) -> bool {
        self.kernels == 0 && self.calls == 0
    }
}

/// Steps that warm up.
const WARM_UP: u64 = 2;

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
    waits: LineWaitSweep,
    tensors: TensorSweep,
    /// Whether kernels of a name could be fused with others.
    fusible: HashMap<Name, bool, ahash::RandomState>,
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
    /// The innermost module.
    module: Option<u32>,
    start: u64,
}

impl OperatorSweep {
    pub fn operator(&mut self, event: &Event) {
        match event.extent {
            Extent::Instant if event.category == Category::Memory => self.tensor(event),
            Extent::Instant => {}
            Extent::Open => {
                self.steps.begun(event);
                self.begin(event);
            }
            Extent::Closed(duration) => {
                self.steps.ended(event, duration);
                self.end(event, duration);
            }
        }
    }

    fn begin(&mut self, event: &Event) {
        self.count += 1;
        let Some(row) = self.row(event) else {
            self.left_out += 1;
            return;
        };
        let found = &mut self.rows[row as usize];
        found.open += 1;
        if found.line.is_none() && !event.stack.is_empty() {
            found.line = crate::places::line_of(&event.stack);
        }
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
        let mut inner_ns = 0;
        let mut is_outermost = true;
        let mut begun = None;
        let mut backward_of = None;
        if let Some(open) = self.threads.get_mut(&(event.pid, event.tid))
            && let Some(place) = open.iter().rposition(|one| one.id == event.id)
        {
            let ended = open.remove(place);
            inner_ns = ended.inner_ns;
            is_outermost = open.iter().all(|one| one.row != ended.row);
            begun = Some(ended.row);
            // A backward operator is inside another of the same forward one.
            if open.iter().all(|one| one.modules.is_empty()) {
                backward_of = ended.modules.last().copied();
            }
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
        let is_module = event.name.starts_with(MODULE);
        let is_steady =
            (is_module || backward_of.is_some()) && self.steps.done(event.pid) >= WARM_UP;
        if let Some(module) = backward_of.filter(|_| is_steady) {
            let own = &mut self.rows[module as usize].own;
            own.host_ns = own.host_ns.saturating_add(duration);
        }
        let row = &mut self.rows[row as usize];
        if is_steady && is_module {
            row.own.calls += 1;
            row.own.host_ns = row.own.host_ns.saturating_add(duration);
        }
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
            line: None,
            own: OwnWork::default(),
        });
        self.names.insert(event.name.clone(), row);
        Some(row)
    }

    /// A call begins that may start work on the GPU.
    #[inline]
    pub fn call(&mut self, event: &Event) {
        if LineWaitSweep::concerns(event) {
            let around = self.around_wait(event);
            self.waits.begin(event, around);
        }
        if self.rows.is_empty() {
            return;
        }
        let Some(correlation) = event.correlation else {
            return;
        };
        let path = self.open_path(event);
        let module = self.innermost_module(event);
        if self.calls.is_empty() {
            self.calls.resize(PLACES, None);
        }
        self.calls[place_of(event.pid, correlation)] = Some(CallInOperators {
            pid: event.pid,
            correlation,
            path,
            module,
            start: event.start,
        });
    }

    /// A call has ended.
    #[inline]
    pub fn call_ended(&mut self, event: &Event) {
        self.waits.end(event);
    }

    fn open_on(&self, event: &Event) -> &[OpenOperator] {
        let open = self.threads.get(&(event.pid, event.tid));
        open.map_or(&[], Vec::as_slice)
    }

    /// That of the operators around, or of the forward operators that they are the backward of.
    fn innermost_module(&self, event: &Event) -> Option<u32> {
        let open = self.open_on(event);
        let own = open.iter().rev().find(|one| one.is_module);
        let joined = || open.iter().rev().find_map(|one| one.modules.last());
        own.map(|one| one.row).or_else(|| joined().copied())
    }

    fn name_of(&self, row: u32) -> Name {
        self.rows[row as usize].name.clone()
    }

    fn module_name(&self, event: &Event) -> Option<Name> {
        let row = self.innermost_module(event)?;
        self.rows[row as usize].module().map(Into::into)
    }

    fn around_wait(&self, event: &Event) -> Around {
        let mut open = self.open_on(event).iter();
        // Ranges are around operators: what the program called is the first that is none.
        let operator = open.find(|one| !self.is_range(one.row));
        Around {
            operator: operator.map(|one| self.name_of(one.row)),
            module: self.module_name(event),
            step: self.steps.done(event.pid),
        }
    }

    fn is_range(&self, row: u32) -> bool {
        &*self.rows[row as usize].scope == "user"
    }

    /// Memory was given to a tensor, or back.
    fn tensor(&mut self, event: &Event) {
        let open = self.open_on(event).iter().rev();
        let mut operators = open.filter(|one| !self.is_range(one.row));
        // Operators that do nothing but allocate say little.
        let operator = (operators.clone())
            .find(|one| !allocates(&self.rows[one.row as usize].name))
            .or_else(|| operators.next());
        let owner = OwnerName {
            module: self.module_name(event),
            operator: operator.map(|one| self.name_of(one.row)),
            line: crate::places::line_of(&event.stack),
        };
        let step = self.steps.done(event.pid);
        self.tensors.event(event, owner, step);
        // The allocator's own figure is of one GPU; where there are several, their sum counts.
        self.steps.tensors(event.pid, self.tensors.total());
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

    /// A range of the program's begins or has ended. XLA's are around its operators.
    pub fn range(&mut self, event: &Event) {
        if let Extent::Closed(duration) = event.extent {
            self.steps.ended(event, duration);
        }
        let Some(name) = names::xla_operator(&event.name) else {
            return;
        };
        let operator = Event {
            name: name.into(),
            ..event.clone()
        };
        match event.extent {
            Extent::Open => self.begin(&operator),
            Extent::Closed(duration) => self.end(&operator, duration),
            Extent::Instant => {}
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
        if let Some(module) = call.and_then(|call| call.module)
            && event.category == Category::Kernel
            && self.steps.done(event.pid) >= WARM_UP
        {
            let fusible = self.is_fusible(&event.name);
            let own = &mut self.rows[module as usize].own;
            own.kernels += 1;
            own.gpu_ns = own.gpu_ns.saturating_add(duration);
            own.fusible += u64::from(fusible);
            own.fusible_ns = own
                .fusible_ns
                .saturating_add(if fusible { duration } else { 0 });
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

    fn is_fusible(&mut self, kernel: &Name) -> bool {
        if let Some(&known) = self.fusible.get(kernel) {
            return known;
        }
        // Inductor's are fused already.
        let fusible = !kernel.starts_with("triton_")
            && kernel_classes::is_fusible(kernel_classes::class_of(kernel));
        if self.fusible.len() < MOST_NAMES {
            self.fusible.insert(kernel.clone(), fusible);
        }
        fusible
    }

    /// The operator whose call put this work into the graph that ran it.
    fn captured_by(&self, event: &Event) -> Option<u32> {
        let Some(Value::Map(origin)) = event.arg("origin") else {
            return None;
        };
        let operator = origin.iter().find(|arg| &*arg.name == "operator")?;
        self.names.get(operator.value.as_str()?).copied()
    }

    pub fn finish(self) -> (Operators, Steps, TensorMemory) {
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
            waits: self.waits.finish(),
        };
        (operators, self.steps.finish(), self.tensors.finish())
    }
}

/// `aten::empty`, `aten::empty_strided`, `aten::resize_`, …: others call them for their memory.
fn allocates(operator: &str) -> bool {
    ["aten::empty", "aten::new_empty", "aten::resize_"]
        .iter()
        .any(|name| operator.starts_with(name))
}

fn place_of(pid: u32, correlation: u64) -> usize {
    (correlation.wrapping_add(u64::from(pid).wrapping_mul(0x9e37)) % PLACES as u64) as usize
}

#[cfg(test)]
mod tests;
