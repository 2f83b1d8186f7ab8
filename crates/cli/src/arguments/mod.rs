//! The command line: clap's view of it, turned once into [`Command`]. Nothing below sees clap.

mod export;
mod gpu;
mod gpu_object;
mod help;
mod ioctl;
mod lake;
mod live;
mod look;
mod method;
mod pages;
mod probes;
mod record;
mod screen;
mod shared;
mod sizes;
mod times;

pub use export::{Destination, Export, Format, Weight};
pub use gpu::{Gpu, Run, Size};
pub use help::definitions;
pub use ioctl::Ioctl;
pub use lake::{Engine, FleetReport, Lake, Query};
pub use live::Snap;
pub use look::{Cat, Color, Demo, Diff, Look, Part, Replay, ReportOptions, Timeline, View};
pub use pages::{Example, GROUPS, PAGES, Page};
pub use probes::{Hooks, Probes};
pub use record::RecordOptions;
pub use screen::{Serve, Top};

use clap::{FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use shared::IntoLine;
use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// What the user asked for.
pub enum Command {
    /// Nothing: what there is to ask for.
    Welcome,
    Record(Box<RecordOptions>),
    Top(Box<Top>),
    Serve(Box<Serve>),
    Demo(Demo),
    Softgpu(Softgpu),
    Export(Export),
    Snap(Snap),
    Cat(Cat),
    Report(ReportOptions),
    Timeline(Timeline),
    Replay(Replay),
    View(View),
    Diff(Diff),
    Query(Query),
    Lake(Lake),
    Mcp,
    Ioctl(Ioctl),
    Probes(Probes),
    Hooks(Hooks),
    Doctor,
    Gpu(Box<Gpu>),
    Completions(Completions),
    Manual(Manual),
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

pub enum Completions {
    Print(Shell),
    /// Those of all shells, a file each.
    Write {
        folder: PathBuf,
    },
}

pub enum Manual {
    /// The page of a verb, by its words; none for the program's own.
    Print { verb: Vec<String> },
    /// All pages, a file each.
    Write { folder: PathBuf },
}

/// cutrace records what a CUDA program does at every level (API calls, driver ioctls, kernel-driver functions, GPU kernels, GPU
/// threads) on one timeline, in one file.
#[derive(Parser)]
#[command(
    name = "cutrace",
    version = version::BUILD,
    arg_required_else_help = true,
    override_usage = "cutrace [record] [OPTIONS] [--] CMD...\n       cutrace VERB ..."
)]
struct Line {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Record what a command and its children do (the default verb)
    ///
    /// Every call of the CUDA runtime and driver API goes into the trace with its arguments, result and time. This needs no
    /// root, no CUDA toolkit and no change to the program, which keeps its output, exit status and signals.
    #[command(arg_required_else_help = true)]
    Record(record::RecordLine),
    /// Watch a program on a live screen: GPU, steps, functions, kernels, memory
    ///
    /// Nothing is written to a file until you press 'w', which saves the last seconds as a trace. '?' lists the keys.
    #[command(arg_required_else_help = true)]
    Top(screen::TopLine),
    /// Serve live metrics for Prometheus, and send spans to OpenTelemetry
    ///
    /// No trace is written. Only this machine can connect, unless --metrics names another address.
    #[command(arg_required_else_help = true)]
    Serve(screen::ServeLine),
    /// Take the tour: record a small program on softgpu, and look at the trace
    ///
    /// The program has a bottleneck, an idle gap and a leak. The trace, a Perfetto trace and an HTML report go to traces/demo.
    /// No GPU is needed.
    Demo(look::DemoLine),
    /// Run a CUDA program on softgpu, a software CUDA device
    ///
    /// Programs built with nvcc and programs that use the driver API run unchanged: softgpu executes their PTX on the CPU. A
    /// program keeps its output, exit status and signals.
    #[command(arg_required_else_help = true)]
    Softgpu(SoftgpuLine),
    /// Have a running 'cutrace --flight' write down its last seconds now
    ///
    /// The trace's name is printed. With --recover: make a trace of what a killed recorder has left.
    #[command(arg_required_else_help = true)]
    Snap(live::SnapLine),
    /// Summarise a trace, or print one section of it
    Report(look::ReportLine),
    /// Draw a trace as a timeline in the terminal
    Timeline(look::TimelineLine),
    /// Print the calls of a trace, one decoded line each, nested
    Replay(look::ReplayLine),
    /// Print a trace as JSON lines, whatever its format
    ///
    /// A .jsonl trace is printed as it is, an .arrows trace as the lines it would have as .jsonl.
    Cat(look::CatLine),
    /// Convert a trace, or merge several into one
    #[command(arg_required_else_help = true)]
    Export(export::ExportLine),
    /// Open a trace as a report in the browser
    ///
    /// cutrace serves the report on 127.0.0.1, under a secret address, until Ctrl-C. Nothing leaves the machine.
    View(look::ViewLine),
    /// Ask traces in SQL, or by a named query
    ///
    /// DuckDB answers, or a Spark cluster; cutrace gives it views over the traces: calls, kernels, copies, allocs, ioctls, ranges,
    /// samples, busy, runs, events, and names, stacks, steps, findings. Traces are converted to Parquet once, into
    /// .cutrace-lake beside them.
    Query(lake::QueryLine),
    /// Keep many traces as one: Parquet folders for SQL
    #[command(subcommand, arg_required_else_help = true)]
    Lake(lake::LakeLine),
    /// Serve reports and queries to an assistant, over standard input and output
    ///
    /// By the Model Context Protocol: configure your assistant to start 'cutrace mcp'. The tools read traces and lakes, change
    /// nothing, and keep their answers short.
    Mcp,
    /// Compare two traces, by function and by category
    #[command(arg_required_else_help = true)]
    Diff(look::DiffLine),
    /// Decode one ioctl of the NVIDIA driver
    ///
    /// Requests, controls, classes, statuses and struct fields have the names of the given driver version. For requests of
    /// other drivers, the parts of the number are shown.
    #[command(arg_required_else_help = true)]
    Ioctl(ioctl::IoctlLine),
    /// List what can be hooked here: functions of libraries and of the driver, tracepoints
    ///
    /// One probe a line, as hooks files and bpftrace write them. With --sim, softgpu's libraries are listed too.
    Probes(probes::ProbesLine),
    /// Check hooks files, which list what to hook besides the CUDA libraries
    #[command(subcommand, arg_required_else_help = true)]
    Hooks(probes::HooksLine),
    /// Say what can be recorded on this machine, and how to get the rest
    ///
    /// doctor finds out by trying: as root, it attaches probes for a moment.
    Doctor,
    /// Count, trace and measure what GPU threads do, or run eBPF programs in them
    ///
    /// cutrace puts probes into the PTX of kernels when the program loads it. Nothing is rebuilt.
    #[command(arg_required_else_help = true)]
    Gpu(gpu::GpuLine),
    /// Print shell completions
    #[command(arg_required_else_help = true)]
    Completions {
        /// The shell to complete in
        #[arg(required_unless_present = "into", conflicts_with = "into")]
        shell: Option<Shell>,
        #[command(flatten)]
        into: IntoLine,
    },
    /// Print manual pages, or open one in a terminal
    #[command(name = "man")]
    Manual {
        /// The verb: record, 'gpu run'; by default cutrace itself
        #[arg(value_name = "VERB", conflicts_with = "into")]
        verb: Vec<String>,
        #[command(flatten)]
        into: IntoLine,
    },
}

#[derive(clap::Args)]
struct SoftgpuLine {
    /// List the functions of the driver, and how many softgpu implements
    #[arg(long, conflicts_with = "command")]
    list: bool,
    /// With --list: also name the functions that softgpu implements
    #[arg(long, alias = "all", requires = "list")]
    implemented: bool,
    /// Write softgpu's libraries to a folder, to use them without cutrace
    #[arg(long, value_name = "DIR", conflicts_with_all = ["command", "list"])]
    unpack: Option<PathBuf>,
    /// The command to run
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl SoftgpuLine {
    fn options(self) -> Softgpu {
        if self.list {
            return Softgpu::List {
                all: self.implemented,
            };
        }
        if let Some(folder) = self.unpack {
            return Softgpu::Unpack { folder };
        }
        let mut words = self.command.into_iter();
        let program = words
            .next()
            .unwrap_or_else(|| usage("softgpu needs a command to run: cutrace softgpu -- ./app"));
        Softgpu::Run {
            program,
            arguments: words.collect(),
        }
    }
}

/// The command line with its verb: without one, the words are a command to record.
fn with_verb(mut words: Vec<OsString>) -> Vec<OsString> {
    let Some(first) = words.get(1).and_then(|word| word.to_str()) else {
        if words.len() > 1 {
            words.insert(1, "record".into());
        }
        return words;
    };
    let own = ["help", "-h", "--help", "-V", "--version"];
    let line = definitions();
    let is_verb = line.get_subcommands().any(|verb| verb.get_name() == first);
    if !is_verb && !own.contains(&first) {
        words.insert(1, "record".into());
    }
    words
}

pub fn parse() -> Command {
    let words: Vec<OsString> = std::env::args_os().collect();
    if words.len() <= 1 {
        return Command::Welcome;
    }
    let found = definitions().get_matches_from(with_verb(words));
    let line = Line::from_arg_matches(&found).unwrap_or_else(|why| why.exit());
    match line.verb {
        Verb::Record(line) => Command::Record(Box::new(line.options())),
        Verb::Top(line) => Command::Top(Box::new(line.options())),
        Verb::Serve(line) => Command::Serve(Box::new(line.options())),
        Verb::Demo(line) => Command::Demo(line.options()),
        Verb::Softgpu(line) => Command::Softgpu(line.options()),
        Verb::Snap(line) => Command::Snap(line.options()),
        Verb::Export(line) => Command::Export(line.options()),
        Verb::Cat(line) => Command::Cat(line.options()),
        Verb::Report(line) => Command::Report(line.options()),
        Verb::Replay(line) => Command::Replay(line.options()),
        Verb::Diff(line) => Command::Diff(line.options()),
        Verb::Timeline(line) => Command::Timeline(line.options()),
        Verb::View(line) => Command::View(line.options()),
        Verb::Query(line) => Command::Query(line.options()),
        Verb::Lake(line) => Command::Lake(line.options()),
        Verb::Mcp => Command::Mcp,
        Verb::Ioctl(line) => Command::Ioctl(line.options()),
        Verb::Probes(line) => Command::Probes(line.options()),
        Verb::Hooks(line) => Command::Hooks(line.options()),
        Verb::Doctor => Command::Doctor,
        Verb::Gpu(line) => Command::Gpu(Box::new(line.options())),
        Verb::Completions { shell, into } => Command::Completions(match (into.into, shell) {
            (Some(folder), _) => Completions::Write { folder },
            (None, Some(shell)) => Completions::Print(shell),
            (None, None) => usage("which shell? cutrace completions bash"),
        }),
        Verb::Manual { verb, into } => Command::Manual(match into.into {
            Some(folder) => Manual::Write { folder },
            None => Manual::Print { verb },
        }),
    }
}

/// What the user may have wanted where a command does not exist: a verb, if it is in a verb's place; the value of an
/// option that takes its value with '='.
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
    let line = definitions();
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
    let mut line = definitions();
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
        definitions().debug_assert();
    }

    #[test]
    fn older_spellings_still_work() {
        for line in [
            "cutrace probes -a cu*",
            "cutrace probes -v cu*",
            "cutrace gpu run x.bpf.o --kernel matmul* -- ./app",
            "cutrace gpu trace matmul --threads -- ./app",
            "cutrace softgpu --list --all",
        ] {
            verb(line);
        }
        let Verb::Probes(line) = verb("cutrace probes -v") else {
            panic!("not probes");
        };
        assert!(line.options().arguments);
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
        assert!(matches!(verb("cutrace softgpu ./app"), Verb::Softgpu(_)));
    }
}
