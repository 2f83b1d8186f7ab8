//! Managed memory: migrations by direction and cause, faults.

use super::section::{Section, device_name};
use crate::{
    Table,
    units::{bytes, count},
};
use analyse::Report;

/// Nothing where the trace has nothing of it.
pub fn managed(section: &mut Section, report: &Report) {
    let managed = &report.managed;
    if managed.migrations.is_empty() && managed.counts.is_empty() {
        return;
    }
    section.heading("Managed memory");
    section.line(&format!(
        "Migrated {}; page faults: {} by the CPU, {} by the GPU.",
        bytes(managed.migrated_bytes),
        count(managed.cpu_faults),
        count(managed.gpu_faults),
    ));
    let mut table = Table::new()
        .left("Direction")
        .left("Cause")
        .left("GPU")
        .right("Migrations")
        .right("Bytes")
        .right("Time")
        .right("Average")
        .right("Largest");
    for row in &managed.migrations {
        table.row([
            row.direction.to_string(),
            row.cause.to_string(),
            device_name(row.device),
            count(row.count),
            bytes(row.bytes),
            section.time(row.sum_ns),
            bytes(row.bytes / row.count.max(1)),
            bytes(row.largest_bytes),
        ]);
    }
    section.table(&table);
    let others = (managed.counts.iter())
        .filter(|one| !matches!(&*one.name, "cpu_fault" | "gpu_fault"))
        .map(|one| {
            let size = if one.bytes > 0 {
                format!(" ({})", bytes(one.bytes))
            } else {
                String::new()
            };
            format!("{} {}{size}", one.name.replace('_', " "), count(one.count))
        });
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        section.line(&format!("Also: {}.", others.join(", ")));
    }
}
