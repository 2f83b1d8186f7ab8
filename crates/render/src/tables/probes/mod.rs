//! What probes inside kernels found, for people: the answer first, then what the probes did to the kernels.

mod accesses;
mod bars;
mod maps;

use crate::{
    Style,
    units::{count, time},
};
use analyse::short_name;
use bars::{bar, durations};
use event::probed::{
    BlockSchedule, ProbeAnswer, ProbeReport, ProbedKernel, ProbedRing, ThreadCounts,
};
use std::fmt::Write as _;

/// Multiprocessors, and kernels, that are shown.
const MOST_SHOWN: usize = 32;

/// How a report of probes is shown.
#[derive(Debug, Clone, Default)]
pub struct ProbeStyle {
    /// Else they are said elsewhere.
    pub with_notes: bool,
    pub full_names: bool,
    pub verbose: bool,
    /// The device was softgpu.
    pub simulated: bool,
    pub style: Style,
}

/// All that there is to say of a run's probes.
pub fn probes(report: &ProbeReport, how: &ProbeStyle) -> String {
    let mut text = String::from("\n=== GPU PROBES ===\n");
    for note in report.notes.iter().filter(|_| how.with_notes) {
        let _ = writeln!(text, "Note: {note}");
    }
    let kernels = Kernels::of(&report.kernels, how);
    if let Some(answer) = &report.answer {
        if !matches!(answer, ProbeAnswer::Maps(_)) {
            let _ = writeln!(text, "\n{}", kernels.title());
        }
        text.push_str(&probe_answer(answer, &how.style));
        if matches!(answer, ProbeAnswer::Durations { .. }) && how.simulated {
            text.push_str(
                "\nOn softgpu, blocks that run at once may have one multiprocessor and warp number: \
                 some warps are missed, some have\nanother's time. gpu count is exact.\n",
            );
        }
    }
    if let Some(recorded) = &report.recorded {
        text.push_str(&in_trace(recorded));
    }
    for ring in &report.rings {
        let (read, lost) = (count(ring.read), count(ring.lost));
        let _ = writeln!(
            text,
            "\nring {}: {read} records read, {lost} lost",
            ring.name
        );
    }
    printed(report, &mut text);
    kernels.list(&mut text);
    text
}

/// What maps say, now or at the end.
pub fn probe_answer(answer: &ProbeAnswer, style: &Style) -> String {
    let mut text = String::new();
    match answer {
        ProbeAnswer::Counts(counts) => thread_counts(counts, &mut text),
        ProbeAnswer::Durations { warps, blocks } => {
            for (what, how, bins) in [
                ("warps", "", warps),
                ("blocks", ", by their first warp", blocks),
            ] {
                let _ = writeln!(
                    text,
                    "\n  {what} by how long they took{how} ({} {what}, {} ns on average)",
                    count(bins.count),
                    count(bins.sum.checked_div(bins.count).unwrap_or(0))
                );
                durations(&bins.bins, &mut text);
            }
        }
        ProbeAnswer::Schedule(blocks) => schedule(blocks, style, &mut text),
        ProbeAnswer::Accesses(all) => accesses::table(all, &mut text),
        ProbeAnswer::Recorded => {}
        ProbeAnswer::Maps(all) => all.iter().for_each(|map| maps::show(map, &mut text)),
    }
    text
}

/// What `gpu trace` has put into the trace.
fn in_trace(recorded: &ProbedRing) -> String {
    let ending = if recorded.read == 1 { "" } else { "s" };
    format!(
        "  {} {}{ending} recorded, {} lost; 'cutrace report gpu' and 'cutrace timeline' show them\n",
        count(recorded.read),
        recorded.name,
        count(recorded.lost)
    )
}

fn printed(report: &ProbeReport, text: &mut String) {
    let (shown, all) = (report.printed.len(), report.printed_in_all);
    if shown > 0 {
        let of = match all > shown as u64 {
            true => format!(", {shown} of {} lines", count(all)),
            false => String::new(),
        };
        let _ = writeln!(text, "\nprinted by GPU programs{of}:");
    }
    // Threads of a warp often print the same.
    for same in report.printed.chunk_by(|a, b| a == b) {
        let _ = match same {
            [line] => writeln!(text, "  {line}"),
            [line, ..] => writeln!(text, "  {line}  ({} times)", same.len()),
            [] => Ok(()),
        };
    }
}

/// Kernels with probes, as they are shown.
struct Kernels<'a> {
    /// Each with its name for people; those that ran first.
    all: Vec<(String, &'a ProbedKernel)>,
    ran: usize,
    verbose: bool,
}

impl<'a> Kernels<'a> {
    fn of(kernels: &'a [ProbedKernel], how: &ProbeStyle) -> Self {
        let ran = kernels.iter().filter(|kernel| kernel.has_run).count();
        let (first, idle) = kernels.split_at(ran);
        let full = how.full_names || how.verbose;
        let mut all = named(first, full);
        all.extend(named(idle, full));
        Kernels {
            all,
            ran,
            verbose: how.verbose,
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
fn named(kernels: &[ProbedKernel], full: bool) -> Vec<(String, &ProbedKernel)> {
    let short: Vec<String> = (kernels.iter())
        .map(|kernel| short_name(&kernel.name))
        .collect();
    let is_only = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    (kernels.iter().zip(&short))
        .map(|(kernel, short)| match !full && is_only(short) {
            true => (short.clone(), kernel),
            false => (kernel.name.clone(), kernel),
        })
        .collect()
}

/// Where probes are in a kernel, and what became of it.
fn changes(kernel: &ProbedKernel, verbose: bool) -> String {
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

fn thread_counts(counts: &ThreadCounts, text: &mut String) {
    for (name, number) in [
        ("threads that entered", counts.entered),
        ("warps", counts.warps),
        ("blocks", counts.blocks),
        ("threads that left", counts.left),
    ] {
        let _ = writeln!(text, "  {:>16} {name}", count(number));
    }
}

/// Blocks by multiprocessor, and how many ran at once.
fn schedule(found: &BlockSchedule, style: &Style, text: &mut String) {
    let BlockSchedule { blocks, spans } = found;
    let (all, used) = (blocks.values().sum::<u64>(), blocks.len() as u64);
    let least = blocks.values().min().copied().unwrap_or(0);
    let most = blocks.values().max().copied().unwrap_or(0);
    let _ = writeln!(
        text,
        "  {} blocks on {used} multiprocessors: {least} to {most} on one",
        count(all)
    );
    for (sm, number) in blocks.iter().take(MOST_SHOWN) {
        let _ = writeln!(
            text,
            "  SM {sm:>3} {:>10}  {}",
            count(*number),
            bar(*number, most)
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
            count(peak.max(0) as u64),
            busy as f64 / width.max(1) as f64,
            time(width, style)
        );
    }
}
