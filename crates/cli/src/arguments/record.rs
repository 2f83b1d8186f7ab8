//! `cutrace record`: what to trace, and how.

use super::live::LiveLine;
use super::{
    method,
    shared::{FilterLine, RecordingLine, is_descriptor, user},
    sizes, times, usage,
};
use capture::{
    ebpf::ProcessFilter,
    live::FlightOptions,
    source::{Methods, RunOptions, Subject},
};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

/// A run to record: what its sources need to know, and what becomes of the trace.
#[derive(Default)]
pub struct RecordOptions {
    pub run: RunOptions,
    /// Who the command runs as; None is who we are, or who called sudo.
    pub run_as: Option<u32>,
    /// None is a new file named after the time.
    pub output: Option<PathBuf>,
    /// Recording stops when the trace has so many bytes.
    pub max_size: Option<u64>,
    /// A library of --lib need not exist before the program starts.
    pub may_miss_libraries: bool,
    /// Hooks files; '-' is standard input.
    pub hook_files: Vec<PathBuf>,
    /// Hooks as they are typed: `kprobe:nv*`, `uprobe:LIB:FUNCTION=hist(duration)`.
    pub hook_lines: Vec<String>,
    pub no_summary: bool,
    pub quiet: bool,
    /// Leave texts out of the trace.
    pub redact: bool,
    /// Lost events are a failure.
    pub strict: bool,
    /// Only the last seconds are kept, and written when something happens.
    pub flight: Option<FlightOptions>,
}

impl RecordOptions {
    /// Whether a summary is printed.
    pub fn is_summed_up(&self) -> bool {
        !self.no_summary && !self.quiet
    }

    /// Where its trace goes.
    pub fn folder(&self) -> Option<&Path> {
        let output = self.output.as_deref()?;
        match output.parent() {
            _ if output == Path::new("-") || is_descriptor(output) => None,
            Some(folder) if folder.as_os_str().is_empty() => None,
            folder => folder,
        }
    }
}

#[derive(clap::Args)]
pub struct RecordLine {
    #[command(flatten)]
    subject: SubjectLine,
    #[command(flatten)]
    calls: CallsLine,
    #[command(flatten)]
    hooks: HooksLine,
    #[command(flatten)]
    live: LiveLine,
    #[command(flatten)]
    recording: RecordingLine,
    #[command(flatten)]
    size: SizeLine,
}

/// Whom to record: a command, a process, everyone.
#[derive(clap::Args)]
pub(super) struct SubjectLine {
    /// The command to run
    #[arg(
        trailing_var_arg = true,
        required_unless_present_any = ["pid", "everyone"],
        value_name = "CMD"
    )]
    command: Vec<OsString>,
    #[command(flatten)]
    who: WhoLine,
}

#[derive(clap::Args)]
#[command(next_help_heading = "What to attach to, and for how long")]
struct WhoLine {
    /// Attach to a running process, until it ends or Ctrl-C (by ebpf as root, or by syscall)
    #[arg(short, long, value_name = "PID", value_parser = process, conflicts_with_all = ["command", "run_as"])]
    pid: Option<u32>,
    /// Record every process on this machine, until Ctrl-C or -d (by ebpf, as root)
    #[arg(short = 'a', long = "all", conflicts_with_all = ["command", "pid", "run_as"])]
    everyone: bool,
    /// With -a: only processes of this user (a name or a number)
    #[arg(long = "uid", value_name = "USER", value_parser = user)]
    user: Option<u32>,
    /// With -a: only processes in this cgroup and below it: a folder under /sys/fs/cgroup, or a name as in
    /// /proc/PID/cgroup
    #[arg(long, value_name = "PATH", value_parser = cgroup)]
    cgroup: Option<u64>,
    /// Record for this many seconds only. A command that cutrace has started runs on to its end
    #[arg(short, long, value_name = "SECS", value_parser = times::seconds)]
    duration: Option<Duration>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "What to record")]
pub(super) struct CallsLine {
    #[arg(
        long,
        value_name = "LIST",
        default_value = "auto",
        value_parser = method::methods,
        help = method::help(),
        long_help = method::long_help()
    )]
    method: Methods,
    #[command(flatten)]
    filter: FilterLine,
    /// Record where calls come from, in native code and Python: all calls but __cuda*, or only those of SPEC (as in -e)
    #[arg(long = "stack", value_name = "SPEC", num_args = 0..=1, require_equals = true, default_missing_value = "!__cuda*")]
    stacks: Option<String>,
    /// Also record functions of another library, both as globs: libnccl.so*:nccl*
    #[arg(long = "lib", value_name = "LIB:GLOB", value_parser = library)]
    libraries: Vec<(String, String)>,
    /// Accept a --lib that is not found before the program starts, because the program loads it from a folder of its own
    #[arg(long, requires = "libraries")]
    pub(super) allow_missing_lib: bool,
    /// Leave out calls shorter than this: 500ns, 10us, 1.5ms, 1s
    #[arg(long, value_name = "TIME", value_parser = times::with_unit)]
    min_duration: Option<Duration>,
    /// Record only one in N: 1/100. Quicker and less exact
    ///
    /// One call in N of each function is recorded, and the rest are counted. Allocations, contexts, modules and the
    /// names of launched kernels are always recorded.
    #[arg(long, value_name = "1/N", value_parser = sample)]
    sample: Option<u32>,
    /// Also record when threads wait for the GPU, and for which stream or event (needs CUPTI)
    #[arg(long)]
    waits: bool,
    /// Find the origin of work in child graphs and conditional nodes of CUDA graphs, too. Not tried on a GPU yet
    ///
    /// CUPTI says which call made each node. Without this option cutrace goes by the order in which nodes were added. With
    /// --sim it is always on.
    #[arg(long)]
    graph_nodes: bool,
    /// Also record which nn.Module each PyTorch operator belongs to. Slower: PyTorch calls Python for each module
    #[arg(long)]
    modules: bool,
    /// Also record the shapes of PyTorch operators' inputs
    #[arg(long)]
    shapes: bool,
}

#[derive(clap::Args)]
#[command(next_help_heading = "The kernel driver, and hooks of your own")]
struct HooksLine {
    /// Also record the kernel driver: its ioctls and its functions, or only these groups. Needs root
    ///
    /// The groups are ioctl, rm, memory, context, schedule, interrupts, faults, errors and os; page_faults and other_drivers
    /// are recorded only if you name them.
    #[arg(long, value_name = "GROUPS", num_args = 0..=1, require_equals = true, default_missing_value = "", value_delimiter = ',')]
    kernel: Option<Vec<String>>,
    /// Also hook this: kprobe:nv*, uprobe:/lib/*/libcuda.so:cuMem*, tracepoint:irq:* (repeatable). Needs root
    ///
    /// After the probe, '=time' records entry and return as one span. '=count', '=hist(duration)' and
    /// '=hist(arg1)' record no calls: the kernel counts them, and the run ends with the counts or with a
    /// histogram for each function, as bpftrace prints them. Durations are nanoseconds. `cutrace probes`
    /// lists what can be hooked here.
    #[arg(long = "hook", value_name = "PROBE")]
    lines: Vec<String>,
    /// Also hook what this file lists ('-' is standard input; see cutrace hooks, cutrace probes)
    #[arg(long = "hooks", value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "The trace")]
struct SizeLine {
    /// Stop recording when the trace reaches this size: 500MB, 2GB. The program runs on; later events count as lost
    ///
    /// Recording also stops when less than 5 % of the disk is free (or half of what was free at the start, if
    /// that is less).
    #[arg(long, value_name = "SIZE", value_parser = sizes::at_least_1mb)]
    max_size: Option<u64>,
    /// Exit with 125 if events were lost and the program itself exited with 0
    #[arg(long)]
    strict: bool,
}

impl RecordLine {
    pub fn options(self) -> RecordOptions {
        let mut run = self.subject.run();
        let may_miss_libraries = self.calls.allow_missing_lib;
        self.calls.choose(&mut run);
        let flight = self.live.choose(&mut run);
        run.driver_groups = (self.hooks.kernel)
            .map(|groups| groups.into_iter().filter(|g| !g.is_empty()).collect());
        RecordOptions {
            max_size: self.size.max_size,
            strict: self.size.strict,
            may_miss_libraries,
            flight,
            hook_files: self.hooks.files,
            hook_lines: self.hooks.lines,
            ..self.recording.of(run)
        }
    }
}

impl SubjectLine {
    pub(super) fn run(self) -> RunOptions {
        let mut run = RunOptions {
            subject: self.who.subject(self.command),
            ..RunOptions::default()
        };
        self.who.narrow(&mut run);
        run
    }
}

impl WhoLine {
    fn subject(&self, command: Vec<OsString>) -> Subject {
        let mut words = command.into_iter();
        match (words.next(), self.pid) {
            (Some(program), _) => Subject::Command {
                program,
                arguments: words.collect(),
            },
            (None, Some(pid)) => Subject::Process(pid),
            (None, None) if self.everyone => Subject::Machine,
            (None, None) => usage("nothing to trace: name a command, such as cutrace ./app"),
        }
    }

    fn narrow(self, run: &mut RunOptions) {
        if !self.everyone && (self.user.is_some() || self.cgroup.is_some()) {
            usage("--uid and --cgroup narrow -a down: cutrace -a --uid USER");
        }
        run.duration = self.duration;
        run.whose = ProcessFilter {
            user: self.user,
            cgroup: self.cgroup,
        };
    }
}

impl CallsLine {
    pub(super) fn choose(self, run: &mut RunOptions) {
        run.methods = self.method;
        run.filter = self.filter.filter;
        run.stacks = self.stacks;
        run.libraries = self.libraries;
        run.sample = self.sample.unwrap_or(1);
        run.waits = self.waits;
        run.graph_nodes = self.graph_nodes;
        run.modules = self.modules;
        run.shapes = self.shapes;
        run.min_duration = self.min_duration.unwrap_or_default();
    }
}

/// `1/100`
pub(super) fn sample(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix("1/").unwrap_or(text);
    match number.parse() {
        Ok(number @ 1..=1_000_000) => Ok(number),
        _ => Err("expected one call in how many: 1/100 (up to 1/1000000)".into()),
    }
}

/// A process's number.
fn process(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(
            "expected the number of a process, as pgrep prints it: -p $(pgrep -n python)".into(),
        ),
    }
}

fn cgroup(text: &str) -> Result<u64, String> {
    capture::ebpf::cgroup(Path::new(text)).map_err(|why| why.to_string())
}

/// `LIB:GLOB`
fn library(text: &str) -> Result<(String, String), String> {
    match text.rsplit_once(':') {
        Some((library, functions)) if !library.is_empty() && !functions.is_empty() => {
            Ok((library.into(), functions.into()))
        }
        _ => Err("expected a library and its functions: libnccl.so*:nccl*".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_cgroups_are_there_or_refused() {
        assert!(cgroup("/no/such/cgroup").is_err());
        assert_eq!(process("1234"), Ok(1234));
        assert!(process("python").is_err() && process("0").is_err());
    }

    #[test]
    fn a_sample_is_one_of_many() {
        assert_eq!(
            (sample("1/100"), sample("100"), sample("1/1")),
            (Ok(100), Ok(100), Ok(1))
        );
        for wrong in ["0", "1/0", "2/3", "1/", "1%", "1/10000000"] {
            assert!(sample(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_library_has_functions() {
        assert_eq!(library("libx.so*:f*"), Ok(("libx.so*".into(), "f*".into())));
        for wrong in ["libx.so", ":f", "libx:"] {
            assert!(library(wrong).is_err(), "{wrong}");
        }
    }
}
