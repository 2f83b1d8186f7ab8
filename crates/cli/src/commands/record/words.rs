//! What is said about a run: its summary, what was missed and why.

use super::{backend::Watched, destination, outlet::Outlet, room};
use crate::arguments::Record;
use capture::{
    SinkError,
    launch::Exit,
    notes::Notes,
    preload::{Filter, Library, Process, missing},
};
use event::{Aggregate, ClockError, Hooks, Overhead, ProcessName};
use render::RunSummary;
use std::{
    env,
    ffi::{CStr, OsStr},
    fmt::Write as _,
    fs::{self, File},
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

const ON_SOFTGPU: &str = "the device was softgpu, a software one: times are not a GPU's";
/// What begins the reason for it.
const NO_CALL: &str = "no CUDA call: ";

/// What all back ends together have to say.
#[derive(Default)]
pub struct Together {
    pub notes: Vec<String>,
    pub details: String,
    libraries: Vec<(String, Hooks)>,
    pub processes: Vec<ProcessName>,
    pub clocks: Vec<ClockError>,
    pub aggregates: Vec<Aggregate>,
    pub not_sampled: u64,
    pub overhead: Option<Overhead>,
    tracer_cpu: Duration,
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

impl Together {
    /// What a process is called; it may have become another program since, and one source knows more than another.
    pub fn name(&mut self, process: ProcessName) {
        let known = self.processes.iter_mut().find(|it| it.pid == process.pid);
        match known {
            None if !process.name.is_empty() => self.processes.push(process),
            Some(known) if !process.command.is_empty() => {
                let parent = process.parent.or(known.parent);
                *known = ProcessName { parent, ..process };
            }
            _ => {}
        }
    }
}

/// Their outlets, and the rest of it added up.
pub fn together(watched: Vec<Watched>) -> (Vec<Outlet>, Together) {
    let mut all = Together::default();
    let mut outlets = Vec::new();
    for one in watched {
        outlets.push(one.outlet);
        all.notes.extend(one.notes);
        all.details.push_str(&one.details);
        all.libraries.extend(one.libraries);
        one.processes
            .into_iter()
            .for_each(|process| all.name(process));
        all.clocks.extend(one.clocks);
        all.aggregates.extend(one.aggregates);
        all.not_sampled += one.not_sampled;
        all.overhead = all.overhead.or(one.overhead);
        all.tracer_cpu += one.tracer_cpu;
        all.unwritten += one.unwritten;
        all.failure = all.failure.or(one.failure);
    }
    (outlets, all)
}

pub fn summary(
    options: &Record,
    watched: Together,
    said: analyse::Report,
    (trace, packed): (&Path, Option<u64>),
    (exit, elapsed): (Exit, Duration),
) -> RunSummary {
    let mut notes: Vec<String> = end(exit).into_iter().collect();
    if options.simulate
        && exit != Exit::Code(0)
        && watched
            .libraries
            .iter()
            .any(|(name, _)| name == "[program]")
    {
        notes.push(
            "the CUDA runtime is built into the program, as nvcc does by default, and softgpu \
             cannot serve it yet: build with nvcc -cudart shared"
                .into(),
        );
    }
    // A note is a line.
    notes.extend(watched.notes.iter().map(|note| note.replace('\n', "; ")));
    for (option, spec) in [("-e ", &options.filter), ("--stack=", &options.stacks)] {
        if let Some(filter) = spec.as_deref().map(Filter::parse)
            && options.libraries.is_empty()
        {
            notes.extend(filter.meaningless().map(|item| {
                format!("{option}{item}: no category, no layer and no function that cutrace knows")
            }));
        }
    }
    if let Some(filter) = &options.filter {
        notes.push(format!(
            "-e {filter}: calls that do not match were left out"
        ));
    }
    if !options.min_duration.is_zero() {
        notes.push(format!(
            "calls shorter than {:?} were left out",
            options.min_duration
        ));
    }
    if options.sample > 1 {
        notes.push(format!(
            "--sample 1/{}: {} calls were made and not recorded; counts and times of API calls are those of the sample",
            options.sample,
            render::units::count(watched.not_sampled)
        ));
    }
    if let Some(limit) = options.duration {
        notes.push(if options.pid.is_some() || options.everyone {
            format!("-d: nothing was traced after the first {limit:?}")
        } else {
            format!("calls after the first {limit:?} were left out")
        });
    }
    if options.simulate {
        notes.push(ON_SOFTGPU.into());
    }
    RunSummary {
        report: said,
        libraries: watched.libraries,
        tracer_cpu: watched.tracer_cpu,
        overhead: watched.overhead,
        elapsed,
        trace: match packed {
            None => destination::in_words(trace),
            Some(past) => format!(
                "{} (past {}, so written as Arrow; `cutrace cat` prints it as JSON lines)",
                trace.display(),
                room::size(past)
            ),
        },
        notes,
    }
}

/// Instead of a summary full of zeros: that nothing was recorded, and why.
pub fn nothing(options: &Record, run: &RunSummary) -> Option<String> {
    let summary = run.report.summary.as_ref()?;
    // Samples of the GPUs say nothing of the program.
    // Lines on a terminal are counted by the analysis alone.
    let is_empty = summary.counts.keys().all(|kind| kind == "counter")
        && summary.open == 0
        && run.report.overview.counts.api_calls == 0;
    if !is_empty || summary.lost > 0 || !summary.aggregates.is_empty() {
        return None;
    }
    let why = run.notes.iter().find_map(|note| note.strip_prefix(NO_CALL));
    let why = match why {
        Some(why) => format!("{NO_CALL}{why}"),
        None if !run.report.calls_watched() => {
            let names: Vec<_> = (run.report.meta.backends.iter())
                .map(|backend| backend.name.as_str())
                .collect();
            format!("nothing was recorded (by {})", names.join(", "))
        }
        None if options.filter.is_some() => format!("{NO_CALL}none matched -e"),
        None => {
            let hooked: u64 = run.libraries.iter().map(|(_, hooks)| hooks.attached).sum();
            format!("{NO_CALL}{hooked} functions were hooked, and none was called")
        }
    };
    let mut text = format!("cutrace: {}\n", render::printable(&why));
    for note in &run.notes {
        if !note.starts_with(NO_CALL) && note != ON_SOFTGPU {
            let _ = writeln!(text, "Note: {}", render::printable(note));
        }
    }
    let _ = writeln!(text, "Trace: {}", render::printable(&run.trace));
    Some(text)
}

/// What to type next, where there is something to see.
pub fn next(options: &Record, run: &RunSummary, trace: &Path, unicode: bool) -> Option<String> {
    if destination::is_stream(trace) || run.report.overview.events == 0 {
        return None;
    }
    // The newest trace in traces/ needs no name.
    let name = match options.output.is_none() && trace.starts_with("traces") {
        true => String::new(),
        false => format!(" {}", quoted(trace)),
    };
    let part = match run.report.findings.is_empty() {
        true => "top",
        false => "findings",
    };
    let verbs = ["timeline", "view", &format!("report {part}")];
    let verbs = verbs.map(|verb| format!("cutrace {verb}{name}"));
    let between = if unicode { " · " } else { " | " };
    Some(format!(
        "Next: {}\n",
        render::printable(&verbs.join(between))
    ))
}

/// As a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%=,".contains(&byte);
    match text.bytes().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Options by which calls are left out of the trace.
pub fn left_out(options: &Record) -> Vec<String> {
    let filter = options.filter.iter().map(|filter| format!("-e {filter}"));
    let short = (!options.min_duration.is_zero())
        .then(|| format!("--min-duration {:?}", options.min_duration));
    let sample = (options.sample > 1).then(|| format!("--sample 1/{}", options.sample));
    filter.chain(short).chain(sample).collect()
}

/// How the command ended, unless all is well.
fn end(exit: Exit) -> Option<String> {
    match exit {
        Exit::Code(0) => None,
        Exit::Code(code) => Some(format!("the program exited with {code}")),
        Exit::Signal(signal) => {
            // SAFETY: it returns a text that ends, or null; nobody else asks at the same time.
            let name = unsafe { libc::strsignal(signal) };
            let name = (!name.is_null())
                // SAFETY: as above; it is copied before anybody can ask again.
                .then(|| {
                    unsafe { CStr::from_ptr(name) }
                        .to_string_lossy()
                        .into_owned()
                });
            let name = name.unwrap_or_else(|| "unknown".into());
            Some(format!("the program was ended by signal {signal} ({name})"))
        }
    }
}

/// What to say, a line for each kind of thing; one by one for `-v`.
pub fn lines(notes: &Notes, details: &mut String) -> Vec<String> {
    for line in notes.details() {
        let _ = writeln!(details, "cutrace: {line}");
    }
    notes.lines()
}

/// Lines for the curious: who was watched, and what was hooked.
pub fn hooked(processes: &[Process], libraries: &[Library]) -> String {
    let mut lines = String::new();
    for process in processes {
        let _ = writeln!(
            lines,
            "cutrace: process {} (of {}) {}",
            process.pid, process.parent, process.exe
        );
    }
    for library in libraries {
        let _ = writeln!(
            lines,
            "cutrace: {}: {} of {} functions hooked ({})",
            library.path, library.hooked, library.exported, library.method
        );
    }
    for line in missing(libraries) {
        let _ = writeln!(lines, "cutrace: {line}");
    }
    lines
}

/// Each library's name, with what of it was hooked.
pub fn hooks(libraries: &[Library]) -> Vec<(String, Hooks)> {
    let of = |library: &Library| {
        let hooks = Hooks {
            attached: library.hooked,
            total: library.exported,
        };
        (library.short_name().to_owned(), hooks)
    };
    libraries.iter().map(of).collect()
}

/// Nothing was hooked: the likeliest reason that can be seen from here.
pub fn why_nothing(options: &Record) -> String {
    let (program, simulated) = (&options.program, options.simulate);
    let cannot = "and cannot be traced from inside";
    let Some(path) = found_in_path(program) else {
        return format!("{NO_CALL}the program loaded no CUDA library");
    };
    let name = path.display();
    let mode = fs::metadata(&path).map_or(0, |found| found.permissions().mode());
    if mode & 0o6000 != 0 {
        return format!("{NO_CALL}{name} changes its user when it starts {cannot}");
    }
    if is_static(&path) == Some(true) {
        return format!("{NO_CALL}{name} is statically linked {cannot}");
    }
    let mut words = format!(
        "{NO_CALL}the program loaded no CUDA library (libcuda, libcudart), or did so in a process that \
         cutrace could not follow (a cleared environment; a container: run cutrace inside it)"
    );
    if let [(library, functions), ..] = &*options.libraries {
        let _ = write!(
            words,
            "; nor a library {library} with functions {functions} whose entries can be changed (--lib)"
        );
    }
    if !simulated && !Path::new("/proc/driver/nvidia").exists() {
        words.push_str("; no NVIDIA driver is loaded here: --sim runs CUDA programs on softgpu");
    }
    words
}

pub fn found_in_path(program: &OsStr) -> Option<PathBuf> {
    let path = PathBuf::from(program);
    if path.components().count() > 1 {
        return path.is_file().then_some(path);
    }
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Whether an ELF program asks for no loader; None for scripts and what cannot be read.
fn is_static(path: &Path) -> Option<bool> {
    let mut head = Vec::new();
    File::open(path)
        .ok()?
        .take(64 << 10)
        .read_to_end(&mut head)
        .ok()?;
    if head.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let number = |at: usize, size: usize| {
        let mut word = [0; 8];
        word[..size].copy_from_slice(head.get(at..at.checked_add(size)?)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    };
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    const INTERPRETER: usize = 3;
    for entry in 0..count {
        if number(table.checked_add(entry.checked_mul(size)?)?, 4)? == INTERPRETER {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_dynamically_linked_and_a_script_is_neither() {
        let own = env::current_exe().expect("known");
        assert_eq!(is_static(&own), Some(false));
        assert_eq!(is_static(Path::new(file!())), None);
        assert_eq!(is_static(Path::new("/nonexistent")), None);
        assert!(found_in_path(OsStr::new("sh")).is_some());
    }

    #[test]
    fn an_end_is_told_unless_all_is_well() {
        assert_eq!(end(Exit::Code(0)), None);
        let words = |exit| end(exit).unwrap_or_default();
        assert_eq!(words(Exit::Code(3)), "the program exited with 3");
        assert!(
            words(Exit::Signal(libc::SIGSEGV)).starts_with("the program was ended by signal 11 (")
        );
    }
}
