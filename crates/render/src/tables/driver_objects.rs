//! What ioctls did, in words: memory that really came and went, channels and how they are scheduled.

use super::section::Section;
use crate::{
    Table,
    units::{bytes, count, counted},
};
use analyse::{
    Report,
    driver_objects::{DriverObjects, Space},
};

/// Where a reader looks for launches among ioctls.
pub(super) const NO_LAUNCHES: &str = "Launches, asynchronous copies and event records make no ioctl: the program \
     writes them directly into memory that it shares with the GPU.";

/// Memory as the driver sees it, beside what the program asked for.
pub(super) fn memory(section: &mut Section<'_>, report: &Report) {
    let found = &report.driver_objects;
    if found.facts == 0 {
        return;
    }
    section.heading("Memory, as the driver allocated it");
    let mut table = Table::new()
        .left("Memory")
        .right("Allocations")
        .right("Requested")
        .right("Allocated")
        .right("Frees")
        .right("Freed")
        .right("Peak");
    let spaces = [
        ("GPU memory", &found.vram),
        ("host memory", &found.host),
        ("registered host memory", &found.registered),
    ];
    for (name, space) in spaces {
        if *space != Space::default() {
            table.row([
                name.to_owned(),
                count(space.allocations),
                bytes(space.requested),
                bytes(space.bytes),
                count(space.frees),
                bytes(space.freed),
                bytes(space.peak),
            ]);
        }
    }
    section.table(&table);
    let asked = report.overview.counts.allocated_bytes;
    if report.overview.counts.allocations > 0 {
        section.line(&format!(
            "The program requested {} in total; the driver allocated {} of GPU memory inside allocation calls, and {} \
             elsewhere (contexts, modules, channels).",
            bytes(asked),
            bytes(found.vram_in_allocations),
            bytes(found.vram.bytes.saturating_sub(found.vram_in_allocations)),
        ));
    }
    ranges(section, found);
}

fn ranges(section: &mut Section<'_>, found: &DriverObjects) {
    if found.ranges + found.ranges_freed > 0 {
        section.line(&format!(
            "UVM: {} of {} created, {} freed.",
            counted(found.ranges, "range", "ranges"),
            bytes(found.range_bytes),
            count(found.ranges_freed),
        ));
    }
    for one in &found.migrations {
        section.line(&format!(
            "Moved to {} at the program's request: {} in {}.",
            one.to,
            bytes(one.bytes),
            counted(one.times, "migration", "migrations"),
        ));
    }
    let advice: Vec<String> = (found.advice.iter())
        .map(|(advice, times)| format!("{advice} {}", count(*times)))
        .collect();
    if !advice.is_empty() {
        section.line(&format!("Advice on managed memory: {}.", advice.join(", ")));
    }
}

/// Channels, TSGs, and how they take turns.
pub(super) fn channels(section: &mut Section<'_>, report: &Report) {
    let found = &report.driver_objects;
    if found.channels.created + found.groups.created + found.doorbells == 0 {
        return;
    }
    section.heading("Channels, as the driver created them");
    section.line(&format!(
        "{} created ({} destroyed) in {} ({} destroyed), {}.",
        counted(found.channels.created, "channel", "channels"),
        count(found.channels.destroyed),
        counted(found.groups.created, "TSG", "TSGs"),
        count(found.groups.destroyed),
        counted(found.address_spaces, "address space", "address spaces"),
    ));
    for (microseconds, times) in &found.timeslices {
        section.line(&format!(
            "Timeslice: {microseconds} {} for {}.",
            section.style.micro(),
            counted(*times, "TSG", "TSGs")
        ));
    }
    for one in &found.preemption {
        section.line(&format!(
            "Preemption: graphics {}, compute {} ({}).",
            ["waits for idle", "between instructions"][usize::from(one.graphics != 0)],
            match one.compute {
                0 => "waits for idle",
                1 => "between blocks",
                _ => "between instructions",
            },
            counted(one.times, "time", "times"),
        ));
    }
    section.line(&format!(
        "{} mapped, {} issued: from then on, work is submitted without system calls.",
        counted(found.doorbells, "doorbell", "doorbells"),
        counted(found.tokens, "token", "tokens"),
    ));
}
