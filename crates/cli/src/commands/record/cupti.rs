//! GPU times: a library that the driver loads collects them, by CUPTI or by events.

use super::{
    backend::{Backend, Watched},
    outlet::Outlet,
    words,
};
use crate::{
    arguments::{Method, Record},
    embedded,
};
use anyhow::Result;
use capture::Deadline;
use capture::cupti::{Calls, Recording, Report, Session};
use std::{env, ffi::OsString, fmt::Write as _};

pub struct Cupti {
    environment: Vec<(OsString, OsString)>,
    /// Why nothing will be collected.
    hindrance: Option<String>,
    recording: Recording<Outlet>,
}

impl Cupti {
    /// `calls`: those that cause the work, as others see them.
    pub fn start(
        options: &Record,
        method: Method,
        outlet: Outlet,
        calls: Calls,
        deadline: &Deadline,
    ) -> Result<Self> {
        let session = Session::create_near(calls, options.folder())?;
        let existing = env::var_os("CUDA_INJECTION64_PATH");
        let library = embedded::gpu_times_library()?;
        let mut environment = session.environment(&library, existing.as_deref());
        if let Some(environment) = &mut environment {
            if method == Method::Events {
                environment.push(("CUTRACE_GPU_TIMES_BY".into(), "events".into()));
            }
            if options.waits {
                environment.push(("CUTRACE_GPU_TIMES_WAITS".into(), "1".into()));
            }
            // Only who wants details is shown it.
            if options.verbose {
                environment.push(("CUTRACE_GPU_TIMES_OVERHEAD".into(), "1".into()));
            }
        }
        let hindrance = environment.is_none().then(|| {
            let theirs = existing.unwrap_or_default();
            format!(
                "no GPU times: CUDA_INJECTION64_PATH names another tool's library, {}, and the driver loads one \
                 only: unset it to have them",
                theirs.display()
            )
        });
        Ok(Cupti {
            environment: environment.unwrap_or_default(),
            hindrance,
            recording: session.start(outlet, deadline.clone())?,
        })
    }
}

impl Backend for Cupti {
    fn environment(&mut self) -> Result<Vec<(OsString, OsString)>> {
        Ok(std::mem::take(&mut self.environment))
    }

    fn finish(self: Box<Self>) -> Option<Watched> {
        let (outlet, report) = self.recording.finish();
        let mut details = details(&report);
        let mut notes = words::lines(&report.notes, &mut details);
        notes.extend(self.hindrance);
        Some(Watched {
            notes,
            details,
            clocks: report.clocks,
            tracer_cpu: report.tracer_cpu,
            unwritten: report.unwritten,
            failure: report.failure,
            ..Watched::new(outlet)
        })
    }
}

fn details(report: &Report) -> String {
    let mut text = String::new();
    for (pid, about) in &report.processes {
        let about = about.as_deref().unwrap_or("none");
        let _ = writeln!(text, "cutrace: process {pid}: GPU times: {about}");
    }
    let counts = &report.counts;
    if !report.clocks.is_empty() {
        let graphs = match counts.graphs {
            0 => String::new(),
            graphs => format!(", {graphs} graphs"),
        };
        let waits = match counts.waits {
            0 => String::new(),
            waits => format!(", {waits} waits for it"),
        };
        let _ = writeln!(
            text,
            "cutrace: on the GPU: {} kernels, {} copies, {} memsets{graphs}{waits}; the calls of {} are not known",
            counts.kernels, counts.copies, counts.fills, counts.unlinked,
        );
    }
    for (what, (times, took)) in &report.own_cost {
        let took = *took as f64 / 1e6;
        let _ = writeln!(
            text,
            "cutrace: time of the driver's and CUPTI's own: {what}: {took:.3} ms, {times} times"
        );
    }
    for clock in &report.clocks {
        let _ = writeln!(
            text,
            "cutrace: GPU times by {} are right within {} ns",
            clock.source, clock.error_ns
        );
    }
    text
}
