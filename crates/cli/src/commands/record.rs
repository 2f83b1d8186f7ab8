//! `cutrace record`: run a command and write down what it and its children do.

mod allocations;
mod backend;
mod broken;
mod check;
mod cupti;
pub mod destination;
mod ebpf;
mod fecs;
mod file;
mod kernel;
pub mod latest;
mod meta;
mod nvml;
mod nvtx;
mod outlet;
mod pack;
mod plan;
mod preload;
mod probe_records;
mod probes;
mod progress;
mod redact;
mod room;
mod sought;
mod syscall;
pub mod user;
mod uvm;
mod window;
mod words;

use super::{gpu::Unprobed, softgpu::add_softgpu, style::stderr_style};
use crate::{
    arguments::{Method, Methods, Record},
    embedded,
    say::{self, say},
};
use anyhow::{Context, Result};
use backend::{Backend, Watched};
use capture::{
    Deadline, SinkError,
    clock::monotonic,
    cupti::{Calls, CuptiError, Tap},
    launch::{self, Exit, LaunchError, Preparation},
    preload::PreloadError,
    process_name,
};
use event::ProcessName;
use file::TraceFile;
pub use kernel::folders as library_folders;
use outlet::Outlet;
pub use probes::Found;
use progress::{Progress, Stage};
use render::RunSummary;
use std::{
    fmt::Write as _,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};
use window::Window;

/// A user who waits longer than this wonders what for.
const WORTH_SAYING: Duration = Duration::from_millis(500);

/// A run that was traced.
pub struct Recorded {
    pub exit: Exit,
    /// Where the trace is.
    pub path: PathBuf,
    pub summary: RunSummary,
    /// Events that are not in the trace and should be.
    lost: u64,
    details: String,
    /// What probes inside kernels found.
    pub found: Option<Found>,
}

pub fn run(options: Record) -> Result<ExitCode> {
    let recorded = match record(&options) {
        Err(why) if is_no_place(&why) && by_itself(&options) => {
            say!(
                "cutrace: {}\ncutrace: the program runs, and is not traced",
                crate::in_words(&why)
            );
            return untraced(&options);
        }
        recorded => recorded?,
    };
    say(&options, &recorded);
    if options.summary && !options.quiet {
        let next = words::next(
            &options,
            &recorded.summary,
            &recorded.path,
            stderr_style().unicode,
        );
        say::painted(&next.unwrap_or_default());
    }
    strict(&options, &recorded).pass_on()
}

/// How cutrace ends: as the program, unless the trace had to be whole and is not.
fn strict(options: &Record, recorded: &Recorded) -> Exit {
    if !options.strict || recorded.lost == 0 || recorded.exit != Exit::Code(0) {
        return recorded.exit;
    }
    say!("cutrace: --strict: {} events were lost", recorded.lost);
    Exit::Code(LaunchError::OWN_FAILURE.into())
}

/// Whether the command runs as who we are.
pub fn is_own(options: &Record) -> Result<bool> {
    Ok(user::of_command(options)?.is_none())
}

/// Nobody asked for a certain way to trace, which would be missed.
fn by_itself(options: &Record) -> bool {
    matches!(options.methods, Methods::Auto | Methods::All)
        && options.pid.is_none()
        && !options.everyone
}

/// Nothing is wrong but that there is nowhere to keep what is recorded, or what records it.
fn is_no_place(error: &anyhow::Error) -> bool {
    let no_folder = |error: &PreloadError| {
        matches!(
            error,
            PreloadError::NoFolder(_) | PreloadError::Options { .. }
        )
    };
    error.chain().any(|cause| {
        cause.is::<embedded::NoPlace>()
            || cause.is::<destination::NoTrace>()
            || cause.downcast_ref::<PreloadError>().is_some_and(no_folder)
            || matches!(cause.downcast_ref(), Some(CuptiError::Folder(why)) if no_folder(why))
    })
}

/// The command as it is, with its own end.
fn untraced(options: &Record) -> Result<ExitCode> {
    let mut command = launch::Command {
        program: options.program.clone(),
        args: options.arguments.clone(),
        environment: Vec::new(),
    };
    let user = user::of_command(options)?.map(|other| {
        command.environment.extend(other.environment);
        other.user
    });
    let mut window = Window::new(None);
    let mut run = Run {
        simulate: options.simulate,
        window: &mut window,
        process: &AtomicU32::new(0),
    };
    launched(&mut command, user, &mut [], &mut run)?.pass_on()
}

/// What a run that was traced has to say at its end.
pub fn say(options: &Record, recorded: &Recorded) {
    if options.verbose {
        say::text(&recorded.details);
    }
    if options.summary && !options.quiet {
        let text = words::nothing(options, &recorded.summary).unwrap_or_else(|| {
            format!(
                "\n{}",
                render::summary_text(&recorded.summary, &stderr_style())
            )
        });
        say::painted(&text);
    }
}

/// Runs the command and writes its trace.
pub fn record(options: &Record) -> Result<Recorded> {
    check::options(options)?;
    let mut plan = plan::of(options)?;
    // Rings, BPF objects and their maps: more files than some shells allow. The command gets its own limit back.
    capture::files::raise_limit();
    let place = probes::Place::default();
    if options.probes.is_some() {
        plan.methods.push(Method::Probes);
        embedded::gpu_probes_library()?;
    }
    // Unpacked before the trace's clock starts: the first run takes a moment for it.
    if plan.methods.contains(&Method::Preload) {
        embedded::preload_library()?;
    }
    if plan.methods.iter().any(|method| method.tells_gpu_times()) {
        embedded::gpu_times_library()?;
    }
    if options.simulate {
        embedded::softgpu_folder()?;
    }
    let mut file = TraceFile::create(
        options.output.as_deref(),
        meta::of_run(options, monotonic()),
        options.summary && !options.quiet,
    )?;
    file.limit(options.max_size);
    if options.redact {
        file.redact();
    }
    if (options.probes.as_ref()).is_some_and(|probes| probes.tells_addresses()) {
        file.watch_allocations();
    }
    if options.probes.is_some() {
        file.watch_launches();
        file.show_device_events();
    }
    let other = match options.pid.is_none() && !options.everyone {
        true => user::of_command(options)?,
        false => None,
    };
    let (path, new, seen) = (file.path().to_owned(), file.is_new(), file.seen());
    // What is drawn there could end up in the middle of somebody's words.
    let is_command = options.pid.is_none() && !options.everyone;
    let is_live = path == Path::new(destination::STDOUT) && io::stdout().is_terminal();
    let progress = (!options.quiet && !is_live)
        .then(|| Progress::start(seen.clone(), is_command))
        .flatten();
    let process = file.process();
    let mut window = match options.pid.is_some() || options.everyone {
        true => Window::new(options.duration).attaching(),
        false => Window::new(options.duration),
    };
    let sources = Sources {
        methods: &plan.methods,
        place: &place,
        only_requests: plan.only_requests,
        deadline: window.deadline().clone(),
    };
    let ran = watched_run(options, &sources, file, |backends| {
        let mut command = launch::Command {
            program: options.program.clone(),
            args: options.arguments.clone(),
            environment: Vec::new(),
        };
        let user = other.map(|other| {
            command.environment.extend(other.environment);
            other.user
        });
        let began = Instant::now();
        let exit = match options.pid {
            Some(pid) => attached(pid, options.duration, backends, &mut window),
            None if options.everyone => {
                window.open();
                launch::until_enough(options.duration);
                window.close();
                Ok(Exit::Code(0))
            }
            None => {
                let mut run = Run {
                    simulate: options.simulate,
                    window: &mut window,
                    process: &process,
                };
                launched(&mut command, user, backends, &mut run)
            }
        };
        // Here the run ends: what cutrace does afterwards is no time of the program's.
        let ended = monotonic();
        seen.does(Stage::Writing);
        exit.map(|exit| (exit, began.elapsed(), ended))
    });
    let ((exit, elapsed, ended), mut file, mut watched) = match ran {
        Ok(ran) => ran,
        Err(error) => {
            // Nothing ran: an empty trace would only be in the way.
            if new {
                let _ = std::fs::remove_file(&path);
                let left = path.parent().and_then(super::input::newest);
                latest::forget(&path, left.as_deref());
            }
            return Err(error);
        }
    };
    let mut found = place
        .lock()
        .unwrap_or_else(|broken| broken.into_inner())
        .take();
    if let (Some(found), Some(launched)) = (&mut found, file.launched()) {
        found.unprobed = Unprobed::of(&found.notes, &launched);
        watched.notes.extend_from_slice(&found.unprobed.notes);
        for line in &found.unprobed.details {
            let _ = writeln!(watched.details, "cutrace: {line}");
        }
    }
    if let (Some(found), Some(allocations)) = (&mut found, file.allocations()) {
        watched.notes.extend(found.name_accesses(&allocations));
        if watched.failure.is_none()
            && let Err(why) = found.write_accesses(&mut file, allocations.last_id)
        {
            watched.failure = Some(why);
        }
    }
    name_command(options, process.load(Ordering::Relaxed), &mut watched);
    let unwritten = watched.unwritten;
    let finished = file.finish(|summary| {
        summary.end_ns = summary.end_ns.max(ended);
        summary.exit = Some(status(exit));
        summary.clocks = watched.clocks.clone();
        summary.overhead = watched.overhead.clone();
        summary.watched = window.watched(ended);
        summary.processes = watched.processes.clone();
        summary.left_out = words::left_out(options);
        summary.aggregates = watched.aggregates.clone();
        summary.sampled = (options.sample > 1).then_some(event::Sampled {
            one_of: options.sample,
            not_recorded: watched.not_sampled,
        });
        // A back end that had nowhere to write.
        summary.lost = summary.lost.saturating_add(unwritten);
    });
    drop(progress);
    let failure = finished.failure.or(watched.failure.take());
    if let Some(failure) = failure.filter(|failure| !nobody_reads(&path, failure)) {
        let mut missing = finished.missing;
        missing.events = missing.events.saturating_add(unwritten);
        say!(
            "cutrace: the trace in {} ends early: {failure} ({missing})",
            destination::in_words(&path)
        );
    }
    if !options.summary || options.quiet {
        // A trace that ends early is worth a word in any case.
        for note in finished
            .notes
            .iter()
            .filter(|note| note.starts_with(file::STOPPED))
        {
            say!("cutrace: {note}");
        }
    }
    watched.notes.extend(finished.notes);
    let (path, packed) = (finished.path, finished.packed);
    let after = Duration::from_nanos(monotonic().saturating_sub(ended));
    if after >= WORTH_SAYING {
        watched.notes.push(format!(
            "writing the trace took {:.1} s after the program had ended",
            after.as_secs_f64()
        ));
    }
    let (lost, said) = (finished.lost, finished.report);
    watched.notes.extend(plan.left_out);
    Ok(Recorded {
        found,
        exit,
        lost,
        details: std::mem::take(&mut watched.details),
        summary: words::summary(options, watched, said, (&path, packed), (exit, elapsed)),
        path,
    })
}

/// What a run is watched by.
struct Sources<'a> {
    methods: &'a [Method],
    place: &'a probes::Place,
    /// ebpf records system calls only.
    only_requests: bool,
    /// When all of them stop.
    deadline: Deadline,
}

/// Starts the back ends, does `run` under their eyes, and brings together what they saw.
fn watched_run<T>(
    options: &Record,
    sources: &Sources<'_>,
    file: TraceFile,
    run: impl FnOnce(&mut [Box<dyn Backend + '_>]) -> Result<T>,
) -> Result<(T, TraceFile, words::Together)> {
    let methods = sources.methods;
    let names: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
    let (outlets, joint) = outlet::outlets(file, &names)?;
    let mut backends = Vec::new();
    // Calls are looked at on their way only where somebody asks for them.
    let tells = methods.iter().any(|method| method.tells_gpu_times());
    let calls = tells.then(|| Calls::default().with_waits(options.waits));
    for (&method, outlet) in methods.iter().zip(outlets) {
        backends.push(start(options, sources, method, outlet, calls.as_ref())?);
    }
    let ran = run(&mut backends);
    let watched: Vec<Watched> = backends.into_iter().filter_map(Backend::finish).collect();
    let ran = ran?;
    let (outlets, mut together) = words::together(watched);
    let (file, joined) = joint.finish(outlets)?;
    together.unwritten += joined.unwritten;
    together.failure = together.failure.or(joined.failure);
    Ok((ran, file, together))
}

fn start<'a>(
    options: &'a Record,
    sources: &Sources<'_>,
    method: Method,
    outlet: Outlet,
    calls: Option<&Calls>,
) -> Result<Box<dyn Backend + 'a>> {
    let deadline = &sources.deadline;
    match method {
        Method::Preload => {
            let tap = Tap::new(outlet, calls.cloned());
            Ok(Box::new(preload::Preload::start(options, tap, deadline)?))
        }
        Method::Cupti | Method::Events => {
            let calls = calls.cloned().unwrap_or_default();
            Ok(Box::new(cupti::Cupti::start(
                options, method, outlet, calls, deadline,
            )?))
        }
        Method::Syscall => Ok(Box::new(syscall::Syscall::start(
            options, outlet, deadline,
        )?)),
        Method::Kernel => Ok(Box::new(kernel::Kernel::start(options, outlet, deadline)?)),
        Method::Probes => match &options.probes {
            Some(probes) => Ok(Box::new(probes::ProbesBackend::start(
                probes.clone(),
                outlet,
                sources.place.clone(),
                options.folder(),
            )?)),
            None => anyhow::bail!("cutrace gpu puts probes into kernels"),
        },
        Method::Ebpf => {
            // Calls that preload sees from inside are not recorded twice.
            let calls = !sources.only_requests && !sources.methods.contains(&Method::Preload);
            Ok(Box::new(ebpf::Ebpf::start(
                options, calls, outlet, deadline,
            )?))
        }
        Method::Uvm => Ok(Box::new(uvm::Uvm::start(options, outlet, deadline)?)),
        Method::Nvml => Ok(Box::new(nvml::Nvml::start(outlet, deadline)?)),
        Method::Fecs => Ok(Box::new(fecs::Fecs::start(outlet, deadline)?)),
    }
}

/// A command that is about to begin.
struct Run<'a> {
    simulate: bool,
    window: &'a mut Window,
    /// Where its process id goes.
    process: &'a AtomicU32,
}

/// The command is called what was typed, unless somebody has seen what it became.
fn name_command(options: &Record, pid: u32, watched: &mut words::Together) {
    let named = match options.pid {
        Some(pid) => process_name::of_running(pid),
        None => {
            let command = meta::command(options);
            (pid != 0).then(|| ProcessName {
                pid,
                parent: None,
                name: process_name::short(&command, "", ""),
                command,
            })
        }
    };
    let is_known = |pid| watched.processes.iter().any(|known| known.pid == pid);
    if let Some(named) = named.filter(|named| !is_known(named.pid)) {
        watched.name(named);
    }
    watched.processes.sort_by_key(|known| known.pid);
}

/// Runs the command to its end.
fn launched(
    command: &mut launch::Command,
    user: Option<launch::User>,
    backends: &mut [Box<dyn Backend + '_>],
    run: &mut Run<'_>,
) -> Result<Exit> {
    for backend in backends.iter_mut() {
        command.environment.extend(backend.environment()?);
    }
    if run.simulate {
        add_softgpu(command)?;
    }
    // Those inside of the program are there before it begins: then the whole run is watched.
    let attaches = backends.iter().any(|backend| backend.holds());
    if !attaches && run.window.is_limited() {
        run.window.open();
    }
    if user.is_none() && !attaches {
        let started = |pid| run.process.store(pid, Ordering::Relaxed);
        return Ok(launch::run_with(command, started)?);
    }
    let mut preparation = Preparation {
        user,
        ..Preparation::default()
    };
    for backend in backends.iter_mut() {
        backend.prepare(&mut preparation)?;
    }
    let mut held = launch::hold(command, &preparation)?;
    run.process.store(held.pid(), Ordering::Relaxed);
    for backend in backends.iter_mut() {
        backend.attach(held.pid())?;
    }
    if attaches {
        run.window.open();
    }
    held.release()?;
    held.wait().map_err(|error: LaunchError| error.into())
}

/// Watches a process that runs already.
fn attached(
    pid: u32,
    limit: Option<Duration>,
    backends: &mut [Box<dyn Backend + '_>],
    window: &mut Window,
) -> Result<Exit> {
    for backend in backends.iter_mut() {
        backend.attach(pid)?;
    }
    window.open();
    launch::outlast(pid, limit).with_context(|| format!("process {pid}"))?;
    window.close();
    Ok(Exit::Code(0))
}

/// The trace went to a reader who has read enough.
fn nobody_reads(path: &Path, failure: &SinkError) -> bool {
    failure.is_broken_pipe() && destination::is_stream(path)
}

/// What a shell would say of it.
fn status(exit: Exit) -> i32 {
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
    }
}
