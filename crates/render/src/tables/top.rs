//! Functions and kernels by time, and the longest operations.

use super::section::{Section, since_start};
use crate::{
    Cell, Paint, Style, Table,
    units::{count, share},
};
use analyse::{
    Report,
    functions::{FunctionRow, KernelRow},
};
use event::Category;

/// Functions, kernels and operations shown.
const ROWS: usize = 20;

pub fn top(report: &Report, style: &Style) -> String {
    let mut section = Section::new(style);
    let found = &report.functions;
    section.heading("Functions by total time");
    if found.functions.is_empty() {
        section.line("no calls were traced");
    }
    functions(&mut section, found.functions.iter().take(ROWS));
    section.more(ROWS, found.functions.len() as u64);

    let mut by_self: Vec<&FunctionRow> = found.functions.iter().collect();
    by_self.sort_by_key(|row| std::cmp::Reverse(row.self_ns));
    if by_self.iter().any(|row| row.self_ns != row.total_ns) {
        section.heading("Functions by self time");
        functions(&mut section, by_self.into_iter().take(ROWS / 2));
    }
    failures(&mut section, report);
    kernels(&mut section, report);
    longest(&mut section, report);
    section.finish()
}

pub(super) fn functions<'a>(
    section: &mut Section<'_>,
    rows: impl Iterator<Item = &'a FunctionRow>,
) {
    let mut table = Table::new()
        .left("Function")
        .optional_left("Category")
        .right("Calls")
        .right("Total")
        .right("Self")
        .right("p50")
        .optional("p99")
        .optional("Max");
    for row in rows {
        table.row([
            row.name.to_string(),
            row.category.to_string(),
            count(row.calls),
            section.time(row.total_ns),
            section.time(row.self_ns),
            of_ended(section, row, row.p50_ns),
            of_ended(section, row, row.p99_ns),
            of_ended(section, row, row.max_ns),
        ]);
    }
    section.table(&table);
}

/// A quantile of a function's calls; of calls that never returned no length is known.
pub(super) fn of_ended(section: &Section<'_>, row: &FunctionRow, ns: u64) -> String {
    if row.calls == row.open {
        "-".into()
    } else {
        section.time(ns)
    }
}

/// Calls that returned an error, with why that is none where it is an answer, and calls that did not
/// return.
fn failures(section: &mut Section<'_>, report: &Report) {
    if !report.failures.is_empty() {
        section.heading("Calls that returned an error");
        let mut table = Table::new()
            .left("Function")
            .left("Error")
            .right("Calls")
            .left("");
        for row in report.failures.iter().take(ROWS) {
            let (paint, why) = match &row.expected {
                Some(why) => (Paint::Faint, &**why),
                None => (Paint::Warning, ""),
            };
            let error = match &row.error {
                Some(error) => error.to_string(),
                None => row.code.to_string(),
            };
            table.row([
                Cell::from(&*row.function),
                Cell::painted(error, paint),
                count(row.calls).into(),
                why.into(),
            ]);
        }
        section.table(&table);
        section.more(ROWS, report.failures.len() as u64);
    }
    let open = |row: &&FunctionRow| row.open > 0;
    let rows: Vec<&FunctionRow> = report.functions.functions.iter().filter(open).collect();
    if rows.is_empty() {
        return;
    }
    section.heading("Calls that never returned");
    let mut table = Table::new().left("Function").right("Calls").right("Open");
    for row in rows.iter().take(ROWS) {
        table.row([row.name.to_string(), count(row.calls), count(row.open)]);
    }
    section.table(&table);
    section.more(ROWS, rows.len() as u64);
}

/// Also a part of the table of the GPU.
pub(super) fn kernels(section: &mut Section<'_>, report: &Report) {
    let found = &report.functions.kernels;
    if found.is_empty() {
        return;
    }
    let timed = found.iter().any(|row| row.executions > 0);
    section.heading(if timed {
        "GPU work by time"
    } else {
        "Kernels by launches (no GPU times in this trace)"
    });
    // Work without launches of its own: copies, and kernels of graphs. Where all kernels ran as often
    // as they were launched, one number is enough.
    let differ =
        |row: &KernelRow| row.category == Category::Kernel && row.launches != row.executions;
    let launched = !timed || found.iter().any(differ);
    let mut table = Table::new().names("Name");
    if launched {
        table = table.right("Launches");
    }
    if timed {
        for heading in ["Runs", "Total", "Of sum", "p50"] {
            table = table.right(heading);
        }
        table = table.optional("p99").optional("Max");
    }
    let sum = report.gpu.all.sum_ns;
    for row in found.iter().take(ROWS) {
        // Rows have different short names: any variant stands for its row.
        let name = row.variants.first().unwrap_or(&row.name);
        let note = match row.variant_count {
            0 | 1 => String::new(),
            variants => format!("({variants} variants)"),
        };
        let mut cells = vec![Cell::noted(name, note)];
        if launched {
            cells.push(count(row.launches).into());
        }
        if timed {
            cells.extend(
                [
                    count(row.executions),
                    section.time(row.total_ns),
                    share(row.total_ns, sum),
                    section.time(row.p50_ns),
                    section.time(row.p99_ns),
                    section.time(row.max_ns),
                ]
                .map(Cell::from),
            );
        }
        table.row(cells);
    }
    section.table(&table);
    section.more(ROWS, found.len() as u64);
}

fn longest(section: &mut Section<'_>, report: &Report) {
    let found = &report.functions;
    if !found.longest.is_empty() {
        section.heading("Longest operations");
        let mut table = Table::new()
            .right("Event")
            .right("At")
            .right("Took")
            .right("Self")
            .right("Thread")
            .left("Name")
            .optional_left("Category");
        for row in found.longest.iter().take(ROWS / 2) {
            table.row([
                row.op_id.to_string(),
                since_start(report, row.start_ns, section.style),
                section.time(row.duration_ns),
                section.time(row.self_ns),
                row.tid.to_string(),
                row.name.to_string(),
                row.category.to_string(),
            ]);
        }
        section.table(&table);
    }
    if !found.longest_gpu.is_empty() {
        section.heading("Longest operations on the GPU");
        let mut table = Table::new()
            .right("Event")
            .right("At")
            .right("Took")
            .names("Name");
        for row in found.longest_gpu.iter().take(ROWS / 2) {
            table.row([
                row.op_id.to_string(),
                since_start(report, row.start_ns, section.style),
                section.time(row.duration_ns),
                row.name.to_string(),
            ]);
        }
        section.table(&table);
    }
}
