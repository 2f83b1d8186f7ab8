//! The trace being written, and what it holds so far.

mod broken;
pub mod destination;
mod head;
pub mod latest;
mod live_counts;
mod pack;
mod redact;
mod room;
mod unfinished;

pub use broken::Missing;
pub use destination::{Destination, DestinationError};
pub use head::head;
pub use live_counts::{LiveCounts, Stage};
pub use room::size;
pub use unfinished::{Unfinished, UnfinishedError};

use crate::{
    Sink, SinkError,
    clock::monotonic,
    live::{FlightOptions, Snapshot, WindowStage, flight::Flight, window::WindowReport},
    notes::counted,
};
use broken::Cut;
use destination::is_stream;
use event::{Backend, Meta, Record, Summary, Tally, Watched};
use pack::{Pack, PackError};
use redact::Redaction;
use room::{Counted, Limit, Room, Verdict};
use std::{
    any::Any,
    convert::Infallible,
    error::Error,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};
use trace::{Format, Writer};

/// Events of a trace that keeps what was found in it: shorter ones are read in no time.
const WORTH_KEEPING: u64 = 20_000;

/// How a note begins that says so.
pub const STOPPED: &str = "recording stopped";

/// Looks at records on their way into a trace.
pub trait Onlooker: Any + Send {
    /// Who reads a trace is told how it begins; it may do so again, when it was cut and is read from its start.
    fn begin(&mut self, _meta: &Meta) {}
    fn see(&mut self, record: &Record);
    /// A span during which nothing else was recorded, by its end.
    fn see_whole(&mut self, record: &mut Record) {
        let seen = record.in_two(|record| {
            self.see(record);
            Ok::<(), Infallible>(())
        });
        let Ok(()) = seen;
    }
    /// What it has found in a trace that is complete, as JSON, to be kept in its tail.
    fn found(&mut self, _summary: &Summary) -> Option<String> {
        None
    }
}

/// Shows a trace as it comes, in place of writing it.
pub trait Show: Send {
    fn record(&mut self, record: &Record) -> io::Result<()>;
    fn finish(&mut self) -> io::Result<()>;
}

/// Makes what shows the trace, from the file it is shown in and the trace's head.
pub type MakeShow = Box<dyn FnOnce(File, &Meta) -> Box<dyn Show> + Send>;

/// Where a trace goes: its file is made before the program starts, its head is written with the
/// first record, when it is known what is hooked.
pub struct TraceFile {
    path: PathBuf,
    /// There was none of this name before.
    new: bool,
    /// The link to the newest trace leads to it.
    latest: bool,
    meta: Meta,
    /// None once the writer has it.
    file: Option<File>,
    writer: Option<Writer>,
    /// Instead of the writer where a person looks on: lines as they happen.
    live: Option<Box<dyn Show>>,
    /// What makes those lines.
    show: Option<MakeShow>,
    /// Sees what is written, as it is written; None if nobody asks.
    reader: Option<Box<dyn Onlooker>>,
    /// See all that comes, written or not.
    onlookers: Vec<Box<dyn Onlooker>>,
    seen: Arc<LiveCounts>,
    /// The command's process, once it is there; 0 before.
    process: Arc<AtomicU32>,
    /// Of what comes only a part is wanted.
    window: Option<WindowStage>,
    /// Only the last seconds are kept, and written when something happens: how, and what does so.
    flight_options: Option<FlightOptions>,
    flight: Option<Flight>,
    /// Where not all that is known is to be written.
    redaction: Option<Redaction>,
    /// Events that back ends say were lost.
    lost: u64,
    /// Bytes in its file.
    written: Arc<AtomicU64>,
    /// How large it may become.
    most: Option<u64>,
    room: Option<Room>,
    /// The size past which it becomes Arrow, if it was given no name; and its way there.
    lines_up_to: Option<u64>,
    pack: Option<Pack>,
    packed: bool,
    /// Why it did not become Arrow.
    not_packed: Option<String>,
    /// Why recording stopped, and what had been written by then.
    stopped: Option<(Limit, Summary)>,
    /// Why nothing more can be written, and how many events had been by then.
    failure: Option<SinkError>,
    kept: u64,
    /// What came when there was not even a head.
    unwritten: Tally,
}

impl TraceFile {
    /// Without a path, `traces/trace_<now>.jsonl`, or a rank's place in its run's folder.
    pub fn create(path: Option<&Path>, meta: Meta) -> Result<Self, DestinationError> {
        let named = path.is_some();
        let Destination { path, file, new } = destination::open(path, &meta.identity)?;
        let is_rank = !named && meta.identity.rank.is_some();
        if is_rank && !is_stream(&path) {
            // Without the list nothing is missing but a warning of ranks that are.
            let _ = trace::ranks::enlist(&path, &meta.identity, &meta.host.name);
        }
        Ok(TraceFile {
            latest: !is_stream(&path) && !is_rank && latest::belongs(&path, named),
            path,
            new,
            meta,
            file: Some(file),
            writer: None,
            live: None,
            show: None,
            reader: None,
            onlookers: Vec::new(),
            seen: Arc::default(),
            process: Arc::default(),
            window: None,
            flight_options: None,
            flight: None,
            redaction: None,
            lost: 0,
            written: Arc::default(),
            most: None,
            room: None,
            lines_up_to: (!named).then(|| pack::lines_up_to(None)),
            pack: None,
            packed: false,
            not_packed: None,
            stopped: None,
            failure: None,
            kept: 0,
            unwritten: Tally::default(),
        })
    }

    /// Stops when the trace has this many bytes.
    pub fn limit(&mut self, most: Option<u64>) {
        self.most = most;
        self.lines_up_to = self.lines_up_to.map(|_| pack::lines_up_to(most));
    }

    /// Leaves out from now on what says too much of the program and its user.
    pub fn redact(&mut self) {
        Redaction::meta(&mut self.meta);
        self.redaction = Some(Redaction::default());
    }

    /// Shows it from now on instead of writing it.
    pub fn show(&mut self, show: MakeShow) {
        self.show = Some(show);
    }

    /// Writes only what a window lets through.
    pub fn only(&mut self, window: WindowStage) {
        self.window = Some(window);
    }

    /// Keeps the last seconds, to be written when something happens.
    pub fn keep_last(&mut self, options: FlightOptions) {
        self.flight_options = Some(options);
    }

    /// Adds a reader of what is written.
    pub fn read_by(&mut self, reader: Box<dyn Onlooker>) {
        self.reader = Some(reader);
    }

    /// Adds an onlooker to all that comes.
    pub fn look_on(&mut self, onlooker: Box<dyn Onlooker>) {
        self.onlookers.push(onlooker);
    }

    /// Who has looked on, if one of them is of this type.
    pub fn onlooker<T: Onlooker>(&mut self) -> Option<Box<T>> {
        let is_meant = |one: &dyn Onlooker| (one as &dyn Any).is::<T>();
        let mut onlookers = self.onlookers.iter();
        let place = onlookers.position(|one| is_meant(&**one))?;
        let any: Box<dyn Any> = self.onlookers.swap_remove(place);
        any.downcast().ok()
    }

    /// What it holds so far, for others to look at meanwhile.
    pub fn seen(&self) -> Arc<LiveCounts> {
        self.seen.clone()
    }

    /// Where the command's process id goes as soon as it is known.
    pub fn process(&self) -> Arc<AtomicU32> {
        self.process.clone()
    }

    /// Puts the command's process id there, too.
    pub fn tell_process(&mut self, process: Arc<AtomicU32>) {
        self.process = process;
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its file was not there before.
    pub fn is_new(&self) -> bool {
        self.new
    }

    /// Everyone has begun: the first line can be written.
    fn write_head(&mut self) -> Result<(), SinkError> {
        let format = Format::of(&self.path).unwrap_or(Format::Jsonl);
        if let Some(file) = self.file.take() {
            let process = self.process.load(Ordering::Relaxed);
            self.meta.pid = self.meta.pid.or((process != 0).then_some(process));
            if let Some(reader) = &mut self.reader {
                reader.begin(&self.meta);
            }
            if let Some(show) = self.show.take() {
                self.live = Some(show(file, &self.meta));
                return Ok(());
            }
            if let Some(options) = self.flight_options.take() {
                // The name is what snapshots are called after; there is no such trace.
                drop(file);
                if self.new {
                    let _ = fs::remove_file(&self.path);
                }
                self.flight = Some(Flight::start(&self.path, &self.meta, options)?);
                return Ok(());
            }
            // Only now: an older trace of this name outlives a command that could not be started.
            if file.metadata().is_ok_and(|found| found.is_file()) && !is_stream(&self.path) {
                file.set_len(0)?;
            }
            self.room = Some(Room::new(&file, self.most));
            let (file, written) = Counted::new(file);
            self.written = written;
            self.writer = Some(Writer::new(file, format, &self.meta)?);
            self.lead_here();
        }
        Ok(())
    }

    /// While it is written, in its new format, and at its end: of several runs the last to end is the newest.
    fn lead_here(&self) {
        if self.latest {
            latest::lead_to(&self.path);
        }
    }

    /// Writes the tail, with what only the tracer knows filled in, and puts the records in order. What
    /// the trace says comes back also where it could not be written.
    pub fn finish(mut self, complete: impl FnOnce(&mut Summary)) -> Finished {
        let windowed = self.finish_window();
        // Nobody wrote anything: the trace still has its head and its tail.
        if let Err(why) = self.write_head() {
            self.failure.get_or_insert(why);
        }
        if let Some(live) = &mut self.live
            && let Err(why) = live.finish()
        {
            self.failure.get_or_insert(why.into());
        }
        if self.pack.is_some() {
            self.seen.does(Stage::Packing);
            self.finish_packing();
        }
        let mut reader = self.reader.take();
        let mut notes: Vec<String> = self.not_packed.take().into_iter().collect();
        let watched = windowed.as_ref().and_then(|window| window.watched);
        let windows = windowed.as_ref().map(|window| window.windows);
        notes.extend(windowed.into_iter().flat_map(|window| window.notes));
        // From the first window to the last; without any, nothing was watched at all.
        let narrow = |summary: &mut Summary| {
            summary.windows = windows;
            if windows.is_some() {
                let end = summary.end_ns;
                let nothing = Watched {
                    start_ns: end,
                    end_ns: end,
                };
                let mut watched = watched.unwrap_or(nothing);
                watched.end_ns = watched.end_ns.min(end).max(watched.start_ns);
                summary.watched = Some(watched);
            }
        };
        let path = self.path.clone();
        let packed = self.packed.then(|| pack::lines_up_to(self.most));
        let Some(mut writer) = self.writer.take() else {
            let missing = Missing {
                events: self.unwritten.events(),
                is_exact: self.failure.is_none(),
            };
            let mut summary = Summary {
                lost: self.lost.saturating_add(missing.events),
                ..Summary::default()
            };
            complete(&mut summary);
            narrow(&mut summary);
            self.redaction
                .iter()
                .for_each(|it| it.summary(&mut summary));
            let flight = self.flight.take().map(|flight| flight.finish(&summary));
            let snapshots = flight.map(|flight| {
                notes.extend(flight.notes);
                flight.snapshots
            });
            let last = snapshots.iter().flatten().last();
            return Finished {
                path: last.map_or(path, |snapshot| snapshot.path.clone()),
                packed,
                meta: self.meta,
                lost: summary.lost,
                summary,
                reader,
                missing,
                failure: self.failure,
                notes,
                snapshots,
            };
        };
        let mut summary = writer.summary();
        complete(&mut summary);
        narrow(&mut summary);
        self.redaction
            .iter()
            .for_each(|it| it.summary(&mut summary));
        let late = writer.late();
        if let Some((limit, kept)) = &self.stopped {
            let missing = summary.events.saturating_sub(kept.events);
            stop_at(&mut summary, kept, missing, &self.meta);
            let written = size(self.written.load(Ordering::Relaxed));
            notes.push(format!(
                "{STOPPED} at {written} because {limit}: the {missing} events after that are missing and count as lost"
            ));
        }
        // Records that come late are seen in another order than they will be read in, also where a batch is sorted.
        if let Some(reader) = &mut reader
            && writer.came_in_order()
            && self.failure.is_none()
            && self.stopped.is_none()
            && summary.events >= WORTH_KEEPING
            && Format::of(&self.path) == Some(Format::Arrow)
            && let Some(found) = reader.found(&summary)
        {
            writer.keep(found);
        }
        let written = match self.failure.take() {
            None => writer.finish_with(&summary).map_err(SinkError::from),
            Some(why) => {
                // What is still in a buffer goes to the file now, or never.
                drop(writer);
                Err(why)
            }
        };
        let Err(why) = written else {
            self.seen.does(Stage::Ordering);
            notes.extend(self.put_in_order(late));
            self.lead_here();
            return Finished {
                path,
                packed,
                meta: self.meta,
                lost: summary.lost,
                summary,
                reader,
                missing: Missing::NONE,
                failure: None,
                notes,
                snapshots: None,
            };
        };
        self.seen.does(Stage::Repairing);
        let cut = Cut {
            path: &self.path,
            meta: &self.meta,
            kept: self.kept,
        };
        let missing = cut.repair(&mut summary, reader.as_deref_mut());
        Finished {
            path,
            packed,
            meta: self.meta,
            lost: summary.lost,
            summary,
            reader,
            missing,
            failure: Some(why),
            notes,
            snapshots: None,
        }
    }

    /// Records that were held up are behind later ones. A note if that is how they stay.
    fn put_in_order(&self, late: u64) -> Option<String> {
        if late == 0 {
            return None;
        }
        let written = self.written.load(Ordering::Relaxed);
        let why = if is_stream(&self.path) || !self.path.is_file() {
            "only a regular file can be sorted".to_owned()
        } else if self.room.as_ref().is_some_and(|room| !room.has(0, written)) {
            "the disk has no room for a sorted copy".to_owned()
        } else {
            trace::put_in_order(&self.path).err()?.to_string()
        };
        Some(format!(
            "{} slightly out of time order: {why}",
            counted(late, "record is", "records are")
        ))
    }
}

/// What a summary says of a trace that goes only so far.
pub fn stop_at(summary: &mut Summary, kept: &Summary, missing: u64, meta: &Meta) {
    summary.events = kept.events;
    summary.counts = kept.counts.clone();
    summary.open = kept.open;
    summary.lost = summary.lost.saturating_add(missing);
    // Nobody knows what happened afterwards.
    let watched = summary.watched.get_or_insert(Watched {
        start_ns: meta.start_ns,
        end_ns: kept.end_ns,
    });
    watched.end_ns = watched.end_ns.min(kept.end_ns).max(watched.start_ns);
}

/// A trace whose end has been written, or could not be.
pub struct Finished {
    /// Where it is, in whichever format it has by now.
    pub path: PathBuf,
    /// It was given no name, and became Arrow past this many bytes.
    pub packed: Option<u64>,
    pub meta: Meta,
    pub summary: Summary,
    /// Who has read what is in it, if anybody.
    reader: Option<Box<dyn Onlooker>>,
    /// Everything that is not in the trace and should be.
    pub lost: u64,
    /// Of that, what could not be written, and why not.
    pub missing: Missing,
    pub failure: Option<SinkError>,
    /// What a user should know of it.
    pub notes: Vec<String>,
    /// Of a flight recording: what was written in place of one trace.
    pub snapshots: Option<Vec<Snapshot>>,
}

impl Finished {
    /// Who has read what is in it, if they are of this type.
    pub fn reader<T: Onlooker>(&mut self) -> Option<Box<T>> {
        let any: Box<dyn Any> = self.reader.take()?;
        any.downcast().ok()
    }
}

impl Sink for TraceFile {
    fn begin(&mut self, mut backend: Backend) -> Result<(), SinkError> {
        if self.redaction.is_some() {
            Redaction::missing(&mut backend.missing);
        }
        let hooks = &mut self.meta.hooks;
        hooks.attached = hooks.attached.saturating_add(backend.hooks.attached);
        hooks.total = hooks.total.saturating_add(backend.hooks.total);
        self.meta.backends.push(backend);
        Ok(())
    }

    /// Never fails: the program goes on when the trace cannot, and what is missing is counted.
    fn write(&mut self, record: &mut Record) -> Result<(), SinkError> {
        for onlooker in &mut self.onlookers {
            onlooker.see(record);
        }
        let Some(window) = &mut self.window else {
            return self.write_wanted(record);
        };
        window.push(record.clone());
        while let Some(wanted) = self.window.as_mut().and_then(|window| window.next(false)) {
            self.write_wanted(&wanted)?;
        }
        Ok(())
    }

    fn write_whole(&mut self, record: &mut Record) -> Result<(), SinkError> {
        let is_written_only = self.onlookers.is_empty()
            && self.window.is_none()
            && self.redaction.is_none()
            && self.flight.is_none()
            && self.live.is_none()
            && self.failure.is_none()
            && self.stopped.is_none();
        if !is_written_only || self.file.is_some() {
            return record.in_two(|record| self.write(record));
        }
        let Some(writer) = &mut self.writer else {
            return record.in_two(|record| self.write(record));
        };
        match writer.write(record) {
            Ok(()) => {
                if let Some(reader) = &mut self.reader {
                    reader.see_whole(record);
                }
                self.seen.add(record);
                self.look_at_size();
            }
            Err(why) => {
                self.fail(why.into());
                self.count(record);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        if self.failure.is_none()
            && let Some(writer) = &mut self.writer
            && let Err(why) = writer.flush()
        {
            self.fail(why.into());
        }
        if self.failure.is_none()
            && let Some(flight) = &mut self.flight
            && let Err(why) = flight.tick(monotonic())
        {
            self.fail(why.into());
        }
        Ok(())
    }
}

impl TraceFile {
    /// Nothing more will come: what waits is let through or not.
    fn finish_window(&mut self) -> Option<WindowReport> {
        while let Some(wanted) = self.window.as_mut().and_then(|window| window.next(true)) {
            // Never fails.
            let _ = self.write_wanted(&wanted);
        }
        self.window.take().map(WindowStage::finish)
    }

    fn write_wanted(&mut self, record: &Record) -> Result<(), SinkError> {
        if let Record::Lost(lost) = record {
            self.lost = self.lost.saturating_add(lost.count);
        }
        if self.failure.is_some() || self.stopped.is_some() {
            self.count(record);
            return Ok(());
        }
        match self.put(record) {
            Ok(()) => {
                self.seen.add(record);
                self.look_at_size();
            }
            Err(why) => {
                self.fail(why);
                self.count(record);
            }
        }
        Ok(())
    }

    /// A record that is not written.
    fn count(&mut self, record: &Record) {
        self.seen.add_lost(record);
        match &mut self.writer {
            Some(writer) => writer.count(record),
            None => self.unwritten.add(record),
        }
    }

    fn fail(&mut self, why: SinkError) {
        let writer = self.writer.as_ref();
        self.kept = writer.map_or(0, |writer| writer.summary().events);
        self.failure = Some(why);
        // The lines are the trace, and need the room.
        self.pack = None;
    }

    /// Stops, or goes on as Arrow, when it is time.
    fn look_at_size(&mut self) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        let written = self.written.load(Ordering::Relaxed);
        let beside = self.pack.as_ref().map_or(0, Pack::written);
        if let Some(room) = &mut self.room {
            let mut verdict = room.verdict(written + beside, writer.pending());
            if verdict == Verdict::WriteOut {
                if let Err(why) = writer.flush() {
                    return self.fail(why.into());
                }
                verdict = room.verdict(self.written.load(Ordering::Relaxed) + beside, 0);
            }
            if let Verdict::Stop(limit) = verdict {
                return self.stop(limit);
            }
        }
        let records = writer.records();
        if self.lines_up_to.is_some_and(|most| written > most) {
            self.lines_up_to = None;
            match Pack::start(&self.path, self.written.clone()) {
                Ok(pack) => self.pack = Some(pack),
                Err(why) => self.stay_lines(&why),
            }
        }
        if (self.pack.as_ref()).is_some_and(|pack| pack.is_near(records)) {
            self.finish_packing();
        }
    }

    fn stop(&mut self, limit: Limit) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        if let Err(why) = writer.flush() {
            return self.fail(why.into());
        }
        self.stopped = Some((limit, writer.summary()));
        // It would need more room.
        self.pack = None;
    }

    /// Goes on as Arrow, which has caught up or soon has.
    fn finish_packing(&mut self) {
        let (Some(pack), Some(writer)) = (self.pack.take(), &mut self.writer) else {
            return;
        };
        if let Err(why) = writer.flush() {
            return self.fail(why.into());
        }
        match pack.finish() {
            Ok(packed) => {
                writer.go_on_in(packed.writer);
                let lines = std::mem::replace(&mut self.path, packed.path);
                self.lead_here();
                match (&mut self.room, File::open(&self.path)) {
                    (Some(room), Ok(file)) => room.move_to(file),
                    _ => self.room = None,
                }
                let _ = fs::remove_file(lines);
                self.written = packed.written;
                self.packed = true;
            }
            Err(why) => self.stay_lines(&why),
        }
    }

    fn stay_lines(&mut self, why: &PackError) {
        let mut words = why.to_string();
        let mut cause = why.source();
        while let Some(why) = cause {
            words = format!("{words}: {why}");
            cause = why.source();
        }
        self.not_packed = Some(format!(
            "the trace stays in the larger JSON lines format, because writing Arrow failed: {words}"
        ));
    }

    fn put(&mut self, record: &Record) -> Result<(), SinkError> {
        if self.file.is_some() {
            self.write_head()?;
        }
        let redacted = (self.redaction.as_mut()).map(|redaction| redaction.record(record));
        let record = redacted.as_ref().unwrap_or(record);
        if let Some(writer) = &mut self.writer {
            writer.write(record)?;
        }
        if let Some(live) = &mut self.live {
            live.record(record)?;
        }
        if let Some(flight) = &mut self.flight {
            flight.write(record)?;
        }
        if let Some(reader) = &mut self.reader {
            reader.see(record);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Event, Layer};

    /// A thread was held up, and its records come behind others'.
    fn write_late(file: &mut TraceFile) {
        for (id, start) in [(1, 100), (2, 300), (3, 200), (4, 400), (5, 150)] {
            let event = Event::new(id, Layer::Driver, Category::Query, "cuCtxGetId", start);
            file.give(Record::Event(event)).expect("written");
        }
    }

    #[test]
    fn our_own_traces_are_in_order_when_they_are_finished() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["x.jsonl", "x.arrows"] {
            let path = folder.path().join(name);
            let mut file = TraceFile::create(Some(&path), Meta::default()).expect("created");
            write_late(&mut file);
            let finished = file.finish(|_| {});
            assert!(finished.failure.is_none(), "{:?}", finished.failure);
            assert!(finished.notes.is_empty(), "{:?}", finished.notes);
            let mut reader = trace::open(&path).expect("a trace");
            let times: Vec<u64> = reader.by_ref().map(|it| it.expect("whole").ts()).collect();
            assert_eq!(times, [100, 150, 200, 300, 400], "{name}");
            assert!(reader.warnings().is_empty(), "{:?}", reader.warnings());
        }
    }

    #[test]
    fn what_cannot_be_put_in_order_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.jsonl");
        let mut file = TraceFile::create(Some(&path), Meta::default()).expect("created");
        write_late(&mut file);
        // Nothing can be written beside it.
        let beside = format!(".x.jsonl.{}.unfinished", std::process::id());
        fs::create_dir(folder.path().join(beside)).expect("in the way");
        let finished = file.finish(|_| {});
        assert!(finished.failure.is_none(), "{:?}", finished.failure);
        let note = finished.notes.first().expect("a note");
        assert!(note.starts_with("2 records are slightly out"), "{note}");
        assert_eq!(trace::open(&path).expect("a trace").count(), 5);
    }
}
