//! The kernel's view, as a source: calls of library functions and system calls, seen by BPF programs.

use super::{EbpfError, Options, Recording, Target, available, start};
use crate::{
    doctor,
    notes::counted,
    preload::{Filter, Process},
    source::{
        About, Auto, Finding, Joining, Observations, OtherTools, Outcome, Outlet, Part, Provides,
        RunOptions, Running, Source, SourceError, SourceRef, Unavailable, words,
    },
};
use std::fmt::Write as _;

pub struct Ebpf;

pub static EBPF: Ebpf = Ebpf;

static ABOUT: About = About {
    name: "ebpf",
    help: "CUDA calls and system calls, recorded from the kernel (root)",
    shows: "the same calls and system calls without touching the program; works on running processes (`-p PID`), the \
            whole machine (`-a`), a user or a cgroup",
    document: Some("docs/EBPF.md"),
    needs: "root, or CAP_BPF and CAP_PERFMON",
    provides: Provides {
        calls: true,
        requests: true,
        ..Provides::NOTHING
    },
    other_tools: Some(OtherTools {
        words: &[
            "bcc", "bpf", "bpftrace", "uprobe", "uprobes", "usdt", "libbpf",
        ],
        method: "ebpf",
        what: "kernel probes on the CUDA libraries and on system calls; needs root",
    }),
    ..About::EMPTY
};

impl From<EbpfError> for SourceError {
    fn from(cause: EbpfError) -> Self {
        SourceError::of(cause)
    }
}

impl Source for Ebpf {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn available(&self, _run: &RunOptions) -> Result<(), Unavailable> {
        available().map_err(Unavailable::because)
    }

    /// Nothing else sees what runs already as well.
    fn auto(&self, run: &RunOptions) -> Auto {
        match run.is_command() {
            true => Auto::No,
            false => Auto::Main(2),
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let found = doctor::ebpf().into_iter();
        found
            .map(|(name, found)| Finding::new(Part::Ebpf, name, found))
            .collect()
    }

    fn start(
        &self,
        run: &RunOptions,
        joining: Joining<'_>,
    ) -> Result<Box<dyn Running>, SourceError> {
        let plan = joining.plan;
        // Calls that another source sees from inside are not recorded twice.
        let own: SourceRef = &EBPF;
        let mut others = plan.sources.iter().filter(|other| **other != own);
        let calls =
            plan.companion != Some(own) && !others.any(|other| other.about().provides.calls);
        let recording = start(
            &Options {
                libraries: run.libraries.clone(),
                filter: run.filter.as_deref().map(Filter::parse),
                min_duration: run.min_duration,
                sample: run.one_of(),
                deadline: joining.deadline.clone(),
                target: match run.is_everyone() {
                    true => Target::All,
                    false => Target::Tree,
                },
                running: !run.is_command(),
                whose: run.whose,
                stacks: run.stacks.as_deref().map(Filter::parse),
                system_calls: true,
                no_calls: !calls,
                ..Options::default()
            },
            joining.outlet,
        )?;
        Ok(Box::new(Watching {
            recording,
            running: run.pid().is_some(),
            calls,
        }))
    }
}

struct Watching {
    recording: Recording<Outlet>,
    /// What is attached to runs already.
    running: bool,
    /// Nobody else sees the calls of libraries.
    calls: bool,
}

impl Running for Watching {
    fn holds(&self) -> bool {
        true
    }

    fn attach(&mut self, pid: u32) -> Result<(), SourceError> {
        match self.running {
            true => self.recording.adopt(pid)?,
            false => self.recording.follow(pid)?,
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<Outcome> {
        let (outlet, report) = self.recording.finish();
        let mut details = words::hooked(&report.processes, &report.libraries);
        let ended = &report.ended;
        let _ = writeln!(
            details,
            "cutrace: {} seen, {} lost; probes attached in {:?}, detached in {:?}",
            counted(ended.calls, "call", "calls"),
            ended.lost,
            ended.attach,
            ended.detach
        );
        if ended.short > 0 {
            let _ = writeln!(
                details,
                "cutrace: {} shorter than --min-duration not recorded",
                counted(ended.short, "call", "calls")
            );
        }
        let not_sampled = ended.not_sampled;
        let mut notes = words::lines(&report.notes, &mut details);
        if in_pid_namespace() {
            let why = "ebpf cannot match processes from inside a PID namespace (a container): run cutrace outside the \
                       container, or start the container with --pid=host";
            notes.insert(0, why.into());
        } else if report.libraries.is_empty() && self.calls {
            let what = "no CUDA call: no CUDA library (libcuda, libcudart) was loaded";
            notes.insert(0, what.into());
        }
        Some(Outcome {
            observed: Observations {
                notes,
                details,
                libraries: words::hooks(&report.libraries),
                processes: report.processes.iter().map(Process::named).collect(),
                not_sampled,
                unwritten: report.unwritten,
                failure: report.failure,
                ..Observations::default()
            },
            ..Outcome::new(outlet)
        })
    }
}

/// Whether this process has other numbers than the kernel's own.
pub fn in_pid_namespace() -> bool {
    /// The first namespace's, in every kernel (include/linux/proc_ns.h).
    const FIRST: &str = "pid:[4026531836]";
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() != FIRST)
}
