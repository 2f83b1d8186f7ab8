//! The injected back end: every CUDA call, recorded by a library in the program.

use super::{
    backend::{Backend, Watched},
    nvtx,
    outlet::Outlet,
    words,
};
use crate::{arguments::Record, embedded};
use anyhow::Result;
use capture::Deadline;
use capture::cupti::Tap;
use capture::gpu_probe::HostPart;
use capture::launch::sanitizer;
use capture::preload::{Filter, Options, Process, Recording, Session};
use std::{env, ffi::OsString, fmt::Write as _, path::Path};

pub struct Preload<'a> {
    options: &'a Record,
    environment: Vec<(OsString, OsString)>,
    recording: Recording<Tap<Outlet>>,
}

impl<'a> Preload<'a> {
    pub fn start(options: &'a Record, outlet: Tap<Outlet>, deadline: &Deadline) -> Result<Self> {
        let library = embedded::preload_library()?;
        let session = Session::create(Options {
            libraries: options.libraries.clone(),
            filter: options.filter.as_deref().map(Filter::parse),
            stacks: options.stacks.as_deref().map(Filter::parse),
            intact: (options.probes.as_ref())
                .and_then(|probes| probes.host.as_ref())
                .map_or_else(Vec::new, HostPart::functions),
            near: options.folder().map(Path::to_owned),
            ring_slots: None,
            min_duration: options.min_duration,
            sample: options.sample,
            deadline: deadline.clone(),
        })?;
        let existing = env::var_os("LD_PRELOAD");
        let mut environment = session.environment(&library, existing.as_deref())?;
        if options.probes.is_some() {
            add_probes(&mut environment)?;
        }
        let asan = env::var_os("ASAN_OPTIONS");
        environment.extend(sanitizer::environment(&options.program, asan.as_deref()));
        environment.extend(nvtx::environment(&library, options.quiet));
        Ok(Preload {
            options,
            environment,
            recording: session.start(outlet)?,
        })
    }
}

impl Backend for Preload<'_> {
    fn environment(&mut self) -> Result<Vec<(OsString, OsString)>> {
        Ok(std::mem::take(&mut self.environment))
    }

    fn finish(self: Box<Self>) -> Option<Watched> {
        let (tap, report) = self.recording.finish();
        let outlet = tap.finish();
        let mut details = words::hooked(&report.processes, &report.libraries);
        let clock = &report.clock;
        let _ = writeln!(
            details,
            "cutrace: times are right within {} ns ({} clock pairs)",
            clock.error_ns, clock.pairs
        );
        let mut notes = words::lines(&report.notes, &mut details);
        // Lost calls were hooked, whatever could be said of it.
        if report.libraries.is_empty() && report.lost == 0 {
            notes.insert(0, words::why_nothing(self.options));
        }
        Some(Watched {
            notes,
            details,
            libraries: words::hooks(&report.libraries),
            processes: report.processes.iter().map(Process::named).collect(),
            clocks: vec![report.clock],
            overhead: report.overhead,
            tracer_cpu: report.tracer_cpu,
            not_sampled: report.not_sampled,
            unwritten: report.unwritten,
            failure: report.failure,
            ..Watched::new(outlet)
        })
    }
}

/// The library that gives kernels their probes comes right behind ours.
fn add_probes(environment: &mut [(OsString, OsString)]) -> Result<()> {
    let library = embedded::gpu_probes_library()?;
    for (_, value) in environment
        .iter_mut()
        .filter(|(name, _)| name == "LD_PRELOAD")
    {
        value.push(":");
        value.push(&library);
    }
    Ok(())
}
