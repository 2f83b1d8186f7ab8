//! Recording a run, for the verbs that do it: record, gpu and demo.

mod check;
mod live;
mod meta;
mod progress;
mod sought;
pub mod words;

use super::{hooks, style::stderr_style};
use crate::{
    arguments::Record,
    embedded,
    say::{self, say},
};
use analyse::Analysis;
use anyhow::Result;
use capture::{
    SinkError,
    clock::monotonic,
    ebpf::kernel::driver_hooks,
    hooks::{Hook, Hooks},
    launch::{Exit, user},
    source::{self, Plan, Ran, RunError, SOURCES},
    trace_file::{self, MakeShow, Onlooker, TraceFile, destination, latest},
};
use event::{Meta, Record as Written};
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
    /// Events that are not in the trace and should be.
    pub lost: u64,
    /// What its sources had to say, with what only one of them finds.
    pub said: source::Together,
}

/// What a run will be summed up with.
#[derive(Default)]
struct Summing(Option<Analysis>);

impl Onlooker for Summing {
    fn begin(&mut self, meta: &Meta) {
        self.0 = Some(Analysis::new(meta));
    }

    fn see(&mut self, record: &Written) {
        if let Some(analysis) = &mut self.0 {
            analysis.add(record);
        }
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
pub fn say(options: &Record, recorded: &Recorded) {
    if options.run.verbose {
        say::text(&recorded.said.details);
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
fn completed(options: &mut Record) -> Result<Plan> {
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

pub fn add_softgpu(options: &mut Record) -> Result<()> {
    if options.run.simulate {
        options.run.softgpu = Some(embedded::softgpu()?);
    }
    Ok(())
}

/// The hooks of files and lines. A wrong one is an error before anything starts.
fn hooks(options: &Record) -> Result<Vec<Hook>> {
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
fn trace(options: &Record) -> Result<TraceFile> {
    // Asked first: standard output may be another once the trace has it.
    let show = live::show(options.output.as_deref(), options.run.probes.is_some());
    let meta = meta::of_run(&options.run, monotonic());
    let mut file = TraceFile::create(options.output.as_deref(), meta)?;
    file.limit(options.max_size);
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
pub fn record(options: &mut Record) -> Result<Recorded> {
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
    let unwritten = said.unwritten;
    let mut finished = file.finish(|summary| {
        summary.end_ns = summary.end_ns.max(ended);
        summary.exit = Some(status(exit));
        summary.clocks = said.clocks.clone();
        summary.overhead = said.overhead.clone();
        summary.watched = watched;
        summary.processes = said.processes.clone();
        summary.left_out = words::left_out(run);
        summary.aggregates = said.aggregates.clone();
        summary.sampled = (run.sample > 1).then_some(event::Sampled {
            one_of: run.sample,
            not_recorded: said.not_sampled,
        });
        // A source that had nowhere to write.
        summary.lost = summary.lost.saturating_add(unwritten);
    });
    drop(progress);
    let analysis = finished.reader::<Summing>().and_then(|summing| summing.0);
    let analysis = analysis.unwrap_or_else(|| Analysis::new(&finished.meta));
    let report = analysis.finish(Some(&finished.summary));
    let failure = finished.failure.or(said.failure.take());
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
    said.notes.extend(finished.notes);
    let (path, packed) = (finished.path, finished.packed);
    let after = Duration::from_nanos(monotonic().saturating_sub(ended));
    if after >= WORTH_SAYING {
        said.notes.push(format!(
            "writing the trace took {:.1} s after the program had ended",
            after.as_secs_f64()
        ));
    }
    said.notes.extend(plan.left_out);
    Ok(Recorded {
        exit,
        lost: finished.lost,
        summary: words::summary(run, &said, report, (&path, packed), (exit, elapsed)),
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
pub fn watch(options: &mut Record, show: MakeShow, process: Arc<AtomicU32>) -> Result<Watched> {
    check::options(options)?;
    capture::files::raise_limit();
    let plan = completed(options)?;
    let run = &options.run;
    let meta = meta::of_run(run, monotonic());
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
        summary.lost = summary.lost.saturating_add(said.unwritten);
    });
    let mut notes = said.notes;
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
