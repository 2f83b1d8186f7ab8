//! Samples of what the GPUs do, beside the calls: as a source.

use super::{Sampler, available};
use crate::notes::counted;
use crate::source::{
    About, Auto, Finding, Joining, Observations, Obstacle, OtherTools, Outcome, Outlet, Part,
    RunOptions, Running, Source, SourceError, Unavailable,
};
use std::path::Path;

pub struct Nvml;

pub static NVML: Nvml = Nvml;

static ABOUT: About = About {
    name: "nvml",
    help: "GPU utilisation, memory, clocks, power (samples)",
    shows: "ten samples a second of each GPU: utilisation, memory, clocks, power and temperature",
    needs: "a GPU",
    other_tools: Some(OtherTools {
        words: &["nvidia-smi", "dcgm", "smi"],
        method: "nvml",
        what: "GPU utilisation, memory, clocks, power (samples)",
    }),
    ..About::EMPTY
};

impl Source for Nvml {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn available(&self, _run: &RunOptions) -> Result<(), Unavailable> {
        available().map_err(Unavailable::because)
    }

    /// Of a GPU's driver only where there is one.
    fn auto(&self, run: &RunOptions) -> Auto {
        match run.simulate || !may_have_driver() {
            true => Auto::No,
            false => Auto::Beside,
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let words = |()| "samples ten times a second".to_owned();
        let found = available().map(words).map_err(Obstacle::from_error);
        vec![Finding::new(Part::Driver, "NVML", found)]
    }

    fn start(
        &self,
        _run: &RunOptions,
        joining: Joining<'_>,
    ) -> Result<Box<dyn Running>, SourceError> {
        let sampler = Sampler::start(joining.outlet, joining.deadline.clone())?;
        Ok(Box::new(Sampling(sampler)))
    }
}

/// Whether there can be a driver for NVML to ask: looking for its library in every folder of the loader's is what every
/// start would wait for.
fn may_have_driver() -> bool {
    const SIGNS: [&str; 5] = [
        "/dev/nvidiactl",
        "/proc/driver/nvidia",
        "/dev/dxg",
        "/dev/nvhost-ctrl-gpu",
        "/dev/nvgpu",
    ];
    std::env::var_os("LD_LIBRARY_PATH").is_some()
        || SIGNS.iter().any(|sign| Path::new(sign).exists())
}

struct Sampling(Sampler<Outlet>);

impl Running for Sampling {
    fn finish(self: Box<Self>) -> Option<Outcome> {
        let (outlet, report) = self.0.finish();
        let details = match &report.refused {
            Some(why) => format!("cutrace: no GPU samples: {why}\n"),
            None => format!(
                "cutrace: {} of {} from NVML\n",
                counted(report.samples, "sample", "samples"),
                counted(report.gpus as u64, "GPU", "GPUs")
            ),
        };
        Some(Outcome {
            observed: Observations {
                details,
                unwritten: report.unwritten,
                failure: report.failure,
                ..Observations::default()
            },
            ..Outcome::new(outlet)
        })
    }
}
