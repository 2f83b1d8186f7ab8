//! A source: whatever produces events. One folder of this crate for each, its `mod` line in lib.rs, and one line in
//! [`registry`].
//!
//! A [`Source`] says what it is and whether it works here; [`Source::start`] makes it a [`Running`] one, which
//! prepares the command, attaches to it and tells at the end what it has seen ([`Outcome`]). Which of them a run
//! takes is settled in [`plan`], how the run goes in [`run`].

mod about;
mod error;
mod options;
mod outcome;
mod outlet;
mod plan;
mod registry;
mod run;
mod running;
mod window;
pub mod words;

pub use about::{About, Auto, Finding, Library, Obstacle, OtherTools, Part, Provides, Unavailable};
pub use error::{RunError, SourceError};
pub use options::{Carried, Methods, RunOptions, Softgpu, Subject};
pub use outcome::{Observations, Outcome, Results, Together};
pub use outlet::Outlet;
pub use plan::{Plan, PlanError};
pub use registry::{Registry, SOURCES};
pub use run::{Ran, record, untraced};
pub use running::{Joining, Running};

use crate::trace_file::Onlooker;
use std::fmt;

/// A kind of source: one value for each, in its own folder.
pub trait Source: Sync {
    fn about(&self) -> &'static About;

    /// Whether it can watch this run on this machine, found out by trying where words of versions would lie.
    fn available(&self, run: &RunOptions) -> Result<(), Unavailable>;

    /// Whether it is taken where nobody asks for anything particular.
    fn auto(&self, _run: &RunOptions) -> Auto {
        Auto::No
    }

    /// Why `all` leaves it out, though it is available.
    fn left_out_of_all(&self, _run: &RunOptions) -> Option<String> {
        None
    }

    /// The options that ask for it besides `--method`, if they were given.
    fn asked_for_by(&self, _run: &RunOptions) -> Option<&'static str> {
        None
    }

    /// Another source that this run needs beside it, which nobody has asked for.
    fn companion(&self, _run: &RunOptions, _taken: &[SourceRef]) -> Option<SourceRef> {
        None
    }

    /// What is wrong with a list of sources that has this one in it.
    fn clash(&self, _list: &[SourceRef]) -> Option<String> {
        None
    }

    /// What `cutrace doctor` says of it, found out by trying.
    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// What looks at every record on its way into the trace, from any source. [`Results::complete`] gets it back.
    fn onlooker(&self, _run: &RunOptions) -> Option<Box<dyn Onlooker>> {
        None
    }

    /// Makes everything ready that can be before the program is there.
    fn start(
        &self,
        run: &RunOptions,
        joining: Joining<'_>,
    ) -> Result<Box<dyn Running>, SourceError>;
}

/// One of [`SOURCES`], or of another registry.
pub type SourceRef = &'static dyn Source;

/// Names are unique in a registry.
impl PartialEq for dyn Source {
    fn eq(&self, other: &Self) -> bool {
        self.about().name == other.about().name
    }
}

impl Eq for dyn Source {}

impl fmt::Debug for dyn Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.about().name)
    }
}
