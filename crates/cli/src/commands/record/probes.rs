//! Probes inside kernels as a back end: their rings become events, their maps are kept for the end.

use super::{
    allocations::Allocations,
    backend::{Backend, Watched},
    outlet::Outlet,
    probe_records::{CHUNKS, Decoder, Queue},
};
use crate::commands::gpu::{Intervals, LivePins, Unprobed};
use crate::probes::{Access, LINE_BYTES, Owner, Probes, Stopped, accesses};
use anyhow::Result;
use capture::{
    Sink, SinkError,
    clock::monotonic,
    gpu_probe::{
        Host, MapDump, MapReading, Notes, RingTotals, Rings, Session, dumps, map_readings,
    },
};
use event::{Category, ClockError, Event, Layer};
use std::{
    ffi::OsString,
    path::Path,
    sync::{Arc, Mutex, mpsc::sync_channel},
    thread::JoinHandle,
};

/// What there is to say when the program has ended.
pub struct Found {
    pub notes: Notes,
    pub dumps: Vec<MapDump>,
    pub rings: Vec<RingTotals>,
    /// Of when the maps are.
    pub readings: Vec<MapReading>,
    /// What was printed, the first of it.
    pub lines: Vec<String>,
    /// Blocks that came and went, in the device's time, the first of them.
    pub spans: Vec<(u64, u64)>,
    /// What `gpu mem` counted, with the names of what was accessed.
    pub accesses: Vec<Access>,
    /// Kernels that ran without their probes.
    pub unprobed: Unprobed,
}

impl Found {
    /// Says of accesses in whose memory they were, now that all of it is known; what there is to note of it.
    pub fn name_accesses(&mut self, allocations: &Allocations) -> Option<String> {
        self.accesses = accesses(&self.dumps, |pid, address| {
            let (found, start) = allocations.find(pid, address, LINE_BYTES)?;
            let owner = Owner {
                name: found.name.to_string(),
                number: found.number,
                bytes: found.bytes,
                op: found.op,
                times: found.times,
            };
            Some((owner, start))
        });
        (allocations.forgotten > 0).then(|| {
            format!(
                "{} allocations were not remembered: what lies in them has no name",
                allocations.forgotten
            )
        })
    }

    /// Each of them as an event at the trace's end, with ids behind all others.
    pub fn write_accesses(&self, sink: &mut impl Sink, last_id: u64) -> Result<(), SinkError> {
        let now = monotonic();
        for (access, id) in self.accesses.iter().zip(last_id.saturating_add(1)..) {
            let mut event = Event::new(id, Layer::Device, Category::Memory, "access", now);
            event.pid = access.pid;
            event.tid = access.pid;
            event.context = Some(access.context.into());
            event.args = access.details();
            sink.write(&event.into())?;
        }
        Ok(())
    }
}

/// Where the back end leaves what it found.
pub type Place = Arc<Mutex<Option<Found>>>;

pub struct ProbesBackend {
    probes: Arc<Probes>,
    session: Session,
    rings: Rings<Queue>,
    decoder: JoinHandle<Decoder>,
    place: Place,
    /// Programs of the host, running.
    host: Option<Host>,
    pins: Option<LivePins>,
    intervals: Option<Intervals>,
}

impl ProbesBackend {
    /// `near`: where to try last to keep files, besides the usual places.
    pub fn start(
        probes: Arc<Probes>,
        mut outlet: Outlet,
        place: Place,
        near: Option<&Path>,
    ) -> Result<ProbesBackend> {
        let session = Session::create(&probes.orders, near)?;
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
                name: "probes".into(),
                ..event::Backend::default()
            })
            .map_err(|why| anyhow::anyhow!(why))?;
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
        Ok(ProbesBackend {
            probes,
            session,
            rings,
            decoder,
            place,
            host,
            pins,
            intervals,
        })
    }
}

impl Backend for ProbesBackend {
    fn environment(&mut self) -> Result<Vec<(OsString, OsString)>> {
        Ok(vec![self.session.environment()])
    }

    fn finish(self: Box<Self>) -> Option<Watched> {
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
        let watched = Watched {
            clocks,
            notes: super::super::gpu::notes(&self.probes, &notes, &dumps, &rings, &readings),
            unwritten: decoder.unwritten,
            failure: decoder.failure,
            ..Watched::new(decoder.outlet)
        };
        let found = Found {
            notes,
            dumps,
            rings,
            readings,
            lines: decoder.lines,
            spans: decoder.spans,
            accesses: Vec::new(),
            unprobed: Unprobed::default(),
        };
        *self
            .place
            .lock()
            .unwrap_or_else(|broken| broken.into_inner()) = Some(found);
        Some(watched)
    }
}
