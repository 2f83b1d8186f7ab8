//! Context switches of the GPUs.

use super::{
    backend::{Backend, Watched},
    outlet::Outlet,
};
use anyhow::Result;
use capture::{Deadline, fecs::Watch};

pub struct Fecs {
    watch: Watch<Outlet>,
}

impl Fecs {
    pub fn start(outlet: Outlet, deadline: &Deadline) -> Result<Self> {
        Ok(Fecs {
            watch: Watch::start(outlet, deadline.clone())?,
        })
    }
}

impl Backend for Fecs {
    fn finish(self: Box<Self>) -> Option<Watched> {
        let (outlet, report) = self.watch.finish();
        let refused = report.refused.iter();
        Some(Watched {
            notes: refused
                .map(|why| format!("context switches of the GPU were not watched: {why}"))
                .collect(),
            details: format!(
                "cutrace: context switches of {} GPUs: {} events, {} lost\n",
                report.gpus, report.events, report.lost
            ),
            clocks: report.clocks,
            unwritten: report.unwritten,
            failure: report.failure,
            ..Watched::new(outlet)
        })
    }
}
