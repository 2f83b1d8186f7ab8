//! The command line: clap's view of it, turned once into [`Command`]. Nothing below sees clap.

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use std::{ffi::OsString, path::PathBuf};

/// What the user asked for.
pub enum Command {
    Demo,
    Softgpu(Softgpu),
    Export(Export),
    Completions(clap_complete::Shell),
    Manual,
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
#[command(name = "cutrace", version, arg_required_else_help = true)]
struct Line {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
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

pub fn parse() -> Command {
    match Line::parse().verb {
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
