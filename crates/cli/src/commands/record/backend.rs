//! What a run sees of its back ends: they prepare the command, attach to it, and tell at the end
//! what they have seen. One file beside this one for each.

use super::outlet::Outlet;
use anyhow::Result;
use capture::{SinkError, launch::Preparation};
use event::{Aggregate, ClockError, Hooks, Overhead, ProcessName};
use std::{ffi::OsString, time::Duration};

/// A back end that is ready. It has been given an [`Outlet`] for its records.
pub trait Backend {
    /// Variables the command is to find.
    fn environment(&mut self) -> Result<Vec<(OsString, OsString)>> {
        Ok(Vec::new())
    }

    /// Whether the command must wait for [`Backend::attach`] before it begins.
    fn holds(&self) -> bool {
        false
    }

    /// What is to be done in the command's process before it begins.
    fn prepare(&mut self, _preparation: &mut Preparation) -> Result<()> {
        Ok(())
    }

    /// The command's process is there, and waits.
    fn attach(&mut self, _pid: u32) -> Result<()> {
        Ok(())
    }

    /// The command has ended. None from one that failed when it was to attach.
    fn finish(self: Box<Self>) -> Option<Watched>;
}

/// What a back end has to say at the end.
pub struct Watched {
    pub outlet: Outlet,
    /// Things a user should know.
    pub notes: Vec<String>,
    /// Lines for the curious (`-v`).
    pub details: String,
    /// Each library's name, with what of it was hooked.
    pub libraries: Vec<(String, Hooks)>,
    /// What the processes are called that were seen.
    pub processes: Vec<ProcessName>,
    pub clocks: Vec<ClockError>,
    /// What was counted in the kernel instead of recording it.
    pub aggregates: Vec<Aggregate>,
    /// Calls that --sample left out.
    pub not_sampled: u64,
    /// What recording took in the program's threads.
    pub overhead: Option<Overhead>,
    /// CPU time of the tracer's own threads.
    pub tracer_cpu: Duration,
    /// Records that could not be kept, and why not.
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

impl Watched {
    pub fn new(outlet: Outlet) -> Self {
        Watched {
            outlet,
            notes: Vec::new(),
            details: String::new(),
            libraries: Vec::new(),
            processes: Vec::new(),
            clocks: Vec::new(),
            aggregates: Vec::new(),
            not_sampled: 0,
            overhead: None,
            tracer_cpu: Duration::ZERO,
            unwritten: 0,
            failure: None,
        }
    }
}
