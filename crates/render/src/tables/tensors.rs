//! GPU memory of a framework's tensors: which modules, operators and lines have it.

use super::section::{Section, since_start};
use crate::{
    Table,
    units::{bytes, count, counted},
};
use analyse::{
    Report,
    tensors::{Exhausted, OwnerName, TensorOwner},
};
use std::collections::HashMap;

/// Rows shown of each table.
const ROWS: usize = 10;

pub fn tensors(section: &mut Section<'_>, report: &Report) {
    let found = &report.tensors;
    if found.is_empty() {
        return;
    }
    section.heading("Tensors");
    section.line(&format!(
        "PyTorch allocated {}, {}; the most at a time was {} at {}, when its allocator had {} of CUDA.",
        counted(found.allocations, "time", "times"),
        bytes(found.allocated_bytes),
        bytes(found.peak_bytes),
        since_start(report, found.peak_at_ns, section.style),
        bytes(found.reserved_bytes),
    ));
    if let Some(exhausted) = &found.exhausted {
        out_of_memory(section, report, exhausted);
    }
    let has_modules = found.owners.iter().any(|row| row.name.module.is_some());
    if has_modules {
        by(section, "Module", &found.owners, |name| {
            name.module.as_deref()
        });
    }
    by(section, "Operator", &found.owners, |name| {
        name.operator.as_deref()
    });
    let has_lines = found.owners.iter().any(|row| row.name.line.is_some());
    if has_lines {
        by(section, "Line", &found.owners, |name| name.line.as_deref());
        section.line("Lines are known for tensors of 1 MiB or more.");
    }
    if !has_modules {
        section.line("Record with --modules to see which modules have it.");
    }
    growing(section, report);
}

/// What the owners of one module, operator or line had together.
fn by(
    section: &mut Section<'_>,
    title: &str,
    owners: &[TensorOwner],
    key: impl Fn(&OwnerName) -> Option<&str>,
) {
    let mut sums: HashMap<&str, [u64; 4]> = HashMap::new();
    for owner in owners {
        let sum = sums.entry(key(&owner.name).unwrap_or("-")).or_default();
        let more = [
            owner.at_peak_bytes,
            owner.allocations,
            owner.allocated_bytes,
            owner.live_bytes,
        ];
        for (sum, more) in sum.iter_mut().zip(more) {
            *sum = sum.saturating_add(more);
        }
    }
    let mut rows: Vec<(&str, [u64; 4])> = sums.into_iter().collect();
    rows.sort_by(|a, b| (b.1[0], b.1[2], a.0).cmp(&(a.1[0], a.1[2], b.0)));
    let most = section.rows(ROWS);
    let mut table = Table::new()
        .left(title)
        .right("At the peak")
        .right("Allocations")
        .right("Allocated")
        .right("At the end");
    for (name, [peak, allocations, allocated, live]) in rows.iter().take(most) {
        table.row([
            (*name).to_owned(),
            bytes(*peak),
            count(*allocations),
            bytes(*allocated),
            bytes(*live),
        ]);
    }
    section.table(&table);
    section.more(most, rows.len() as u64);
}

fn out_of_memory(section: &mut Section<'_>, report: &Report, found: &Exhausted) {
    section.line(&format!(
        "Out of memory at {}: {} wanted {}, tensors had {}, the allocator {}.",
        since_start(report, found.at_ns, section.style),
        who(&found.name),
        bytes(found.wanted_bytes),
        bytes(found.allocated_bytes),
        bytes(found.reserved_bytes),
    ));
    let mut table = Table::new().left("Who had it then").right("Memory");
    let most = section.rows(ROWS);
    for (name, held) in found.holders.iter().take(most) {
        table.row([who(name), bytes(*held)]);
    }
    section.table(&table);
    section.more(most, found.holders.len() as u64);
}

fn growing(section: &mut Section<'_>, report: &Report) {
    let growing = &report.tensors.growing;
    if growing.is_empty() {
        return;
    }
    section.heading("Tensors that stay from step to step");
    let mut table = Table::new()
        .left("Allocated by")
        .right("Steps")
        .right("Each step")
        .right("In all");
    let most = section.rows(ROWS);
    for one in growing.iter().take(most) {
        table.row([
            who(&one.name),
            count(one.steps),
            bytes(one.bytes_per_step),
            bytes(one.bytes),
        ]);
    }
    section.table(&table);
    section.more(most, growing.len() as u64);
}

/// `Model.layers.3.attn, aten::mm, model.py:12`
fn who(name: &OwnerName) -> String {
    let parts = [&name.module, &name.operator, &name.line];
    let parts: Vec<&str> = parts.into_iter().flatten().map(|part| &**part).collect();
    match parts.is_empty() {
        true => "no operator".to_owned(),
        false => parts.join(", "),
    }
}
