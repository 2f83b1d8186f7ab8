//! Managed memory, as a source: the driver's events of the processes below this one.

use super::{UvmWatch, available};
use crate::notes::counted;
use crate::source::{
    About, Auto, Finding, Joining, Observations, Obstacle, Outcome, Outlet, Part, RunOptions,
    Running, Source, SourceError, Unavailable,
};

pub struct Uvm;

pub static UVM: Uvm = Uvm;

static ABOUT: About = About {
    name: "uvm",
    help: "page faults and migrations of managed memory, from the driver",
    shows: "page faults and migrations of managed memory",
    needs: "a GPU",
    ..About::EMPTY
};

impl Source for Uvm {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn available(&self, run: &RunOptions) -> Result<(), Unavailable> {
        run.tells_nobody_apart()?;
        available().map_err(Unavailable::because)
    }

    /// Of a GPU's driver only where there is one.
    fn auto(&self, run: &RunOptions) -> Auto {
        match run.simulate {
            true => Auto::No,
            false => Auto::Beside,
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let words = |()| "faults and migrations (--method uvm)".to_owned();
        let found = available().map(words).map_err(Obstacle::from_error);
        vec![Finding::new(Part::Driver, "managed memory", found)]
    }

    fn start(
        &self,
        run: &RunOptions,
        joining: Joining<'_>,
    ) -> Result<Box<dyn Running>, SourceError> {
        let watch = UvmWatch::start(joining.outlet, joining.deadline.clone())?;
        // Whatever a command starts is below this process.
        watch.follow(run.pid().unwrap_or_else(std::process::id));
        Ok(Box::new(Watching(watch)))
    }
}

struct Watching(UvmWatch<Outlet>);

impl Running for Watching {
    fn finish(self: Box<Self>) -> Option<Outcome> {
        let (outlet, report) = self.0.finish();
        let refused = report.refused.iter();
        let mut notes: Vec<String> = refused
            .map(|why| format!("managed memory was not recorded: {why}"))
            .collect();
        if report.unknown > 0 {
            let count = report.unknown;
            notes.push(format!(
                "the driver reported {} of unknown types",
                counted(count, "managed-memory event", "managed-memory events")
            ));
        }
        let details = format!(
            "cutrace: managed memory of {}: {}, {} lost\n",
            counted(report.processes, "process", "processes"),
            counted(report.events, "event", "events"),
            report.lost
        );
        Some(Outcome {
            observed: Observations {
                notes,
                details,
                clocks: report.clock.into_iter().collect(),
                unwritten: report.unwritten,
                failure: report.failure,
                ..Observations::default()
            },
            ..Outcome::new(outlet)
        })
    }
}
