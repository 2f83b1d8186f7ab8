//! `cutrace gpu`: programs inside kernels.

use super::{
    RecordOptions,
    gpu_object::{BudgetLine, ObjectLine},
    shared::{NamesLine, RecordingLine},
    usage,
};
use capture::{
    gpu_probe::programs::{ObjectOptions, Ready},
    preload::PRELOAD,
    source::{Methods, RunOptions, Subject},
};
use ptx::rewrite::Pattern;
use std::{ffi::OsString, fmt, path::PathBuf, str::FromStr, time::Duration};

/// More often, copying maps would be all that the device does.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// What to do with probes.
pub enum Gpu {
    /// Run a command with the programs of a BPF object in its kernels.
    Run {
        object: PathBuf,
        /// The kernels to probe, in place of those that the object names.
        kernels: Option<Pattern>,
        /// Leave out the object's programs that run on the host.
        no_host: bool,
        options: ObjectOptions,
        run: Run,
    },
    /// One of cutrace's own probes instead.
    Ready {
        ready: Ready,
        kernels: Pattern,
        run: Run,
    },
    /// Verify an object, and show what becomes of it.
    Check { object: PathBuf, budget: u64 },
    /// Run an object's programs that are kernels themselves.
    Exec {
        object: PathBuf,
        /// Those to run; none is all.
        programs: Vec<String>,
        grid: Size,
        block: Size,
        options: ObjectOptions,
        run: Run,
    },
    /// What exec starts: launches kernels of a PTX file.
    Launch {
        text: PathBuf,
        grid: Size,
        block: Size,
        kernels: Vec<String>,
    },
}

/// Of a grid or a block: X, X,Y or X,Y,Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub [u32; 3]);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let mut size = [1; 3];
        let parts: Vec<&str> = text.split([',', 'x']).collect();
        for (at, part) in parts.iter().enumerate() {
            let number = part.parse().ok().filter(|number| *number > 0);
            let place = size.get_mut(at).zip(number);
            let (place, number) = place.ok_or("expected N, N,N or N,N,N, each 1 or more")?;
            *place = number;
        }
        Ok(Size(size))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size([x, y, z]) = self;
        write!(f, "{x},{y},{z}")
    }
}

fn block(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    match size
        .0
        .iter()
        .try_fold(1u32, |all, part| all.checked_mul(*part))
    {
        Some(1..=1024) => Ok(size),
        _ => Err("a block has 1 to 1024 threads".into()),
    }
}

/// The command, and how it is run.
pub struct Run {
    pub record: RecordOptions,
    /// Where the contents of maps are written.
    pub pin: Option<PathBuf>,
    /// Threads to size per-thread maps for; 0 is as many as fit.
    pub threads: u64,
    /// Records that a ring holds; 0 is what its map says.
    pub records: u64,
    /// How often maps are printed while the program runs.
    pub every: Option<Duration>,
    /// Kernels' whole names.
    pub full_names: bool,
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
    /// The section of a program says where it runs: kprobe/KERNEL at the kernel's entry, kretprobe/KERNEL before it
    /// returns, kprobe/__memcapture at its memory accesses. KERNEL is a name (mangled or not), a glob, or a /regex/.
    #[command(arg_required_else_help = true)]
    Run {
        /// The BPF object, made by clang -target bpf -g -O2 -c
        #[arg(value_name = "PROG.bpf.o")]
        object: PathBuf,
        /// Probe these kernels instead of those that the object's sections name
        ///
        /// A kprobe/__memcapture section names no kernel: it probes all of them unless you name some here.
        #[arg(long = "match", alias = "kernel", value_name = "KERNEL", value_parser = kernels)]
        kernels: Option<Pattern>,
        /// Leave out the object's programs for the host (uprobes, kprobes, tracepoints), which need root
        #[arg(long)]
        no_host: bool,
        #[command(flatten)]
        threads: ThreadsLine,
        #[command(flatten)]
        options: ObjectLine,
        #[command(flatten)]
        run: RunLine,
    },
    /// Verify a BPF object, and show its maps, its PTX and what it costs
    #[command(arg_required_else_help = true)]
    Check {
        /// The BPF object, made by clang -target bpf -g -O2 -c
        #[arg(value_name = "PROG.bpf.o")]
        object: PathBuf,
        #[command(flatten)]
        budget: BudgetLine,
    },
    /// Run an object's kprobe/__directly_run programs as kernels
    #[command(arg_required_else_help = true)]
    Exec {
        /// The BPF object, made by clang -target bpf -g -O2 -c
        #[arg(value_name = "PROG.bpf.o")]
        object: PathBuf,
        /// Run only this program of the object (repeatable); by default all of them, one after another
        #[arg(long = "program", value_name = "NAME")]
        programs: Vec<String>,
        /// Blocks to launch: N, N,N or N,N,N
        #[arg(long, value_name = "N", default_value = "1")]
        grid: Size,
        /// Threads in a block: N, N,N or N,N,N
        #[arg(long, value_name = "N", default_value = "256", value_parser = block)]
        block: Size,
        #[command(flatten)]
        threads: ThreadsLine,
        #[command(flatten)]
        options: ObjectLine,
        #[command(flatten)]
        how: HowLine,
    },
    /// Record when each block of a kernel ran, and on which multiprocessor
    #[command(arg_required_else_help = true)]
    Trace {
        /// Record every thread instead of every block
        #[arg(long, alias = "threads")]
        per_thread: bool,
        #[command(flatten)]
        line: ReadyLine,
    },
    /// Count the threads, warps and blocks that run a kernel
    #[command(arg_required_else_help = true)]
    Count(ReadyLine),
    /// Show how long a kernel's warps and blocks take, as histograms
    #[command(arg_required_else_help = true)]
    Hist(ReadyLine),
    /// Show a kernel's memory accesses by source line: bytes, coalescing, hot addresses
    #[command(arg_required_else_help = true)]
    Mem {
        /// Record only one in N: 1/100. Quicker and less exact
        ///
        /// One request for memory in N is counted, chosen at random. The numbers are scaled up, and the table shows how
        /// far off they may be.
        #[arg(long, value_name = "1/N", value_parser = super::record::sample)]
        sample: Option<u32>,
        #[command(flatten)]
        line: ReadyLine,
    },
    /// Show how a kernel's blocks are spread over multiprocessors and time
    #[command(arg_required_else_help = true)]
    Sched(ReadyLine),
    #[command(hide = true)]
    Launch {
        text: PathBuf,
        grid: Size,
        block: Size,
        kernels: Vec<String>,
    },
}

#[derive(clap::Args)]
struct ThreadsLine {
    /// Threads to size per-thread maps for; by default as many as fit
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: u64,
}

#[derive(clap::Args)]
struct ReadyLine {
    /// The kernels to probe: a name (mangled or not), a glob, or a /regex/
    #[arg(value_name = "KERNEL", value_parser = kernels)]
    kernels: Pattern,
    #[command(flatten)]
    run: RunLine,
}

#[derive(clap::Args)]
struct RunLine {
    /// The command to run
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
    #[command(flatten)]
    how: HowLine,
}

#[derive(clap::Args)]
struct HowLine {
    /// Print what the maps hold this often while the program runs: 1s, 500ms
    #[arg(long, value_name = "TIME", value_parser = interval)]
    every: Option<Duration>,
    /// Write what the maps hold to this folder, in binary and as JSON
    ///
    /// Maps in host memory are there while the program runs, all others at its end.
    #[arg(long, value_name = "FOLDER")]
    pin: Option<PathBuf>,
    /// Records that a ring holds; by default what its map says
    #[arg(
        long = "ring",
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true
    )]
    records: u64,
    #[command(flatten)]
    names: NamesLine,
    #[command(flatten)]
    recording: RecordingLine,
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
        let run = RunOptions {
            subject: Subject::Command { program, arguments },
            // Collecting times would change what probes measure.
            methods: Methods::These(vec![&PRELOAD]),
            ..RunOptions::default()
        };
        Run {
            record: self.recording.of(run),
            pin: self.pin,
            threads: 0,
            records: self.records,
            every: self.every,
            full_names: self.names.full_names,
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
                kernels,
                no_host,
                threads,
                options,
                run,
            } => Gpu::Run {
                object,
                kernels,
                no_host,
                options: options.options(),
                run: Run {
                    threads: threads.threads,
                    ..run.options()
                },
            },
            Verb::Check { object, budget } => Gpu::Check {
                object,
                budget: budget.rounds(),
            },
            Verb::Exec {
                object,
                programs,
                grid,
                block,
                threads,
                options,
                how,
            } => Gpu::Exec {
                object,
                programs,
                grid,
                block,
                options: options.options(),
                run: Run {
                    threads: threads.threads,
                    ..how.options(OsString::new(), Vec::new())
                },
            },
            Verb::Trace { per_thread, line } => line.options(match per_thread {
                true => Ready::TraceThreads,
                false => Ready::Trace,
            }),
            Verb::Count(line) => line.options(Ready::Count),
            Verb::Hist(line) => line.options(Ready::Hist),
            Verb::Mem { sample, line } => line.options(Ready::Mem {
                one_of: sample.unwrap_or(1),
            }),
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

fn interval(text: &str) -> Result<Duration, String> {
    match super::times::with_unit(text)? {
        every if every < SHORTEST_INTERVAL => Err("10ms or longer".into()),
        every => Ok(every),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_up_to_three_numbers() {
        assert_eq!("4".parse(), Ok(Size([4, 1, 1])));
        assert_eq!("4,5x6".parse(), Ok(Size([4, 5, 6])));
        assert_eq!(Size([4, 5, 6]).to_string(), "4,5,6");
        for bad in ["", "0", "1,", "1,2,3,4", "a", "-1"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
        assert!(block("32,32").is_ok() && block("32,33").is_err());
        assert!(block("65536,65536").is_err());
    }
}
