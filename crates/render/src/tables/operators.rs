//! A framework's operators, and what the GPU did for each.

use super::section::Section;
use crate::{Style, Table, units::count};
use analyse::Report;

/// Operators shown.
const ROWS: usize = 40;
/// Compiled kernels shown.
const COMPILED: usize = 15;
/// Lines shown.
const WAITS: usize = 10;

pub fn operators(report: &Report, style: &Style) -> String {
    let mut section = Section::new(style);
    section.heading("Operators");
    let found = &report.operators;
    if found.operators.is_empty() {
        section.line(
            "No operators in this trace. cutrace records them for PyTorch 2.1 and later, when it starts the program and \
             --method includes preload and torch, as the default does; for JAX they come from its NVTX ranges.",
        );
        return section.finish();
    }
    let most = section.rows(ROWS);
    let with_gpu = found.inside + found.outside > 0;
    let mut table = Table::new()
        .left("Operator")
        .right("Count")
        .right("Host total")
        .right("Host self");
    if with_gpu {
        table = table.right("GPU work").right("GPU total").right("GPU self");
    }
    for row in found.operators.iter().take(most) {
        let mut cells = vec![
            row.name.to_string(),
            count(row.count + row.open),
            section.time(row.total_ns),
            section.time(row.self_ns),
        ];
        if with_gpu {
            cells.push(count(row.gpu_operations));
            cells.push(section.time(row.gpu_ns));
            cells.push(section.time(row.self_gpu_ns));
        }
        table.row(cells);
    }
    section.table(&table);
    section.more(most, found.operators.len() as u64);
    section.line("Total includes operators called inside; self does not.");
    if with_gpu {
        let all = found.inside + found.outside;
        section.line(&format!(
            "{} of {} pieces of GPU work were started inside an operator.",
            count(found.inside),
            count(all)
        ));
    }
    compiled(&mut section, report);
    waits(&mut section, report);
    classes(&mut section, report);
    section.finish()
}

/// Kernels that do the work of several operators.
fn compiled(section: &mut Section<'_>, report: &Report) {
    if report.compiled.is_empty() {
        return;
    }
    section.heading("Kernels made by torch.compile");
    let mut table = Table::new()
        .left("Kernel")
        .left("Does the work of")
        .right("Count")
        .right("GPU time");
    let most = section.rows(COMPILED);
    for kernel in report.compiled.iter().take(most) {
        table.row([
            kernel.name.to_string(),
            kernel.operators.join(", "),
            count(kernel.executions),
            section.time(kernel.total_ns),
        ]);
    }
    section.table(&table);
    section.more(most, report.compiled.len() as u64);
}

/// Lines of Python that wait for the GPU.
fn waits(section: &mut Section<'_>, report: &Report) {
    let waits = &report.operators.waits;
    if waits.is_empty() {
        return;
    }
    section.heading("Lines that wait for the GPU");
    let mut table = Table::new()
        .left("Line")
        .left("In")
        .right("Waits")
        .right("Time")
        .right("Longest");
    let most = section.rows(WAITS);
    for wait in waits.iter().take(most) {
        let operator = wait.operator.as_deref();
        table.row([
            wait.line.to_string(),
            operator.unwrap_or(&wait.function).to_owned(),
            count(wait.count),
            section.time(wait.total_ns),
            section.time(wait.max_ns),
        ]);
    }
    section.table(&table);
    section.more(most, waits.len() as u64);
}

fn classes(section: &mut Section<'_>, report: &Report) {
    if report.kernel_classes.is_empty() {
        return;
    }
    section.heading("GPU time by kind of work");
    let mut table = Table::new()
        .left("Kind")
        .right("GPU work")
        .right("GPU time")
        .right("Share");
    for class in &report.kernel_classes {
        table.row([
            class.class.to_owned(),
            count(class.executions),
            section.time(class.total_ns),
            format!("{:.1} %", 100.0 * class.share),
        ]);
    }
    section.table(&table);
}
