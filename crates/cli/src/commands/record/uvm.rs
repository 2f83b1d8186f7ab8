//! Managed memory: the driver's events of the processes below this one.

use super::{
    backend::{Backend, Watched},
    outlet::Outlet,
};
use crate::arguments::Record;
use anyhow::Result;
use capture::{Deadline, uvm::Watch};

pub struct Uvm {
    watch: Watch<Outlet>,
}

impl Uvm {
    pub fn start(options: &Record, outlet: Outlet, deadline: &Deadline) -> Result<Self> {
        let watch = Watch::start(outlet, deadline.clone())?;
        // Whatever a command starts is below this process.
        watch.follow(options.pid.unwrap_or_else(std::process::id));
        Ok(Uvm { watch })
    }
}

impl Backend for Uvm {
    fn finish(self: Box<Self>) -> Option<Watched> {
        let (outlet, report) = self.watch.finish();
        let refused = report.refused.iter();
        let mut notes: Vec<String> = refused
            .map(|why| format!("managed memory was not watched: {why}"))
            .collect();
        if report.unknown > 0 {
            let count = report.unknown;
            notes.push(format!(
                "the driver told {count} things of managed memory that are not known"
            ));
        }
        let details = format!(
            "cutrace: managed memory of {} processes: {} events, {} lost\n",
            report.processes, report.events, report.lost
        );
        Some(Watched {
            notes,
            details,
            clocks: report.clock.into_iter().collect(),
            unwritten: report.unwritten,
            failure: report.failure,
            ..Watched::new(outlet)
        })
    }
}
