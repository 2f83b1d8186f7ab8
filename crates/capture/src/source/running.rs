//! What a run sees of its sources: they prepare the command, attach to it, and tell at the end what they have seen.

use super::{Outcome, Outlet, Plan, SourceError};
use crate::{Deadline, cupti::Calls, launch::Preparation, live::Gates};
use std::ffi::OsString;

/// What a source gets when it joins a run.
pub struct Joining<'a> {
    /// For its records.
    pub outlet: Outlet,
    /// When all of them stop.
    pub deadline: &'a Deadline,
    /// Where who records calls shows them, if another source is to link GPU work to them.
    pub calls: Option<&'a Calls>,
    /// Who lets calls by that are not wanted asks here.
    pub gates: &'a Gates,
    /// It and the others.
    pub plan: &'a Plan,
}

/// A source that is ready.
pub trait Running {
    /// Variables the command is to find.
    fn environment(&mut self) -> Result<Vec<(OsString, OsString)>, SourceError> {
        Ok(Vec::new())
    }

    /// Whether the command must wait for [`Running::attach`] before it begins.
    fn holds(&self) -> bool {
        false
    }

    /// What is to be done in the command's process before it begins.
    fn prepare(&mut self, _preparation: &mut Preparation) -> Result<(), SourceError> {
        Ok(())
    }

    /// The command's process is there, and waits.
    fn attach(&mut self, _pid: u32) -> Result<(), SourceError> {
        Ok(())
    }

    /// The command has ended. None from one that failed when it was to attach.
    fn finish(self: Box<Self>) -> Option<Outcome>;
}
