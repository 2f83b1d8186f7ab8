//! The operators of a PyTorch program, as a source. It has no records of its own: preload brings them, if this source
//! takes part.

use super::modules::Hooks;
use crate::{
    Sink,
    preload::PRELOAD,
    source::{
        About, Auto, Joining, OtherTools, Outcome, Outlet, Provides, RunOptions, Running, Source,
        SourceError, SourceRef, Unavailable,
    },
};

use std::ffi::OsString;

pub struct Torch;

pub static TORCH: Torch = Torch;

static ABOUT: About = About {
    name: "torch",
    help: "operators of PyTorch programs (with preload)",
    shows: "PyTorch's operators, autograd's nodes and `record_function` ranges, with the calls and kernels inside each",
    document: Some("docs/OPERATORS.md"),
    needs: "PyTorch 2.1 to 2.15",
    provides: Provides {
        operators: true,
        ..Provides::NOTHING
    },
    other_tools: Some(OtherTools {
        words: &["torch.profiler", "pytorch", "kineto", "operators"],
        method: "preload,cupti,torch",
        what: "PyTorch's operators with their calls and kernels",
    }),
    ..About::EMPTY
};

impl Source for Torch {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn available(&self, run: &RunOptions) -> Result<(), Unavailable> {
        PRELOAD.available(run)
    }

    fn auto(&self, run: &RunOptions) -> Auto {
        match run.is_command() {
            true => Auto::Beside,
            false => Auto::No,
        }
    }

    fn clash(&self, list: &[SourceRef]) -> Option<String> {
        let has_preload = list.contains(&(&PRELOAD as SourceRef));
        (!has_preload).then(|| {
            "--method=torch needs preload: the library in the program records the operators \
             (--method=preload,torch)"
                .to_owned()
        })
    }

    fn asked_for_by(&self, run: &RunOptions) -> Option<&'static str> {
        match (run.modules, run.shapes) {
            (true, _) => Some("--modules"),
            (false, true) => Some("--shapes"),
            (false, false) => None,
        }
    }

    fn start(
        &self,
        run: &RunOptions,
        joining: Joining<'_>,
    ) -> Result<Box<dyn Running>, SourceError> {
        let mut outlet = joining.outlet;
        // Nobody has to wait for it.
        outlet.until(u64::MAX);
        let hooks = match run.modules {
            true => Some(Hooks::create().map_err(SourceError::of)?),
            false => None,
        };
        Ok(Box::new(Beside { outlet, hooks }))
    }
}

/// Preload does the work.
struct Beside {
    outlet: Outlet,
    hooks: Option<Hooks>,
}

impl Running for Beside {
    fn environment(&mut self) -> Result<Vec<(OsString, OsString)>, SourceError> {
        Ok(self.hooks.iter().map(Hooks::variable).collect())
    }

    fn finish(self: Box<Self>) -> Option<Outcome> {
        Some(Outcome::new(self.outlet))
    }
}
