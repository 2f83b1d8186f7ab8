//! What is said about a run: its summary, what was missed and why.

use crate::arguments::RecordOptions;
use crate::commands::live::processor_time;
use capture::{
    launch::Exit,
    live::Snapshot,
    preload::Filter,
    source::{Observations, RunOptions, words::NO_CALL},
    trace_file::{self, destination},
};
use event::Shed;
use render::RunSummary;
use std::{ffi::CStr, fmt::Write as _, path::Path, time::Duration};

const ON_SOFTGPU: &str =
    "the device was softgpu, which runs on the CPU: times are not those of a GPU";
pub fn summary(
    run: &RunOptions,
    watched: &Observations,
    said: analyse::Report,
    (exit, elapsed): (Exit, Duration),
) -> RunSummary {
    let mut notes: Vec<String> = end(exit).into_iter().collect();
    if run.simulate
        && exit != Exit::Code(0)
        && watched
            .libraries
            .iter()
            .any(|(name, _)| name == "[program]")
    {
        notes.push(
            "the CUDA runtime is built into the program, as nvcc does by default, and softgpu \
             cannot serve it yet: build with nvcc -cudart shared"
                .into(),
        );
    }
    // A note is a line.
    notes.extend(watched.notes.iter().map(|note| note.replace('\n', "; ")));
    for (option, spec) in [("-e ", &run.filter), ("--stack=", &run.stacks)] {
        if let Some(filter) = spec.as_deref().map(Filter::parse)
            && run.libraries.is_empty()
        {
            notes.extend(filter.meaningless().map(|item| {
                format!("{option}{item}: not a category, layer or function that cutrace knows")
            }));
        }
    }
    if let Some(filter) = &run.filter {
        notes.push(format!(
            "-e {filter}: calls that do not match were left out"
        ));
    }
    if !run.min_duration.is_zero() {
        notes.push(format!(
            "calls shorter than {:?} were left out",
            run.min_duration
        ));
    }
    if run.sample > 1 {
        notes.push(format!(
            "--sample 1/{}: {} calls were made and not recorded; counts and times of API calls are those of the sample",
            run.sample,
            render::units::count(watched.not_sampled)
        ));
    }
    if let Some(shed) = watched.shed.as_ref() {
        notes.extend(over_budget(shed));
    }
    if let Some(limit) = run.duration {
        notes.push(format!("-d: only the first {limit:?} were recorded"));
    }
    if run.simulate {
        notes.push(ON_SOFTGPU.into());
    }
    RunSummary {
        report: said,
        libraries: watched.libraries.clone(),
        tracer_cpu: processor_time() + watched.outside_cpu,
        overhead: watched.overhead.clone(),
        elapsed,
        trace: String::new(),
        notes,
    }
}

/// Why recording cost more than it was to.
fn over_budget(shed: &Shed) -> Option<String> {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let (spent, hooks) = (percent(shed.spent), percent(shed.hooks));
    if shed.hooks > shed.budget {
        return Some(format!(
            "hooks that record nothing cost {hooks} of the busiest thread's time, more than --budget: hook fewer \
             functions (-e)"
        ));
    }
    (shed.spent > shed.budget + 0.005).then(|| {
        format!(
            "recording cost {spent} of the busiest thread's time, more than --budget: the run was short, or calls that \
             are always recorded cost that much"
        )
    })
}

/// Where the trace is, or the snapshots of a flight recording.
pub fn trace(path: &Path, packed: Option<u64>, snapshots: Option<&[Snapshot]>) -> String {
    if let Some(snapshots) = snapshots {
        let names: Vec<String> = (snapshots.iter())
            .map(|snapshot| snapshot.path.display().to_string())
            .collect();
        return match names.is_empty() {
            true => "none: --flight writes one only when a trigger fires, and none did".into(),
            false => names.join(", "),
        };
    }
    match packed {
        None => destination::in_words(path),
        Some(past) => format!(
            "{} (past {}, so written as Arrow; `cutrace cat` prints it as JSON lines)",
            path.display(),
            trace_file::size(past)
        ),
    }
}

/// Instead of a summary full of zeros: that nothing was recorded, and why.
pub fn nothing(options: &RecordOptions, run: &RunSummary) -> Option<String> {
    let summary = run.report.summary.as_ref()?;
    // Samples of the GPUs say nothing of the program.
    // Lines on a terminal are counted by the analysis alone.
    let is_empty = summary.counts.keys().all(|kind| kind == "counter")
        && summary.open == 0
        && run.report.overview.counts.api_calls == 0;
    if !is_empty || summary.lost > 0 || !summary.aggregates.is_empty() {
        return None;
    }
    let why = run.notes.iter().find_map(|note| note.strip_prefix(NO_CALL));
    let why = match why {
        Some(why) => format!("{NO_CALL}{why}"),
        None if !run.report.calls_watched() => {
            let names: Vec<_> = (run.report.meta.backends.iter())
                .map(|backend| backend.name.as_str())
                .collect();
            format!("nothing was recorded (by {})", names.join(", "))
        }
        None if options.run.filter.is_some() => format!("{NO_CALL}none matched -e"),
        None => {
            let hooked: u64 = run.libraries.iter().map(|(_, hooks)| hooks.attached).sum();
            format!("{NO_CALL}{hooked} functions were hooked, and none was called")
        }
    };
    let mut text = format!("cutrace: {}\n", render::printable(&why));
    for note in &run.notes {
        if !note.starts_with(NO_CALL) && note != ON_SOFTGPU {
            let _ = writeln!(text, "Note: {}", render::printable(note));
        }
    }
    let _ = writeln!(text, "Trace: {}", render::printable(&run.trace));
    Some(text)
}

/// What to type next, where there is something to see.
pub fn next(
    options: &RecordOptions,
    run: &RunSummary,
    trace: &Path,
    unicode: bool,
) -> Option<String> {
    if destination::is_stream(trace) || run.report.overview.events == 0 {
        return None;
    }
    // The newest trace in traces/ needs no name.
    let name = match options.output.is_none() && trace.starts_with("traces") {
        true => String::new(),
        false => format!(" {}", quoted(trace)),
    };
    let part = match run.report.findings.is_empty() {
        true => "top",
        false => "findings",
    };
    let verbs = ["timeline", "view", &format!("report {part}")];
    let verbs = verbs.map(|verb| format!("cutrace {verb}{name}"));
    let between = if unicode { " · " } else { " | " };
    Some(format!(
        "Next: {}\n",
        render::printable(&verbs.join(between))
    ))
}

/// As a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%=,".contains(&byte);
    match text.bytes().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Options by which calls are left out of the trace.
pub fn left_out(run: &RunOptions) -> Vec<String> {
    let filter = run.filter.iter().map(|filter| format!("-e {filter}"));
    let short =
        (!run.min_duration.is_zero()).then(|| format!("--min-duration {:?}", run.min_duration));
    let sample = (run.sample > 1).then(|| format!("--sample 1/{}", run.sample));
    filter.chain(short).chain(sample).collect()
}

/// How the command ended, unless all is well.
fn end(exit: Exit) -> Option<String> {
    match exit {
        Exit::Code(0) => None,
        Exit::Code(code) => Some(format!("the program exited with {code}")),
        Exit::Signal(signal) => {
            // SAFETY: it returns a text that ends, or null; nobody else asks at the same time.
            let name = unsafe { libc::strsignal(signal) };
            let name = (!name.is_null())
                // SAFETY: as above; it is copied before anybody can ask again.
                .then(|| {
                    unsafe { CStr::from_ptr(name) }
                        .to_string_lossy()
                        .into_owned()
                });
            let name = name.unwrap_or_else(|| "unknown".into());
            Some(format!(
                "the program was killed by signal {signal} ({name})"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_unless_all_is_well() {
        assert_eq!(end(Exit::Code(0)), None);
        let words = |exit| end(exit).unwrap_or_default();
        assert_eq!(words(Exit::Code(3)), "the program exited with 3");
        assert!(
            words(Exit::Signal(libc::SIGSEGV)).starts_with("the program was killed by signal 11 (")
        );
    }
}
