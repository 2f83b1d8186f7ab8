//! The driver's own functions, tracepoints, and what hooks files ask for.

use super::{
    backend::{Backend, Watched},
    outlet::Outlet,
    words,
};
use crate::{arguments::Record, commands::hooks, embedded};
use anyhow::{Result, bail};
use capture::{
    Deadline,
    ebpf::kernel::{Options, Watch, Watching, driver_hooks},
    hooks::{Hook, Hooks},
};
use event::Hooks as Count;
use std::{fmt::Write as _, path::PathBuf};

pub struct Kernel {
    watching: Watching<Outlet>,
    /// What is attached to runs already.
    running: bool,
}

impl Kernel {
    pub fn start(options: &Record, outlet: Outlet, deadline: &Deadline) -> Result<Self> {
        let all = wanted(options)?;
        let off_processor = match &options.kernel {
            None => !asks(options),
            Some(groups) => groups.is_empty() || groups.iter().any(|g| g == "os" || g == "all"),
        };
        // Of a whole machine that is every switch of every thread: only for who names it.
        let named = |groups: &Vec<String>| groups.iter().any(|group| group == "os");
        let off_processor =
            off_processor && (!options.everyone || options.kernel.as_ref().is_some_and(named));
        let watch = Watch::attach(&Options {
            off_processor,
            everyone: options.everyone,
            whose: options.whose,
            deadline: deadline.clone(),
            folders: folders(options.simulate)?,
            hooks: all,
        })?;
        if watch.hooks().attached == 0 {
            let reasons = watch.missing().join("\n  ");
            bail!("nothing could be hooked:\n  {reasons}");
        }
        Ok(Kernel {
            watching: watch.start(outlet)?,
            running: options.pid.is_some(),
        })
    }
}

/// The hooks of the driver, if they are wanted, and those of files.
pub fn wanted(options: &Record) -> Result<Vec<Hook>> {
    let mut all = Vec::new();
    // Who asks for this back end and nothing particular asks for the driver.
    let unsaid = Vec::new();
    let groups = match &options.kernel {
        None if !asks(options) => Some(&unsaid),
        groups => groups.as_ref(),
    };
    if let Some(groups) = groups {
        let hooks = driver_hooks(groups).map_err(|why| anyhow::anyhow!("--kernel: {why}"))?;
        all.extend(hooks);
    }
    for file in &options.hooks {
        all.extend(hooks::read(file)?.hooks);
    }
    for text in &options.hook_lines {
        let hook = Hooks::of_line(text).map_err(|why| anyhow::anyhow!("--hook '{text}': {why}"))?;
        // Who types one wants it, not a run without it.
        all.push(Hook {
            required: true,
            ..hook
        });
    }
    Ok(all)
}

/// Whether hooks are asked for besides the driver's.
pub fn asks(options: &Record) -> bool {
    !options.hooks.is_empty() || !options.hook_lines.is_empty()
}

/// Where hooks look for libraries first: a program on softgpu loads softgpu's.
pub fn folders(simulate: bool) -> Result<Vec<PathBuf>> {
    Ok(match simulate {
        true => vec![embedded::softgpu_folder()?],
        false => Vec::new(),
    })
}

/// Whether NVIDIA's driver is in this kernel.
pub fn has_driver() -> bool {
    let modules = std::fs::read_to_string("/proc/modules").unwrap_or_default();
    modules.lines().any(|line| line.starts_with("nvidia "))
}

impl Backend for Kernel {
    fn holds(&self) -> bool {
        true
    }

    fn attach(&mut self, pid: u32) -> Result<()> {
        match self.running {
            true => self.watching.adopt(pid)?,
            false => self.watching.follow(pid)?,
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<Watched> {
        let (outlet, report) = self.watching.finish();
        let mut details = String::new();
        for line in &report.details {
            let _ = writeln!(details, "cutrace: kernel: {line}");
        }
        for line in &report.missing {
            let _ = writeln!(details, "cutrace: kernel: not hooked: {line}");
        }
        let mut notes = words::lines(&report.notes, &mut details);
        if !report.missing.is_empty() {
            notes.push(format!(
                "{} of {} hooks on the kernel were not to be had here; -v says which, and why",
                report.missing.len(),
                report.hooks.total
            ));
        }
        let hooks = Count {
            attached: report.hooks.attached,
            total: report.hooks.total,
        };
        Some(Watched {
            notes,
            details,
            libraries: vec![("kernel".to_owned(), hooks)],
            aggregates: report.aggregates,
            unwritten: report.unwritten,
            failure: report.failure,
            ..Watched::new(outlet)
        })
    }
}
