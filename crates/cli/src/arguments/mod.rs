//! The command line: clap's view of it, turned once into [`Command`]. Nothing below sees clap.

mod examples;
mod export;
mod gpu;
mod gpu_object;
mod ioctl;
mod look;
mod method;
mod probes;
mod record;
mod sizes;
mod times;

pub use export::{Destination, Export, Format, Weight};
pub use gpu::{Gpu, Run, Size};
pub use ioctl::Ioctl;
pub use look::{Cat, Color, Demo, Diff, Look, Part, Replay, Report, Timeline, View};
pub use probes::{Hooks, Probes};
pub use record::Record;

use clap::{CommandFactory, Parser, Subcommand};
use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// What the user asked for.
pub enum Command {
    Record(Box<Record>),
    Demo(Demo),
    Softgpu(Softgpu),
    Export(Export),
    Cat(Cat),
    Report(Report),
    Timeline(Timeline),
    Replay(Replay),
    View(View),
    Diff(Diff),
    Ioctl(Ioctl),
    Probes(Probes),
    Hooks(Hooks),
    Doctor,
    Gpu(Box<Gpu>),
    Completions(clap_complete::Shell),
    Manual,
}

pub enum Softgpu {
    /// Which driver functions exist, which are implemented.
    List { all: bool },
    /// Its libraries, for programs that run without cutrace.
    Unpack { folder: PathBuf },
    Run {
        program: OsString,
        arguments: Vec<OsString>,
    },
}

/// Shows a CUDA program from the API call down to the GPU thread.
#[derive(Parser)]
#[command(
    name = "cutrace",
    version,
    arg_required_else_help = true,
    after_help = examples::LINE,
    override_usage = "cutrace [record] [OPTIONS] [--] CMD…\n       cutrace VERB …"
)]
struct Line {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Trace a command: every CUDA call of it and of its children (the default verb)
    ///
    /// Calls of the runtime and the driver API are written to the trace with their arguments,
    /// results and times; no root, no CUDA toolkit and no change to the program is needed. The
    /// command's output, exit status and signals are its own.
    #[command(arg_required_else_help = true, after_help = examples::RECORD)]
    Record(record::RecordLine),
    /// The tour: record a small CUDA program on softgpu, the software device, and look at it
    ///
    /// The program has a bottleneck, an idle gap and a leak. Its trace, a Perfetto trace and the HTML
    /// report are left in traces/demo. No GPU is needed.
    Demo(look::DemoLine),
    /// Run a CUDA program on softgpu, a software CUDA device
    ///
    /// Programs built with nvcc and programs that use the driver API run unchanged: their PTX is
    /// executed on the CPU. Output, exit status and signals are the program's own.
    #[command(arg_required_else_help = true, after_help = examples::SOFTGPU)]
    Softgpu {
        /// List the driver's functions and how many softgpu implements
        #[arg(long, conflicts_with = "command")]
        list: bool,
        /// With --list: name the implemented functions too
        #[arg(long, requires = "list")]
        all: bool,
        /// Write softgpu's libraries to a folder, to use them without cutrace
        #[arg(long, value_name = "DIR", conflicts_with_all = ["command", "list"])]
        unpack: Option<PathBuf>,
        /// The command to run
        #[arg(trailing_var_arg = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// What a trace says: a summary, or tables of one of its sides
    #[command(after_help = examples::REPORT)]
    Report(look::ReportLine),
    /// The trace as a timeline in the terminal
    #[command(after_help = examples::TIMELINE)]
    Timeline(look::TimelineLine),
    /// The calls of a trace, one decoded line each, nested as they were
    #[command(after_help = examples::REPLAY)]
    Replay(look::ReplayLine),
    /// Print a trace as JSON lines, whatever its format: cutrace cat | jq
    ///
    /// A .jsonl trace is printed as it is, an .arrows trace as the lines it would have as .jsonl. To trace
    /// the program cat, type: cutrace -- cat FILE
    #[command(after_help = examples::CAT)]
    Cat(look::CatLine),
    /// Convert a trace, or merge several into one
    #[command(arg_required_else_help = true, after_help = examples::EXPORT)]
    Export(export::ExportLine),
    /// Open a trace as a report in the browser
    ///
    /// The report is made in memory and served on 127.0.0.1, under an address that only you are
    /// told, until Ctrl-C. Nothing leaves the machine.
    View(look::ViewLine),
    /// Compare two traces, by function and by category
    #[command(arg_required_else_help = true, after_help = examples::DIFF)]
    Diff(look::DiffLine),
    /// Decode one ioctl of NVIDIA's driver by hand
    ///
    /// Requests, controls, classes, statuses and struct fields are named as the driver's version
    /// has them. Of other drivers' requests the parts of the number are shown.
    #[command(arg_required_else_help = true, after_help = examples::IOCTL)]
    Ioctl(ioctl::IoctlLine),
    /// What can be hooked here: functions of libraries and of the driver, tracepoints
    ///
    /// One probe a line, as hooks files and bpftrace write them.
    #[command(after_help = examples::PROBES)]
    Probes(probes::ProbesLine),
    /// Hooks files: what to hook besides what is hooked by itself
    #[command(subcommand, after_help = examples::HOOKS)]
    Hooks(probes::HooksLine),
    /// What works on this machine, and what to do about the rest
    ///
    /// Found out by trying: as root, probes are attached for a moment.
    Doctor,
    /// Programs inside kernels: count, trace and measure what GPU threads do
    ///
    /// The kernels' PTX gets probes when the program loads it; nothing is rebuilt.
    #[command(arg_required_else_help = true, after_help = examples::GPU)]
    Gpu(gpu::GpuLine),
    /// Print shell completions
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// The shell to complete in
        shell: clap_complete::Shell,
    },
    /// Print the manual page: all verbs and their options
    #[command(name = "man", after_help = examples::MANUAL)]
    Manual,
}

/// The command line with its verb: a command to trace may stand alone.
fn with_verb(mut words: Vec<OsString>) -> Vec<OsString> {
    let Some(first) = words.get(1).and_then(|word| word.to_str()) else {
        if words.len() > 1 {
            words.insert(1, "record".into());
        }
        return words;
    };
    let own = ["help", "-h", "--help", "-V", "--version"];
    let line = Line::command();
    let is_verb = line.get_subcommands().any(|verb| verb.get_name() == first);
    if !is_verb && !own.contains(&first) {
        words.insert(1, "record".into());
    }
    words
}

pub fn parse() -> Command {
    match Line::parse_from(with_verb(std::env::args_os().collect())).verb {
        Verb::Record(line) => Command::Record(Box::new(line.options())),
        Verb::Demo(line) => Command::Demo(line.options()),
        Verb::Softgpu {
            list: true, all, ..
        } => Command::Softgpu(Softgpu::List { all }),
        Verb::Softgpu {
            unpack: Some(folder),
            ..
        } => Command::Softgpu(Softgpu::Unpack { folder }),
        Verb::Softgpu { command, .. } => {
            let mut words = command.into_iter();
            let program = words.next().unwrap_or_else(|| {
                usage("softgpu needs a command to run: cutrace softgpu -- ./app")
            });
            Command::Softgpu(Softgpu::Run {
                program,
                arguments: words.collect(),
            })
        }
        Verb::Export(line) => Command::Export(line.options()),
        Verb::Cat(line) => Command::Cat(line.options()),
        Verb::Report(line) => Command::Report(line.options()),
        Verb::Replay(line) => Command::Replay(line.options()),
        Verb::Diff(line) => Command::Diff(line.options()),
        Verb::Timeline(line) => Command::Timeline(line.options()),
        Verb::View(line) => Command::View(line.options()),
        Verb::Ioctl(line) => Command::Ioctl(line.options()),
        Verb::Probes(line) => Command::Probes(line.options()),
        Verb::Hooks(line) => Command::Hooks(line.options()),
        Verb::Doctor => Command::Doctor,
        Verb::Gpu(line) => Command::Gpu(Box::new(line.options())),
        Verb::Completions { shell } => Command::Completions(shell),
        Verb::Manual => Command::Manual,
    }
}

/// What a command that is not there may have been meant to be: a verb where it stands in a verb's
/// place, an option's value behind one that takes its value with '='.
pub fn meant(command: &OsStr) -> Option<String> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let place = words.iter().position(|word| word == command)?;
    let (name, before) = (command.to_str()?, words.get(place.checked_sub(1)?)?);
    if let Some(option @ ("--stack" | "--kernel")) = before.to_str() {
        return Some(format!("{option}={name}"));
    }
    if place != 1 {
        return None;
    }
    if is_trace(command) {
        return Some(format!("cutrace report {name}"));
    }
    let line = Line::command();
    let verbs = line.get_subcommands().map(clap::Command::get_name);
    names::misspelt(name, verbs).map(|verb| format!("cutrace {verb}"))
}

/// Whether a file is a trace, by its name, and not to be run.
fn is_trace(path: &OsStr) -> bool {
    let path = Path::new(path);
    matches!(Format::of(path), Some(Format::Jsonl | Format::Arrow)) && path.is_file()
}

/// Says what is wrong with the command line, and how the verb is used.
fn usage(message: &str) -> ! {
    let mut line = Line::command();
    line.build();
    let mut verb = line.clone();
    for word in with_verb(std::env::args_os().collect()).iter().skip(1) {
        match word.to_str().and_then(|name| verb.find_subcommand(name)) {
            Some(inner) => verb = inner.clone(),
            None => break,
        }
    }
    let message = render::printable(message);
    verb.error(clap::error::ErrorKind::MissingRequiredArgument, message)
        .exit()
}

/// The definitions, for completions and the manual.
pub fn definitions() -> clap::Command {
    Line::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verb(line: &str) -> Verb {
        let words = line.split(' ').map(OsString::from).collect();
        match Line::try_parse_from(with_verb(words)) {
            Ok(line) => line.verb,
            Err(error) => panic!("{line}: {error}"),
        }
    }

    #[test]
    fn the_definitions_are_sound() {
        Line::command().debug_assert();
    }

    #[test]
    fn a_command_alone_is_recorded() {
        for line in [
            "cutrace ./app -o not-ours",
            "cutrace record ./app -o not-ours",
            "cutrace -- ./app -o not-ours",
            "cutrace -e memory --min-duration 10us ./app -o not-ours",
        ] {
            let Verb::Record(record) = verb(line) else {
                panic!("{line}: not recorded");
            };
            let options = record.options();
            assert_eq!(options.run.words(), ["./app", "-o", "not-ours"], "{line}");
            assert_eq!(options.output, None, "{line}");
        }
        assert!(matches!(verb("cutrace demo"), Verb::Demo(_)));
        assert!(matches!(
            verb("cutrace softgpu ./app"),
            Verb::Softgpu { .. }
        ));
    }
}
