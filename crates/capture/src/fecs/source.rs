//! Context switches of the GPUs, as a source.

use super::{FecsWatch, watch};
use crate::notes::counted;
use crate::source::{
    About, Finding, Joining, Observations, Obstacle, Outcome, Outlet, Part, RunOptions, Running,
    Source, SourceError, Unavailable,
};

pub struct Fecs;

pub static FECS: Fecs = Fecs;

static ABOUT: About = About {
    name: "fecs",
    help: "which context is on the GPU, from the driver",
    shows: "the GPU's context switches, for all processes on it",
    needs: "a GPU",
    ..About::EMPTY
};

impl Source for Fecs {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn available(&self, run: &RunOptions) -> Result<(), Unavailable> {
        run.tells_nobody_apart()?;
        watch::available().map_err(Unavailable::because)
    }

    /// It tells of every process on the GPU, not of the traced ones alone.
    fn left_out_of_all(&self, _run: &RunOptions) -> Option<String> {
        Some("it must be named explicitly".into())
    }

    fn findings(&self) -> Vec<Finding> {
        let words = |()| "which context is on the GPU (--method fecs)".to_owned();
        let found = watch::available().map(words).map_err(Obstacle::from_error);
        vec![Finding::new(Part::Driver, "FECS", found)]
    }

    fn start(
        &self,
        _run: &RunOptions,
        joining: Joining<'_>,
    ) -> Result<Box<dyn Running>, SourceError> {
        let watch = FecsWatch::start(joining.outlet, joining.deadline.clone())?;
        Ok(Box::new(Watching(watch)))
    }
}

struct Watching(FecsWatch<Outlet>);

impl Running for Watching {
    fn finish(self: Box<Self>) -> Option<Outcome> {
        let (outlet, report) = self.0.finish();
        let refused = report.refused.iter();
        Some(Outcome {
            observed: Observations {
                notes: refused
                    .map(|why| format!("GPU context switches were not recorded: {why}"))
                    .collect(),
                details: format!(
                    "cutrace: context switches of {}: {}, {} lost\n",
                    counted(report.gpus as u64, "GPU", "GPUs"),
                    counted(report.events, "event", "events"),
                    report.lost
                ),
                clocks: report.clocks,
                unwritten: report.unwritten,
                failure: report.failure,
                ..Observations::default()
            },
            ..Outcome::new(outlet)
        })
    }
}
