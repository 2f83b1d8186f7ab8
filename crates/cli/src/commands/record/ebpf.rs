//! The kernel's back end: calls of library functions and system calls, seen by BPF programs.

use super::{
    backend::{Backend, Watched},
    outlet::Outlet,
    words,
};
use crate::arguments::Record;
use anyhow::Result;
use capture::{
    Deadline,
    ebpf::{self, Options, Recording, Target},
    preload::{Filter, Process},
};
use std::fmt::Write as _;

pub struct Ebpf {
    recording: Recording<Outlet>,
    /// What is attached to runs already.
    running: bool,
    calls: bool,
}

impl Ebpf {
    /// `calls`: nobody else sees the calls of libraries.
    pub fn start(
        options: &Record,
        calls: bool,
        outlet: Outlet,
        deadline: &Deadline,
    ) -> Result<Self> {
        let recording = ebpf::start(
            &Options {
                libraries: options.libraries.clone(),
                filter: options.filter.as_deref().map(Filter::parse),
                min_duration: options.min_duration,
                sample: options.sample,
                deadline: deadline.clone(),
                target: if options.everyone {
                    Target::All
                } else {
                    Target::Tree
                },
                running: options.everyone || options.pid.is_some(),
                whose: options.whose,
                stacks: options.stacks.as_deref().map(Filter::parse),
                system_calls: true,
                no_calls: !calls,
                ..Options::default()
            },
            outlet,
        )?;
        Ok(Ebpf {
            recording,
            running: options.pid.is_some(),
            calls,
        })
    }
}

impl Backend for Ebpf {
    fn holds(&self) -> bool {
        true
    }

    fn attach(&mut self, pid: u32) -> Result<()> {
        match self.running {
            true => self.recording.adopt(pid)?,
            false => self.recording.follow(pid)?,
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<Watched> {
        let (outlet, report) = self.recording.finish();
        let mut details = words::hooked(&report.processes, &report.libraries);
        let ended = &report.ended;
        let _ = writeln!(
            details,
            "cutrace: {} calls seen, {} lost; probes attached in {:?}, taken off in {:?}",
            ended.calls, ended.lost, ended.attach, ended.detach
        );
        if ended.short > 0 {
            let _ = writeln!(
                details,
                "cutrace: {} calls were shorter than --min-duration and left no record",
                ended.short
            );
        }
        let not_sampled = ended.not_sampled;
        let mut notes = words::lines(&report.notes, &mut details);
        if in_pid_namespace() {
            let why = "ebpf sees nothing from inside a PID namespace (a container): the kernel gives it the machine's \
                       process numbers; run cutrace outside, or the container with --pid=host";
            notes.insert(0, why.into());
        } else if report.libraries.is_empty() && self.calls {
            let what = "no CUDA call: no CUDA library (libcuda, libcudart) was loaded";
            notes.insert(0, what.into());
        }
        Some(Watched {
            notes,
            details,
            libraries: words::hooks(&report.libraries),
            processes: report.processes.iter().map(Process::named).collect(),
            tracer_cpu: report.tracer_cpu,
            not_sampled,
            unwritten: report.unwritten,
            failure: report.failure,
            ..Watched::new(outlet)
        })
    }
}

/// Whether this process has other numbers than the kernel's own.
pub fn in_pid_namespace() -> bool {
    /// The first namespace's, in every kernel (include/linux/proc_ns.h).
    const FIRST: &str = "pid:[4026531836]";
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() != FIRST)
}
