//! What is worth changing, in plain words: each finding with its numbers, the events that show it,
//! and what to do about it. Ranked by what it costs.

mod caveats;
mod contexts;
mod errors;
pub(crate) mod expected;
mod framework;
mod id;
mod idle;
mod launches;
pub mod limits;
mod memory;
mod modules;
mod signs;
mod start;
mod transfers;
mod words;

pub use id::IDS;
pub(crate) use signs::{SignSweep, Signs};

use crate::{Report, Working};
use event::Name;
use id::Id;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Never changes its meaning: `transfer-bound`, `leak`, …
    pub id: Cow<'static, str>,
    /// One line, with the number that matters.
    pub title: String,
    pub severity: Severity,
    /// Time it costs, as far as that is known: what could be gained at most.
    pub cost_ns: Option<u64>,
    /// Memory it costs.
    pub cost_bytes: Option<u64>,
    /// The same for one step, where it is about the steps of a loop.
    pub cost_per_step_ns: Option<u64>,
    /// `cost_ns` of the working time where it is about steps, otherwise of the run.
    pub share: f64,
    pub confidence: Confidence,
    /// What was seen, with numbers.
    pub detail: String,
    pub advice: String,
    /// Events that show it.
    pub op_ids: Vec<u64>,
    /// The figures behind the words.
    pub numbers: Vec<Number>,
    /// Where to look, in the trace's time.
    pub from_ns: u64,
    pub to_ns: u64,
}

impl Finding {
    fn is(&self, ids: &[Id]) -> bool {
        ids.iter().any(|id| id.as_str() == self.id)
    }
}

/// A figure; its unit is the end of its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Number {
    pub name: Cow<'static, str>,
    pub value: u64,
}

/// How much it matters, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    High,
    Medium,
    Low,
    /// Nothing is wrong with the program, but the reader should know.
    Note,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::High => "high",
            Severity::Medium => "medium",
            Severity::Low => "low",
            Severity::Note => "note",
        }
    }
}

/// How sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// It follows from what was measured.
    Certain,
    /// What was measured has hardly another explanation.
    Likely,
    /// Worth a look.
    Hint,
}

impl Confidence {
    pub fn as_str(self) -> &'static str {
        match self {
            Confidence::Certain => "measured",
            Confidence::Likely => "likely",
            Confidence::Hint => "a hint",
        }
    }
}

/// What rules look at.
pub(crate) struct FindingInput<'a> {
    pub report: &'a Report,
    pub signs: &'a Signs,
}

impl FindingInput<'_> {
    fn wall(&self) -> u64 {
        self.report.overview.wall_ns
    }

    /// The stretch that repeats, or from the first work to the last: figures of loading a model must
    /// not be mixed with it. None without work.
    fn working(&self) -> Option<&Working> {
        (self.report.working.as_ref()).filter(|working| working.length_ns > 0)
    }

    /// The working time where there are steps, for they go on as long as the program is left to run, and
    /// enough of them that they say something.
    fn steps(&self) -> Option<&Working> {
        self.working().filter(|working| {
            let step = working.step.as_ref();
            step.is_some_and(|step| step.steps >= limits::FEWEST_STEPS)
                && (working.length_ns >= limits::STEPS_NS
                    || working.length_ns as f64 >= limits::STEPS_SHARE * self.wall() as f64)
        })
    }

    /// What costs are compared with: the steps, otherwise the run.
    fn whole(&self) -> u64 {
        (self.steps()).map_or_else(|| self.wall(), |working| working.length_ns)
    }

    /// Whether the run as a whole would be noticeably shorter without it.
    fn matters_in_run(&self, cost: u64) -> bool {
        cost as f64 >= limits::LEAST_SHARE * self.wall() as f64
    }

    /// Whether a cost is at least that share of what it is compared with.
    fn matters(&self, cost: u64, share: f64) -> bool {
        cost as f64 >= share * self.whole() as f64
    }

    /// The framework whose kernels ran, where their names tell.
    fn framework(&self) -> Option<&'static str> {
        let names = || {
            let rows = self.report.functions.kernels.iter();
            rows.map(|row| row.variants.first().unwrap_or(&row.name))
        };
        let any = |word: &str| names().any(|name| name.contains(word));
        if any("at::native") {
            Some("PyTorch")
        } else if any("cupy_") || any("cupy::") {
            Some("CuPy")
        } else if any("stream_executor::") || any("_fusion") {
            Some("XLA")
        } else {
            None
        }
    }
}

/// A finding being written: what all have, with the severity that its share of the time gives it.
struct Draft {
    id: Id,
    cost_ns: Option<u64>,
    cost_bytes: Option<u64>,
    op_ids: Vec<u64>,
    numbers: Vec<Number>,
    range: (u64, u64),
    /// At least this bad, whatever it costs, and at most that bad.
    least: Severity,
    most: Severity,
    confidence: Confidence,
    /// Its cost is of the working time …
    in_steps: bool,
    /// … and about the same in each step.
    each_step: bool,
}

impl Draft {
    fn new(id: Id, seen: &FindingInput<'_>) -> Self {
        let overview = &seen.report.overview;
        Draft {
            id,
            cost_ns: None,
            cost_bytes: None,
            op_ids: Vec::new(),
            numbers: Vec::new(),
            range: (overview.start_ns, overview.end_ns),
            least: Severity::Low,
            most: Severity::High,
            confidence: Confidence::Certain,
            in_steps: false,
            each_step: true,
        }
    }

    /// What it costs is in the working time.
    fn in_steps(mut self) -> Self {
        self.in_steps = true;
        self
    }

    /// It happens now and then: a cost for each step would say otherwise.
    fn each_step(mut self, each: bool) -> Self {
        self.each_step = each;
        self
    }

    fn sure(mut self, confidence: Confidence) -> Self {
        self.confidence = confidence;
        self
    }

    fn at_most(mut self, severity: Severity) -> Self {
        self.most = severity;
        self
    }

    fn costs(mut self, ns: u64) -> Self {
        self.cost_ns = Some(ns);
        self
    }

    fn costs_bytes(mut self, bytes: u64) -> Self {
        self.cost_bytes = Some(bytes);
        self
    }

    fn shown_by(mut self, op_ids: impl IntoIterator<Item = u64>) -> Self {
        for op_id in op_ids {
            if self.op_ids.len() == limits::OPS {
                break;
            }
            // One event may be the first and the largest at once.
            if !self.op_ids.contains(&op_id) {
                self.op_ids.push(op_id);
            }
        }
        self
    }

    fn number(mut self, name: &'static str, value: u64) -> Self {
        let name = name.into();
        self.numbers.push(Number { name, value });
        self
    }

    fn between(mut self, from: u64, to: u64) -> Self {
        self.range = (from, to.max(from));
        self
    }

    fn at_least(mut self, severity: Severity) -> Self {
        self.least = severity;
        self
    }

    fn say(self, seen: &FindingInput<'_>, title: String, detail: String, advice: &str) -> Finding {
        let steps = (seen.steps().filter(|_| self.in_steps)).map(|working| working.steps());
        let whole = if steps.is_some() {
            seen.whole()
        } else {
            seen.wall()
        };
        let share = match (self.cost_ns, whole) {
            (Some(cost), 1..) => (cost as f64 / whole as f64).min(1.0),
            _ => 0.0,
        };
        let by_share = if share >= limits::HIGH_SHARE {
            Severity::High
        } else if share >= limits::MEDIUM_SHARE {
            Severity::Medium
        } else {
            Severity::Low
        };
        Finding {
            id: self.id.as_str().into(),
            title,
            severity: match self.least {
                Severity::Note => Severity::Note,
                least => least.min(by_share.max(self.most)),
            },
            cost_per_step_ns: (self.cost_ns.zip(steps.filter(|_| self.each_step)))
                .map(|(cost, steps)| (cost as f64 / steps).round() as u64),
            confidence: self.confidence,
            cost_ns: self.cost_ns,
            cost_bytes: self.cost_bytes,
            share,
            detail,
            advice: advice.to_owned(),
            op_ids: self.op_ids,
            numbers: self.numbers,
            from_ns: self.range.0,
            to_ns: self.range.1,
        }
    }
}

/// Calls of one function that returned one error; of calls inside others, the outermost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailureRow {
    pub function: Name,
    pub code: i64,
    pub error: Option<Name>,
    pub calls: u64,
    /// Why it is no failure but an answer, where it is one.
    pub expected: Option<Cow<'static, str>>,
}

/// Calls that returned an error, the unexpected first.
pub(crate) fn failures(signs: &Signs) -> Vec<FailureRow> {
    let mut rows: Vec<_> = (signs.failures.iter())
        .map(|failure| FailureRow {
            function: failure.function.clone(),
            code: failure.code,
            error: failure.error.clone(),
            calls: failure.count,
            expected: expected::why(failure).map(Cow::Borrowed),
        })
        .collect();
    rows.sort_by_key(|row| row.expected.is_some());
    rows
}

/// Everything that is worth saying of a report, worst first.
pub(crate) fn of(report: &Report, signs: &Signs) -> Vec<Finding> {
    let seen = FindingInput { report, signs };
    let rules: [fn(&FindingInput<'_>, &mut Vec<Finding>); 9] = [
        transfers::look,
        launches::look,
        memory::look,
        idle::look,
        contexts::look,
        errors::look,
        start::look,
        framework::look,
        caveats::look,
    ];
    let mut found = Vec::new();
    for rule in rules {
        rule(&seen, &mut found);
    }
    found.sort_by(|a, b| {
        let cost = |finding: &Finding| {
            (
                finding.cost_ns.unwrap_or(0),
                finding.cost_bytes.unwrap_or(0),
            )
        };
        // What broke the program comes before what slows it down.
        let breaks = |finding: &Finding| {
            if finding.is(&[Id::GpuCrash, Id::OutOfMemory]) {
                2
            } else if finding.is(&[Id::Leak, Id::TensorLeak]) {
                1
            } else {
                0
            }
        };
        // Of what costs little, a line to change comes before what just takes its time (start-up).
        let is_minor_cause =
            |finding: &Finding| finding.severity == Severity::Low && is_cause(finding);
        (breaks(b).cmp(&breaks(a)))
            .then(a.severity.cmp(&b.severity))
            .then(is_minor_cause(b).cmp(&is_minor_cause(a)))
            .then(cost(b).cmp(&cost(a)))
            .then(a.id.cmp(&b.id))
            .then(a.from_ns.cmp(&b.from_ns))
    });
    causes_first(&mut found);
    found
}

/// A line or a module that the user can change.
fn is_cause(finding: &Finding) -> bool {
    finding.is(&[
        Id::ItemInLoop,
        Id::SlowDataLoading,
        Id::UnfusedOptimizer,
        Id::SmallKernelsInModule,
    ])
}

/// That the GPU waits is what one sees; a line or a module that makes it wait is why.
fn causes_first(found: &mut [Finding]) {
    let is_symptom = |finding: &Finding| {
        finding.is(&[
            Id::HostBound,
            Id::Starved,
            Id::SmallLaunches,
            Id::SyncAfterEveryLaunch,
        ])
    };
    let Some(first) = found.iter().position(is_symptom) else {
        return;
    };
    let whole = found[first].cost_ns.unwrap_or(0);
    let explains = |finding: &Finding| {
        is_cause(finding)
            && finding.severity <= Severity::Medium
            && finding.cost_ns.unwrap_or(0) as f64 >= limits::CAUSE_SHARE * whole as f64
    };
    let mut to = first;
    for at in first..found.len() {
        if explains(&found[at]) {
            found[to..=at].rotate_right(1);
            to += 1;
        }
    }
}
