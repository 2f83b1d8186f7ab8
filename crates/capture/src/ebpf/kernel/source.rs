//! The driver's own functions, tracepoints, and what hooks ask for: as a source.

use super::{KernelWatch, Options, Watching, driver_hooks};
use crate::{
    doctor,
    ebpf::{self, EBPF},
    hooks::Hook,
    kernel::{Btf, Tracefs},
    source::{
        About, Finding, Joining, Observations, Obstacle, OtherTools, Outcome, Outlet, Part,
        RunOptions, Running, Source, SourceError, SourceRef, Unavailable, words,
    },
    syscall::SYSCALL,
};
use event::Hooks as Count;
use std::{env, fmt::Write as _, fs, path::Path};

pub struct Kernel;

pub static KERNEL: Kernel = Kernel;

static ABOUT: About = About {
    name: "kernel",
    typed: Some("`--kernel`, `--hook PROBE`, `--hooks FILE`"),
    help: "the driver's own functions, and kernel hooks of your own (root)",
    shows: "functions of nvidia.ko and nvidia-uvm.ko, interrupts, off-CPU time, and hooks of your own, optionally only \
            counted in the kernel",
    document: Some("docs/HOOKS.md"),
    needs: "root, and a kernel with kprobes",
    other_tools: Some(OtherTools {
        words: &[
            "kprobe",
            "kprobes",
            "kretprobe",
            "ftrace",
            "tracepoint",
            "perf",
        ],
        method: "kernel",
        what: "functions of the NVIDIA driver; needs root",
    }),
    ..About::EMPTY
};

impl Source for Kernel {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn available(&self, _run: &RunOptions) -> Result<(), Unavailable> {
        doctor::rights().map(drop).map_err(Unavailable::because)
    }

    /// Without the driver there is little to hook that the user would not have named.
    fn left_out_of_all(&self, _run: &RunOptions) -> Option<String> {
        (!has_driver()).then(|| "NVIDIA's driver is not loaded".into())
    }

    fn asked_for_by(&self, run: &RunOptions) -> Option<&'static str> {
        let asks = run.driver_groups.is_some() || !run.hooks.is_empty();
        asks.then_some("--kernel, --hooks and --hook")
    }

    /// The requests that lead to the driver's functions.
    fn companion(&self, run: &RunOptions, taken: &[SourceRef]) -> Option<SourceRef> {
        let is_told = taken.iter().any(|source| source.about().provides.requests);
        if run.driver_groups.is_none() || run.is_everyone() || is_told {
            return None;
        }
        // ptrace stops the program at every request, and its times are mostly those of the stops.
        if EBPF.available(run).is_ok() && !ebpf::in_pid_namespace() {
            return Some(&EBPF);
        }
        SYSCALL.available(run).is_ok().then_some(&SYSCALL)
    }

    fn findings(&self) -> Vec<Finding> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let release = format!("{} {}", release.trim(), env::consts::ARCH);
        let lines = [
            ("release", Ok(release)),
            ("rights", doctor::rights()),
            ("tracefs", tracefs()),
            ("BTF", types()),
            ("symbols", symbols()),
            ("not locked", lockdown()),
        ];
        let lines = lines.into_iter();
        lines
            .map(|(name, found)| Finding::new(Part::Kernel, name, found))
            .collect()
    }

    fn start(
        &self,
        run: &RunOptions,
        joining: Joining<'_>,
    ) -> Result<Box<dyn Running>, SourceError> {
        let off_processor = match &run.driver_groups {
            None => run.hooks.is_empty(),
            Some(groups) => groups.is_empty() || groups.iter().any(|g| g == "os" || g == "all"),
        };
        // Of a whole machine that is every switch of every thread: only for who names it.
        let named = |groups: &Vec<String>| groups.iter().any(|group| group == "os");
        let off_processor =
            off_processor && (!run.is_everyone() || run.driver_groups.as_ref().is_some_and(named));
        let watch = KernelWatch::attach(&Options {
            off_processor,
            everyone: run.is_everyone(),
            whose: run.whose,
            deadline: joining.deadline.clone(),
            // A program on softgpu loads softgpu's libraries.
            folders: (run.softgpu.iter())
                .map(|softgpu| softgpu.folder.clone())
                .collect(),
            hooks: wanted(run)?,
        })?;
        if watch.hooks().attached == 0 {
            let reasons = watch.missing().join("\n  ");
            let words = format!("nothing could be hooked:\n  {reasons}");
            return Err(SourceError::in_words(words));
        }
        Ok(Box::new(Hooked {
            watching: watch.start(joining.outlet)?,
            running: run.pid().is_some(),
        }))
    }
}

/// The hooks of the driver, if they are wanted, and the others. Who asks for this source and nothing particular
/// asks for the driver.
fn wanted(run: &RunOptions) -> Result<Vec<Hook>, SourceError> {
    let unsaid = Vec::new();
    let groups = match &run.driver_groups {
        None if run.hooks.is_empty() => Some(&unsaid),
        groups => groups.as_ref(),
    };
    let mut all = match groups {
        Some(groups) => {
            driver_hooks(groups).map_err(|why| SourceError::in_words(format!("--kernel: {why}")))?
        }
        None => Vec::new(),
    };
    all.extend(run.hooks.iter().cloned());
    Ok(all)
}

/// Whether NVIDIA's driver is in this kernel.
fn has_driver() -> bool {
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    modules.lines().any(|line| line.starts_with("nvidia "))
}

fn tracefs() -> Result<String, Obstacle> {
    match Tracefs::find() {
        Some(tracefs) => Ok(tracefs.folder().display().to_string()),
        None if doctor::is_root() => Err(Obstacle::new(
            "type: mount -t tracefs nodev /sys/kernel/tracing",
        )),
        None => Err(Obstacle::new(
            "not mounted, or readable by root only: try sudo cutrace doctor",
        )),
    }
}

fn types() -> Result<String, Obstacle> {
    match Path::new("/sys/kernel/btf/vmlinux").exists() {
        true => {
            let driver = Btf::has_module("nvidia");
            let words = if driver { " and of nvidia.ko" } else { "" };
            Ok(format!("types of the kernel{words}"))
        }
        false => Err(Obstacle::new(
            "this kernel has no BTF (CONFIG_DEBUG_INFO_BTF), which fentry and argument names need",
        )),
    }
}

fn symbols() -> Result<String, Obstacle> {
    match doctor::tells_addresses() {
        true => Ok("/proc/kallsyms shows addresses".to_owned()),
        false => Err(Obstacle::new(
            "/proc/kallsyms hides addresses from this user (kernel.kptr_restrict)",
        )),
    }
}

fn lockdown() -> Result<String, Obstacle> {
    match doctor::lockdown() {
        None => Ok("the kernel is not locked down".to_owned()),
        Some(level) => Err(Obstacle::new(format!(
            "lockdown is on ({level}), which forbids probes on kernel functions; boot with lockdown=none or without Secure Boot"
        ))),
    }
}

struct Hooked {
    watching: Watching<Outlet>,
    /// What is attached to runs already.
    running: bool,
}

impl Running for Hooked {
    fn holds(&self) -> bool {
        true
    }

    fn attach(&mut self, pid: u32) -> Result<(), SourceError> {
        match self.running {
            true => self.watching.adopt(pid)?,
            false => self.watching.follow(pid)?,
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<Outcome> {
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
                "{} of {} kernel hooks could not be attached here; -v says which, and why",
                report.missing.len(),
                report.hooks.total
            ));
        }
        let hooks = Count {
            attached: report.hooks.attached,
            total: report.hooks.total,
        };
        Some(Outcome {
            observed: Observations {
                notes,
                details,
                libraries: vec![("kernel".to_owned(), hooks)],
                aggregates: report.aggregates,
                unwritten: report.unwritten,
                failure: report.failure,
                ..Observations::default()
            },
            ..Outcome::new(outlet)
        })
    }
}
