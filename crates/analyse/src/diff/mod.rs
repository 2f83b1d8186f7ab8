//! Two runs side by side: what became slower, faster, more or less, and whether that may be chance.

mod condition;
mod metric;
mod significance;

pub use condition::{CheckError, Condition, ConditionError, Conditions, Limit, Outcome};
pub use metric::{MetricError, Unit};
pub use significance::{Significance, Verdict, compare};

use crate::{Quantiles, Report, Working};
use event::{Category, Layer, Name};
use serde::Serialize;
use std::collections::BTreeMap;

/// Functions and kernels compared, those that changed most first.
const MOST_ROWS: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    pub a: Side,
    pub b: Side,
    /// One step of each, where both runs repeat their work: its time, and how the GPU was used in it.
    pub steps: Vec<Change>,
    /// Whole runs: time, GPU time, memory, bytes copied.
    pub totals: Vec<Change>,
    /// The time of an iteration, where both runs have a loop.
    pub iteration: Option<Repeated>,
    pub categories: Vec<CategoryChange>,
    /// The greatest change of total time first.
    pub functions: Vec<FunctionChange>,
    /// GPU work, where both have its times, likewise.
    pub kernels: Vec<FunctionChange>,
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    pub command: Vec<String>,
    pub wall_ns: u64,
    pub iterations: u64,
    pub events: u64,
    pub lost: u64,
    pub simulated: bool,
    /// Who watched it.
    pub backends: Vec<String>,
}

/// One number of both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    pub name: String,
    pub unit: Unit,
    pub a: u64,
    pub b: u64,
    /// `b` less `a`.
    pub change: i64,
    /// The same as a part of `a`; None from nothing.
    pub relative: Option<f64>,
}

impl Change {
    pub fn new(name: impl Into<String>, unit: Unit, a: u64, b: u64) -> Self {
        Change {
            name: name.into(),
            unit,
            a,
            b,
            change: i64::try_from(i128::from(b) - i128::from(a)).unwrap_or(if b > a {
                i64::MAX
            } else {
                i64::MIN
            }),
            relative: (a > 0).then(|| (b as f64 - a as f64) / a as f64),
        }
    }
}

/// Something that happened often in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Repeated {
    pub p50: Change,
    pub significance: Significance,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CategoryChange {
    pub category: Category,
    pub calls: Change,
    pub total: Change,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionChange {
    pub name: Name,
    /// A kernel's, which tells it from others of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_name: Option<Name>,
    pub layer: Layer,
    pub calls: Change,
    pub total: Change,
    pub p50: Change,
    pub max: Change,
    /// Whether single calls take another time than before.
    pub significance: Significance,
}

/// Compares run `b` with run `a`, which came before.
pub fn diff(a: &Report, b: &Report) -> Diff {
    Diff {
        a: side(a),
        b: side(b),
        steps: steps(a, b).unwrap_or_default(),
        totals: totals(a, b),
        iteration: iteration(a, b),
        categories: categories(a, b),
        functions: functions(a, b),
        kernels: kernels(a, b),
    }
}

fn side(report: &Report) -> Side {
    Side {
        command: report.meta.command.clone(),
        wall_ns: report.overview.wall_ns,
        iterations: report
            .phases
            .loops
            .first()
            .map_or(0, |found| found.iterations),
        events: report.overview.events,
        lost: report.overview.lost,
        simulated: report.overview.simulated,
        backends: (report.meta.backends.iter())
            .map(|backend| backend.name.clone())
            .collect(),
    }
}

fn totals(a: &Report, b: &Report) -> Vec<Change> {
    let mut changes = Vec::new();
    for name in metric::TOTALS {
        let value = |report| metric::total(report, name);
        if let (Some((a, unit)), Some((b, _))) = (value(a), value(b))
            && (a > 0 || b > 0)
        {
            changes.push(Change::new(*name, unit, a, b));
        }
    }
    changes
}

fn steps(a: &Report, b: &Report) -> Option<Vec<Change>> {
    let sides = [a.working.as_ref()?, b.working.as_ref()?];
    let [first, second] = [sides[0].step.as_ref()?, sides[1].step.as_ref()?];
    let each = |name: &str, part: fn(&Working) -> u64| {
        let [a, b] = sides.map(|working| (part(working) as f64 / working.steps()).round() as u64);
        Change::new(name, Unit::Time, a, b)
    };
    let mut changes = vec![
        Change::new("step, p50", Unit::Time, first.p50_ns, second.p50_ns),
        Change::new("step, p99", Unit::Time, first.p99_ns, second.p99_ns),
        Change::new(
            "launches",
            Unit::Count,
            first.launches.round() as u64,
            second.launches.round() as u64,
        ),
        each("GPU busy", |working| working.busy_ns),
    ];
    // Where one of the two has no GPU times, the rest is not known.
    if sides
        .iter()
        .all(|working| working.kernels_ns + working.copies_ns > 0)
    {
        changes.extend([
            each("kernels", |working| working.kernels_ns),
            each("copies", |working| working.copies_ns),
            each("GPU waiting for launches", |working| {
                working.waiting_for_launches_ns
            }),
        ]);
    }
    changes.retain(|change| change.a > 0 || change.b > 0);
    Some(changes)
}

fn iteration(a: &Report, b: &Report) -> Option<Repeated> {
    let (a, b) = (a.phases.loops.first()?, b.phases.loops.first()?);
    Some(Repeated {
        p50: Change::new("iteration.p50", Unit::Time, a.p50_ns, b.p50_ns),
        significance: compare(&a.times, &b.times),
    })
}

fn categories(a: &Report, b: &Report) -> Vec<CategoryChange> {
    let find = |report: &Report, category| {
        (report.categories.categories.iter())
            .find(|row| row.category == category)
            .map_or((0, 0), |row| (row.time.calls, row.time.total_ns))
    };
    let mut rows: Vec<_> = (Category::ALL.iter())
        .map(|&category| (category, find(a, category), find(b, category)))
        .filter(|(_, a, b)| a.0 > 0 || b.0 > 0)
        .map(|(category, a, b)| CategoryChange {
            category,
            calls: Change::new("calls", Unit::Count, a.0, b.0),
            total: Change::new("total", Unit::Time, a.1, b.1),
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total.change.unsigned_abs()));
    rows
}

/// What is compared of a function.
#[derive(Default, Clone, Copy)]
struct Figures<'a> {
    calls: u64,
    total: u64,
    p50: u64,
    max: u64,
    durations: Option<&'a Quantiles>,
}

type Pairs<'a> = BTreeMap<(&'a str, Layer), [Figures<'a>; 2]>;

fn functions(a: &Report, b: &Report) -> Vec<FunctionChange> {
    let mut pairs = Pairs::new();
    for (place, report) in [a, b].into_iter().enumerate() {
        for row in &report.functions.functions {
            pairs.entry((&row.name, row.layer)).or_default()[place] = Figures {
                calls: row.calls,
                total: row.total_ns,
                p50: row.p50_ns,
                max: row.max_ns,
                durations: Some(&row.durations),
            };
        }
    }
    changes(pairs)
}

fn kernels(a: &Report, b: &Report) -> Vec<FunctionChange> {
    let mut pairs = Pairs::new();
    let mut bases: BTreeMap<&str, &str> = BTreeMap::new();
    for (place, report) in [a, b].into_iter().enumerate() {
        for row in report
            .functions
            .kernels
            .iter()
            .filter(|row| row.executions > 0)
        {
            bases.entry(&row.short_name).or_insert(&row.name);
            pairs.entry((&row.short_name, Layer::Gpu)).or_default()[place] = Figures {
                calls: row.executions,
                total: row.total_ns,
                p50: row.p50_ns,
                max: row.max_ns,
                durations: Some(&row.durations),
            };
        }
    }
    let mut rows = changes(pairs);
    for row in &mut rows {
        let base = bases.get(&*row.name).copied().unwrap_or_default();
        row.short_name = Some(std::mem::replace(&mut row.name, base.into()));
    }
    rows
}

fn changes(pairs: Pairs<'_>) -> Vec<FunctionChange> {
    let none = Quantiles::default();
    let mut rows: Vec<_> = (pairs.into_iter())
        .map(|((name, layer), [a, b])| FunctionChange {
            name: name.into(),
            short_name: None,
            layer,
            calls: Change::new("calls", Unit::Count, a.calls, b.calls),
            total: Change::new("total", Unit::Time, a.total, b.total),
            p50: Change::new("p50", Unit::Time, a.p50, b.p50),
            max: Change::new("max", Unit::Time, a.max, b.max),
            significance: compare(a.durations.unwrap_or(&none), b.durations.unwrap_or(&none)),
        })
        .collect();
    rows.sort_by(|x, y| {
        let size = |row: &FunctionChange| std::cmp::Reverse(row.total.change.unsigned_abs());
        (size(x), &x.name).cmp(&(size(y), &y.name))
    });
    rows.truncate(MOST_ROWS);
    rows
}
