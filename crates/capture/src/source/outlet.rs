//! Where sources write: one alone straight into the trace, several through a merge; behind both, records get their
//! parents and depths.

use super::{RunError, SourceRef};
use crate::{Inlet, Merge, Nested, Sink, SinkError, trace_file::TraceFile};
use event::{Backend, Record};
use std::time::Duration;

/// How long a record waits for those of a source that does not say how far it is. preload is
/// 50 ms behind, and says so.
const WINDOW: Duration = Duration::from_millis(200);

/// What one source writes into.
pub enum Outlet {
    Alone(Box<Nested<TraceFile>>),
    Merged(Inlet),
}

impl Sink for Outlet {
    fn begin(&mut self, backend: Backend) -> Result<(), SinkError> {
        match self {
            Outlet::Alone(file) => file.begin(backend),
            Outlet::Merged(inlet) => inlet.begin(backend),
        }
    }

    fn begin_all(&mut self, backends: Vec<Backend>) -> Result<(), SinkError> {
        match self {
            Outlet::Alone(file) => file.begin_all(backends),
            Outlet::Merged(inlet) => inlet.begin_all(backends),
        }
    }

    fn write(&mut self, record: &mut Record) -> Result<(), SinkError> {
        match self {
            Outlet::Alone(file) => file.write(record),
            Outlet::Merged(inlet) => inlet.write(record),
        }
    }

    fn give(&mut self, record: Record) -> Result<(), SinkError> {
        match self {
            Outlet::Alone(file) => file.give(record),
            Outlet::Merged(inlet) => inlet.give(record),
        }
    }

    fn write_whole(&mut self, record: &mut Record) -> Result<(), SinkError> {
        match self {
            Outlet::Alone(file) => file.write_whole(record),
            Outlet::Merged(inlet) => inlet.write_whole(record),
        }
    }

    fn give_whole(&mut self, record: Record) -> Result<(), SinkError> {
        match self {
            Outlet::Alone(file) => file.give_whole(record),
            Outlet::Merged(inlet) => inlet.give_whole(record),
        }
    }

    fn splits_spans(&self) -> bool {
        match self {
            Outlet::Alone(file) => file.splits_spans(),
            Outlet::Merged(inlet) => inlet.splits_spans(),
        }
    }

    fn keeps_records(&self) -> bool {
        match self {
            Outlet::Alone(file) => file.keeps_records(),
            Outlet::Merged(inlet) => inlet.keeps_records(),
        }
    }

    fn thread_begins(&mut self, pid: u32, tid: u32, ns: u64) -> Result<(), SinkError> {
        match self {
            Outlet::Alone(file) => file.thread_begins(pid, tid, ns),
            Outlet::Merged(inlet) => inlet.thread_begins(pid, tid, ns),
        }
    }

    fn until(&mut self, ns: u64) {
        match self {
            Outlet::Alone(file) => file.until(ns),
            Outlet::Merged(inlet) => inlet.until(ns),
        }
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        match self {
            Outlet::Alone(file) => file.flush(),
            Outlet::Merged(inlet) => inlet.flush(),
        }
    }
}

/// The trace, as the sources give it back.
pub(super) enum Joint {
    /// The only source has it.
    Lent,
    Merge(Merge<Nested<TraceFile>>),
}

/// What the joint itself has to say.
#[derive(Default)]
pub(super) struct Joined {
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

/// An outlet for each of these sources.
pub(super) fn outlets(
    file: TraceFile,
    sources: &[SourceRef],
) -> Result<(Vec<Outlet>, Joint), RunError> {
    let file = Nested::new(file);
    if sources.len() == 1 {
        return Ok((vec![Outlet::Alone(Box::new(file))], Joint::Lent));
    }
    let mut merge = Merge::new(file, WINDOW).map_err(RunError::Merge)?;
    let outlets = (sources.iter())
        .map(|source| source.about())
        .map(|about| match about.provides.calls {
            true => Outlet::Merged(merge.source_of_calls(about.name)),
            false => Outlet::Merged(merge.source(about.name)),
        })
        .collect();
    Ok((outlets, Joint::Merge(merge)))
}

impl Joint {
    /// The trace, when every source has given its outlet back.
    pub fn finish(self, outlets: Vec<Outlet>) -> Result<(TraceFile, Joined), RunError> {
        let mut alone = None;
        for outlet in outlets {
            match outlet {
                Outlet::Alone(file) => alone = Some(file.into_inner()),
                Outlet::Merged(inlet) => inlet.finish(),
            }
        }
        match (self, alone) {
            (Joint::Lent, Some(file)) => Ok((file, Joined::default())),
            (Joint::Merge(merge), None) => {
                let merged = merge.finish();
                let joined = Joined {
                    unwritten: merged.unwritten,
                    failure: merged.failure,
                };
                Ok((merged.sink.into_inner(), joined))
            }
            _ => Err(RunError::NoTrace),
        }
    }
}
