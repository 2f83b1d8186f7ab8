//! Modules of a PyTorch program: the time of their forward, and the GPU work of forward and backward.

use super::section::Section;
use crate::{Style, Table, units::count};
use analyse::{Report, operators::Operator};

/// Modules shown.
const ROWS: usize = 40;

pub fn modules(report: &Report, style: &Style) -> String {
    let mut section = Section::new(style);
    section.heading("Modules");
    let all = report.operators.operators.iter();
    let mut found: Vec<(&str, &Operator)> =
        all.filter_map(|row| Some((row.module()?, row))).collect();
    if found.is_empty() {
        section.line(
            "The trace has no modules. Record a PyTorch program with --modules: cutrace --modules python train.py",
        );
        return section.finish();
    }
    found.sort_by(|(a, x), (b, y)| {
        (y.gpu_ns, y.total_ns)
            .cmp(&(x.gpu_ns, x.total_ns))
            .then(a.cmp(b))
    });
    let mut table = Table::new()
        .left("Module")
        .right("Forward")
        .right("Host time")
        .right("GPU work")
        .right("GPU time");
    let most = section.rows(ROWS);
    for (name, row) in found.iter().take(most) {
        table.row([
            (*name).to_owned(),
            count(row.count + row.open),
            section.time(row.total_ns),
            count(row.gpu_operations),
            section.time(row.gpu_ns),
        ]);
    }
    section.table(&table);
    section.more(most, found.len() as u64);
    section.line(
        "Host time is that of forward. GPU work is that of forward, and of backward operators that belong to it. A module \
         includes the modules inside it.",
    );
    section.finish()
}
