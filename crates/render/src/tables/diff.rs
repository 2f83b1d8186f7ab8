//! Two runs side by side.

use super::section::Section;
use crate::{
    Cell, Paint, Style, Table,
    units::{bytes, count, time},
};
use analyse::diff::{Change, Diff, FunctionChange, Outcome, Significance, Unit, Verdict};

/// Rows shown of each table.
const ROWS: usize = 15;
/// Changes below this are the same to a reader.
const SAME: f64 = 0.005;

/// How run B differs from run A. Calls and totals are B's.
pub fn diff(diff: &Diff, style: &Style) -> String {
    let mut section = Section::new(style);
    section.heading("A and B");
    for (name, side) in [("A", &diff.a), ("B", &diff.b)] {
        let command = if side.command.is_empty() {
            "?".into()
        } else {
            side.command.join(" ")
        };
        section.line(&format!(
            "{name}: {command}: {}, {} events",
            section.time(side.wall_ns),
            count(side.events)
        ));
        if side.lost > 0 {
            section.line(&format!("   {} of its events were lost.", count(side.lost)));
        }
    }
    if diff.a.simulated != diff.b.simulated {
        section.line(
            "One of them ran on softgpu, which runs on the CPU: their times cannot be compared.",
        );
    }
    let (a, b) = (&diff.a.backends, &diff.b.backends);
    if a != b && !a.is_empty() && !b.is_empty() {
        section.line(&format!(
            "A was recorded with {}, B with {}: what only one of them records appears as new or gone.",
            a.join(", "),
            b.join(", ")
        ));
    }
    if !diff.steps.is_empty() {
        totals(&mut section, "Each step", &diff.steps);
    }
    iterations(&mut section, diff);
    totals(&mut section, "The whole run", &diff.totals);
    section.heading("By category: B, and its change from A");
    let mut table = change_columns(Table::new().left("Category"));
    for row in diff.categories.iter().take(ROWS) {
        table.row(cells(row.category.as_str(), &row.calls, &row.total, style));
    }
    section.table(&table);
    functions(
        &mut section,
        "By function: B, and its change from A",
        &diff.functions,
    );
    if !diff.kernels.is_empty() {
        functions(
            &mut section,
            "By kernel, on the GPU: B, and its change from A",
            &diff.kernels,
        );
    }
    section.finish()
}

/// What became of each condition of `--fail-on`; nothing where there are none.
pub fn outcomes(outcomes: &[Outcome], style: &Style) -> String {
    if outcomes.is_empty() {
        return String::new();
    }
    let mut section = Section::new(style);
    section.heading("Conditions");
    let mut table = Table::new()
        .left("")
        .left("Condition")
        .right("A")
        .right("B")
        .right("");
    for outcome in outcomes {
        let word = if outcome.holds {
            Cell::painted("FAIL", Paint::Alarm)
        } else {
            Cell::painted("ok", Paint::Good)
        };
        table.row([
            word,
            outcome.condition.as_str().into(),
            value(outcome.a, outcome.unit, style).into(),
            value(outcome.b, outcome.unit, style).into(),
            relative(outcome.relative, outcome.b).into(),
        ]);
    }
    section.table(&table);
    // It stands below the comparison, apart from it.
    format!("\n{}", section.finish())
}

fn totals(section: &mut Section<'_>, heading: &str, changes: &[Change]) {
    section.heading(heading);
    let mut table = Table::new()
        .left("")
        .right("A")
        .right("B")
        .right("Change")
        .right("");
    for change in changes {
        table.row([
            Cell::from(&change.name),
            value(change.a, change.unit, section.style).into(),
            value(change.b, change.unit, section.style).into(),
            signed(change, section.style).into(),
            painted_relative(change),
        ]);
    }
    section.table(&table);
}

fn iterations(section: &mut Section<'_>, diff: &Diff) {
    let Some(found) = &diff.iteration else {
        section.line("At least one of them has no loop, so steps cannot be compared.");
        return;
    };
    section.line(&format!(
        "A step takes {} instead of {} ({}): {}.",
        section.time(found.p50.b),
        section.time(found.p50.a),
        relative(found.p50.relative, found.p50.b),
        significance_words(&found.significance, "steps"),
    ));
}

/// `slower beyond chance (p < 0.001, 31 and 29 iterations)`
fn significance_words(found: &Significance, what: &str) -> String {
    let samples = format!(
        "{} and {} {what}",
        count(found.samples_a),
        count(found.samples_b)
    );
    let p = match found.p {
        Some(p) if p < 0.001 => "p < 0.001".to_owned(),
        Some(p) => format!("p = {p:.3}"),
        None => String::new(),
    };
    match found.verdict {
        Verdict::Slower => format!("significantly slower ({p}, {samples})"),
        Verdict::Faster => format!("significantly faster ({p}, {samples})"),
        Verdict::Same => format!("no significant difference ({p}, {samples})"),
        Verdict::NotEnough => format!("too few samples to tell ({samples})"),
    }
}

fn functions(section: &mut Section<'_>, heading: &str, rows: &[FunctionChange]) {
    section.heading(heading);
    let mut table = change_columns(Table::new().left("Function")).left("Calls are");
    for row in rows.iter().take(ROWS) {
        let mut line: Vec<Cell> = cells(
            row.short_name.as_ref().unwrap_or(&row.name),
            &row.calls,
            &row.total,
            section.style,
        )
        .into();
        line.push(match row.significance.verdict {
            Verdict::Slower => Cell::painted("slower", Paint::Alarm),
            Verdict::Faster => Cell::painted("faster", Paint::Good),
            Verdict::Same => "same".into(),
            Verdict::NotEnough => Cell::painted("too few", Paint::Faint),
        });
        table.row(line);
    }
    section.table(&table);
    section.more(ROWS.min(rows.len()), rows.len() as u64);
}

fn change_columns(table: Table) -> Table {
    table
        .right("Calls")
        .right("Total")
        .right("Change")
        .right("")
}

fn cells(name: &str, calls: &Change, total: &Change, style: &Style) -> [Cell; 5] {
    let calls = if calls.a == calls.b {
        count(calls.b)
    } else {
        let sign = if calls.b > calls.a { '+' } else { '-' };
        format!(
            "{} ({sign}{})",
            count(calls.b),
            count(calls.change.unsigned_abs())
        )
    };
    [
        name.into(),
        calls.into(),
        value(total.b, total.unit, style).into(),
        signed(total, style).into(),
        painted_relative(total),
    ]
}

fn value(number: u64, unit: Unit, style: &Style) -> String {
    match unit {
        Unit::Time => time(number, style),
        Unit::Bytes => bytes(number),
        Unit::Count => count(number),
    }
}

fn signed(change: &Change, style: &Style) -> String {
    let size = value(change.change.unsigned_abs(), change.unit, style);
    match change.change {
        0 => "-".into(),
        1.. => format!("+{size}"),
        _ => format!("-{size}"),
    }
}

/// `+12.3 %`; `new` where there was nothing.
fn relative(part: Option<f64>, b: u64) -> String {
    match part {
        Some(part) if part.abs() < SAME => "same".into(),
        Some(part) if part >= 10.0 => format!("x{:.0}", part + 1.0),
        Some(part) => format!("{:+.1} %", part * 100.0),
        None if b > 0 => "new".into(),
        None => "-".into(),
    }
}

fn painted_relative(change: &Change) -> Cell {
    let text = relative(change.relative, change.b);
    // More time and more memory are worse; of counts nothing is said.
    match (change.relative, change.unit) {
        (Some(part), Unit::Time | Unit::Bytes) if part > 0.05 => Cell::painted(text, Paint::Alarm),
        (Some(part), Unit::Time | Unit::Bytes) if part < -0.05 => Cell::painted(text, Paint::Good),
        _ => text.into(),
    }
}
