//! `cutrace record`: what to trace, and how.

use super::{Format, method, sizes, times, usage};
use capture::{
    ebpf::ProcessFilter,
    source::{Methods, RunOptions, Subject},
};
use std::{
    ffi::{CString, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

/// A run to trace: what its sources need to know, and what becomes of the trace.
#[derive(Default)]
pub struct Record {
    pub run: RunOptions,
    /// Who the command runs as; None is who we are, or who called sudo.
    pub run_as: Option<u32>,
    /// None is a new file named after the time.
    pub output: Option<PathBuf>,
    /// Recording stops when the trace has so many bytes.
    pub max_size: Option<u64>,
    /// Libraries may be nowhere to be seen.
    pub may_miss_libraries: bool,
    /// Hooks files; '-' is standard input.
    pub hook_files: Vec<PathBuf>,
    /// Hooks as they are typed: `kprobe:nv*`, `uprobe:LIB:FUNCTION=hist(duration)`.
    pub hook_lines: Vec<String>,
    pub no_summary: bool,
    pub quiet: bool,
    /// Leave out of the trace what says too much of the program and its user.
    pub redact: bool,
    /// Lost events are a failure.
    pub strict: bool,
}

impl Record {
    /// Whether the run is summed up for somebody.
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

/// A trace's name, which says its format; anything else is a mistake.
pub(super) fn trace_name(output: Option<PathBuf>) -> Option<PathBuf> {
    if let Some(path) = &output
        && path.as_os_str() != "-"
        && !is_descriptor(path)
        && !matches!(Format::of(path), Some(Format::Jsonl | Format::Arrow))
    {
        usage("a trace's name says its format: -o FILE.jsonl or -o FILE.arrows");
    }
    output
}

/// What a command is run by, whatever is done with it.
#[derive(clap::Args)]
pub struct RunAsLine {
    /// As root: run the command as this user, a name or a number. Under sudo the command runs as the
    /// user who called sudo; '--user root' keeps it root's
    #[arg(long = "user", value_name = "USER", value_parser = user)]
    pub run_as: Option<u32>,
}

/// Where it runs.
#[derive(clap::Args)]
pub struct DeviceLine {
    /// Run on softgpu, the software device
    #[arg(long)]
    pub sim: bool,
}

/// How much is said of it.
#[derive(clap::Args)]
pub struct DetailLine {
    /// Print also what was hooked, and how
    #[arg(short, long)]
    pub verbose: bool,
}

#[derive(clap::Args)]
pub struct RecordLine {
    #[arg(
        long,
        value_name = "LIST",
        default_value = "auto",
        value_parser = method::methods,
        help = method::help(),
        long_help = method::long_help()
    )]
    method: Methods,
    /// Trace a process that runs already, until it ends or Ctrl-C: by ebpf, or by syscall
    #[arg(short, long, value_name = "PID", value_parser = process, conflicts_with_all = ["command", "run_as"])]
    pid: Option<u32>,
    /// Trace every process of this machine, until Ctrl-C or -d: by ebpf
    #[arg(short = 'a', long = "all", conflicts_with_all = ["command", "pid", "run_as"])]
    everyone: bool,
    /// With -a: only processes that run as this user, a name or a number
    #[arg(long = "uid", value_name = "USER", value_parser = user)]
    user: Option<u32>,
    /// With -a: only processes in this cgroup and those below it, a folder under /sys/fs/cgroup or a name
    /// as in /proc/PID/cgroup
    #[arg(long, value_name = "PATH", value_parser = cgroup)]
    cgroup: Option<u64>,
    #[command(flatten)]
    run_as: RunAsLine,
    /// The trace to write (.jsonl, .arrows); by default traces/trace_<time>.jsonl, which becomes Arrow
    /// (.arrows) past 256 MB. '-' writes lines to the terminal as things happen, and JSONL to a pipe or
    /// file, where the program's standard output goes to standard error; 'fd:3' writes JSONL to that
    /// descriptor
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Stop recording when the trace has this size: 500MB, 2GB. The program goes on; what it does then
    /// counts as lost
    ///
    /// Recording stops also when less than 5 % of the disk is left (or half of what was free at the start,
    /// if that is less).
    #[arg(long, value_name = "SIZE", value_parser = sizes::at_least_1mb)]
    max_size: Option<u64>,
    /// Trace only these: categories, layers, function globs, '!' to exclude: memory,cuLaunch*,!query
    #[arg(short = 'e', long = "events", value_name = "SPEC")]
    filter: Option<String>,
    /// Record where calls come from, native and Python frames; of all calls but __cuda*, or of these
    /// as in -e
    #[arg(long = "stack", value_name = "SPEC", num_args = 0..=1, require_equals = true, default_missing_value = "!__cuda*")]
    stacks: Option<String>,
    /// Trace another library too: its name and its functions, as globs: libnccl.so*:nccl*
    #[arg(long = "lib", value_name = "LIB:GLOB", value_parser = library)]
    libraries: Vec<(String, String)>,
    /// Accept a --lib that cannot be found before the program starts, because the program loads it from a
    /// folder of its own
    #[arg(long, requires = "libraries")]
    allow_missing_lib: bool,
    /// Add the driver: its requests and its own functions, or those of these groups (ioctl, rm, memory,
    /// context, schedule, interrupts, faults, errors, os; and page_faults, other_drivers). Needs root
    #[arg(long, value_name = "GROUPS", num_args = 0..=1, require_equals = true, default_missing_value = "", value_delimiter = ',')]
    kernel: Option<Vec<String>>,
    /// Hook this too: kprobe:nv*, uprobe:/lib/*/libcuda.so:cuMem*, tracepoint:irq:*; may be repeated. Needs root
    ///
    /// After the probe, '=time' records entry and return as one span. '=count', '=hist(duration)' and
    /// '=hist(arg1)' record no calls: the kernel counts them, and the run ends with the counts or with a
    /// histogram for each function, as bpftrace prints them. Durations are nanoseconds. `cutrace probes`
    /// lists what can be hooked here.
    #[arg(long = "hook", value_name = "PROBE")]
    hook_lines: Vec<String>,
    /// Hook also what this file asks for ('-' is standard input; see cutrace hooks, cutrace probes)
    #[arg(long, value_name = "FILE")]
    hooks: Vec<PathBuf>,
    /// Record one API call of this many of each function: 1/100. Allocations, contexts, modules and launches'
    /// names are always recorded; what is not is counted
    #[arg(long, value_name = "1/N", value_parser = sample)]
    sample: Option<u32>,
    /// Record also when threads waited for the GPU, and for which stream or event, by CUPTI's word
    #[arg(long)]
    waits: bool,
    /// Leave out of the trace: the command's arguments and folder, the host's name, every text that the
    /// program passes (file names, NVTX messages), folders in stacks. Names of functions, kernels and
    /// libraries stay
    ///
    /// Without it, a trace holds the command line with all its arguments, the host's name, and what calls
    /// were given: numbers, pointers, file names, NVTX messages, kernels' names, and with --stack the paths
    /// of the program's code. It never holds the environment or the contents of copies. Only you can read a
    /// new trace (mode 0600); a file that exists keeps its mode.
    #[arg(long)]
    redact: bool,
    /// Leave out calls shorter than this: 500ns, 10us, 1.5ms, 1s
    #[arg(long, value_name = "TIME", value_parser = times::with_unit)]
    min_duration: Option<Duration>,
    /// With -p and -a: stop after this many seconds. With a command, which runs to its end: leave out
    /// calls that begin later than this
    #[arg(short, long, value_name = "SECS", value_parser = times::seconds)]
    duration: Option<Duration>,
    /// Exit with 125 if events were lost and the program itself exited with 0
    #[arg(long)]
    strict: bool,
    /// Print no summary at the end
    #[arg(long)]
    no_summary: bool,
    #[command(flatten)]
    device: DeviceLine,
    /// Print errors only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    #[command(flatten)]
    detail: DetailLine,
    /// The command to run
    #[arg(
        trailing_var_arg = true,
        required_unless_present_any = ["pid", "everyone"],
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

impl RecordLine {
    pub fn options(self) -> Record {
        let output = trace_name(self.output);
        if !self.everyone && (self.user.is_some() || self.cgroup.is_some()) {
            usage("--uid and --cgroup narrow -a down: cutrace -a --uid USER");
        }
        let mut words = self.command.into_iter();
        let subject = match (words.next(), self.pid) {
            (Some(program), _) => Subject::Command {
                program,
                arguments: words.collect(),
            },
            (None, Some(pid)) => Subject::Process(pid),
            (None, None) if self.everyone => Subject::Machine,
            (None, None) => usage("record needs a command to trace: cutrace ./app"),
        };
        let run = RunOptions {
            subject,
            whose: ProcessFilter {
                user: self.user,
                cgroup: self.cgroup,
            },
            methods: self.method,
            filter: self.filter,
            stacks: self.stacks,
            libraries: self.libraries,
            driver_groups: self
                .kernel
                .map(|groups| groups.into_iter().filter(|g| !g.is_empty()).collect()),
            sample: self.sample.unwrap_or(1),
            waits: self.waits,
            min_duration: self.min_duration.unwrap_or_default(),
            duration: self.duration,
            simulate: self.device.sim,
            verbose: self.detail.verbose,
            ..RunOptions::default()
        };
        Record {
            run,
            run_as: self.run_as.run_as,
            output,
            max_size: self.max_size,
            may_miss_libraries: self.allow_missing_lib,
            hook_files: self.hooks,
            hook_lines: self.hook_lines,
            no_summary: self.no_summary,
            quiet: self.quiet,
            redact: self.redact,
            strict: self.strict,
        }
    }
}

/// `1/100`
fn sample(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix("1/").unwrap_or(text);
    match number.parse() {
        Ok(number @ 1..=1_000_000) => Ok(number),
        _ => Err("one call of how many: 1/100 (up to 1/1000000)".into()),
    }
}

/// `fd:3`
pub(super) fn is_descriptor(output: &Path) -> bool {
    let number = output.to_str().and_then(|name| name.strip_prefix("fd:"));
    number.is_some_and(|number| number.parse::<i32>().is_ok_and(|number| number >= 0))
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

/// A user's name or number.
pub fn user(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let name = CString::new(text).map_err(|_| "no name of a user".to_owned())?;
    // SAFETY: the name ends in NUL; nobody else asks at the same time, arguments are read by one thread.
    let found = unsafe { libc::getpwnam(name.as_ptr()).as_ref() };
    let found = found.map(|entry| entry.pw_uid);
    found.ok_or_else(|| "there is no such user here".into())
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
    fn users_have_names_and_numbers() {
        assert_eq!((user("1234"), user("root")), (Ok(1234), Ok(0)));
        assert!(user("nobody of this name").is_err());
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
