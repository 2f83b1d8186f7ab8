//! What probes found: the kernels they were in, and what their maps hold.

use super::{
    accesses,
    bars::{durations, grouped},
};
use crate::{
    arguments::Run,
    commands::record::Found,
    probes::{Probes, Ready, What},
    say,
};
use capture::gpu_probe::{MapDump, Notes, RingTotals};
use event::Value;
use ptx::device::map_kind;
use ptx::rewrite::{nearest, readable};
use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

/// Entries of a map that are shown.
const MOST_SHOWN: usize = 32;

pub fn show(probes: &Probes, found: &Found, options: &Run) {
    let mut text = String::from("\n=== GPU PROBES ===\n");
    // With a summary, they are among its notes.
    if !options.record.summary || options.record.quiet {
        let all = notes(probes, &found.notes, &found.dumps, &found.rings);
        for note in all.iter().chain(&found.unprobed.notes) {
            let _ = writeln!(text, "Note: {note}");
        }
    }
    for (name, kernel) in &found.notes.probed {
        let fact = |name: &str| kernel.facts.get(name).map_or("?", String::as_str);
        let _ = write!(text, "\n{}\n ", readable(name));
        for (word, what) in [
            ("entries", "at entry"),
            ("returns", "before leaving"),
            ("accesses", "at accesses"),
            ("stubs", "at stub calls"),
        ] {
            if fact(word) != "0" && fact(word) != "?" {
                let _ = write!(text, " {} {what},", fact(word));
            }
        }
        // Before and after. Of what was linked, or loaded before there was a context, nothing is known.
        let changes: Vec<String> = [
            ("registers", "registers", ""),
            ("local", "local memory", " bytes"),
            ("threads", "threads a block", ""),
            ("blocks", "blocks of 256 on a multiprocessor", ""),
        ]
        .iter()
        .filter(|(word, ..)| kernel.facts.contains_key(*word))
        .map(|(word, what, unit)| format!("{what} {}{unit}", fact(word).replace('/', " → ")))
        .collect();
        match kernel.facts.get("jit_ms") {
            Some(time) => {
                let _ = writeln!(text, " {}; JIT {time} ms", changes.join(", "));
            }
            None => text.push_str(" linked by the program\n"),
        }
        if options.record.verbose {
            let _ = writeln!(text, "  {:?}", kernel.facts);
        }
    }
    for total in &found.rings {
        if total.source.map.is_some() || total.read > 0 {
            let name = total
                .source
                .map
                .map_or("printk", |map| probes.map_name(map));
            let dump = (found.dumps.iter()).find(|dump| {
                (dump.pid, dump.context, dump.map)
                    == (total.source.pid, total.source.context, total.source.map)
            });
            let lost = dump.and_then(MapDump::ring).map_or(0, |ring| ring.lost);
            let _ = writeln!(
                text,
                "\nring {name}: {} records read, {} lost",
                grouped(total.read),
                grouped(lost)
            );
        }
    }
    for line in &found.lines {
        let _ = writeln!(text, "  {line}");
    }
    match &probes.what {
        // Zeros would be read as counts.
        What::Ready(_) if unread(probes, &found.notes, &found.dumps).is_some() => {}
        What::Ready(ready) => {
            ready_made(*ready, found, &mut text);
            if *ready == Ready::Hist && options.record.simulate {
                text.push_str(
                    "\nOn softgpu, blocks that run at once may have one multiprocessor and warp number: \
                     some warps are missed, some have\nanother's time. gpu count is exact.\n",
                );
            }
        }
        What::Object(_) => {
            for dump in &found.dumps {
                map(probes, dump, &mut text);
            }
        }
    }
    say::text(&text);
}

fn ready_made(ready: Ready, found: &Found, text: &mut String) {
    match ready {
        Ready::Count => {
            let counts = numbers(found, 0, 4);
            let names = [
                "threads that entered",
                "warps",
                "blocks",
                "threads that left",
            ];
            for (name, count) in names.iter().zip(counts) {
                let _ = writeln!(text, "  {:>16} {name}", grouped(count));
            }
        }
        Ready::Hist => {
            let total = numbers(found, 2, 4);
            for (what, how, bins, count, sum) in [
                ("warps", "", 1, total[0], total[1]),
                ("blocks", ", by their first warp", 3, total[2], total[3]),
            ] {
                let _ = writeln!(
                    text,
                    "\n{what} by how long they took{how} ({} {what}, {} ns on average)",
                    grouped(count),
                    grouped(sum.checked_div(count).unwrap_or(0))
                );
                durations(&numbers(found, bins, 64), text);
            }
        }
        Ready::Trace => {}
        Ready::Sched => schedule(found, text),
        Ready::Mem => accesses::table(&found.accesses, text),
    }
}

/// An array's values, over all contexts.
fn numbers(found: &Found, map: usize, count: usize) -> Vec<u64> {
    let mut sums = vec![0u64; count];
    for dump in found.dumps.iter().filter(|dump| dump.map == Some(map)) {
        for (sum, word) in sums.iter_mut().zip(dump.bytes().chunks_exact(8)) {
            *sum += u64::from_le_bytes(word.try_into().unwrap_or_default());
        }
    }
    sums
}

/// Blocks by multiprocessor, and how many ran at once.
fn schedule(found: &Found, text: &mut String) {
    let mut blocks: BTreeMap<usize, u64> = BTreeMap::new();
    for dump in found.dumps.iter().filter(|dump| dump.map == Some(2)) {
        for (sm, word) in dump.bytes().chunks_exact(8).enumerate() {
            let count = u64::from_le_bytes(word.try_into().unwrap_or_default());
            if count > 0 {
                *blocks.entry(sm).or_default() += count;
            }
        }
    }
    let (all, used) = (blocks.values().sum::<u64>(), blocks.len() as u64);
    let least = blocks.values().min().copied().unwrap_or(0);
    let most = blocks.values().max().copied().unwrap_or(0);
    let _ = writeln!(
        text,
        "\n{} blocks on {used} multiprocessors: {least} to {most} on one",
        grouped(all)
    );
    for (sm, count) in blocks.iter().take(MOST_SHOWN) {
        let bar = "█".repeat((count * 40).div_ceil(most.max(1)) as usize);
        let _ = writeln!(text, "  SM {sm:>3} {count:>10}  {bar}");
    }
    if blocks.len() > MOST_SHOWN {
        let _ = writeln!(text, "  … and {} more", blocks.len() - MOST_SHOWN);
    }
    let mut edges: Vec<(u64, i64)> = (found.spans.iter())
        .flat_map(|(start, end)| [(*start, 1), (*end, -1)])
        .collect();
    edges.sort_unstable();
    let (mut now, mut peak) = (0, 0);
    for (_, step) in &edges {
        now += step;
        peak = peak.max(now);
    }
    if let (Some(first), Some(last)) = (edges.first(), edges.last()) {
        let width = last.0.saturating_sub(first.0);
        let busy: u64 = found
            .spans
            .iter()
            .map(|(start, end)| end.saturating_sub(*start))
            .sum();
        let _ = writeln!(
            text,
            "at most {} blocks at once; {:.1} on average over {:.1?}",
            grouped(peak.max(0) as u64),
            busy as f64 / width.max(1) as f64,
            Duration::from_nanos(width)
        );
    }
}

fn map(probes: &Probes, dump: &MapDump, text: &mut String) {
    let Some(number) = dump.map else {
        return;
    };
    let spec = dump.spec();
    if spec.kind == ptx::device::map_kind::RING {
        return;
    }
    let kind = &dump.kind;
    let place = match dump.context {
        0 => String::new(),
        context => format!(", context {context}"),
    };
    let _ = writeln!(text, "\nmap {} ({kind}{place})", spec.name);
    let mut shown = 0;
    for entry in dump.entries() {
        let key = words(&probes.value(number, &entry.key, true));
        let mut some = (entry.values.iter().enumerate())
            .filter(|(_, value)| value.iter().any(|byte| *byte != 0))
            .peekable();
        if entry.values.len() > 1 {
            // One value a thread: what they have in common says more than a list of them.
            let (mut count, mut sum) = (0u64, 0u64);
            let (mut least, mut most) = (u64::MAX, 0);
            let numbers = spec.value_size == 8 && some.peek().is_some();
            for (copy, value) in some {
                let number_of = value
                    .first_chunk()
                    .map_or(0, |word| u64::from_le_bytes(*word));
                count += 1;
                sum = sum.wrapping_add(number_of);
                (least, most) = (least.min(number_of), most.max(number_of));
                if !numbers && shown < MOST_SHOWN {
                    shown += 1;
                    let value = words(&probes.value(number, value, false));
                    let _ = writeln!(text, "  {key}[{copy}]: {value}");
                }
            }
            if numbers {
                let _ = writeln!(
                    text,
                    "  {key}: {} values from {} to {}, {} in all",
                    grouped(count),
                    grouped(least),
                    grouped(most),
                    grouped(sum)
                );
            }
            continue;
        }
        for (_, value) in some {
            shown += 1;
            if shown <= MOST_SHOWN {
                let _ = writeln!(
                    text,
                    "  {key}: {}",
                    words(&probes.value(number, value, false))
                );
            }
        }
    }
    if shown > MOST_SHOWN {
        let _ = writeln!(text, "  … and {} more", shown - MOST_SHOWN);
    }
}

fn words(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Pointer(address) => format!("{address:#x}"),
        Value::Str(text) => text.to_string(),
        Value::List(list) => {
            let parts: Vec<String> = list.iter().map(words).collect();
            format!("[{}]", parts.join(", "))
        }
        Value::Map(fields) => {
            let parts: Vec<String> = fields
                .iter()
                .map(|field| format!("{}={}", field.name, words(&field.value)))
                .collect();
            format!("{{{}}}", parts.join(" "))
        }
    }
}

/// What was not as it should be.
pub fn notes(
    probes: &Probes,
    notes: &Notes,
    dumps: &[MapDump],
    rings: &[RingTotals],
) -> Vec<String> {
    let mut all = Vec::new();
    for why in &notes.failures {
        all.push(format!("probes did not run: {why}"));
    }
    all.extend(unread(probes, notes, dumps));
    all.extend(notes.words.iter().cloned());
    all.extend(not_found(probes, notes));
    for dump in dumps {
        let name = dump.map.map_or("printk", |map| probes.map_name(map));
        match dump.ring() {
            Some(ring) if ring.lost > 0 => all.push(format!(
                "ring {name}: {} of {} records found no room; give it more with --ring N",
                ring.lost,
                ring.lost + ring.head
            )),
            _ => {}
        }
        if dump.refused() > 0 {
            all.push(format!(
                "map {name} was full: {} keys were refused",
                dump.refused()
            ));
        }
    }
    for total in rings.iter().filter(|total| total.unfinished > 0) {
        let name = total
            .source
            .map
            .map_or("printk", |map| probes.map_name(map));
        all.push(format!(
            "ring {name}: {} records were begun and not finished",
            total.unfinished
        ));
    }
    all
}

/// Processes that were gone before their maps could be read from the device.
fn unread(probes: &Probes, notes: &Notes, dumps: &[MapDump]) -> Option<String> {
    let is_read = |map: usize| {
        let kind = probes.orders.maps[map].kind;
        !map_kind::is_host(kind) && kind != map_kind::RING
    };
    if !(0..probes.orders.maps.len()).any(is_read) {
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
            "maps of process {pid} are missing: it was gone before they could be read from the device"
        )),
        many => Some(format!(
            "maps of {} processes are missing: they were gone before their maps could be read from the device",
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
        let near: Vec<String> = (nearest(probe.kernels.text(), names).iter())
            .map(|name| readable(name))
            .collect();
        let hint = if near.is_empty() {
            "the program loaded none".to_owned()
        } else {
            format!("there are: {}", near.join(", "))
        };
        let line = format!("no kernel {} was loaded; {hint}", probe.kernels.text());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}
