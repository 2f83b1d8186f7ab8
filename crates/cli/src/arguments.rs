//! The command line: clap's view of it, turned once into [`Command`]. Nothing below sees clap.

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// What the user asked for.
pub enum Command {
    Record(Record),
    Demo,
    Softgpu(Softgpu),
    Export(Export),
    Completions(clap_complete::Shell),
    Manual,
}

/// A command to trace.
pub struct Record {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// None is a new file named after the time.
    pub output: Option<PathBuf>,
    /// Categories, layers and function globs.
    pub filter: Option<String>,
    /// Library globs, each with a glob over its functions.
    pub libraries: Vec<(String, String)>,
    pub min_duration: Duration,
    pub duration: Option<Duration>,
    pub summary: bool,
    /// On softgpu.
    pub simulate: bool,
    pub quiet: bool,
    pub verbose: bool,
}

pub enum Softgpu {
    /// Which driver functions exist, which are implemented.
    List { all: bool },
    Run {
        program: OsString,
        arguments: Vec<OsString>,
    },
}

pub struct Export {
    pub inputs: Vec<PathBuf>,
    pub output: Output,
}

pub enum Output {
    /// The extension says the format.
    File(PathBuf),
    Stdout(Format),
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object a line, made for jq
    Jsonl,
    /// Arrow IPC stream (.arrows): compact, opens in DuckDB, pandas, Polars
    Arrow,
}

/// Shows a CUDA program from the API call down to the GPU thread.
#[derive(Parser)]
#[command(
    name = "cutrace",
    version,
    arg_required_else_help = true,
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
    #[command(arg_required_else_help = true)]
    Record(RecordLine),
    /// Run a small CUDA program on softgpu, the software device: no GPU needed
    Demo,
    /// Run a CUDA program on softgpu, a software CUDA device
    ///
    /// Programs built with nvcc -cudart shared and programs that use the driver API run unchanged:
    /// their PTX is executed on the CPU. Output, exit status and signals are the program's own.
    #[command(arg_required_else_help = true)]
    Softgpu {
        /// List the driver's functions and how many softgpu implements
        #[arg(long, conflicts_with = "command")]
        list: bool,
        /// With --list: name the implemented functions too
        #[arg(long, requires = "list")]
        all: bool,
        /// The command to run
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "CMD"
        )]
        command: Vec<OsString>,
    },
    /// Convert a trace, or merge several into one
    Export {
        /// The format to write; by default the output file's extension decides
        #[arg(short, long, value_enum)]
        format: Option<Format>,
        /// The file to write; by default standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Traces to read (.jsonl, .arrows); several are merged by time
        #[arg(required = true, value_name = "TRACE")]
        traces: Vec<PathBuf>,
    },
    /// Print shell completions
    Completions { shell: clap_complete::Shell },
    /// Print the manual page
    #[command(name = "man")]
    Manual,
}

#[derive(clap::Args)]
struct RecordLine {
    /// The trace to write (.jsonl, .arrows); by default traces/trace_<time>.jsonl
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Trace only these: categories, layers, function globs, '!' to exclude: memory,cuLaunch*,!query
    #[arg(short = 'e', long = "events", value_name = "SPEC")]
    filter: Option<String>,
    /// Trace another library too: its name and its functions, as globs: libnccl.so*:nccl*
    #[arg(long = "lib", value_name = "LIB:GLOB", value_parser = library)]
    libraries: Vec<(String, String)>,
    /// Leave out calls shorter than this: 500ns, 10us, 1.5ms, 1s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    min_duration: Option<Duration>,
    /// Leave out calls that begin later than this many seconds after the start
    #[arg(short, long, value_name = "SECS", value_parser = seconds)]
    duration: Option<Duration>,
    /// Print no summary at the end
    #[arg(long)]
    no_summary: bool,
    /// Run on softgpu, the software device
    #[arg(long)]
    sim: bool,
    /// Print errors only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Print also what was hooked, and how
    #[arg(short, long)]
    verbose: bool,
    /// The command to run
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// `LIB:GLOB`
fn library(text: &str) -> Result<(String, String), String> {
    match text.rsplit_once(':') {
        Some((library, functions)) if !library.is_empty() && !functions.is_empty() => {
            Ok((library.into(), functions.into()))
        }
        _ => Err("a library and its functions are meant, as in libnccl.so*:nccl*".into()),
    }
}

/// A number with a unit.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|letter: char| letter.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err("a number and ns, us, ms or s is meant, as in 10us".into()),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("{number:?} is no number"))?;
    Duration::try_from_secs_f64(number * unit).map_err(|why| why.to_string())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| format!("{text:?} is no number of seconds"))?;
    Duration::try_from_secs_f64(number).map_err(|why| why.to_string())
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

impl RecordLine {
    fn options(self) -> Record {
        if let Some(path) = &self.output
            && format_of(path).is_none()
        {
            usage("a trace's name says its format: -o FILE.jsonl or -o FILE.arrows");
        }
        let mut words = self.command.into_iter();
        let program = words
            .next()
            .unwrap_or_else(|| usage("record needs a command to trace: cutrace ./app"));
        Record {
            program,
            arguments: words.collect(),
            output: self.output,
            filter: self.filter,
            libraries: self.libraries,
            min_duration: self.min_duration.unwrap_or_default(),
            duration: self.duration,
            summary: !self.no_summary,
            simulate: self.sim,
            quiet: self.quiet,
            verbose: self.verbose,
        }
    }
}

pub fn parse() -> Command {
    match Line::parse_from(with_verb(std::env::args_os().collect())).verb {
        Verb::Record(line) => Command::Record(line.options()),
        Verb::Demo => Command::Demo,
        Verb::Softgpu {
            list: true, all, ..
        } => Command::Softgpu(Softgpu::List { all }),
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
        Verb::Export {
            format,
            output,
            traces,
        } => {
            // "-" is standard output, as in tar and jq.
            let output = output.filter(|path| path.as_os_str() != "-");
            let output = match (output, format) {
                (Some(path), wanted) => {
                    let named = format_of(&path);
                    if named.is_none() || wanted.is_some_and(|wanted| Some(wanted) != named) {
                        usage("an output's name says its format: -o FILE.jsonl or -o FILE.arrows");
                    }
                    Output::File(path)
                }
                (None, Some(format)) => Output::Stdout(format),
                (None, None) => {
                    usage("which format? -f jsonl or -f arrow; or an output file: -o FILE.arrows")
                }
            };
            Command::Export(Export {
                inputs: traces,
                output,
            })
        }
        Verb::Completions { shell } => Command::Completions(shell),
        Verb::Manual => Command::Manual,
    }
}

fn format_of(path: &std::path::Path) -> Option<Format> {
    match path.extension()?.to_str()? {
        "jsonl" => Some(Format::Jsonl),
        "arrows" => Some(Format::Arrow),
        _ => None,
    }
}

fn usage(message: &str) -> ! {
    Line::command()
        .error(clap::error::ErrorKind::MissingRequiredArgument, message)
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
            assert_eq!(options.program, "./app", "{line}");
            assert_eq!(options.arguments, ["-o", "not-ours"], "{line}");
            assert_eq!(options.output, None, "{line}");
        }
        assert!(matches!(verb("cutrace demo"), Verb::Demo));
        assert!(matches!(
            verb("cutrace softgpu ./app"),
            Verb::Softgpu { .. }
        ));
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("10us"), Ok(Duration::from_micros(10)));
        assert_eq!(duration("1.5ms"), Ok(Duration::from_micros(1_500)));
        for wrong in ["10", "ms", "-1s", "1e400s", "10 us", "nans"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(library("libx.so*:f*"), Ok(("libx.so*".into(), "f*".into())));
        for wrong in ["libx.so", ":f", "libx:"] {
            assert!(library(wrong).is_err(), "{wrong}");
        }
    }
}
