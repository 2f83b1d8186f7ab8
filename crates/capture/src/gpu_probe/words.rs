//! What was not as it should be: said among the notes of a run.

use super::{MapDump, MapReading, Notes, Probes, ReadingCause, RingTotals};
use crate::clock::monotonic;
use crate::notes::counted;
use ptx::device::map_kind;
use ptx::rewrite::{nearest, readable};
use std::time::Duration;

/// What was not as it should be.
pub fn notes(
    probes: &Probes,
    notes: &Notes,
    dumps: &[MapDump],
    rings: &[RingTotals],
    readings: &[MapReading],
) -> Vec<String> {
    let mut all = Vec::new();
    for why in &notes.failures {
        all.push(format!("probes did not run: {why}"));
    }
    all.extend(unread(probes, notes, dumps));
    if has_device_maps(probes) {
        all.extend(readings.iter().filter_map(early));
    }
    all.extend(notes.words.iter().cloned());
    all.extend(not_found(probes, notes));
    for dump in dumps {
        let name = dump.map.map_or("printk", |map| probes.map_name(map));
        match dump.ring() {
            Some(ring) if ring.lost > 0 => all.push(format!(
                "ring {name}: {} of {} records did not fit; enlarge it with --ring N",
                ring.lost,
                ring.lost + ring.head
            )),
            _ => {}
        }
        if dump.refused() > 0 {
            all.push(format!(
                "map {name} was full: {} refused",
                counted(dump.refused(), "insert was", "inserts were")
            ));
        }
    }
    for total in rings.iter().filter(|total| total.unfinished > 0) {
        let name = total
            .source
            .map
            .map_or("printk", |map| probes.map_name(map));
        all.push(format!(
            "ring {name}: {} started but never finished",
            counted(total.unfinished, "record was", "records were")
        ));
    }
    all
}

/// Maps that were read before the program's end, and not again at it.
fn early(reading: &MapReading) -> Option<String> {
    match &reading.why {
        ReadingCause::End => None,
        ReadingCause::Signal(signal) => Some(format!(
            "{signal} ended process {}: its maps were read when the signal arrived, possibly with kernels still running",
            reading.pid
        )),
        ReadingCause::Interval => {
            let ago = Duration::from_nanos(monotonic().saturating_sub(reading.at));
            Some(format!(
                "process {} ended before its maps could be read: the maps shown are {:.1} s older than its end",
                reading.pid,
                ago.as_secs_f64()
            ))
        }
    }
}

/// Whether it is in memory of the device, from which it has to be copied.
fn is_on_device(probes: &Probes, map: usize) -> bool {
    let kind = probes.orders.maps.get(map).map_or(0, |map| map.kind);
    !map_kind::is_host(kind)
        && kind != map_kind::RING
        && kind != map_kind::ELSEWHERE
        && !probes.is_hidden(map)
}

fn has_device_maps(probes: &Probes) -> bool {
    (0..probes.orders.maps.len()).any(|map| is_on_device(probes, map))
}

/// Processes that were gone before their maps could be read from the device.
pub fn unread(probes: &Probes, notes: &Notes, dumps: &[MapDump]) -> Option<String> {
    let is_read = |map: usize| is_on_device(probes, map);
    if !has_device_maps(probes) {
        return None;
    }
    let has_maps = |pid: u32, context: u32| {
        let mut own = dumps
            .iter()
            .filter(|dump| (dump.pid, dump.context) == (pid, context));
        own.any(|dump| dump.map.is_some_and(is_read))
    };
    let mut pids: Vec<u32> = (notes.contexts.keys())
        .filter(|(pid, context)| !has_maps(*pid, *context))
        .map(|(pid, _)| *pid)
        .collect();
    pids.dedup();
    match &*pids {
        [] => None,
        [pid] => Some(format!(
            "maps of process {pid} are missing: it ended before they could be read from the device"
        )),
        many => Some(format!(
            "maps of {} processes are missing: the processes ended before their maps could be read from the device",
            many.len()
        )),
    }
}

/// Probes whose kernels did not come, with names that did.
fn not_found(probes: &Probes, notes: &Notes) -> Vec<String> {
    let mut lines = Vec::new();
    for probe in &probes.orders.plan.probes {
        let mut dealt_with = (notes.probed.keys())
            .chain(notes.refused.keys())
            .chain(notes.sass_only.keys());
        if dealt_with.any(|name| probe.kernels.matches(name)) {
            continue;
        }
        let names = notes.seen.iter().map(String::as_str);
        let mut near: Vec<String> = Vec::new();
        for name in nearest(probe.kernels.text(), names) {
            let name = names::short_name(&readable(&name));
            if !near.contains(&name) {
                near.push(name);
            }
        }
        let hint = if near.is_empty() {
            "the program loaded no kernels".to_owned()
        } else {
            format!("the nearest are: {}", near.join(", "))
        };
        let line = format!("no kernel {} was loaded; {hint}", probe.kernels.text());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}
