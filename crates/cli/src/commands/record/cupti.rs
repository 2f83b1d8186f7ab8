//! GPU times: a library that the driver loads collects them by CUPTI.

use super::{
    backend::{Backend, Watched},
    outlet::Outlet,
};
use crate::embedded;
use anyhow::Result;
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
    pub fn start(outlet: Outlet, calls: Calls) -> Result<Self> {
        let session = Session::create(calls)?;
        let existing = env::var_os("CUDA_INJECTION64_PATH");
        let library = embedded::activity_library()?;
        let environment = session.environment(&library, existing.as_deref());
        let hindrance = environment.is_none().then(|| {
            let theirs = existing.unwrap_or_default();
            format!(
                "no GPU times: CUDA_INJECTION64_PATH names another tool's library, {}",
                theirs.display()
            )
        });
        Ok(Cupti {
            environment: environment.unwrap_or_default(),
            hindrance,
            recording: session.start(outlet)?,
        })
    }
}

impl Backend for Cupti {
    fn environment(&mut self) -> Result<Vec<(OsString, OsString)>> {
        Ok(std::mem::take(&mut self.environment))
    }

    fn finish(self: Box<Self>) -> Option<Watched> {
        let (outlet, report) = self.recording.finish();
        let details = details(&report);
        let mut notes = report.notes;
        notes.extend(self.hindrance);
        Some(Watched {
            notes,
            details,
            clocks: report.clock.into_iter().collect(),
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
        let _ = writeln!(text, "cutrace: process {pid}: CUPTI {about}");
    }
    let counts = &report.counts;
    if let Some(clock) = &report.clock {
        let _ = writeln!(
            text,
            "cutrace: on the GPU: {} kernels, {} copies, {} memsets; the calls of {} are not known\n\
             cutrace: GPU times are right within {} ns ({} clock pairs)",
            counts.kernels,
            counts.copies,
            counts.fills,
            counts.unlinked,
            clock.error_ns,
            clock.pairs
        );
    }
    text
}
