//! Steps of a training or decoding loop, by what the program says of itself: an optimizer's step, `zero_grad`, the
//! profiler's own steps, a range that is called a step, the choice of a token, in this order of trust. Each step is a row
//! with the operators that ran in it, the GPU work that it started, and what the GPU did meanwhile.
//!
//! Loops that say nothing are found by their work (`phases`).

use crate::activity::{Active, ActivityMeter, WorkKind};
use event::{Event, Kind, Name, Value};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The steps, by the best mark that the program sets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// The operator or range whose end is a step's end.
    pub mark: Option<Name>,
    /// A step chooses the next token: a decoding loop.
    #[serde(default)]
    pub decodes: bool,
    /// `memory_bytes` is that of tensors; otherwise that of CUDA's own allocations.
    #[serde(default)]
    pub of_tensors: bool,
    pub steps: Vec<StepRow>,
    /// Steps that came when there were too many rows.
    pub left_out: u64,
}

/// From the end of one mark to the end of the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    pub start_ns: u64,
    pub length_ns: u64,
    pub operators: u64,
    /// Work that calls made in the step started, and the sum of its times.
    pub gpu_operations: u64,
    pub gpu_ns: u64,
    pub copies: u64,
    pub copy_ns: u64,
    /// Kernels of NCCL and its like.
    pub communication_ns: u64,
    /// How long the GPU ran anything between the step's start and end.
    #[serde(default)]
    pub busy_ns: u64,
    /// Of that, copies and communication with no kernel beside them.
    #[serde(default)]
    pub exposed_copy_ns: u64,
    #[serde(default)]
    pub exposed_communication_ns: u64,
    /// The most GPU memory that was in use at a time.
    #[serde(default)]
    pub memory_bytes: u64,
    /// In the DataLoader's `__next__`, and how much of that the GPU had nothing to do.
    pub data_ns: u64,
    #[serde(default)]
    pub data_idle_ns: u64,
    /// Tokens that were looked up, and sequences that they are of; 0 where shapes were not recorded.
    #[serde(default)]
    pub tokens: u64,
    #[serde(default)]
    pub sequences: u64,
}

impl StepRow {
    /// More than one token of each sequence: a prompt, not the next token.
    pub fn is_prefill(&self) -> bool {
        self.tokens > self.sequences
    }
}

impl Steps {
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// All of them but the first, which warms up.
    pub fn steady(&self) -> &[StepRow] {
        self.steps.get(1..).unwrap_or_default()
    }
}

/// What ends a step, most trusted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trust {
    Optimizer,
    ZeroGrad,
    Profiler,
    /// NVTX or `record_function`, by the word for it.
    Range,
    /// The choice of the next token, in a program without backward.
    Token,
}

const OPTIMIZER: &str = "Optimizer.step#";
const ZERO_GRAD: &str = "Optimizer.zero_grad#";
const PROFILER: &str = "ProfilerStep#";
/// Operators that choose a token.
const TOKENS: [&str; 2] = ["aten::multinomial", "aten::argmax"];
/// Words that a range is taken for a step by.
const WORDS: [&str; 4] = ["step", "iteration", "iter", "batch"];
/// What PyTorch calls waiting for a batch.
pub(crate) const DATA: &str = "enumerate(DataLoader)#";
const EMBEDDING: &str = "aten::embedding";
const MOST_STEPS: usize = 16_384;
/// Distinct marks of one program.
const MOST_MARKS: usize = 16;
const MOST_PROCESSES: usize = 4_096;
/// A program chooses tokens now and then without being a loop of that.
const FEWEST_TOKENS: usize = 8;

#[derive(Default)]
pub(crate) struct StepSweep {
    marks: Vec<Marked>,
    processes: HashMap<u32, Process, ahash::RandomState>,
    has_backward: bool,
    has_tensors: bool,
}

/// Sums of a process up to now.
#[derive(Clone, Copy, Default)]
struct Process {
    operators: u64,
    data_ns: u64,
    data_idle_ns: u64,
    /// What the GPU had done when the program began to wait for a batch.
    data_began: Option<Active>,
    meter: ActivityMeter,
    memory: u64,
    device_memory: u64,
}

struct Marked {
    trust: Trust,
    pid: u32,
    name: Name,
    /// The time that its own spans take.
    total_ns: u64,
    ends: Vec<Boundary>,
    /// The last is under way; one for each end.
    rows: Vec<StepRow>,
    left_out: u64,
}

#[derive(Clone, Copy)]
struct Boundary {
    at: u64,
    operators: u64,
    data_ns: u64,
    data_idle_ns: u64,
    active: Active,
}

impl StepSweep {
    pub fn begun(&mut self, event: &Event) {
        let Some(process) = self.process(event.pid) else {
            return;
        };
        process.operators += 1;
        if event.name.starts_with(DATA) {
            process.data_began = Some(process.meter.until(event.start));
        }
        match event.arg("scope").and_then(Value::as_str) {
            Some("backward") => self.has_backward = true,
            _ if &*event.name == EMBEDDING => self.looked_up(event),
            _ => {}
        }
    }

    /// An embedding of `[vocabulary, width];[sequences, tokens]`.
    fn looked_up(&mut self, event: &Event) {
        let Some(Value::List(inputs)) = event.arg("shapes") else {
            return;
        };
        let Some(Value::List(indices)) = inputs.get(1) else {
            return;
        };
        let mut sizes = indices.iter().filter_map(size);
        let Some(first) = sizes.next() else {
            return;
        };
        let (sequences, tokens) = match indices.len() {
            1 => (1, first),
            _ => (first, sizes.fold(first, u64::saturating_mul)),
        };
        for marked in self.marks.iter_mut().filter(|it| it.pid == event.pid) {
            // Positions are looked up too, for all sequences at once.
            if let Some(row) = marked.rows.last_mut().filter(|row| row.tokens < tokens) {
                (row.tokens, row.sequences) = (tokens, sequences);
            }
        }
    }

    /// An operator, or a range of the program's, has ended.
    pub fn ended(&mut self, event: &Event, duration: u64) {
        if event.name.starts_with(DATA) {
            if let Some(process) = self.process(event.pid) {
                process.data_ns = process.data_ns.saturating_add(duration);
                if let Some(began) = process.data_began.take() {
                    let end = event.start.saturating_add(duration);
                    let busy = process.meter.until(end).since(began).busy_ns;
                    let idle = duration.saturating_sub(busy);
                    process.data_idle_ns = process.data_idle_ns.saturating_add(idle);
                }
            }
            return;
        }
        let Some((trust, name)) = mark_of(event) else {
            return;
        };
        let Some(place) = self.mark(trust, event.pid, name) else {
            return;
        };
        let at = event.start.saturating_add(duration);
        let Some(process) = self.process(event.pid) else {
            return;
        };
        let end = Boundary {
            at,
            operators: process.operators,
            data_ns: process.data_ns,
            data_idle_ns: process.data_idle_ns,
            active: process.meter.until(at),
        };
        let memory = [process.device_memory, process.memory];
        let memory = memory[usize::from(self.has_tensors)];
        let marked = &mut self.marks[place];
        marked.total_ns = marked.total_ns.saturating_add(duration);
        if marked.ends.len() >= MOST_STEPS {
            marked.left_out += 1;
            return;
        }
        if let (Some(before), Some(row)) = (marked.ends.last(), marked.rows.last_mut()) {
            let active = end.active.since(before.active);
            row.length_ns = end.at.saturating_sub(before.at);
            row.operators = end.operators.saturating_sub(before.operators);
            row.data_ns = end.data_ns.saturating_sub(before.data_ns);
            row.data_idle_ns = end.data_idle_ns.saturating_sub(before.data_idle_ns);
            row.busy_ns = active.busy_ns.min(row.length_ns);
            row.exposed_copy_ns = active.exposed_copy_ns;
            row.exposed_communication_ns = active.exposed_communication_ns;
        }
        marked.ends.push(end);
        marked.rows.push(StepRow {
            start_ns: end.at,
            memory_bytes: memory,
            ..StepRow::default()
        });
    }

    /// Steps of a process that are over, by its best mark so far.
    pub fn done(&self, pid: u32) -> u64 {
        let marks = self.marks.iter().filter(|marked| marked.pid == pid);
        let best = marks.min_by_key(|marked| marked.trust);
        best.map_or(0, |marked| marked.ends.len() as u64 + marked.left_out)
    }

    /// The first optimizer of a process is its mark; of other kinds each name is one.
    fn mark(&mut self, trust: Trust, pid: u32, name: Name) -> Option<usize> {
        let same = |it: &Marked| it.trust == trust && it.pid == pid;
        let first = self.marks.iter().position(same);
        if let Some(first) = first
            && matches!(trust, Trust::Optimizer | Trust::ZeroGrad)
        {
            return (self.marks[first].name == name).then_some(first);
        }
        let known = |it: &Marked| same(it) && it.name == name;
        if let Some(place) = self.marks.iter().position(known) {
            return Some(place);
        }
        if self.marks.len() >= MOST_MARKS {
            return None;
        }
        self.marks.push(Marked {
            trust,
            pid,
            name,
            total_ns: 0,
            ends: Vec::new(),
            rows: Vec::new(),
            left_out: 0,
        });
        Some(self.marks.len() - 1)
    }

    fn process(&mut self, pid: u32) -> Option<&mut Process> {
        if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&pid) {
            return None;
        }
        Some(self.processes.entry(pid).or_default())
    }

    /// GPU work has begun.
    pub fn gpu_began(&mut self, event: &Event) {
        if let Some(process) = self.process(event.pid) {
            process.meter.began(event.start, WorkKind::of(event));
        }
    }

    /// GPU work has ended, whose call was made then.
    pub fn gpu_ended(&mut self, event: &Event, called: u64, duration: u64) {
        let kind = WorkKind::of(event);
        if let Some(process) = self.process(event.pid) {
            let end = event.start.saturating_add(duration);
            process.meter.ended(end, kind);
        }
        for marked in self.marks.iter_mut().filter(|it| it.pid == event.pid) {
            // The row after an end has the end's number.
            let before = marked.ends.partition_point(|end| end.at <= called);
            let row = before.checked_sub(1).and_then(|at| marked.rows.get_mut(at));
            let Some(row) = row else {
                continue;
            };
            row.gpu_operations += 1;
            row.gpu_ns = row.gpu_ns.saturating_add(duration);
            match kind {
                WorkKind::Copy => {
                    row.copies += 1;
                    row.copy_ns = row.copy_ns.saturating_add(duration);
                }
                WorkKind::Communication => {
                    row.communication_ns = row.communication_ns.saturating_add(duration);
                }
                WorkKind::Compute => {}
            }
        }
    }

    /// GPU memory that tensors of a process have now.
    pub fn tensors(&mut self, pid: u32, bytes: u64) {
        if !self.has_tensors {
            self.has_tensors = true;
            // What CUDA gave is another figure.
            let rows = self.marks.iter_mut().flat_map(|it| it.rows.iter_mut());
            rows.for_each(|row| row.memory_bytes = 0);
        }
        if let Some(process) = self.process(pid) {
            process.memory = bytes;
        }
        self.highest(pid, bytes);
    }

    /// GPU memory that a process has of CUDA now.
    pub fn device_memory(&mut self, pid: u32, bytes: u64) {
        if let Some(process) = self.process(pid) {
            process.device_memory = bytes;
        }
        if !self.has_tensors {
            self.highest(pid, bytes);
        }
    }

    fn highest(&mut self, pid: u32, bytes: u64) {
        for marked in self.marks.iter_mut().filter(|it| it.pid == pid) {
            if let Some(row) = marked.rows.last_mut() {
                row.memory_bytes = row.memory_bytes.max(bytes);
            }
        }
    }

    pub fn finish(mut self) -> Steps {
        for marked in &mut self.marks {
            // It never ended.
            marked.rows.pop();
        }
        let has_backward = self.has_backward;
        let best = (self.marks.into_iter())
            .filter(|marked| match marked.trust {
                Trust::Token => !has_backward && marked.rows.len() >= FEWEST_TOKENS,
                _ => !marked.rows.is_empty(),
            })
            .min_by_key(|marked| (marked.trust, std::cmp::Reverse(marked.weight())));
        let Some(best) = best else {
            return Steps::default();
        };
        Steps {
            mark: Some(best.name),
            decodes: best.trust == Trust::Token,
            of_tensors: self.has_tensors,
            steps: best.rows,
            left_out: best.left_out,
        }
    }
}

impl Marked {
    /// Of several of one kind: the range with most of the time, the token that is chosen most often.
    fn weight(&self) -> u64 {
        match self.trust {
            Trust::Token => self.rows.len() as u64,
            _ => self.total_ns,
        }
    }
}

fn mark_of(event: &Event) -> Option<(Trust, Name)> {
    let name = &event.name;
    if name.starts_with(OPTIMIZER) {
        return Some((Trust::Optimizer, name.clone()));
    }
    if name.starts_with(ZERO_GRAD) {
        return Some((Trust::ZeroGrad, name.clone()));
    }
    if name.starts_with(PROFILER) {
        // The profiler numbers its steps.
        return Some((Trust::Profiler, PROFILER.into()));
    }
    if TOKENS.contains(&&**name) {
        return Some((Trust::Token, name.clone()));
    }
    let is_range = matches!(event.kind, Kind::Range | Kind::ProcessRange)
        || event.arg("scope").and_then(Value::as_str) == Some("user")
            && !name.starts_with(crate::operators::MODULE);
    (is_range && is_called_step(name)).then(|| (Trust::Range, stem(name)))
}

/// `train_step 17`, `Iteration#3`, `batch`
fn is_called_step(name: &str) -> bool {
    let mut words = name.split(|letter: char| !letter.is_ascii_alphabetic());
    words.any(|word| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

fn size(value: &Value) -> Option<u64> {
    match *value {
        Value::Int(size) => u64::try_from(size).ok(),
        Value::Uint(size) => Some(size),
        _ => None,
    }
}

/// A name without its number.
fn stem(name: &str) -> Name {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let stem = stem.trim_end_matches([' ', '#', '_', ':', '-', '=']);
    stem.into()
}

#[cfg(test)]
mod tests;
