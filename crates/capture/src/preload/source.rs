//! The injected source: every CUDA call, recorded by a library in the program.

use super::{Filter, Options, PreloadError, Process, Recording, Session, nothing::Nothing, nvtx};
use crate::{
    attach::{AttachError, Attachment},
    cupti::Tap,
    gpu_probe::HostPart,
    launch::sanitizer,
    notes::counted,
    source::{
        About, Auto, Finding, Joining, Library, Observations, OtherTools, Outcome, Outlet, Part,
        Provides, RunOptions, Running, Source, SourceError, Unavailable, words,
    },
};
use std::{env, ffi::OsString, fmt::Write as _, path::PathBuf, time::Duration};

pub struct Preload;

pub static PRELOAD: Preload = Preload;

static ABOUT: About = About {
    name: "preload",
    help: "every CUDA call, recorded by a library inside the program",
    shows: "every CUDA call with arguments, results, kernel names, stacks; NVTX ranges",
    provides: Provides {
        calls: true,
        ..Provides::NOTHING
    },
    carries: &[Library::Preload],
    other_tools: Some(OtherTools {
        words: &[
            "ltrace",
            "ld_preload",
            "ldpreload",
            "interpose",
            "inject",
            "injection",
            "hook",
            "hooks",
        ],
        method: "preload",
        what: "every CUDA call, recorded by a library inside the program",
    }),
    ..About::EMPTY
};

impl From<PreloadError> for SourceError {
    fn from(cause: PreloadError) -> Self {
        SourceError::of(cause)
    }
}

impl Source for Preload {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn available(&self, run: &RunOptions) -> Result<(), Unavailable> {
        run.can_be_entered()
    }

    fn auto(&self, run: &RunOptions) -> Auto {
        // Into a running process only if somebody asks for it: docs/ATTACH.md says what is not proven yet.
        match run.is_command() {
            true => Auto::Main(3),
            false => Auto::No,
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let words = "every CUDA call of programs started by cutrace";
        vec![Finding::new(
            Part::WithoutRoot,
            "preload",
            Ok(words.to_owned()),
        )]
    }

    fn start(
        &self,
        run: &RunOptions,
        joining: Joining<'_>,
    ) -> Result<Box<dyn Running>, SourceError> {
        let library = run.carried.path(Library::Preload)?;
        let session = Session::create(Options {
            libraries: run.libraries.clone(),
            filter: run.filter.as_deref().map(Filter::parse),
            stacks: run.stacks.as_deref().map(Filter::parse),
            intact: (run.probes.as_ref())
                .and_then(|probes| probes.host.as_ref())
                .map_or_else(Vec::new, HostPart::functions),
            operators: joining.plan.has(|about| about.provides.operators),
            shapes: run.shapes,
            near: run.near.clone(),
            ring_slots: None,
            min_duration: run.min_duration,
            sample: run.one_of(),
            deadline: joining.deadline.clone(),
            window: run.window.clone(),
            gates: joining.gates.clone(),
            budget: run.budget,
            // Work on the GPU and probes in kernels are understood by the calls.
            keeps_launches: run.counts_steps
                || run.probes.is_some()
                || joining.plan.has(|about| about.provides.gpu_times),
            running: run.pid().is_some(),
        })?;
        if run.pid().is_some() {
            let attachment = Entering {
                library: library.clone(),
                session: session.folder().to_owned(),
                attachment: None,
            };
            return Ok(Box::new(Injected {
                nothing: Nothing::of(run),
                environment: Vec::new(),
                entering: Some(attachment),
                recording: session.start(Tap::new(joining.outlet, joining.calls.cloned()))?,
            }));
        }
        let existing = env::var_os("LD_PRELOAD");
        let mut environment = session.environment(library, existing.as_deref())?;
        if run.probes.is_some() {
            add_probes(&mut environment, run)?;
        }
        let asan = env::var_os("ASAN_OPTIONS");
        let program = run.command().program;
        environment.extend(sanitizer::environment(&program, asan.as_deref()));
        environment.extend(nvtx::environment(library, run.say));
        Ok(Box::new(Injected {
            nothing: Nothing::of(run),
            environment,
            entering: None,
            recording: session.start(Tap::new(joining.outlet, joining.calls.cloned()))?,
        }))
    }
}

/// The library that gives kernels their probes comes right behind ours.
fn add_probes(
    environment: &mut [(OsString, OsString)],
    run: &RunOptions,
) -> Result<(), SourceError> {
    let library = run.carried.path(Library::GpuProbes)?;
    for (_, value) in environment
        .iter_mut()
        .filter(|(name, _)| name == "LD_PRELOAD")
    {
        value.push(":");
        value.push(library);
    }
    Ok(())
}

struct Injected {
    nothing: Nothing,
    environment: Vec<(OsString, OsString)>,
    /// Of a process that runs already.
    entering: Option<Entering>,
    recording: Recording<Tap<Outlet>>,
}

/// What to try instead.
#[derive(Debug, thiserror::Error)]
#[error("{0}; --method=ebpf (root) attaches without loading a library")]
struct NotEntered(#[source] AttachError);

impl From<NotEntered> for SourceError {
    fn from(cause: NotEntered) -> Self {
        SourceError::of(cause)
    }
}

struct Entering {
    library: PathBuf,
    session: PathBuf,
    attachment: Option<Attachment>,
}

impl Running for Injected {
    fn environment(&mut self) -> Result<Vec<(OsString, OsString)>, SourceError> {
        Ok(std::mem::take(&mut self.environment))
    }

    fn attach(&mut self, pid: u32) -> Result<(), SourceError> {
        if let Some(entering) = &mut self.entering {
            let attachment = Attachment::begin(pid, &entering.library, &entering.session);
            entering.attachment = Some(attachment.map_err(NotEntered)?);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<Outcome> {
        let attachment = self.entering.and_then(|entering| entering.attachment);
        let left = attachment.as_ref().map(Attachment::end);
        let (tap, report) = self.recording.finish();
        let outlet = tap.finish();
        let mut details = words::hooked(&report.processes, &report.libraries);
        let clock = &report.clock;
        let _ = writeln!(
            details,
            "cutrace: times are accurate to {} ns ({} clock pairs)",
            clock.error_ns, clock.pairs
        );
        let mut notes = words::lines(&report.notes, &mut details);
        if let Some(attachment) = &attachment {
            let pause = attachment.paused;
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            let _ = writeln!(
                details,
                "cutrace: attached by loading a library; the program paused for {:.1} ms \
                 (stopping threads {:.1}, finding functions {:.1}, checking stacks {:.1}, hooking {:.1})",
                ms(pause.whole()),
                ms(pause.stopping),
                ms(pause.preparing),
                ms(pause.checking),
                ms(pause.writing),
            );
        }
        if let Some(attachment) = attachment.filter(|one| one.left_alone > 0) {
            let left = counted(
                attachment.left_alone as u64,
                "function was",
                "functions were",
            );
            notes.push(format!(
                "{left} not hooked: another tool had changed their code"
            ));
        }
        if let Some(Err(why)) = left {
            notes.push(format!("hooks could not be taken off: {why}"));
        }
        // Lost calls were hooked, whatever could be said of it.
        if report.libraries.is_empty() && report.lost == 0 {
            notes.insert(0, self.nothing.words());
        }
        Some(Outcome {
            observed: Observations {
                notes,
                details,
                libraries: words::hooks(&report.libraries),
                processes: report.processes.iter().map(Process::named).collect(),
                clocks: vec![report.clock],
                overhead: report.overhead,
                not_sampled: report.not_sampled,
                shed: report.shed.map(|report| report.in_words()),
                unwritten: report.unwritten,
                failure: report.failure,
                ..Observations::default()
            },
            ..Outcome::new(outlet)
        })
    }
}
