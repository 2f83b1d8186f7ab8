//! Copies: how much each way, how fast, how large, from what memory.

use super::memory::place_words;
use super::section::{Section, since_start};
use crate::{
    Style, Table,
    units::{bytes, count, counted, share},
};
use analyse::{
    HostKind, Report,
    transfers::{DirectionTotals, TimedBy},
};

/// Rows shown of each table.
const ROWS: usize = 10;

pub fn transfers(report: &Report, style: &Style) -> String {
    let transfers = &report.transfers;
    let mut section = Section::new(style);
    section.heading("Copies");
    if transfers.count == 0 {
        section.line("The trace contains no copies.");
        return section.finish();
    }
    let time = match transfers.busy_ns {
        0 => "their duration is unknown".into(),
        busy => format!(
            "at least one was running for {} ({} of the run)",
            section.time(busy),
            share(busy, report.overview.wall_ns)
        ),
    };
    section.line(&format!(
        "{} of {}; {time}.",
        counted(transfers.count, "copy", "copies"),
        bytes(transfers.bytes),
    ));
    directions(&mut section, report);
    host_memory(&mut section, report);
    sizes(&mut section, report);
    places(&mut section, report);
    repeated(&mut section, report);
    section.finish()
}

fn directions(section: &mut Section<'_>, report: &Report) {
    section.heading("By direction");
    let mut table = Table::new()
        .left("")
        .right("Copies")
        .right("Bytes")
        .right("Queued")
        .right("Copying")
        .right("Speed")
        .left("Timed by");
    for way in &report.transfers.directions {
        let (time, speed) = match way.bytes_per_second {
            Some(rate) => (
                section.time(way.busy_ns),
                crate::units::bandwidth(rate, 1_000_000_000),
            ),
            None => ("-".into(), "-".into()),
        };
        table.row([
            way.direction.to_string(),
            count(way.count),
            bytes(way.bytes),
            count(way.queued),
            time,
            speed,
            timed_words(way.timed_by).to_owned(),
        ]);
    }
    section.table(&table);
    let waited: u64 = report
        .transfers
        .directions
        .iter()
        .map(|way| way.waited)
        .sum();
    if waited > 0 {
        let time = (report.transfers.directions.iter())
            .fold(0u64, |sum, way| sum.saturating_add(way.waited_ns));
        section.line(&format!(
            "{} first waited for kernels, {} in total; that time is not counted as copying.",
            counted(waited, "copy", "copies"),
            section.time(time)
        ));
    }
}

fn timed_words(by: TimedBy) -> &'static str {
    match by {
        TimedBy::Gpu => "the GPU",
        TimedBy::Calls => "calls that wait",
        TimedBy::Nothing => "nothing",
    }
}

fn host_memory(section: &mut Section<'_>, report: &Report) {
    let mut table = Table::new()
        .left("")
        .left("Host memory")
        .right("Copies")
        .right("Bytes")
        .right("Of bytes");
    for way in &report.transfers.directions {
        for host in &way.host {
            let kind = match host.memory {
                HostKind::Pinned => "pinned",
                HostKind::Pageable => "pageable",
                HostKind::Managed => "managed",
                HostKind::Unknown => "unknown",
            };
            table.row([
                way.direction.to_string(),
                kind.to_owned(),
                count(host.count),
                bytes(host.bytes),
                share(host.bytes, way.bytes),
            ]);
        }
    }
    if !table.is_empty() {
        section.heading("Pinned or pageable");
        section.table(&table);
    }
}

fn sizes(section: &mut Section<'_>, report: &Report) {
    section.heading("By size");
    let mut table = Table::new()
        .left("")
        .right("From")
        .right("Copies")
        .right("Bytes")
        .right("Time in calls")
        .left("");
    let most = |way: &DirectionTotals| way.sizes.iter().map(|bin| bin.count).max().unwrap_or(1);
    for way in &report.transfers.directions {
        let most = most(way);
        for bin in &way.sizes {
            let bar = (bin.count * 16).div_ceil(most.max(1)) as usize;
            let mark = if section.style.unicode { "█" } else { "#" };
            table.row([
                way.direction.to_string(),
                bytes(bin.from_bytes),
                count(bin.count),
                bytes(bin.bytes),
                section.time(bin.call_ns),
                mark.repeat(bar),
            ]);
        }
    }
    section.table(&table);
}

fn places(section: &mut Section<'_>, report: &Report) {
    section.heading("Largest copies by place");
    let mut table = Table::new()
        .left("")
        .left("By")
        .right("Copies")
        .right("Bytes")
        .right("Copying")
        .right("From")
        .right("Event");
    let places = &report.transfers.places;
    // What nothing timed, or what was queued, took no known time.
    let timed = |direction| {
        (report.transfers.directions.iter())
            .any(|way| way.direction == direction && way.bytes_per_second.is_some())
    };
    for place in places.iter().take(ROWS) {
        let time = match timed(place.direction) {
            true => section.time(place.copy_ns),
            false => "-".into(),
        };
        table.row([
            place.direction.to_string(),
            place_words(&place.place),
            count(place.count),
            bytes(place.bytes),
            time,
            since_start(report, place.from_ns, section.style),
            place.op_id.to_string(),
        ]);
    }
    section.table(&table);
    section.more(ROWS.min(places.len()), places.len() as u64);
}

fn repeated(section: &mut Section<'_>, report: &Report) {
    let repeated = &report.transfers.repeated;
    if repeated.is_empty() {
        return;
    }
    section.heading("Repeated copies between the same addresses");
    let mut table = Table::new()
        .left("")
        .right("Size")
        .right("Times")
        .left("From")
        .left("To")
        .right("Time in calls");
    for pair in repeated.iter().take(ROWS) {
        table.row([
            pair.direction.to_string(),
            bytes(pair.size_bytes),
            count(pair.count),
            format!("{:#x}", pair.src),
            format!("{:#x}", pair.dst),
            section.time(pair.call_ns),
        ]);
    }
    section.table(&table);
    section.more(ROWS.min(repeated.len()), repeated.len() as u64);
}
