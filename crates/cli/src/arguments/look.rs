//! The verbs that look at a trace: report, timeline, replay, view, diff, and the tour of them all.

use super::{
    shared::{FilterLine, JsonLine, NamesLine, TracesLine},
    times, usage,
};
use clap::ValueEnum;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// How text looks.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Look {
    /// When to use colours; auto: on a terminal
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// Use ASCII characters only
    #[arg(long)]
    pub ascii: bool,
    /// Columns to fill; by default the terminal's
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..))]
    pub width: Option<u16>,
    #[command(flatten)]
    pub names: NamesLine,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// A part of a trace, by time.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Window {
    /// Begin this long after the start of the trace: 12.5ms, 1.2s
    #[arg(long, value_name = "TIME", value_parser = times::with_unit)]
    pub from: Option<Duration>,
    /// End this long after the start of the trace
    #[arg(long, value_name = "TIME", value_parser = times::with_unit)]
    pub to: Option<Duration>,
}

/// A section of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The most important of all sections
    Summary,
    /// Functions and kernels by time, and the longest operations
    Top,
    /// Who calls what: functions under their callers, with counts and times
    Calls,
    /// Time by category, layer, process, thread and stream
    Categories,
    /// PyTorch's operators: counts, host time and the GPU work inside
    Operators,
    /// PyTorch's modules: forward time, and GPU work of forward and backward (record with --modules)
    Modules,
    /// Steps of a training loop, as PyTorch marks them
    Steps,
    /// When the GPU had nothing to do, and what the host did then
    Idle,
    /// Allocations, the high-water mark, leaks
    Memory,
    /// Copies by direction and size
    Transfers,
    /// Contexts and the switches between them
    Contexts,
    /// System calls into the driver, and time by layer
    Ioctls,
    /// What the GPU did
    Gpu,
    /// What is worth changing, most expensive first
    Findings,
    /// What was hooked, what was not, what was lost
    Coverage,
}

impl Part {
    /// The section of this name.
    pub fn named(name: &str) -> Option<Self> {
        Part::from_str(name, false).ok()
    }

    /// What the sections are called.
    pub fn names() -> Vec<String> {
        let values = Part::value_variants().iter();
        values
            .filter_map(|part| Some(part.to_possible_value()?.get_name().to_owned()))
            .collect()
    }
}

pub struct ReportOptions {
    pub part: Part,
    pub traces: Vec<PathBuf>,
    pub json: bool,
    pub look: Look,
}

pub struct Timeline {
    pub traces: Vec<PathBuf>,
    pub window: Window,
    /// An event to look at, by its op_id.
    pub around: Option<u64>,
    pub depth: Option<u32>,
    pub look: Look,
}

pub struct Replay {
    pub traces: Vec<PathBuf>,
    pub window: Window,
    pub filter: Option<String>,
    pub pid: Option<u32>,
    pub tid: Option<u32>,
    /// Every query has its line.
    pub full: bool,
    pub look: Look,
}

pub struct Cat {
    pub traces: Vec<PathBuf>,
}

pub struct View {
    pub traces: Vec<PathBuf>,
    /// One timeline of all of them.
    pub merge: bool,
    /// On 127.0.0.1; 0 is any that is free.
    pub port: u16,
    /// Start a browser.
    pub open: bool,
}

pub struct Diff {
    pub before: PathBuf,
    pub after: PathBuf,
    pub fail_on: Vec<String>,
    pub json: bool,
    pub look: Look,
}

/// The tour.
pub struct Demo {
    /// On this machine's GPU rather than on softgpu.
    pub gpu: bool,
    /// Where its files go.
    pub folder: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct DemoLine {
    /// Run on this machine's GPU instead of softgpu
    #[arg(long)]
    gpu: bool,
    /// Where to put the trace and what is made from it; by default traces/demo
    #[arg(short = 'o', long = "output", value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl DemoLine {
    pub fn options(self) -> Demo {
        Demo {
            gpu: self.gpu,
            folder: self.folder,
        }
    }
}

impl Window {
    fn checked(self) -> Self {
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from >= to
        {
            usage(&format!("--from {from:?} is not before --to {to:?}"));
        }
        self
    }

    /// Its ends, nanoseconds since the trace's start.
    pub fn since_start(self) -> (Option<u64>, Option<u64>) {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        (self.from.map(nanoseconds), self.to.map(nanoseconds))
    }
}

#[derive(clap::Args)]
pub struct ReportLine {
    /// A section: summary (the default), top, calls, categories, operators, modules, steps, idle, memory, transfers, contexts, ioctls, gpu, findings or
    /// coverage. And the traces to read (.jsonl or .arrows, '-' for standard input); several are merged by time. By default
    /// the newest in traces/
    #[arg(value_name = "PART|TRACE")]
    words: Vec<PathBuf>,
    #[command(flatten)]
    json: JsonLine,
    #[command(flatten)]
    look: Look,
}

#[derive(clap::Args)]
pub struct TimelineLine {
    #[command(flatten)]
    traces: TracesLine,
    #[command(flatten)]
    window: Window,
    /// Show what happens around this event (its op_id)
    #[arg(long, value_name = "EVENT", conflicts_with_all = ["from", "to"])]
    around: Option<u64>,
    /// Show nested calls down to this depth, a row each
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    #[command(flatten)]
    look: Look,
}

#[derive(clap::Args)]
pub struct ReplayLine {
    #[command(flatten)]
    traces: TracesLine,
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    filter: FilterLine,
    /// Only the process of this number
    #[arg(long, value_name = "PID", alias = "pid")]
    process: Option<u32>,
    /// Only the thread of this number
    #[arg(long, value_name = "TID", alias = "tid")]
    thread: Option<u32>,
    /// Show every call, also runs of the same query
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    look: Look,
}

#[derive(clap::Args)]
pub struct CatLine {
    #[command(flatten)]
    traces: TracesLine,
}

#[derive(clap::Args)]
pub struct ViewLine {
    /// The trace to read, by default the newest in traces/; two are compared
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Put the traces into one timeline instead of comparing them
    #[arg(long)]
    merge: bool,
    /// The port on 127.0.0.1; by default any free one
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Print the address, and start no browser
    #[arg(long)]
    no_open: bool,
}

#[derive(clap::Args)]
pub struct DiffLine {
    /// The trace to compare with
    #[arg(value_name = "A")]
    before: PathBuf,
    /// The trace that may have changed
    #[arg(value_name = "B")]
    after: PathBuf,
    /// Exit with 1 if this holds: 'total>+5%', 'cuMemAlloc_v2.count>100' (repeatable)
    #[arg(long, value_name = "CONDITION")]
    fail_on: Vec<String>,
    #[command(flatten)]
    json: JsonLine,
    #[command(flatten)]
    look: Look,
}

/// A word that is no file may be a misspelt section.
fn not_a_trace(word: &Path, part: Option<Part>) {
    let Some(word) = word.to_str() else {
        return;
    };
    let names = Part::names();
    match part {
        Some(_) if names.iter().any(|name| name == word) => {
            usage("report prints one section at a time: cutrace report PART TRACE")
        }
        None => {
            if let Some(meant) = names::misspelt(word, names.iter().map(String::as_str)) {
                let all = names.join(", ");
                usage(&format!(
                    "there is no section and no trace called '{word}'; did you mean {meant}? Sections: {all}"
                ))
            }
        }
        Some(_) => {}
    }
}

impl ReportLine {
    pub fn options(self) -> ReportOptions {
        let mut words = self.words;
        // In either order; a file that is called like a part is one behind its part.
        let of = |word: &PathBuf| Part::named(word.to_str()?);
        let place = words.iter().position(|word| of(word).is_some());
        let part = place.and_then(|place| of(&words.remove(place)));
        if let Some(wrong) = words.iter().find(|word| !word.exists()) {
            not_a_trace(wrong, part);
        }
        ReportOptions {
            part: part.unwrap_or(Part::Summary),
            traces: words,
            json: self.json.json,
            look: self.look,
        }
    }
}

impl TimelineLine {
    pub fn options(self) -> Timeline {
        Timeline {
            traces: self.traces.traces,
            window: self.window.checked(),
            around: self.around,
            depth: self.depth,
            look: self.look,
        }
    }
}

impl ReplayLine {
    pub fn options(self) -> Replay {
        Replay {
            traces: self.traces.traces,
            window: self.window.checked(),
            filter: self.filter.filter,
            pid: self.process,
            tid: self.thread,
            full: self.full,
            look: self.look,
        }
    }
}

impl CatLine {
    pub fn options(self) -> Cat {
        Cat {
            traces: self.traces.traces,
        }
    }
}

impl ViewLine {
    pub fn options(self) -> View {
        View {
            traces: self.traces,
            merge: self.merge,
            port: self.port,
            open: !self.no_open,
        }
    }
}

impl DiffLine {
    pub fn options(self) -> Diff {
        Diff {
            before: self.before,
            after: self.after,
            fail_on: self.fail_on,
            json: self.json.json,
            look: self.look,
        }
    }
}
