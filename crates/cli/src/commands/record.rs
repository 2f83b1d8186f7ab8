//! `cutrace record`: run a command and write down every CUDA call of it and of its children.

mod file;
mod meta;
mod progress;
mod words;

use super::{softgpu::softgpu_environment, style::stderr_style};
use crate::{arguments::Record, embedded};
use anyhow::{Context, Result};
use capture::{
    launch::{self, Exit},
    preload::{Filter, Options, Report, Session},
};
use file::TraceFile;
use progress::Progress;
use render::RunSummary;
use std::{env, path::PathBuf, process::ExitCode, time::Instant};

/// A run that was traced.
pub struct Recorded {
    pub exit: Exit,
    /// Where the trace is.
    pub path: PathBuf,
    pub summary: RunSummary,
    watched: Report,
}

pub fn run(options: Record) -> Result<ExitCode> {
    let recorded = record(&options)?;
    if options.verbose {
        eprint!("{}", words::details(&recorded.watched));
    }
    if options.summary && !options.quiet {
        let text = render::summary_text(&recorded.summary, &stderr_style());
        eprint!("\n{text}");
    }
    recorded.exit.pass_on()
}

/// Runs the command and writes its trace.
pub fn record(options: &Record) -> Result<Recorded> {
    // Unpacked before the session's clock starts: the first run takes a moment for it.
    let library = embedded::preload_library()?;
    let softgpu = options.simulate.then(softgpu_environment).transpose()?;
    let session = Session::create(Options {
        libraries: options.libraries.clone(),
        filter: options.filter.as_deref().map(Filter::parse),
        stacks: options.stacks.as_deref().map(Filter::parse),
        ring_slots: None,
        min_duration: options.min_duration,
        duration: options.duration,
    })?;
    let mut environment = session.environment(&library, env::var_os("LD_PRELOAD").as_deref())?;
    environment.extend(softgpu);
    let meta = meta::of_run(options, session.start_ns());
    let file = TraceFile::create(
        options.output.as_deref(),
        meta,
        options.summary && !options.quiet,
    )?;
    let path = file.path().to_owned();
    let seen = file.seen();
    let recording = session.start(file)?;
    let progress = (!options.quiet).then(|| Progress::start(seen)).flatten();
    let began = Instant::now();
    let ended = launch::run(&launch::Command {
        program: options.program.clone(),
        args: options.arguments.clone(),
        environment,
    });
    let elapsed = began.elapsed();
    let (file, report) = recording.finish();
    drop(progress);
    let exit = match ended {
        Ok(exit) => exit,
        Err(error) => {
            // Nothing ran: an empty trace would only be in the way.
            let _ = std::fs::remove_file(&path);
            return Err(error.into());
        }
    };
    let (finished, said) = file.finish(|summary| {
        summary.end_ns = summary.end_ns.max(meta::monotonic());
        summary.exit = Some(status(exit));
        summary.clocks = vec![report.clock.clone()];
        summary.overhead = report.overhead.clone();
    });
    let finished =
        finished.with_context(|| format!("the trace in {} is not whole", path.display()));
    if let Some(failure) = &report.failure {
        eprintln!(
            "cutrace: the trace in {} ends early: {failure} ({} records were not written)",
            path.display(),
            report.unwritten
        );
    } else if let Err(error) = finished {
        eprintln!("cutrace: {error:#}");
    }
    Ok(Recorded {
        exit,
        summary: words::summary(options, &report, said, &path, elapsed),
        path,
        watched: report,
    })
}

/// What a shell would say of it.
fn status(exit: Exit) -> i32 {
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
    }
}
