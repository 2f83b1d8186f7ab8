//! Options of several verbs, each defined here and nowhere else.

use super::{Format, record::RecordOptions, usage};
use capture::source::RunOptions;
use std::{
    ffi::CString,
    path::{Path, PathBuf},
};

/// What `record` and `gpu` have in common: who runs the command and where, what becomes of the trace, what is printed.
#[derive(clap::Args)]
pub struct RecordingLine {
    #[command(flatten)]
    trace: TraceLine,
    #[command(flatten)]
    run_as: RunAsLine,
    #[command(flatten)]
    printing: PrintingLine,
}

#[derive(clap::Args)]
#[command(next_help_heading = "The trace")]
struct TraceLine {
    /// The trace to write (.jsonl or .arrows); by default traces/trace_<time>.jsonl
    ///
    /// Without -o, a trace past 256 MB continues as Arrow (.arrows). '-o -' prints events on the terminal as they happen; into a
    /// pipe or a file it writes JSON lines, and the program's standard output goes to standard error. '-o fd:3'
    /// writes JSON lines to that descriptor. With gpu, '-o -' writes no trace: it prints what the GPU programs
    /// send, a line each, and how many there were.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Leave texts out of the trace: the command's arguments and folder, the host name, strings that the program passes
    /// (file names, NVTX messages), folders in stacks
    ///
    /// Names of functions, kernels and libraries stay. Without --redact, a trace has the whole command line, the host name, and
    /// what calls were given: numbers, pointers, file names, NVTX messages, kernel names, and with --stack the
    /// paths of the program's code. It never has the environment or the contents of copies. A new trace is
    /// readable by you only (mode 0600); a file that exists keeps its mode.
    #[arg(long)]
    redact: bool,
}

#[derive(clap::Args)]
#[command(next_help_heading = "How to run the command")]
pub struct RunAsLine {
    #[command(flatten)]
    pub device: DeviceLine,
    /// As root: run the command as this user (a name or a number). Under sudo, the default is the user who called
    /// sudo; '--user root' keeps root
    #[arg(long = "user", value_name = "USER", value_parser = user)]
    pub run_as: Option<u32>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "What to print")]
struct PrintingLine {
    /// Print no summary at the end
    #[arg(long)]
    no_summary: bool,
    /// Print only errors, and with gpu what the probes found
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Also print what was hooked, and how
    #[arg(short, long)]
    verbose: bool,
}

/// Which device programs use.
#[derive(clap::Args)]
pub struct DeviceLine {
    /// Use softgpu, the software CUDA device, instead of a GPU
    #[arg(long)]
    pub sim: bool,
}

/// Traces to look at.
#[derive(clap::Args)]
pub struct TracesLine {
    /// Traces to read (.jsonl or .arrows, '-' for standard input); several are merged by time. By default the newest in
    /// traces/
    #[arg(value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
}

/// Which events.
#[derive(clap::Args)]
pub struct FilterLine {
    /// Only these events: categories, layers, function globs; '!' excludes: memory,cuLaunch*,!query
    #[arg(short = 'e', long = "events", value_name = "SPEC")]
    pub filter: Option<String>,
}

#[derive(clap::Args)]
pub struct JsonLine {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How kernels are called.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct NamesLine {
    /// Print whole kernel names, with template arguments and parameters
    #[arg(long)]
    pub full_names: bool,
}

/// A file for each, instead of one on standard output.
#[derive(clap::Args)]
pub struct IntoLine {
    /// Write all of them into this folder, a file each
    #[arg(long, value_name = "DIR", alias = "all")]
    pub into: Option<PathBuf>,
}

impl RecordingLine {
    /// A recording of this run.
    pub fn of(self, run: RunOptions) -> RecordOptions {
        RecordOptions {
            run: RunOptions {
                simulate: self.run_as.device.sim,
                verbose: self.printing.verbose,
                ..run
            },
            run_as: self.run_as.run_as,
            output: trace_name(self.trace.output),
            redact: self.trace.redact,
            no_summary: self.printing.no_summary,
            quiet: self.printing.quiet,
            ..RecordOptions::default()
        }
    }
}

/// The name of a trace says its format; anything else is a mistake.
fn trace_name(output: Option<PathBuf>) -> Option<PathBuf> {
    if let Some(path) = &output
        && path.as_os_str() != "-"
        && !is_descriptor(path)
        && !matches!(Format::of(path), Some(Format::Jsonl | Format::Arrow))
    {
        usage("a trace's name says its format: -o FILE.jsonl or -o FILE.arrows");
    }
    output
}

/// `fd:3`
pub fn is_descriptor(output: &Path) -> bool {
    let number = output.to_str().and_then(|name| name.strip_prefix("fd:"));
    number.is_some_and(|number| number.parse::<i32>().is_ok_and(|number| number >= 0))
}

/// A user's name or number.
pub fn user(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let name = CString::new(text).map_err(|_| "not a user name".to_owned())?;
    // SAFETY: the name ends in NUL; nobody else asks at the same time, arguments are read by one thread.
    let found = unsafe { libc::getpwnam(name.as_ptr()).as_ref() };
    let found = found.map(|entry| entry.pw_uid);
    found.ok_or_else(|| "there is no such user here".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_and_numbers() {
        assert_eq!((user("1234"), user("root")), (Ok(1234), Ok(0)));
        assert!(user("nobody of this name").is_err());
    }
}
