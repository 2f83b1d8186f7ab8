//! What sources have to say at the end, each for itself and all together.

use super::Outlet;
use crate::{SinkError, trace_file::TraceFile};
use event::{Aggregate, ClockError, Hooks, Overhead, ProcessName, Shed};
use std::{any::Any, time::Duration};

/// What was seen and what it took, by one source or by all together.
#[derive(Default)]
pub struct Observations {
    /// Things a user should know.
    pub notes: Vec<String>,
    /// Lines for the curious (`-v`).
    pub details: String,
    /// Each library's name, with what of it was hooked.
    pub libraries: Vec<(String, Hooks)>,
    /// What the processes are called that were seen.
    pub processes: Vec<ProcessName>,
    pub clocks: Vec<ClockError>,
    /// What was counted in the kernel instead of recording it.
    pub aggregates: Vec<Aggregate>,
    /// Calls that --sample left out.
    pub not_sampled: u64,
    /// What --budget left out.
    pub shed: Option<Shed>,
    /// What recording took in the program's threads.
    pub overhead: Option<Overhead>,
    /// CPU time of the tracer outside this process.
    pub outside_cpu: Duration,
    /// Records that could not be kept, and why not.
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

impl Observations {
    fn add(&mut self, other: Observations) {
        self.notes.extend(other.notes);
        self.details.push_str(&other.details);
        self.libraries.extend(other.libraries);
        (other.processes.into_iter()).for_each(|process| self.name(process));
        self.clocks.extend(other.clocks);
        self.aggregates.extend(other.aggregates);
        self.not_sampled += other.not_sampled;
        self.shed = self.shed.take().or(other.shed);
        self.overhead = self.overhead.take().or(other.overhead);
        self.outside_cpu += other.outside_cpu;
        self.unwritten += other.unwritten;
        self.failure = self.failure.take().or(other.failure);
    }

    /// What a process is called; it may have become another program since, and one source knows more than another.
    pub fn name(&mut self, process: ProcessName) {
        let known = self.processes.iter_mut().find(|it| it.pid == process.pid);
        match known {
            None if !process.name.is_empty() => self.processes.push(process),
            Some(known) if !process.command.is_empty() => {
                let parent = process.parent.or(known.parent);
                *known = ProcessName { parent, ..process };
            }
            _ => {}
        }
    }
}

/// What a source has to say at the end.
pub struct Outcome {
    pub outlet: Outlet,
    pub observed: Observations,
    /// What only this source finds.
    pub results: Option<Box<dyn Results>>,
}

impl Outcome {
    /// Nothing but what is in the outlet.
    pub fn new(outlet: Outlet) -> Self {
        Outcome {
            outlet,
            observed: Observations::default(),
            results: None,
        }
    }
}

/// What only one source finds: readers ask for its type ([`Together::results`]).
pub trait Results: Any + Send {
    /// Every record is in the trace by now: what needs all of them is found out, said and written here.
    fn complete(&mut self, _trace: &mut TraceFile, _said: &mut Together) {}
}

/// What all sources together have to say.
#[derive(Default)]
pub struct Together {
    pub observed: Observations,
    results: Vec<Box<dyn Results>>,
}

impl Together {
    /// Their outlets, and the rest of it added up.
    pub(super) fn of(outcomes: Vec<Outcome>) -> (Vec<Outlet>, Together) {
        let mut all = Together::default();
        let mut outlets = Vec::new();
        for one in outcomes {
            outlets.push(one.outlet);
            all.observed.add(one.observed);
            all.results.extend(one.results);
        }
        (outlets, all)
    }

    /// Lets each source's results see the whole trace.
    pub(super) fn complete(&mut self, trace: &mut TraceFile) {
        let mut results = std::mem::take(&mut self.results);
        for one in &mut results {
            one.complete(trace, self);
        }
        self.results = results;
    }

    /// What a source found, if it took part: its results are of this type.
    pub fn results<T: Results>(&mut self) -> Option<Box<T>> {
        let is_meant = |one: &dyn Results| (one as &dyn Any).is::<T>();
        let mut results = self.results.iter();
        let place = results.position(|one| is_meant(&**one))?;
        let any: Box<dyn Any> = self.results.swap_remove(place);
        any.downcast().ok()
    }
}
