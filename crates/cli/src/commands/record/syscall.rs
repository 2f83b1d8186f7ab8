//! System calls on the driver's files, by ptrace.

use super::{
    backend::{Backend, Watched},
    outlet::Outlet,
};
use crate::arguments::Record;
use anyhow::Result;
use capture::{
    Deadline,
    launch::Preparation,
    syscall::{Options, Recording, Session},
};
use event::Selection;
use std::fmt::Write as _;

pub struct Syscall {
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

impl Syscall {
    pub fn start(options: &Record, outlet: Outlet, deadline: &Deadline) -> Result<Self> {
        Ok(Syscall {
            options: Options {
                filter: options.filter.clone().map(Selection::new),
                min_duration: options.min_duration,
                deadline: deadline.clone(),
            },
            state: State::Waiting(
                match options.pid {
                    Some(_) => Session::for_process()?,
                    None => Session::for_command()?,
                },
                outlet,
            ),
        })
    }
}

impl Backend for Syscall {
    fn holds(&self) -> bool {
        true
    }

    fn prepare(&mut self, preparation: &mut Preparation) -> Result<()> {
        if let State::Waiting(session, _) = &self.state {
            session.prepare(preparation);
        }
        Ok(())
    }

    fn attach(&mut self, pid: u32) -> Result<()> {
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

    fn finish(self: Box<Self>) -> Option<Watched> {
        let recording = match self.state {
            State::Running(recording) => recording,
            State::Waiting(_, outlet) => return Some(Watched::new(outlet)),
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
                "some of the command's processes go on; a small process (cutrace-ptrace) stays \
                 until they end, because their calls into the driver need it"
                    .into(),
            );
        }
        Some(Watched {
            notes,
            details,
            processes: report.processes,
            tracer_cpu: report.tracer_cpu,
            unwritten: report.unwritten,
            failure: report.failure,
            ..Watched::new(outlet)
        })
    }
}
