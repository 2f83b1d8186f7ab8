//! Samples of what the GPUs do, beside the calls.

use super::{
    backend::{Backend, Watched},
    outlet::Outlet,
};
use anyhow::Result;
use capture::{Deadline, nvml::Sampler};

pub struct Nvml {
    sampler: Sampler<Outlet>,
}

impl Nvml {
    pub fn start(outlet: Outlet, deadline: &Deadline) -> Result<Self> {
        Ok(Nvml {
            sampler: Sampler::start(outlet, deadline.clone())?,
        })
    }
}

impl Backend for Nvml {
    fn finish(self: Box<Self>) -> Option<Watched> {
        let (outlet, report) = self.sampler.finish();
        let details = match &report.refused {
            Some(why) => format!("cutrace: no samples of GPUs: {why}\n"),
            None => format!(
                "cutrace: {} samples of {} GPUs by NVML\n",
                report.samples, report.gpus
            ),
        };
        Some(Watched {
            details,
            unwritten: report.unwritten,
            failure: report.failure,
            ..Watched::new(outlet)
        })
    }
}
