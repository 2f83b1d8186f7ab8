//! Probes inside kernels as a source: their rings become events, their maps are kept for the end.

use super::{
    Host, HostError, Notes, ProbeError, ProbeResults, Rings, Session, dumps,
    intervals::Intervals,
    live_pins::{LivePins, PinError},
    map_readings,
    programs::{Probes, Stopped},
    records::{CHUNKS, Decoder, Queue},
    results::Around,
    unprobed::Unprobed,
    words,
};
use crate::{
    Sink,
    source::{
        About, Joining, Library, Observations, OtherTools, Outcome, RunOptions, Running, Source,
        SourceError, Unavailable,
    },
    trace_file::Onlooker,
};
use event::ClockError;
use std::{
    ffi::OsString,
    sync::{Arc, mpsc::sync_channel},
    thread::JoinHandle,
};

pub struct ProbesInKernels;

pub static PROBES: ProbesInKernels = ProbesInKernels;

static ABOUT: About = About {
    name: "probes",
    typed: Some("`cutrace gpu`"),
    help: "eBPF programs inside kernels",
    shows: "your eBPF programs inside CUDA kernels, run by each GPU thread",
    document: Some("docs/GPU-PROBES.md"),
    needs: "kernels with PTX",
    by_method: false,
    carries: &[Library::GpuProbes],
    other_tools: Some(OtherTools {
        words: &["ncu", "nsight-compute", "sanitizer"],
        method: "auto",
        what: "`cutrace gpu` looks inside kernels",
    }),
    ..About::EMPTY
};

impl From<ProbeError> for SourceError {
    fn from(cause: ProbeError) -> Self {
        SourceError::of(cause)
    }
}

impl From<HostError> for SourceError {
    fn from(cause: HostError) -> Self {
        SourceError::of(cause)
    }
}

impl From<PinError> for SourceError {
    fn from(cause: PinError) -> Self {
        SourceError::of(cause)
    }
}

impl Source for ProbesInKernels {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn available(&self, _run: &RunOptions) -> Result<(), Unavailable> {
        Ok(())
    }

    fn asked_for_by(&self, run: &RunOptions) -> Option<&'static str> {
        run.probes.as_ref().map(|_| "cutrace gpu")
    }

    fn onlooker(&self, run: &RunOptions) -> Option<Box<dyn Onlooker>> {
        let probes = run.probes.as_ref()?;
        Some(Box::new(Around::new(probes.addresses_of().is_some())))
    }

    fn start(
        &self,
        run: &RunOptions,
        joining: Joining<'_>,
    ) -> Result<Box<dyn Running>, SourceError> {
        let Some(probes) = run.probes.clone() else {
            return Err(SourceError::in_words(
                "use cutrace gpu to put probes into kernels",
            ));
        };
        let mut outlet = joining.outlet;
        let session = Session::create(&probes.orders, run.near.as_deref())?;
        let host = (probes.host.as_ref()).map(|part| Host::start(part, session.folder()));
        let host = host.transpose()?;
        let pins = (probes.pin.as_ref())
            .map(|folder| LivePins::start(folder, session.folder(), &probes.orders))
            .transpose()?;
        let intervals = (probes.orders.every)
            .map(|_| Intervals::start(probes.clone(), session.folder()))
            .transpose()?;
        outlet
            .begin(event::Backend {
                name: ABOUT.name.into(),
                ..event::Backend::default()
            })
            .map_err(SourceError::of)?;
        let (sender, receiver) = sync_channel(CHUNKS);
        let queue = Queue::new(sender);
        let rings = Rings::start(session.folder(), &probes.orders, queue)?;
        let mut decoder = Decoder::new(probes.clone(), outlet, session.folder().to_owned());
        let decoder = std::thread::Builder::new()
            .name("cutrace-gpu-decode".into())
            .spawn(move || {
                decoder.run(&receiver);
                decoder
            })?;
        Ok(Box::new(Probing {
            probes,
            session,
            rings,
            decoder,
            host,
            pins,
            intervals,
        }))
    }
}

struct Probing {
    probes: Arc<Probes>,
    session: Session,
    rings: Rings<Queue>,
    decoder: JoinHandle<Decoder>,
    /// Programs of the host, running.
    host: Option<Host>,
    pins: Option<LivePins>,
    intervals: Option<Intervals>,
}

impl Running for Probing {
    fn environment(&mut self) -> Result<Vec<(OsString, OsString)>, SourceError> {
        Ok(vec![self.session.environment()])
    }

    fn finish(self: Box<Self>) -> Option<Outcome> {
        if let Some(pins) = self.pins {
            pins.finish();
        }
        if let Some(intervals) = self.intervals {
            intervals.finish();
        }
        let (queue, rings) = self.rings.finish();
        drop(queue);
        let decoder = self.decoder.join();
        let mut decoder = decoder.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut notes = Notes::read(self.session.folder());
        let mut dumps = dumps(
            self.session.folder(),
            &self.probes.orders,
            |pid, context| {
                notes
                    .contexts
                    .get(&(pid, context))
                    .map_or(1, |found| found.1)
            },
        );
        if let Some(found) = self.host.map(Host::finish) {
            dumps.extend(found.maps);
            notes.words.extend(found.notes);
        }
        let readings = map_readings(self.session.folder());
        let stopped = (self.probes.budgeted.as_ref())
            .map_or_else(Vec::new, |budgeted| budgeted.take(&mut dumps));
        dumps.retain(|dump| dump.map.is_none_or(|map| !self.probes.is_hidden(map)));
        notes.words.extend(self.probes.notes.iter().cloned());
        notes.words.extend(stopped.iter().map(Stopped::note));
        decoder.stopped(&stopped);
        decoder.lost(&dumps);
        let clocks = (notes.clocks.values())
            .map(|clock| ClockError {
                source: "globaltimer".into(),
                error_ns: clock.error(),
                pairs: clock.pairs() as u32,
            })
            .collect();
        let said = words::notes(&self.probes, &notes, &dumps, &rings, &readings);
        let found = ProbeResults {
            notes,
            dumps,
            rings,
            readings,
            lines: decoder.lines,
            spans: decoder.spans,
            one_of: self.probes.addresses_of().unwrap_or(1),
            accesses: Vec::new(),
            unprobed: Unprobed::default(),
        };
        Some(Outcome {
            observed: Observations {
                clocks,
                notes: said,
                unwritten: decoder.unwritten,
                failure: decoder.failure,
                ..Observations::default()
            },
            results: Some(Box::new(found)),
            ..Outcome::new(decoder.outlet)
        })
    }
}
