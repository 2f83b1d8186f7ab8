//! The summary that ends a run.

use crate::{
    Style, aggregates_text, printable, tables,
    units::{count, counted},
};
use analyse::{Counts, Report, functions::FunctionRow};
use event::{Category, Hooks, Layer, Overhead, Shed};
use std::fmt::Write as _;
use std::time::Duration;

/// How many findings a run ends with.
const FINDINGS: usize = 3;
/// Fewer calls that only ask for something are not worth a line.
const MANY_QUERIES: u64 = 100;

/// What is said at the end of a run.
#[derive(Debug, Clone)]
pub struct RunSummary {
    /// What the run's trace says.
    pub report: Report,
    /// Each library's name, with what of it was hooked.
    pub libraries: Vec<(String, Hooks)>,
    /// CPU time the tracer itself has used.
    pub tracer_cpu: Duration,
    /// What recording took in the program's threads.
    pub overhead: Option<Overhead>,
    /// How long the run took.
    pub elapsed: Duration,
    /// Where the trace is.
    pub trace: String,
    /// Things the user should know, a line each.
    pub notes: Vec<String>,
}

pub fn summary_text(run: &RunSummary, style: &Style) -> String {
    let mut text = String::from("=== TRACE SUMMARY ===\n\n");
    text.push_str(&tables::gpu_in_short(&run.report, style));
    text.push('\n');
    let findings = tables::top_findings(&run.report, FINDINGS, style);
    if !findings.is_empty() {
        text.push_str("FINDINGS:\n");
        text.push_str(&findings);
        text.push('\n');
    }
    userspace(&mut text, &run.report);
    kernel_space(&mut text, &run.report);
    counted_in_kernel(&mut text, &run.report);
    let layers = tables::layers_in_short(&run.report, style);
    if !layers.is_empty() {
        text.push_str(&layers);
        text.push('\n');
    }
    tail(&mut text, run);
    text
}

pub(crate) fn userspace(text: &mut String, report: &Report) {
    let counts = &report.overview.counts;
    text.push_str(if counts.runtime_calls > 0 {
        "USERSPACE (libcuda.so, libcudart.so):\n"
    } else {
        "USERSPACE (libcuda.so):\n"
    });
    if !report.calls_watched() {
        text.push_str("  not traced\n\n");
        return;
    }
    let _ = writeln!(text, "  Total CUDA API calls: {}", counts.api_calls);
    sampled(text, report);
    shed(text, report);
    callers(text, counts);
    queries(text, report);
    let _ = writeln!(
        text,
        "  Kernel launches: {}{}{}",
        counts.launches,
        graphs(counts),
        match launches_shed(report) {
            0 => String::new(),
            shed => format!("; {} more were not recorded", count(shed)),
        }
    );
    let _ = writeln!(text, "  Memory allocations: {}", counts.allocations);
    let _ = writeln!(
        text,
        "  Total memory allocated: {}",
        bytes(counts.allocated_bytes)
    );
    let _ = writeln!(text, "  Memory transfers: {}", counts.transfers);
    let _ = writeln!(
        text,
        "  Total data transferred: {}\n",
        bytes(counts.transferred_bytes)
    );
}

/// That calls are missing, and how many were made in all.
fn sampled(text: &mut String, report: &Report) {
    if let Some(sampled) = report.summary.as_ref().and_then(|summary| summary.sampled) {
        let made = (report.overview.counts.api_calls).saturating_add(sampled.not_recorded);
        let _ = writeln!(
            text,
            "    Sampled: 1 in {} calls of each function is recorded; {} calls were made in total",
            sampled.one_of,
            count(made)
        );
    }
}

/// Launches that were not recorded because that would have cost too much.
fn launches_shed(report: &Report) -> u64 {
    let shed = (report.summary.as_ref()).and_then(|summary| summary.shed.as_ref());
    shed.map_or(0, Shed::launches)
}

/// What was not recorded because it would have cost too much.
fn shed(text: &mut String, report: &Report) {
    let Some(shed) = report
        .summary
        .as_ref()
        .and_then(|summary| summary.shed.as_ref())
    else {
        return;
    };
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let counts = &report.overview.counts;
    let launches = (counts.launches + counts.captured_launches).saturating_add(shed.launches());
    let calls: Vec<String> = (shed.calls.iter())
        .filter(|(_, calls)| **calls > 0)
        .map(|(what, calls)| match what == Shed::LAUNCHES {
            true => format!("{} of {} launches", count(*calls), count(launches)),
            false => format!("{} {}", count(*calls), crate::printable(what)),
        })
        .collect();
    let calls = match calls.is_empty() {
        true => "nothing".to_owned(),
        false => calls.join(", "),
    };
    let _ = writeln!(
        text,
        "    Shed: {calls}, to stay within {} (recording cost {} of the busiest thread's time)",
        percent(shed.budget),
        percent(shed.spent)
    );
}

/// Which API was called, and who called it: a runtime call makes driver calls of its own.
fn callers(text: &mut String, counts: &Counts) {
    if counts.runtime_calls == 0 && counts.calls_by_cuda + counts.calls_by_libraries == 0 {
        return;
    }
    let others = counts.calls_by_cuda + counts.calls_by_libraries;
    let own = count(counts.api_calls.saturating_sub(others));
    let made = match counts.calls_by_libraries {
        // Whose calls are not traced cannot be told from the program.
        0 => format!("the program and its libraries made {own}"),
        calls => format!("the program made {own}, its libraries {}", count(calls)),
    };
    let _ = writeln!(
        text,
        "    {} runtime, {} driver; {made}",
        count(counts.runtime_calls),
        count(counts.driver_calls),
    );
}

/// Calls that change nothing, where they are many: the two most frequent by name.
fn queries(text: &mut String, report: &Report) {
    let counts = &report.overview.counts;
    if counts.query_calls < MANY_QUERIES || counts.query_calls * 4 < counts.api_calls {
        return;
    }
    let asks = |row: &&FunctionRow| {
        row.category == Category::Query && matches!(row.layer, Layer::Runtime | Layer::Driver)
    };
    let mut rows: Vec<&FunctionRow> = report.functions.functions.iter().filter(asks).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.calls));
    let names: Vec<String> = (rows.iter().take(2))
        .map(|row| format!("{} {}", printable(&row.name), count(row.calls)))
        .collect();
    let _ = writeln!(
        text,
        "    {} only query: {}{}",
        count(counts.query_calls),
        names.join(", "),
        if rows.len() > names.len() {
            ", ..."
        } else {
            ""
        },
    );
}

/// What graphs ran, which nobody launched one by one, and what was put into them.
fn graphs(counts: &Counts) -> String {
    let launches = counted(counts.graph_launches, "graph launch", "graph launches");
    let mut parts = Vec::new();
    match (counts.graph_launches, counts.graph_kernels) {
        (0, _) => {}
        (_, 0) => parts.push(launches),
        (_, kernels) => parts.push(format!(
            "{launches} that ran {}",
            counted(kernels, "kernel", "kernels")
        )),
    }
    if counts.captured_launches > 0 {
        parts.push(format!("{} captured", count(counts.captured_launches)));
    }
    if parts.is_empty() {
        return String::new();
    }
    format!(" (+ {})", parts.join(", "))
}

pub(crate) fn kernel_space(text: &mut String, report: &Report) {
    let counts = &report.overview.counts;
    text.push_str("KERNEL SPACE (nvidia.ko):\n");
    if !report.requests_watched() {
        text.push_str("  not traced\n\n");
        return;
    }
    let _ = writeln!(text, "  IOCTL calls: {}", counts.ioctls);
    let milliseconds = counts.ioctl_time as f64 / 1e6;
    let _ = writeln!(text, "  Total IOCTL time: {milliseconds:.3} ms");
    let _ = writeln!(text, "  Scheduler calls: {}", counts.scheduler_calls);
    if counts.ioctls > 0 && counts.launches > 0 {
        text.push_str("  (kernel launches make no system call)\n");
    }
    text.push('\n');
}

/// What hooks counted instead of recording it.
pub(crate) fn counted_in_kernel(text: &mut String, report: &Report) {
    let counted = (report.summary.as_ref()).map_or(&[][..], |summary| &summary.aggregates);
    if counted.is_empty() {
        return;
    }
    text.push_str("COUNTED IN THE KERNEL (hooks):\n");
    text.push_str(aggregates_text(counted).trim_end());
    text.push_str("\n\n");
}

fn tail(text: &mut String, run: &RunSummary) {
    let (overview, counts) = (&run.report.overview, &run.report.overview.counts);
    let hooked: u64 = run.libraries.iter().map(|(_, hooks)| hooks.attached).sum();
    let total: u64 = run.libraries.iter().map(|(_, hooks)| hooks.total).sum();
    let _ = write!(text, "Hooked {hooked} of {total} functions");
    let libraries: Vec<_> = (run.libraries.iter())
        .map(|(name, hooks)| format!("{} {}/{}", printable(name), hooks.attached, hooks.total))
        .collect();
    if !libraries.is_empty() {
        let _ = write!(text, " ({})", libraries.join(", "));
    }
    text.push('\n');
    if counts.library_calls > 0 {
        let _ = writeln!(text, "Calls to other libraries: {}", counts.library_calls);
    }
    if let Some(failed) = tables::failed_calls(&run.report) {
        let _ = writeln!(text, "Calls that failed: {}", printable(&failed));
    }
    if overview.open_spans > 0 {
        let _ = writeln!(text, "Calls that never returned: {}", overview.open_spans);
    }
    let _ = writeln!(text, "Events lost: {}", overview.lost);
    if let Some(overhead) = &run.overhead {
        let _ = writeln!(
            text,
            "Overhead in the program: {:.1} ns per call, about {:.3} ms in total with set-up",
            overhead.per_event_ns,
            overhead.total_ns as f64 / 1e6
        );
    }
    let _ = writeln!(
        text,
        "Tracer CPU time: {:.3} s in a run of {:.3} s",
        run.tracer_cpu.as_secs_f64(),
        run.elapsed.as_secs_f64()
    );
    for note in &run.notes {
        let _ = writeln!(text, "Note: {}", printable(note));
    }
    let _ = writeln!(text, "Trace: {}", printable(&run.trace));
}

/// `524288000 bytes (500.00 MB)`
fn bytes(count: u64) -> String {
    format!("{count} bytes ({:.2} MB)", count as f64 / 1_048_576.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(report: Report) -> RunSummary {
        RunSummary {
            report,
            libraries: vec![(
                "libcuda.so.1".into(),
                Hooks {
                    attached: 673,
                    total: 674,
                },
            )],
            tracer_cpu: Duration::from_millis(12),
            overhead: Some(Overhead {
                total_ns: 21_175,
                per_event_ns: 25.0,
            }),
            elapsed: Duration::from_millis(1_500),
            trace: "traces/trace_20260101_000000.jsonl".into(),
            notes: Vec::new(),
        }
    }

    fn nothing() -> Report {
        analyse::Analysis::new(&event::Meta::default()).finish(None)
    }

    #[test]
    fn a_run_without_the_kernel_side() {
        let mut report = nothing();
        let counts = &mut report.overview.counts;
        counts.api_calls = 847;
        counts.launches = 42;
        counts.allocations = 15;
        counts.allocated_bytes = 524_288_000;
        counts.transfers = 128;
        counts.transferred_bytes = 1_048_576_000;
        insta::assert_snapshot!(summary_text(&run(report), &Style::default()));
    }

    /// PyTorch: a million calls, most of which ask which device it is.
    #[test]
    fn whose_calls_they_are() {
        let mut report = nothing();
        let counts = &mut report.overview.counts;
        counts.api_calls = 967_781;
        counts.runtime_calls = 314_998;
        counts.driver_calls = 652_783;
        counts.calls_by_cuda = 328_752;
        counts.launches = 191;
        let mut text = String::new();
        userspace(&mut text, &report);
        assert!(
            text.starts_with(
                "USERSPACE (libcuda.so, libcudart.so):\n  Total CUDA API calls: 967781\n    \
                 314,998 runtime, 652,783 driver; the program and its libraries made 639,029\n  \
                 Kernel launches: 191\n"
            ),
            "{text}"
        );
        let counts = &mut report.overview.counts;
        (counts.graph_launches, counts.calls_by_libraries) = (100, 39_029);
        let said = |report: &Report, words: &str| {
            let mut text = String::new();
            userspace(&mut text, report);
            assert!(text.contains(words), "{text}");
        };
        said(&report, "the program made 600,000, its libraries 39,029\n");
        said(&report, "launches: 191 (+ 100 graph launches)\n");
        report.overview.counts.graph_kernels = 4_000;
        said(
            &report,
            "launches: 191 (+ 100 graph launches that ran 4,000 kernels)\n",
        );
        report.overview.counts.captured_launches = 40;
        said(
            &report,
            "launches: 191 (+ 100 graph launches that ran 4,000 kernels, 40 captured)\n",
        );
    }

    #[test]
    fn everything_there_is_to_say() {
        let mut report = nothing();
        let counts = &mut report.overview.counts;
        counts.ioctls = 1024;
        counts.ioctl_time = 15_234_000;
        counts.scheduler_calls = 256;
        counts.gpu_operations = 42;
        counts.library_calls = 3;
        counts.failed_calls = 2;
        report.overview.lost = 7;
        let mut run = run(report);
        run.notes = vec!["one library came too late".into()];
        insta::assert_snapshot!(summary_text(&run, &Style::default()));
    }

    #[test]
    fn what_nobody_watched_is_not_counted() {
        let mut report = nothing();
        report.meta.backends = vec![event::Backend {
            name: "syscall".into(),
            ..event::Backend::default()
        }];
        let text = summary_text(&run(report), &Style::default());
        for words in [
            "USERSPACE (libcuda.so):\n  not traced\n",
            "GPU:\n  not traced\n",
        ] {
            assert!(text.contains(words), "{text}");
        }
        // Of these there were none.
        assert!(text.contains("IOCTL calls: 0"), "{text}");
    }

    #[test]
    fn a_run_without_cuda() {
        insta::assert_snapshot!(summary_text(&run(nothing()), &Style::default()));
    }
}
