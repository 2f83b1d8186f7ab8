//! A run under its sources' eyes: they are started, the command runs or a process is attached to, and what they saw
//! is brought together.

use super::{
    Joining, Outcome, Plan, RunError, RunOptions, Running, Subject, Together, outlet::outlets,
    window::Window,
};
use crate::{
    clock::monotonic,
    cupti::Calls,
    launch::{self, Exit, Preparation},
    live::{Gates, WindowStage, window::TimeKeeper},
    process_name,
    trace_file::{Stage, TraceFile},
};
use event::{ProcessName, Watched};
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

/// A run that is over.
pub struct Ran {
    pub exit: Exit,
    /// The program's own time.
    pub elapsed: Duration,
    /// When the run ended: what cutrace does afterwards is no time of the program's.
    pub ended: u64,
    /// When every source watched, if that is not the whole run.
    pub watched: Option<Watched>,
    /// The trace, with all records in it.
    pub file: TraceFile,
    pub said: Together,
}

/// Watches a run by the sources of a plan.
pub fn record(run: &RunOptions, plan: &Plan, mut file: TraceFile) -> Result<Ran, RunError> {
    keep_memory();
    for source in &plan.sources {
        if let Some(onlooker) = source.onlooker(run) {
            file.look_on(onlooker);
        }
    }
    let mut window = match run.is_command() {
        true => Window::new(run.duration),
        false => Window::new(run.duration).attaching(),
    };
    let gates = Gates::default();
    let began = monotonic();
    let keeper = run.window.as_ref().and_then(|options| {
        file.only(WindowStage::new(options.clone(), began, gates.clone()));
        TimeKeeper::start(options, began, &gates)
    });
    let (process, seen) = (file.process(), file.seen());
    let (outlets, joint) = outlets(file, &plan.sources)?;
    // Calls are looked at on their way only where somebody asks for them.
    let tells = plan.has(|about| about.provides.gpu_times);
    let calls = tells.then(|| Calls::default().with_waits(run.waits));
    let mut running = Vec::new();
    for (source, outlet) in plan.sources.iter().zip(outlets) {
        let joining = Joining {
            outlet,
            deadline: window.deadline(),
            calls: calls.as_ref(),
            gates: &gates,
            plan,
        };
        running.push(source.start(run, joining)?);
    }
    let run_began = Instant::now();
    let exit = match run.subject {
        Subject::Command { .. } => launched(run, &mut running, &mut window, &process),
        Subject::Process(pid) => attached(pid, run.duration, &mut running, &mut window),
        Subject::Machine => {
            window.open();
            launch::until_enough(run.duration);
            window.close();
            Ok(Exit::Code(0))
        }
    };
    let (elapsed, ended) = (run_began.elapsed(), monotonic());
    seen.does(Stage::Writing);
    drop(keeper);
    let outcomes: Vec<Outcome> = running.into_iter().filter_map(Running::finish).collect();
    let exit = exit?;
    let (outlets, mut said) = Together::of(outcomes);
    let (mut file, joined) = joint.finish(outlets)?;
    said.observed.unwritten += joined.unwritten;
    said.observed.failure = said.observed.failure.or(joined.failure);
    said.complete(&mut file);
    name_command(run, process.load(Ordering::Relaxed), &mut said);
    Ok(Ran {
        exit,
        elapsed,
        ended,
        watched: window.watched(ended),
        file,
        said,
    })
}

/// The command as it is, with its own end.
pub fn untraced(run: &RunOptions) -> Result<Exit, RunError> {
    launched(run, &mut [], &mut Window::new(None), &AtomicU32::new(0))
}

/// Runs the command to its end. Its process id goes to `process`.
fn launched(
    run: &RunOptions,
    running: &mut [Box<dyn Running>],
    window: &mut Window,
    process: &AtomicU32,
) -> Result<Exit, RunError> {
    let mut command = run.command();
    let user = run.user.as_ref().map(|other| {
        command.environment.extend(other.environment.clone());
        other.user.clone()
    });
    for source in running.iter_mut() {
        command.environment.extend(source.environment()?);
    }
    if let Some(softgpu) = &run.softgpu {
        launch::add_softgpu(&mut command, &softgpu.folder, softgpu.redirect)?;
    }
    // Those inside of the program are there before it begins: then the whole run is watched.
    let attaches = running.iter().any(|source| source.holds());
    if !attaches && window.is_limited() {
        window.open();
    }
    if user.is_none() && !attaches {
        let started = |pid| process.store(pid, Ordering::Relaxed);
        return Ok(launch::run_with(&command, started)?);
    }
    let mut preparation = Preparation {
        user,
        ..Preparation::default()
    };
    for source in running.iter_mut() {
        source.prepare(&mut preparation)?;
    }
    let mut held = launch::hold(&command, &preparation)?;
    process.store(held.pid(), Ordering::Relaxed);
    for source in running.iter_mut() {
        source.attach(held.pid())?;
    }
    if attaches {
        window.open();
    }
    held.release()?;
    Ok(held.wait()?)
}

/// Watches a process that runs already.
fn attached(
    pid: u32,
    limit: Option<Duration>,
    running: &mut [Box<dyn Running>],
    window: &mut Window,
) -> Result<Exit, RunError> {
    for source in running.iter_mut() {
        source.attach(pid)?;
    }
    window.open();
    launch::outlast(pid, limit).map_err(|source| RunError::Process { pid, source })?;
    window.close();
    Ok(Exit::Code(0))
}

/// The command is called what was typed, unless a source has seen what it became.
fn name_command(run: &RunOptions, pid: u32, said: &mut Together) {
    let named = match run.pid() {
        Some(pid) => process_name::of_running(pid),
        None => {
            let command = run.words();
            (pid != 0).then(|| ProcessName {
                pid,
                parent: None,
                name: process_name::short(&command, "", ""),
                command,
                origin: None,
            })
        }
    };
    let is_known = |pid| said.observed.processes.iter().any(|known| known.pid == pid);
    if let Some(named) = named.filter(|named| !is_known(named.pid)) {
        said.observed.name(named);
    }
    said.observed.processes.sort_by_key(|known| known.pid);
}

/// Threads hand each other records by the megabyte. Giving that memory back to the kernel and asking for it again, page by
/// page, takes longer than filling it.
fn keep_memory() {
    const KEPT: libc::c_int = 64 << 20;
    // The most that malloc allows.
    const NOT_MAPPED: libc::c_int = 32 << 20;
    // SAFETY: settings of the allocator, which take effect or not.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        libc::mallopt(libc::M_MMAP_THRESHOLD, NOT_MAPPED);
    }
}
