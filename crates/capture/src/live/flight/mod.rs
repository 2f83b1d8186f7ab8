//! `--flight`: the last seconds of a run, written down when something happens.
//!
//! Records go to segments on disk, short traces of their own in one folder, the oldest of which is dropped. So memory
//! stays as it is however long a run takes, and killing cutrace leaves the segments behind ([`recover`]). A
//! snapshot is made of them by a thread, while recording goes on.

mod asked;
mod segments;
mod snapshot;

pub use asked::{Recorder, find_recorder, is_request};
pub use snapshot::{Snapshot, SnapshotError, recover, unfinished};

use super::{
    Reason,
    trigger::{Trigger, TriggerWatch},
};
use crate::launch::block_signals;
use event::{Kind, Meta, Record, Summary};
use segments::Segments;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    thread::JoinHandle,
    time::Duration,
};

/// What to keep, and until when.
#[derive(Debug, Clone)]
pub struct FlightOptions {
    pub length: Duration,
    /// What segments may take on the disk.
    pub most: u64,
    pub trigger: Trigger,
    /// Takes a line for each snapshot, if anybody reads them.
    pub say: Option<fn(&str)>,
}

/// Snapshots of a run, at most; and how long one reason is no reason again.
const MOST_SNAPSHOTS: usize = 32;
const SPACING: u64 = 5_000_000_000;
/// What happened last is still on its way here: so long is waited for it.
const DELAY: u64 = 1_000_000_000;

/// Keeps the last records of a run.
pub struct Flight {
    options: FlightOptions,
    /// What snapshots are called, but for the reason and the extension.
    base: PathBuf,
    meta: Meta,
    segments: Segments,
    watch: TriggerWatch,
    /// Why a snapshot is about to be written, and when that was known.
    due: Option<(Reason, u64)>,
    /// When each reason was last one.
    taken: Vec<(Reason, u64)>,
    /// Reasons that came too soon after another, or when there were enough.
    suppressed: u64,
    writing: Vec<JoinHandle<Result<Snapshot, SnapshotError>>>,
    asked: u64,
}

/// What a run left behind.
#[derive(Debug, Default)]
pub struct FlightReport {
    pub snapshots: Vec<Snapshot>,
    pub notes: Vec<String>,
}

impl Flight {
    /// For a trace that would be called `path`.
    pub fn start(path: &Path, meta: &Meta, options: FlightOptions) -> trace::Result<Self> {
        let base = path.with_extension("");
        let mut folder = OsString::from(&base);
        folder.push(".flight");
        asked::begin();
        Ok(Flight {
            segments: Segments::create(folder.into(), &options, meta)?,
            watch: TriggerWatch::new(options.trigger.clone()),
            options,
            base,
            meta: meta.clone(),
            due: None,
            taken: Vec::new(),
            suppressed: 0,
            writing: Vec::new(),
            asked: asked::count(),
        })
    }

    pub fn write(&mut self, record: &Record) -> trace::Result<()> {
        self.segments.write(record)?;
        if let Some(reason) = self.watch.see(record) {
            self.wants(reason, record.ts());
        }
        if let Some((_, at)) = &self.due
            && record.ts() >= at.saturating_add(DELAY)
        {
            self.take();
        }
        Ok(())
    }

    /// From time to time, also when nothing is recorded.
    pub fn tick(&mut self, now: u64) -> trace::Result<()> {
        self.segments.flush()?;
        let asked = asked::count();
        if asked != self.asked {
            self.asked = asked;
            self.wants(Reason::Asked, now);
        }
        if let Some(reason) = self.watch.tick(now) {
            self.wants(reason, now);
        }
        if let Some((_, at)) = &self.due
            && now >= at.saturating_add(DELAY)
        {
            self.take();
        }
        Ok(())
    }

    fn wants(&mut self, reason: Reason, now: u64) {
        let is_recent = |(_, at): &&(Reason, u64)| now.saturating_sub(*at) < SPACING;
        // Who asks gets an answer; errors come by the thousand.
        let again = self
            .taken
            .iter()
            .filter(is_recent)
            .any(|(taken, _)| *taken == reason);
        let again = again && reason != Reason::Asked;
        if self.due.is_some() || again || self.taken.len() >= MOST_SNAPSHOTS {
            self.suppressed += 1;
            return;
        }
        self.taken.push((reason.clone(), now));
        self.due = Some((reason, now));
    }

    /// Has a thread write the snapshot that is due.
    fn take(&mut self) {
        let Some((reason, at)) = self.due.take() else {
            return;
        };
        let Ok(segments) = self.segments.all() else {
            return;
        };
        let from = at.saturating_sub(self.options.length.as_nanos() as u64);
        let order = snapshot::Order {
            path: self.name(&reason),
            meta: self.meta.clone(),
            reason,
            segments,
            from,
            exit: None,
            told: self.segments.told(),
            say: self.options.say,
        };
        let spawned = std::thread::Builder::new()
            .name("cutrace-snapshot".into())
            .spawn(move || {
                block_signals();
                order.write()
            });
        self.writing.extend(spawned.ok());
    }

    /// `trace_20261117_120000-out-of-memory.arrows`, with a number if there is one already.
    fn name(&self, reason: &Reason) -> PathBuf {
        let named = |more: &str| {
            let mut name = OsString::from(&self.base);
            name.push(format!("-{reason}{more}.arrows"));
            PathBuf::from(name)
        };
        let is_taken = |path: &PathBuf| path.exists() || self.segments.reserved(path);
        let plain = named("");
        let path = match is_taken(&plain) {
            false => plain,
            true => (2..1000)
                .map(|number| named(&format!("-{number}")))
                .find(|path| !is_taken(path))
                .unwrap_or(plain),
        };
        self.segments.reserve(&path);
        path
    }

    /// The run is over.
    pub fn finish(mut self, summary: &Summary) -> FlightReport {
        let end = summary
            .exit
            .filter(|_| self.options.trigger.exit)
            .and_then(Reason::of_end);
        // What is about to be written has its reason; the end adds nothing to it but its status.
        if self.due.is_none()
            && let Some(reason) = end
        {
            // The driver takes seconds to tear down a process that was killed, and it is gone only then: what counts is
            // what the program did last.
            let at = match self.segments.last() {
                0 => summary.end_ns,
                last => last.min(summary.end_ns),
            };
            self.due = Some((reason, at));
        }
        self.take();
        let mut report = FlightReport::default();
        for thread in std::mem::take(&mut self.writing) {
            match thread.join() {
                Ok(Ok(snapshot)) => report.snapshots.push(snapshot),
                Ok(Err(why)) => report
                    .notes
                    .push(format!("a snapshot could not be written: {why}")),
                Err(_) => report
                    .notes
                    .push("a snapshot could not be written: its thread failed".into()),
            }
        }
        if self.suppressed > 0 {
            report.notes.push(format!(
                "{} more triggers wrote no snapshot: one for the same reason every {} s, {MOST_SNAPSHOTS} in all",
                self.suppressed,
                SPACING / 1_000_000_000
            ));
        }
        self.segments.remove();
        report
    }
}

/// Whether a record is of something that the program did: samples and context switches of the GPU come for as long as
/// cutrace runs, and what was lost is counted at the end.
fn is_of_program(record: &Record) -> bool {
    match record {
        Record::Event(event) => !matches!(event.kind, Kind::Counter | Kind::GpuContext),
        Record::Meaning(_) => true,
        Record::Lost(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Event, Extent, Layer, Lost};

    /// A killed process that used a GPU is gone only seconds later; samples of the GPU go on until then.
    #[test]
    fn the_last_seconds_are_those_of_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let options = FlightOptions {
            length: Duration::from_secs(2),
            most: 64 << 20,
            trigger: Trigger::USUAL,
            say: None,
        };
        let path = folder.path().join("t.arrows");
        let mut flight = Flight::start(&path, &Meta::default(), options).unwrap();
        let ms = |count: u64| count * 1_000_000;
        for time in (0..10_000).step_by(10) {
            let event = if time < 5_000 {
                let mut call = Event::new(time, Layer::Driver, Category::Memory, "c", ms(time));
                call.extent = Extent::Open;
                flight.write(&Record::Event(call.clone())).unwrap();
                if time == 2_990 {
                    // It never ends.
                    continue;
                }
                call.extent = Extent::Closed(1_000);
                call
            } else {
                let mut sample = Event::new(time, Layer::Gpu, Category::Other, "s", ms(time));
                sample.kind = Kind::Counter;
                sample
            };
            flight.write(&Record::Event(event)).unwrap();
        }
        // What CUPTI lost is counted when the process is gone, and so are switches of the GPU to other processes.
        let lost = Lost {
            ts: ms(9_999),
            count: 1,
            source: Some("cupti".into()),
            layer: Some(Layer::Gpu),
            pid: None,
            tid: None,
        };
        flight.write(&Record::Lost(lost)).unwrap();
        let mut switch = Event::new(9_999, Layer::Gpu, Category::Context, "s", ms(9_999));
        switch.kind = Kind::GpuContext;
        flight.write(&Record::Event(switch)).unwrap();
        let summary = Summary {
            end_ns: ms(10_000),
            exit: Some(128 + 9),
            ..Summary::default()
        };
        let report = flight.finish(&summary);
        assert_eq!(report.snapshots.len(), 1, "{:?}", report.notes);
        let snapshot = &report.snapshots[0];
        let (mut begun, mut calls) = (Vec::new(), Vec::new());
        for record in trace::open(&snapshot.path).unwrap() {
            let Ok(Record::Event(event)) = record else {
                continue;
            };
            match event.extent {
                _ if event.layer != Layer::Driver => {}
                Extent::Open => begun.push(event.start),
                _ => calls.push(event.start),
            }
        }
        assert!((195..=202).contains(&calls.len()), "{}", calls.len());
        assert_eq!(calls.last(), Some(&ms(4_990)));
        // What ended before is not there, not as if it went on either; what goes on is, though it began before.
        assert_eq!(begun.len(), calls.len() + 1, "{:?}", &begun[..3]);
        assert_eq!(begun.first(), Some(&ms(2_990)));
    }
}
