//! System calls on the driver's files, by ptrace: as a source.

use super::{Options, Recording, Session, SyscallError, available};
use crate::{
    doctor,
    ebpf::EBPF,
    launch::Preparation,
    source::{
        About, Auto, Finding, Joining, Observations, Obstacle, OtherTools, Outcome, Outlet, Part,
        Provides, RunOptions, Running, Source, SourceError, Unavailable,
    },
};
use event::Selection;
use std::{fmt::Write as _, fs};

pub struct Syscall;

pub static SYSCALL: Syscall = Syscall;

static ABOUT: About = About {
    name: "syscall",
    help: "system calls on the driver's files, with ptrace",
    shows: "what libcuda asks of the kernel driver, decoded: `RM_CONTROL …GPFIFO_GET_WORK_SUBMIT_TOKEN → ok`",
    document: Some("docs/IOCTLS.md"),
    caution: Some(
        "syscall stops threads from a separate process (cutrace-ptrace). Do not kill it with kill -9: another takes \
         over at once, but system calls into the driver fail with ENOSYS until it does.",
    ),
    provides: Provides {
        requests: true,
        ..Provides::NOTHING
    },
    other_tools: Some(OtherTools {
        words: &["strace", "ptrace", "seccomp", "ioctl", "ioctls"],
        method: "syscall",
        what: "system calls into the driver, with ptrace",
    }),
    ..About::EMPTY
};

impl From<SyscallError> for SourceError {
    fn from(cause: SyscallError) -> Self {
        SourceError::of(cause)
    }
}

impl Source for Syscall {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn available(&self, run: &RunOptions) -> Result<(), Unavailable> {
        run.is_not_the_machine()?;
        available().map_err(Unavailable::because)
    }

    /// A process that runs already can be stopped without root.
    fn auto(&self, run: &RunOptions) -> Auto {
        match run.pid() {
            Some(_) => Auto::Main(1),
            None => Auto::No,
        }
    }

    fn left_out_of_all(&self, run: &RunOptions) -> Option<String> {
        let better = EBPF.available(run).is_ok();
        better.then(|| "ebpf records the same system calls without stopping the program".into())
    }

    fn findings(&self) -> Vec<Finding> {
        let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
        let ptrace = match yama.as_deref().map(str::trim) {
            Ok("3") => Err(Obstacle::new(
                "ptrace is off until the next boot (kernel.yama.ptrace_scope = 3)",
            )),
            Ok("2") if !doctor::is_root() => Err(Obstacle::new(
                "only root may use it: sudo sysctl kernel.yama.ptrace_scope=1",
            )),
            Ok(scope) => Ok(format!(
                "--method=syscall (kernel.yama.ptrace_scope = {scope})"
            )),
            Err(_) => Ok("--method=syscall".to_owned()),
        };
        vec![Finding::new(Part::WithoutRoot, "ptrace", ptrace)]
    }

    fn start(
        &self,
        run: &RunOptions,
        joining: Joining<'_>,
    ) -> Result<Box<dyn Running>, SourceError> {
        let session = match run.pid() {
            Some(_) => Session::for_process()?,
            None => Session::for_command()?,
        };
        Ok(Box::new(Tracing {
            options: Options {
                filter: run.filter.clone().map(Selection::new),
                min_duration: run.min_duration,
                deadline: joining.deadline.clone(),
            },
            state: State::Waiting(session, joining.outlet),
        }))
    }
}

struct Tracing {
    options: Options,
    state: State,
}

enum State {
    /// Until there is something to trace.
    Waiting(Session, Outlet),
    Running(Recording<Outlet>),
    /// Between the two.
    Changing,
}

impl Running for Tracing {
    fn holds(&self) -> bool {
        true
    }

    fn prepare(&mut self, preparation: &mut Preparation) -> Result<(), SourceError> {
        if let State::Waiting(session, _) = &self.state {
            session.prepare(preparation);
        }
        Ok(())
    }

    fn attach(&mut self, pid: u32) -> Result<(), SourceError> {
        let State::Waiting(session, _) = &mut self.state else {
            return Ok(());
        };
        session.attach(pid)?;
        let State::Waiting(session, outlet) = std::mem::replace(&mut self.state, State::Changing)
        else {
            return Ok(());
        };
        self.state = State::Running(session.start(self.options.clone(), outlet)?);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<Outcome> {
        let recording = match self.state {
            State::Running(recording) => recording,
            State::Waiting(_, outlet) => return Some(Outcome::new(outlet)),
            State::Changing => return None,
        };
        let (outlet, report) = recording.finish();
        let mut details = String::new();
        let _ = writeln!(
            details,
            "cutrace: system calls: {} traced, {} of them ioctls; {} stops",
            report.calls, report.ioctls, report.stops
        );
        let mut notes = report.notes;
        if report.still_running {
            notes.push(
                "some of the command's processes are still running; a small process (cutrace-ptrace) stays until they \
                 end, because their system calls into the driver need it"
                    .into(),
            );
        }
        Some(Outcome {
            observed: Observations {
                notes,
                details,
                processes: report.processes,
                outside_cpu: report.tracer_cpu,
                unwritten: report.unwritten,
                failure: report.failure,
                ..Observations::default()
            },
            ..Outcome::new(outlet)
        })
    }
}
