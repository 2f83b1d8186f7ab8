//! Recording a run, for the verbs that do it: record, gpu and demo.

mod check;
mod live;
mod progress;
pub mod words;

use super::{hooks, style::stderr_style};
use crate::{
    arguments::RecordOptions,
    embedded,
    say::{self, say},
};
use analyse::{Analysis, Report};
use anyhow::Result;
use capture::{
    SinkError,
    clock::monotonic,
    ebpf::kernel::driver_hooks,
    hooks::{Hook, Hooks},
    launch::{Exit, user},
    live::{FlightOptions, flight::unfinished},
    source::{self, Plan, Ran, RunError, SOURCES},
    trace_file::{self, MakeShow, Onlooker, TraceFile, destination, latest},
};
use event::{Meta, Record, Summary};
use progress::Progress;
use render::RunSummary;
use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

/// A user who waits longer than this wonders what for.
const WORTH_SAYING: Duration = Duration::from_millis(500);

/// A run that was traced.
pub struct Recorded {
    pub exit: Exit,
    /// Where the trace is.
    pub path: PathBuf,
    pub summary: RunSummary,
    /// There is a trace: a flight recorder writes one only if something happens.
    pub is_written: bool,
    /// Events that are not in the trace and should be.
    pub lost: u64,
    /// What its sources had to say, with what only one of them finds.
    pub said: source::Together,
}

/// What a run will be summed up with.
#[derive(Default)]
enum Summing {
    #[default]
    Nothing,
    Records(Box<Analysis>),
    /// The trace is complete, and keeps it.
    Kept(Box<Report>),
}

impl Summing {
    fn finish(self, meta: &Meta, summary: &Summary) -> Report {
        match self {
            Summing::Nothing => Analysis::new(meta).finish(Some(summary)),
            Summing::Records(analysis) => analysis.finish(Some(summary)),
            Summing::Kept(report) => *report,
        }
    }
}

impl Onlooker for Summing {
    fn begin(&mut self, meta: &Meta) {
        *self = Summing::Records(Box::new(Analysis::new(meta)));
    }

    fn see(&mut self, record: &Record) {
        if let Summing::Records(analysis) = self {
            analysis.add(record);
        }
    }

    fn see_whole(&mut self, record: &mut Record) {
        if let Summing::Records(analysis) = self {
            analysis.add_whole(record);
        }
    }

    fn found(&mut self, summary: &Summary) -> Option<String> {
        let Summing::Records(analysis) = std::mem::take(self) else {
            return None;
        };
        let report = analysis.finish(Some(summary));
        let text = super::report::kept_text(&report);
        *self = Summing::Kept(Box::new(report));
        text
    }
}

/// What a shell says of a command that cannot be started is said of the command.
pub fn of_run(error: RunError) -> anyhow::Error {
    match error {
        RunError::Launch(why) => why.into(),
        why => why.into(),
    }
}

/// Prints details and summary of a run that was recorded.
pub fn say(options: &RecordOptions, recorded: &Recorded) {
    if options.run.verbose {
        say::text(&recorded.said.observed.details);
    }
    if options.is_summed_up() {
        let text = words::nothing(options, &recorded.summary).unwrap_or_else(|| {
            format!(
                "\n{}",
                render::summary_text(&recorded.summary, &stderr_style())
            )
        });
        say::painted(&text);
    }
}

/// What the sources need besides what was typed: files that were named are read, libraries are unpacked.
fn completed(options: &mut RecordOptions) -> Result<Plan> {
    options.run.near = options.folder().map(Path::to_owned);
    options.run.hooks = hooks(options)?;
    let plan = Plan::of(&options.run, SOURCES)?;
    // Unpacked before the trace's clock starts: the first run takes a moment for it.
    for &library in (plan.sources.iter()).flat_map(|source| source.about().carries) {
        options
            .run
            .carried
            .add(library, embedded::library(library)?);
    }
    add_softgpu(options)?;
    if options.run.is_command() {
        options.run.user = user::of_command(options.run_as)?;
    }
    options.run.say = (!options.quiet).then_some(|line| say!("{line}"));
    Ok(plan)
}

pub fn add_softgpu(options: &mut RecordOptions) -> Result<()> {
    if options.run.simulate {
        options.run.softgpu = Some(embedded::softgpu()?);
    }
    Ok(())
}

/// The hooks of files and lines. A wrong one is an error before anything starts.
fn hooks(options: &RecordOptions) -> Result<Vec<Hook>> {
    if let Some(groups) = &options.run.driver_groups {
        driver_hooks(groups).map_err(|why| anyhow::anyhow!("--kernel: {why}"))?;
    }
    let mut all = Vec::new();
    for file in &options.hook_files {
        all.extend(hooks::read(file)?.hooks);
    }
    for text in &options.hook_lines {
        let hook = Hooks::of_line(text).map_err(|why| anyhow::anyhow!("--hook '{text}': {why}"))?;
        // Who types one wants it, not a run without it.
        all.push(Hook {
            required: true,
            ..hook
        });
    }
    Ok(all)
}

/// The trace, before anything is in it.
fn trace(options: &RecordOptions) -> Result<TraceFile> {
    // Asked first: standard output may be another once the trace has it.
    let show = live::show(options.output.as_deref(), options.run.probes.is_some());
    let meta = trace_file::head(&options.run, version::VERSION, monotonic());
    let mut file = TraceFile::create(options.output.as_deref(), meta)?;
    file.limit(options.max_size);
    if let Some(flight) = &options.flight {
        for folder in unfinished(file.path()) {
            say!(
                "cutrace: an earlier flight recording was cut off; type: cutrace snap --recover {}",
                folder.display()
            );
        }
        file.keep_last(FlightOptions {
            say: (!options.quiet).then_some(|line| say!("{line}")),
            ..flight.clone()
        });
    }
    if options.redact {
        file.redact();
    }
    if options.is_summed_up() {
        file.read_by(Box::new(Summing::default()));
    }
    if let Some(show) = show {
        file.show(show);
    }
    Ok(file)
}

/// Runs the command and writes its trace.
pub fn record(options: &mut RecordOptions) -> Result<Recorded> {
    check::options(options)?;
    // Rings, BPF objects and their maps: more files than some shells allow. The command gets its own limit back.
    capture::files::raise_limit();
    let plan = completed(options)?;
    let options = &*options;
    let run = &options.run;
    let file = trace(options)?;
    let (path, new, seen) = (file.path().to_owned(), file.is_new(), file.seen());
    // What is drawn there could end up in the middle of somebody's words.
    let is_live = path == Path::new(destination::STDOUT) && io::stdout().is_terminal();
    let progress = (!options.quiet && !is_live)
        .then(|| Progress::start(seen, run.is_command()))
        .flatten();
    let Ran {
        exit,
        elapsed,
        ended,
        watched,
        file,
        mut said,
    } = match source::record(run, &plan, file) {
        Ok(ran) => ran,
        Err(error) => {
            // Nothing ran: an empty trace would only be in the way.
            if new {
                let _ = std::fs::remove_file(&path);
                let left = path.parent().and_then(super::input::newest);
                latest::forget(&path, left.as_deref());
            }
            return Err(of_run(error));
        }
    };
    let unwritten = said.observed.unwritten;
    let mut finished = file.finish(|summary| {
        summary.end_ns = summary.end_ns.max(ended);
        summary.exit = Some(status(exit));
        summary.clocks = said.observed.clocks.clone();
        summary.overhead = said.observed.overhead.clone();
        summary.watched = watched;
        summary.shed = said.observed.shed.clone();
        summary.processes = said.observed.processes.clone();
        summary.left_out = words::left_out(run);
        summary.aggregates = said.observed.aggregates.clone();
        summary.sampled = (run.sample > 1).then_some(event::Sampled {
            one_of: run.sample,
            not_recorded: said.observed.not_sampled,
        });
        // A source that had nowhere to write.
        summary.lost = summary.lost.saturating_add(unwritten);
    });
    drop(progress);
    let summing = finished.reader::<Summing>().unwrap_or_default();
    let report = summing.finish(&finished.meta, &finished.summary);
    let failure = finished.failure.or(said.observed.failure.take());
    if let Some(failure) = failure.filter(|failure| !nobody_reads(&path, failure)) {
        let mut missing = finished.missing;
        missing.events = missing.events.saturating_add(unwritten);
        say!(
            "cutrace: the trace in {} ends early: {failure} ({missing})",
            destination::in_words(&path)
        );
    }
    if !options.is_summed_up() {
        // A trace that ends early is worth a word in any case.
        for note in finished
            .notes
            .iter()
            .filter(|note| note.starts_with(trace_file::STOPPED))
        {
            say!("cutrace: {note}");
        }
    }
    said.observed.notes.extend(finished.notes);
    let snapshots = finished.snapshots;
    let (path, packed) = (finished.path, finished.packed);
    let after = Duration::from_nanos(monotonic().saturating_sub(ended));
    if after >= WORTH_SAYING {
        said.observed.notes.push(format!(
            "writing the trace took {:.1} s after the program had ended",
            after.as_secs_f64()
        ));
    }
    said.observed.notes.extend(plan.left_out);
    Ok(Recorded {
        exit,
        lost: finished.lost,
        summary: RunSummary {
            trace: words::trace(&path, packed, snapshots.as_deref()),
            ..words::summary(run, &said.observed, report, (exit, elapsed))
        },
        is_written: snapshots.is_none_or(|snapshots| !snapshots.is_empty()),
        said,
        path,
    })
}

/// A run that was shown as it happened, and of which no trace was written.
pub struct Watched {
    pub exit: Exit,
    /// Events that should have been seen and were not.
    pub lost: u64,
    pub notes: Vec<String>,
}

/// Runs the command, or attaches, and shows what happens. The command's process id goes to `process`.
pub fn watch(
    options: &mut RecordOptions,
    show: MakeShow,
    process: Arc<AtomicU32>,
) -> Result<Watched> {
    check::options(options)?;
    capture::files::raise_limit();
    let plan = completed(options)?;
    let run = &options.run;
    let meta = trace_file::head(run, version::VERSION, monotonic());
    let mut file = TraceFile::create(Some(Path::new("/dev/null")), meta)?;
    file.tell_process(process);
    if options.redact {
        file.redact();
    }
    file.show(show);
    let Ran {
        exit, file, said, ..
    } = source::record(run, &plan, file).map_err(of_run)?;
    let finished = file.finish(|summary| {
        summary.lost = summary.lost.saturating_add(said.observed.unwritten);
    });
    let mut notes = said.observed.notes;
    notes.extend(plan.left_out);
    Ok(Watched {
        exit,
        lost: finished.lost,
        notes,
    })
}

/// The trace went to a reader who has read enough.
fn nobody_reads(path: &Path, failure: &SinkError) -> bool {
    failure.is_broken_pipe() && destination::is_stream(path)
}

/// What a shell would say of it.
fn status(exit: Exit) -> i32 {
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
    }
}
