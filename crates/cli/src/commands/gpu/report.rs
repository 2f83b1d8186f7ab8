//! What probes found, for people: the answer first, then what the probes did to the kernels.

use super::{
    accesses,
    bars::{bar, durations, grouped},
    maps,
};
use crate::{arguments::Run, commands::style::stderr_style, say};
use capture::gpu_probe::{
    KernelNotes, MapDump, ProbeResults,
    programs::{Access, Probes, Ready, What},
    words::{notes, unread},
};
use ptx::rewrite::readable;
use std::{collections::BTreeMap, fmt::Write as _};

/// Multiprocessors, and kernels, that are shown.
const MOST_SHOWN: usize = 32;

pub fn show(probes: &Probes, found: &ProbeResults, options: &Run) {
    let mut text = String::from("\n=== GPU PROBES ===\n");
    // With a summary, they are among its notes.
    if !options.record.is_summed_up() {
        let all = notes(
            probes,
            &found.notes,
            &found.dumps,
            &found.rings,
            &found.readings,
        );
        for note in all.iter().chain(&found.unprobed.notes) {
            let _ = writeln!(text, "Note: {note}");
        }
    }
    let kernels = Kernels::of(found, options);
    // Zeros would be read as counts.
    let is_unread = unread(probes, &found.notes, &found.dumps).is_some();
    let ready = match probes.what {
        What::Ready(ready) => Some(ready),
        What::Object(_) => None,
    };
    let is_empty = ready.is_some() && found.notes.probed.is_empty();
    if !is_unread && !is_empty {
        if ready.is_some() {
            let _ = writeln!(text, "\n{}", kernels.title());
        }
        text.push_str(&answer(probes, &found.dumps, &found.spans, &found.accesses));
        if ready == Some(Ready::Hist) && options.record.run.simulate {
            text.push_str(
                "\nOn softgpu, blocks that run at once may have one multiprocessor and warp number: \
                 some warps are missed, some have\nanother's time. gpu count is exact.\n",
            );
        }
    }
    match ready {
        Some(Ready::Trace) => recorded("block", found, &mut text),
        Some(Ready::TraceThreads) => recorded("thread", found, &mut text),
        Some(_) => {}
        None => rings(probes, found, &mut text),
    }
    if !found.lines.is_empty() {
        let printed = found.rings.iter().filter(|ring| ring.source.map.is_none());
        let all: u64 = printed.map(|ring| ring.read).sum();
        let of = match all > found.lines.len() as u64 {
            true => format!(", {} of {} lines", found.lines.len(), grouped(all)),
            false => String::new(),
        };
        let _ = writeln!(text, "\nprinted by GPU programs{of}:");
    }
    // Threads of a warp often print the same.
    for same in found.lines.chunk_by(|a, b| a == b) {
        let _ = match same {
            [line] => writeln!(text, "  {line}"),
            [line, ..] => writeln!(text, "  {line}  ({} times)", same.len()),
            [] => Ok(()),
        };
    }
    kernels.list(&mut text);
    say::text(&text);
}

/// Kernels with probes, as they are shown.
struct Kernels<'a> {
    /// Each with its name for people; those that ran first.
    all: Vec<(String, &'a KernelNotes)>,
    ran: usize,
    verbose: bool,
}

impl<'a> Kernels<'a> {
    fn of(found: &'a ProbeResults, options: &Run) -> Self {
        let has_run = |name: &String| found.unprobed.probed.contains(name);
        let (ran, idle): (Vec<_>, Vec<_>) =
            (found.notes.probed.iter()).partition(|(name, _)| has_run(name));
        let full = options.full_names || options.record.run.verbose;
        let mut all = named(&ran, full);
        all.extend(named(&idle, full));
        Kernels {
            all,
            ran: ran.len(),
            verbose: options.record.run.verbose,
        }
    }

    /// Whose counts they are: of those that ran. Nobody knows of kernels that graphs launch: then it is all.
    fn title(&self) -> String {
        let shown = match self.ran {
            0 => self.all.len(),
            ran => ran,
        };
        let names: Vec<&str> = self.all.iter().map(|(name, _)| name.as_str()).collect();
        let mut title = names[..shown.min(MOST_SHOWN)].join(", ");
        if shown > MOST_SHOWN {
            let _ = write!(title, " and {} more", shown - MOST_SHOWN);
        }
        title
    }

    fn list(&self, text: &mut String) {
        if self.all.is_empty() {
            return;
        }
        let shown = match (self.verbose, self.ran) {
            (true, _) => self.all.len(),
            (false, 0) => self.all.len().min(MOST_SHOWN),
            (false, ran) => ran.min(MOST_SHOWN),
        };
        text.push_str("\nKernels with probes:\n");
        for (name, kernel) in &self.all[..shown] {
            let _ = writeln!(text, "  {name}: {}", changes(kernel, self.verbose));
        }
        if self.all.len() > shown {
            let more = self.all.len() - shown;
            let idle = if self.ran == shown {
                " that did not run"
            } else {
                ""
            };
            let _ = writeln!(text, "  and {more} more{idle} (-v lists them)");
        }
    }
}

/// Short, where that tells them apart.
fn named<'a>(kernels: &[(&String, &'a KernelNotes)], full: bool) -> Vec<(String, &'a KernelNotes)> {
    let short: Vec<String> = (kernels.iter())
        .map(|(name, _)| analyse::short_name(&readable(name)))
        .collect();
    let is_only = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    (kernels.iter().zip(&short))
        .map(|((name, kernel), short)| match !full && is_only(short) {
            true => (short.clone(), *kernel),
            false => (readable(name), *kernel),
        })
        .collect()
}

/// What `gpu trace` has put into the trace.
fn recorded(what: &str, found: &ProbeResults, text: &mut String) {
    let read: u64 = found.rings.iter().map(|ring| ring.read).sum();
    let heads = found.dumps.iter().filter_map(MapDump::ring);
    let lost: u64 = heads.map(|ring| ring.lost).sum();
    let ending = if read == 1 { "" } else { "s" };
    let _ = writeln!(
        text,
        "  {} {what}{ending} recorded, {} lost; 'cutrace report gpu' and 'cutrace timeline' show them",
        grouped(read),
        grouped(lost)
    );
}

/// What maps say, now or at the end.
pub fn answer(
    probes: &Probes,
    dumps: &[MapDump],
    spans: &[(u64, u64)],
    accesses: &[Access],
) -> String {
    let mut text = String::new();
    match &probes.what {
        What::Ready(ready) => ready_made(*ready, dumps, spans, accesses, &mut text),
        What::Object(_) => {
            for dump in dumps {
                maps::show(probes, dump, &mut text);
            }
        }
    }
    text
}

fn rings(probes: &Probes, found: &ProbeResults, text: &mut String) {
    for total in &found.rings {
        // Its lines are shown as such.
        let Some(name) = total.source.map.map(|map| probes.map_name(map)) else {
            continue;
        };
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

/// Where probes are in a kernel, and what became of it.
fn changes(kernel: &KernelNotes, verbose: bool) -> String {
    let fact = |name: &str| kernel.facts.get(name).map_or("?", String::as_str);
    let mut parts: Vec<String> = [
        ("entries", "at entry"),
        ("returns", "before leaving"),
        ("accesses", "at accesses"),
        ("stubs", "at stub calls"),
    ]
    .iter()
    .filter(|(word, _)| !matches!(fact(word), "0" | "?"))
    .map(|(word, what)| format!("{} {what}", fact(word)))
    .collect();
    // Before and after. Of what was linked, or loaded before there was a context, nothing is known.
    let before = parts.len();
    for (word, what, unit) in [
        ("registers", "registers", ""),
        ("local", "local memory", " bytes"),
        ("threads", "threads a block", ""),
        ("blocks", "blocks of 256 on a multiprocessor", ""),
    ] {
        if let Some((from, to)) = kernel.facts.get(word).and_then(|both| both.split_once('/'))
            && (verbose || from != to)
        {
            parts.push(format!("{what} {from} → {to}{unit}"));
        }
    }
    match kernel.facts.get("jit_ms") {
        Some(_) if parts.len() == before => parts.push("as many registers as before".into()),
        Some(_) => {}
        None => parts.push("linked by the program".into()),
    }
    if let Some(time) = kernel.facts.get("jit_ms") {
        parts.push(format!("JIT {time} ms"));
    }
    let mut text = parts.join(", ");
    if verbose {
        let _ = write!(text, "\n    {:?}", kernel.facts);
    }
    text
}

fn ready_made(
    ready: Ready,
    dumps: &[MapDump],
    spans: &[(u64, u64)],
    accesses: &[Access],
    text: &mut String,
) {
    match ready {
        Ready::Count => {
            let counts = numbers(dumps, 0, 4);
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
            let total = numbers(dumps, 2, 4);
            for (what, how, bins, count, sum) in [
                ("warps", "", 1, total[0], total[1]),
                ("blocks", ", by their first warp", 3, total[2], total[3]),
            ] {
                let _ = writeln!(
                    text,
                    "\n  {what} by how long they took{how} ({} {what}, {} ns on average)",
                    grouped(count),
                    grouped(sum.checked_div(count).unwrap_or(0))
                );
                durations(&numbers(dumps, bins, 64), text);
            }
        }
        Ready::Trace | Ready::TraceThreads => {}
        Ready::Sched => schedule(dumps, spans, text),
        Ready::Mem => accesses::table(accesses, text),
    }
}

/// An array's values, over all contexts.
fn numbers(dumps: &[MapDump], map: usize, count: usize) -> Vec<u64> {
    let mut sums = vec![0u64; count];
    for dump in dumps.iter().filter(|dump| dump.map == Some(map)) {
        for (sum, word) in sums.iter_mut().zip(dump.bytes().chunks_exact(8)) {
            *sum += u64::from_le_bytes(word.try_into().unwrap_or_default());
        }
    }
    sums
}

/// Blocks by multiprocessor, and how many ran at once.
fn schedule(dumps: &[MapDump], spans: &[(u64, u64)], text: &mut String) {
    let mut blocks: BTreeMap<usize, u64> = BTreeMap::new();
    for dump in dumps.iter().filter(|dump| dump.map == Some(2)) {
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
        "  {} blocks on {used} multiprocessors: {least} to {most} on one",
        grouped(all)
    );
    for (sm, count) in blocks.iter().take(MOST_SHOWN) {
        let _ = writeln!(
            text,
            "  SM {sm:>3} {:>10}  {}",
            grouped(*count),
            bar(*count, most)
        );
    }
    if blocks.len() > MOST_SHOWN {
        let _ = writeln!(text, "  … and {} more", blocks.len() - MOST_SHOWN);
    }
    let mut edges: Vec<(u64, i64)> = (spans.iter())
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
        let busy: u64 = spans
            .iter()
            .map(|(start, end)| end.saturating_sub(*start))
            .sum();
        let _ = writeln!(
            text,
            "  at most {} at once; {:.1} on average over {}",
            grouped(peak.max(0) as u64),
            busy as f64 / width.max(1) as f64,
            render::units::time(width, &stderr_style())
        );
    }
}
