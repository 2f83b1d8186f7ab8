//! The numbers of a run that conditions can name: `total`, `memory.peak`, `sync.total`,
//! `cuMemAlloc.p50`.

use crate::{Report, functions::KernelRow};
use event::{Category, MemorySpace};
use names::Likeness;
use serde::Serialize;

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Time,
    Bytes,
    Count,
}

/// Numbers of whole runs, in the order in which they are shown.
pub const TOTALS: &[&str] = &[
    "total",
    "iteration",
    "gpu.busy",
    "gpu.idle",
    "memory.peak",
    "memory.leaked",
    "transfer.bytes",
    "api.count",
    "launch.count",
    "alloc.count",
    "error.count",
];

/// What can be asked of a function or a category.
pub const STATS: &[&str] = &["count", "total", "self", "average", "p50", "p99", "max"];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    #[error("neither run has a function, kernel or category '{name}'{}", nearest(.near))]
    NoSuchName { name: String, near: Option<String> },
    #[error("a category has no '{stat}': it has count, total, self and average")]
    NotOfCategory { stat: String },
    #[error("a kernel has no '{stat}': it has count, total, average, p50, p99 and max")]
    NotOfKernel { stat: String },
}

fn nearest(near: &Option<String>) -> String {
    near.as_ref()
        .map_or(String::new(), |near| format!("; did you mean '{near}'?"))
}

/// A number of a whole run; None where the run does not have it.
pub fn total(report: &Report, name: &str) -> Option<(u64, Unit)> {
    let counts = &report.overview.counts;
    Some(match name {
        "total" => (report.overview.wall_ns, Unit::Time),
        "iteration" => (report.phases.loops.first()?.p50_ns, Unit::Time),
        "gpu.busy" => (report.idle.all.busy_ns, Unit::Time),
        "gpu.idle" => (report.idle.all.idle_ns, Unit::Time),
        "memory.peak" => {
            let spaces = report.memory.spaces.iter();
            let device = spaces.filter(|row| row.space == Some(MemorySpace::Device));
            (
                device.map(|row| row.peak_bytes).max().unwrap_or(0),
                Unit::Bytes,
            )
        }
        "memory.leaked" => (report.memory.leaks.bytes, Unit::Bytes),
        "transfer.bytes" => (report.transfers.bytes, Unit::Bytes),
        "api.count" => (counts.api_calls, Unit::Count),
        "launch.count" => (counts.launches, Unit::Count),
        "alloc.count" => (counts.allocations, Unit::Count),
        "error.count" => (counts.failed_calls, Unit::Count),
        _ => return None,
    })
}

/// The number in both runs; of a run that does not have the name, 0.
pub fn both(
    a: &Report,
    b: &Report,
    name: &str,
    stat: Option<&str>,
) -> Result<(u64, u64, Unit), MetricError> {
    let whole = stat.map_or(name.to_owned(), |stat| format!("{name}.{stat}"));
    if TOTALS.contains(&whole.as_str()) {
        let value = |report| total(report, &whole);
        let unit = value(a).or(value(b)).map_or(Unit::Time, |(_, unit)| unit);
        let number = |report| value(report).map_or(0, |(number, _)| number);
        return Ok((number(a), number(b), unit));
    }
    let stat = stat.unwrap_or("total");
    let unit = if stat == "count" {
        Unit::Count
    } else {
        Unit::Time
    };
    let values = match (of(a, name, stat)?, of(b, name, stat)?) {
        (None, None) => {
            return Err(MetricError::NoSuchName {
                name: name.to_owned(),
                near: near(a, b, name),
            });
        }
        (a, b) => (a.unwrap_or(0), b.unwrap_or(0)),
    };
    Ok((values.0, values.1, unit))
}

/// A number of a category, function or kernel of one run.
fn of(report: &Report, name: &str, stat: &str) -> Result<Option<u64>, MetricError> {
    if let Ok(category) = name.parse::<Category>() {
        return of_category(report, category, stat).map(Some);
    }
    let rows = &report.functions.functions;
    let exact = |row: &&crate::functions::FunctionRow| &*row.name == name;
    let family = |row: &&crate::functions::FunctionRow| cuda::public_name(&row.name) == name;
    let mut found: Vec<_> = rows.iter().filter(exact).collect();
    if found.is_empty() {
        found = rows.iter().filter(family).collect();
    }
    if !found.is_empty() {
        let sum = |of: fn(&crate::functions::FunctionRow) -> u64| {
            found
                .iter()
                .fold(0u64, |sum, row| sum.saturating_add(of(row)))
        };
        // Of several versions of one function: the sum, or the worst.
        let most =
            |of: fn(&crate::functions::FunctionRow) -> u64| found.iter().map(|row| of(row)).max();
        return Ok(match stat {
            "count" => Some(sum(|row| row.calls)),
            "total" => Some(sum(|row| row.total_ns)),
            "self" => Some(sum(|row| row.self_ns)),
            "average" => Some(sum(|row| row.total_ns) / sum(|row| row.calls).max(1)),
            "p50" => most(|row| row.p50_ns),
            "p99" => most(|row| row.p99_ns),
            _ => most(|row| row.max_ns),
        });
    }
    // A row's own name; else all rows of that name without arguments, or of that variant.
    let kernels = &report.functions.kernels;
    let own = |row: &&KernelRow| row.short_name == name;
    let shared =
        |row: &&KernelRow| row.name == name || row.variants.iter().any(|variant| variant == name);
    let mut rows: Vec<&KernelRow> = kernels.iter().filter(own).collect();
    if rows.is_empty() {
        rows = kernels.iter().filter(shared).collect();
    }
    if rows.is_empty() {
        return Ok(None);
    }
    let sum = |of: fn(&KernelRow) -> u64| {
        (rows.iter()).fold(0u64, |sum, row| sum.saturating_add(of(row)))
    };
    let most = |of: fn(&KernelRow) -> u64| rows.iter().map(|row| of(row)).max().unwrap_or(0);
    Ok(Some(match stat {
        "count" => sum(|row| row.executions.max(row.launches)),
        "total" => sum(|row| row.total_ns),
        "average" => sum(|row| row.total_ns) / sum(|row| row.executions).max(1),
        "p50" => most(|row| row.p50_ns),
        "p99" => most(|row| row.p99_ns),
        "max" => most(|row| row.max_ns),
        _ => {
            return Err(MetricError::NotOfKernel {
                stat: stat.to_owned(),
            });
        }
    }))
}

fn of_category(report: &Report, category: Category, stat: &str) -> Result<u64, MetricError> {
    let rows = &report.categories.categories;
    let row = rows.iter().find(|row| row.category == category);
    let time = row.map(|row| row.time).unwrap_or_default();
    match stat {
        "count" => Ok(time.calls),
        "total" => Ok(time.total_ns),
        "self" => Ok(time.self_ns),
        "average" => Ok(row.map_or(0, |row| row.average_ns)),
        _ => Err(MetricError::NotOfCategory {
            stat: stat.to_owned(),
        }),
    }
}

/// A name that is spelt alike, or a part of one.
fn near(a: &Report, b: &Report, name: &str) -> Option<String> {
    let names = [a, b].into_iter().flat_map(|report| {
        let functions = (report.functions.functions.iter())
            .map(|row| (cuda::public_name(&row.name), &*row.name));
        let kernels = (report.functions.kernels.iter())
            .flat_map(|row| [row.name.as_str(), row.short_name.as_str()])
            .map(|name| (name, name));
        functions.chain(kernels)
    });
    match names::nearest(name, names).first()? {
        (Likeness::Misspelt(_) | Likeness::Part(_), near) => Some((*near).to_owned()),
        (Likeness::Other(_), _) => None,
    }
}
