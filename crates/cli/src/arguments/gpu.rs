//! `cutrace gpu`: programs inside kernels.

use super::{Format, Method, Methods, Record, examples, usage};
use crate::probes::Ready;
use ptx::rewrite::Pattern;
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// What to do with probes.
pub enum Gpu {
    /// Run a command with the programs of a BPF object in its kernels.
    Run {
        object: PathBuf,
        /// Whose memory accesses are probed.
        accesses: Pattern,
        /// Leave out the object's programs that run on the host.
        no_host: bool,
        run: Run,
    },
    /// One of cutrace's own probes instead.
    Ready {
        ready: Ready,
        kernels: Pattern,
        run: Run,
    },
    /// Verify an object, and show what becomes of it.
    Check { object: PathBuf },
    /// Run an object's programs that are kernels themselves.
    Exec {
        object: PathBuf,
        grid: u32,
        block: u32,
        run: Run,
    },
    /// What exec starts: launches kernels of a PTX file.
    Launch {
        text: PathBuf,
        grid: u32,
        block: u32,
        kernels: Vec<String>,
    },
}

/// The command, and how it is run.
pub struct Run {
    pub record: Record,
    /// Where maps are left.
    pub pin: Option<PathBuf>,
    /// Values that maps with one a thread have; 0 is as many as fit.
    pub threads: u64,
    /// Records that rings hold; 0 is by their maps.
    pub records: u64,
}

#[derive(clap::Args)]
pub struct GpuLine {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Run a command with the programs of a BPF object inside its kernels
    ///
    /// Sections say where: kprobe/KERNEL at its entry, kretprobe/KERNEL before it returns,
    /// kprobe/__memcapture at its memory accesses. KERNEL is a name, mangled or not, a glob, or a
    /// /regex/.
    #[command(arg_required_else_help = true)]
    Run {
        /// The object: clang -target bpf -g -O2 -c
        #[arg(value_name = "PROG.bpf.o")]
        object: PathBuf,
        /// Kernels whose memory accesses are probed by kprobe/__memcapture; by default all
        #[arg(long, value_name = "KERNEL", value_parser = kernels, default_value = "*")]
        kernel: Pattern,
        /// Leave out the object's programs that run on the host (uprobes, kprobes, tracepoints): they
        /// need root
        #[arg(long)]
        no_host: bool,
        #[command(flatten)]
        run: RunLine,
    },
    /// Verify a BPF object and show its maps, its PTX and what it costs
    #[command(arg_required_else_help = true)]
    Check {
        /// The object
        #[arg(value_name = "PROG.bpf.o")]
        object: PathBuf,
    },
    /// Run an object's kprobe/__directly_run programs as kernels
    #[command(arg_required_else_help = true)]
    Exec {
        /// The object
        #[arg(value_name = "PROG.bpf.o")]
        object: PathBuf,
        /// Blocks to launch
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        grid: u32,
        /// Threads of a block
        #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1024))]
        block: u32,
        #[command(flatten)]
        how: HowLine,
    },
    /// When each block of a kernel ran, and on which multiprocessor
    #[command(arg_required_else_help = true, after_help = examples::READY)]
    Trace(ReadyLine),
    /// Count the threads, warps and blocks that run a kernel
    #[command(arg_required_else_help = true, after_help = examples::READY)]
    Count(ReadyLine),
    /// How long a kernel's warps and blocks take, as histograms
    #[command(arg_required_else_help = true, after_help = examples::READY)]
    Hist(ReadyLine),
    /// What a kernel's memory accesses do, by line: bytes, how well they are coalesced, hot addresses
    #[command(arg_required_else_help = true, after_help = examples::READY)]
    Mem(ReadyLine),
    /// How a kernel's blocks are spread over multiprocessors and time
    #[command(arg_required_else_help = true, after_help = examples::READY)]
    Sched(ReadyLine),
    #[command(hide = true)]
    Launch {
        text: PathBuf,
        grid: u32,
        block: u32,
        kernels: Vec<String>,
    },
}

#[derive(clap::Args)]
struct ReadyLine {
    /// The kernels: a name, mangled or not, a glob, or a /regex/
    #[arg(value_name = "KERNEL", value_parser = kernels)]
    kernels: Pattern,
    #[command(flatten)]
    run: RunLine,
}

#[derive(clap::Args)]
struct RunLine {
    #[command(flatten)]
    how: HowLine,
    /// The command to run
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(clap::Args)]
struct HowLine {
    /// The trace to write (.jsonl, .arrows); by default traces/trace_<time>.jsonl
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Leave what the maps hold in this folder, as they lie in memory and as JSON
    ///
    /// Those in memory of the host are there while the program runs, all others at its end.
    #[arg(long, value_name = "FOLDER")]
    pin: Option<PathBuf>,
    /// Threads that maps with one value a thread have room for; by default as many as fit
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: u64,
    /// Records that a ring holds; by default what its map says
    #[arg(
        long = "ring",
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true
    )]
    records: u64,
    /// As root: run the command as this user, a name or a number. Under sudo the command runs as the
    /// user who called sudo; '--user root' keeps it root's
    #[arg(long, value_name = "USER", value_parser = super::record::user)]
    user: Option<u32>,
    /// Keep secrets out of the trace: the command's arguments, texts that the program passes or prints, folders,
    /// the host's name
    #[arg(long)]
    redact: bool,
    /// Print no summary of the trace at the end
    #[arg(long)]
    no_summary: bool,
    /// Run on softgpu, the software device
    #[arg(long)]
    sim: bool,
    /// Print errors and the probes' results only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Print also what was hooked, and how
    #[arg(short, long)]
    verbose: bool,
}

impl RunLine {
    fn options(self) -> Run {
        let mut words = self.command.into_iter();
        let program = words.next().unwrap_or_else(|| {
            usage("gpu needs a command to run: cutrace gpu count vectorAdd -- ./app")
        });
        self.how.options(program, words.collect())
    }
}

impl HowLine {
    fn options(self, program: OsString, arguments: Vec<OsString>) -> Run {
        if let Some(path) = &self.output
            && !matches!(Format::of(path), Some(Format::Jsonl | Format::Arrow))
        {
            usage("a trace's name says its format: -o FILE.jsonl or -o FILE.arrows");
        }
        Run {
            record: Record {
                program,
                arguments,
                pid: None,
                everyone: false,
                whose: capture::ebpf::Whose::default(),
                user: self.user,
                // Collecting times would change what probes measure.
                methods: Methods::These(vec![Method::Preload]),
                output: self.output,
                max_size: None,
                filter: None,
                stacks: None,
                libraries: Vec::new(),
                may_miss_libraries: false,
                hooks: Vec::new(),
                kernel: None,
                waits: false,
                min_duration: Duration::ZERO,
                duration: None,
                summary: !self.no_summary,
                simulate: self.sim,
                quiet: self.quiet,
                redact: self.redact,
                verbose: self.verbose,
                strict: false,
                probes: None,
            },
            pin: self.pin,
            threads: self.threads,
            records: self.records,
        }
    }
}

impl ReadyLine {
    fn options(self, ready: Ready) -> Gpu {
        Gpu::Ready {
            ready,
            kernels: self.kernels,
            run: self.run.options(),
        }
    }
}

impl GpuLine {
    pub fn options(self) -> Gpu {
        match self.verb {
            Verb::Run {
                object,
                kernel,
                no_host,
                run,
            } => Gpu::Run {
                object,
                accesses: kernel,
                no_host,
                run: run.options(),
            },
            Verb::Check { object } => Gpu::Check { object },
            Verb::Exec {
                object,
                grid,
                block,
                how,
            } => Gpu::Exec {
                object,
                grid,
                block,
                run: how.options(OsString::new(), Vec::new()),
            },
            Verb::Trace(line) => line.options(Ready::Trace),
            Verb::Count(line) => line.options(Ready::Count),
            Verb::Hist(line) => line.options(Ready::Hist),
            Verb::Mem(line) => line.options(Ready::Mem),
            Verb::Sched(line) => line.options(Ready::Sched),
            Verb::Launch {
                text,
                grid,
                block,
                kernels,
            } => Gpu::Launch {
                text,
                grid,
                block,
                kernels,
            },
        }
    }
}

fn kernels(text: &str) -> Result<Pattern, String> {
    Pattern::parse(text).map_err(|why| why.to_string())
}
