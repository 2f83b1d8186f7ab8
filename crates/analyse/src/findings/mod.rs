//! What is worth changing, in plain words: each finding with its numbers, the events that show it,
//! and what to do about it. Ranked by what it costs.

mod caveats;
mod contexts;
mod errors;
mod idle;
mod launches;
pub mod limits;
mod memory;
mod signs;
mod start;
mod transfers;
mod words;

pub(crate) use signs::{SignSweep, Signs};

use crate::Report;
use crate::phases::PhaseKind;
use serde::Serialize;

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Never changes its meaning: `transfer-bound`, `leak`, …
    pub id: &'static str,
    /// One line, with the number that matters.
    pub title: String,
    pub severity: Severity,
    /// Time it costs, as far as that is known: what could be gained at most.
    pub cost_ns: Option<u64>,
    /// Memory it costs.
    pub cost_bytes: Option<u64>,
    /// `cost_ns` of the wall time.
    pub share: f64,
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

/// A figure; its unit is the end of its name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Number {
    pub name: &'static str,
    pub value: u64,
}

/// How much it matters, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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

/// What rules look at.
pub(crate) struct Seen<'a> {
    pub report: &'a Report,
    pub signs: &'a Signs,
}

impl Seen<'_> {
    fn wall(&self) -> u64 {
        self.report.overview.wall_ns
    }

    /// The stretch that repeats, or in which kernels are launched: figures of loading a model must
    /// not be mixed with it. None without launches.
    fn working(&self) -> Option<(u64, u64)> {
        let phases = &self.report.phases.phases;
        let steady = |kind| phases.iter().find(move |phase| phase.kind == kind);
        steady(PhaseKind::Steady)
            .or_else(|| steady(PhaseKind::Work))
            .map(|phase| (phase.start_ns, phase.end_ns))
            .filter(|(from, to)| to > from)
    }

    /// How often the loop turned, where there is one.
    fn iterations(&self) -> Option<u64> {
        (self.report.phases.loops.first())
            .map(|found| found.iterations)
            .filter(|iterations| *iterations > 0)
    }
}

/// A finding being written: what all have, with the severity that its share of the time gives it.
struct Draft {
    id: &'static str,
    cost_ns: Option<u64>,
    cost_bytes: Option<u64>,
    op_ids: Vec<u64>,
    numbers: Vec<Number>,
    range: (u64, u64),
    /// At least this bad, whatever it costs.
    least: Severity,
}

impl Draft {
    fn new(id: &'static str, seen: &Seen<'_>) -> Self {
        let overview = &seen.report.overview;
        Draft {
            id,
            cost_ns: None,
            cost_bytes: None,
            op_ids: Vec::new(),
            numbers: Vec::new(),
            range: (overview.start_ns, overview.end_ns),
            least: Severity::Low,
        }
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

    fn say(self, seen: &Seen<'_>, title: String, detail: String, advice: &str) -> Finding {
        let wall = seen.wall();
        let share = match (self.cost_ns, wall) {
            (Some(cost), 1..) => cost as f64 / wall as f64,
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
            id: self.id,
            title,
            severity: match self.least {
                Severity::Note => Severity::Note,
                least => least.min(by_share),
            },
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

/// Everything that is worth saying of a report, worst first.
pub(crate) fn of(report: &Report, signs: &Signs) -> Vec<Finding> {
    let seen = Seen { report, signs };
    let rules: [fn(&Seen<'_>, &mut Vec<Finding>); 8] = [
        transfers::look,
        launches::look,
        memory::look,
        idle::look,
        contexts::look,
        errors::look,
        start::look,
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
        (a.severity.cmp(&b.severity))
            .then(cost(b).cmp(&cost(a)))
            .then(a.id.cmp(b.id))
            .then(a.from_ns.cmp(&b.from_ns))
    });
    found
}
