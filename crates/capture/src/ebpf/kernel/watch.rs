//! A watch over the kernel: everything is attached before the program begins, a thread reads what
//! the programs write.

use super::{
    attach::{self, Attached, Constants},
    choose::{Attachments, Choice, Subject},
    events::Events,
    names::Names,
    refusal::Refusal,
    shape::Shape,
};
use crate::{
    Deadline, Sink, SinkError,
    clock::monotonic,
    ebpf::{
        EbpfError, ProcessFilter,
        layout::{
            COUNT_FAULTS, COUNT_LOST, COUNT_LOST_ENDS, COUNT_LOST_INSTANT, COUNT_UNSAVED,
            FILTER_TREE, Head, KIND_EXIT, Settings,
        },
        maps::{Maps, Room},
        processes::follow_children,
    },
    hooks::{Hook, Hooks},
    kernel::{Functions, Tracefs},
    notes::{Notes, Topic, counted},
};
use event::{Aggregate, Backend, Category, Hooks as Count, Kind, Layer, Lost, Record, Reorder};
use libbpf_rs::{Object, RingBufferBuilder};
use std::{
    cell::RefCell,
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

const RING_BYTES: u32 = 16 << 20;
/// How often the ring is looked at; filling it takes longer than this at any rate seen.
const PAUSE: Duration = Duration::from_millis(1);
/// Records kept for the sake of order; past this they are let go early.
const MOST_WAITING: usize = 1 << 20;
/// Records of different processors lie out of order by no more than this: a processor may be taken away
/// between looking at the clock and writing.
const SLACK_NS: u64 = 40_000_000;

/// How long a process takes to be gone after it has said that it ends, at most.
const LEAVING_NS: u64 = 5_000_000_000;

static SILENT: Topic = Topic {
    one: "{}",
    many: "{} hooks never fired",
};

/// What to watch.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub hooks: Vec<Hook>,
    /// Where libraries are looked for before the usual places.
    pub folders: Vec<PathBuf>,
    /// Time that traced threads spend off the processors.
    pub off_processor: bool,
    /// Every process, not only those that are followed.
    pub everyone: bool,
    pub whose: ProcessFilter,
    /// Calls that begin later are left out.
    pub deadline: Deadline,
}

/// Everything is attached; nothing is recorded of processes that are not followed yet.
pub struct KernelWatch {
    maps: Arc<Maps>,
    attachments: Attachments,
    _processes: Object,
    _switches: Option<(Object, Attached)>,
    _points: Vec<libbpf_rs::Link>,
    deadline: Deadline,
    stacks: bool,
}

/// What a watch has to say at its end.
pub struct KernelReport {
    /// Hooks that were attached, of how many.
    pub hooks: Count,
    pub missing: Vec<String>,
    pub details: Vec<String>,
    pub notes: Notes,
    /// What was counted in the kernel.
    pub aggregates: Vec<Aggregate>,
    pub lost: u64,
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

/// A watch whose records are written.
pub struct Watching<S> {
    maps: Arc<Maps>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(S, KernelReport)>,
}

impl KernelWatch {
    /// Attaches everything; fails if nothing can be, or something that is required cannot.
    pub fn attach(options: &Options) -> Result<Self, EbpfError> {
        let attached = Self::attached(options);
        let why = match &attached {
            Err(error) => error.to_string(),
            Ok(watch) if watch.attachments.taken == 0 => watch.missing().join("\n  "),
            Ok(_) => return attached,
        };
        match crate::doctor::lockdown() {
            // What it forbids is refused in many ways, none of which says so.
            Some(level) => Err(EbpfError::NothingToTrace(format!(
                "the kernel is locked down ({level}) and forbids tracing: {why}\nboot with lockdown=none or without \
                 Secure Boot; --method=preload still works"
            ))),
            None => attached,
        }
    }

    fn attached(options: &Options) -> Result<Self, EbpfError> {
        let aggregates = options.hooks.iter().any(|hook| hook.aggregate.is_some());
        let room = Room {
            aggregates,
            ..Room::default()
        };
        let maps = Maps::with(RING_BYTES, room)?;
        let mut settings = Settings {
            until: u64::MAX,
            enough: u64::from(RING_BYTES) * 7 / 8,
            filter: if options.everyone { 0 } else { FILTER_TREE },
            own: std::process::id(),
            ..Settings::default()
        };
        options.whose.narrow(&mut settings);
        maps.set(&settings)?;
        let (processes, points) = follow_children(&maps)?;
        let mut attachments = Choice::new(&maps, &options.hooks, &options.folders).attach()?;
        let switches = match options.off_processor {
            true => watch_switches(&maps, &mut attachments),
            false => None,
        };
        Ok(KernelWatch {
            stacks: options.hooks.iter().any(|hook| hook.stack),
            maps: Arc::new(maps),
            deadline: options.deadline.clone(),
            attachments,
            _processes: processes,
            _switches: switches,
            _points: points,
        })
    }

    /// Hooks that are attached, of how many.
    pub fn hooks(&self) -> Count {
        Count {
            attached: self.attachments.taken,
            total: self.attachments.total,
        }
    }

    pub fn missing(&self) -> &[String] {
        &self.attachments.missing
    }

    /// From now on this process and its children are recorded.
    pub fn follow(&self, process: u32) -> Result<(), EbpfError> {
        self.maps.follow(process)
    }

    /// Writes into the sink, until it is finished.
    pub fn start<S: Sink>(mut self, mut sink: S) -> Result<Watching<S>, EbpfError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (maps, told) = (self.maps.clone(), stop.clone());
        let subjects = std::mem::take(&mut self.attachments.subjects);
        let thread = std::thread::Builder::new()
            .name("cutrace-kernel".into())
            .spawn(move || {
                crate::launch::block_signals();
                let backend = Backend {
                    name: "kernel".into(),
                    hooks: self.hooks(),
                    missing: self.attachments.missing.clone(),
                };
                let failure = sink.begin(backend).err();
                let mut reading = Reading::new(subjects, self.stacks, sink, failure);
                let read = reading.until_told(&self.maps, &self.deadline, &told);
                // Nothing more is recorded: now what is attached may go, at its own pace.
                reading.finish(self, read)
            })
            .map_err(EbpfError::Thread)?;
        Ok(Watching { maps, stop, thread })
    }
}

impl<S: Sink> Watching<S> {
    pub fn follow(&self, process: u32) -> Result<(), EbpfError> {
        self.maps.follow(process)
    }

    /// A process that runs already, and what it has forked.
    pub fn adopt(&self, process: u32) -> Result<(), EbpfError> {
        let tree = crate::ebpf::watch::tree_of(process);
        tree.into_iter().try_for_each(|one| self.maps.follow(one))
    }

    /// Stops recording, writes what there is, detaches.
    pub fn finish(self) -> (S, KernelReport) {
        self.stop.store(true, Ordering::Release);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Time off the processors, as calls of nobody.
fn watch_switches(maps: &Maps, made: &mut Attachments) -> Option<(Object, Attached)> {
    made.total += 1;
    let number = made.subjects.len() as u64;
    let point = Tracefs::find()
        .ok_or(Refusal::NoTracefs)
        .and_then(|tracefs| {
            let point = tracefs.tracepoint("sched", "sched_switch");
            point.map_err(Refusal::Tracepoint)
        });
    let attached = point.and_then(|point| {
        let field = |name| point.field(name).ok_or(Refusal::NoField(name));
        let constants = Constants {
            off_cookie: number,
            next_thread: field("next_pid")?.offset.into(),
            last_state: field("prev_state")?.offset.into(),
            ..Constants::default()
        };
        let object = attach::load(maps, &["switched"], constants)?;
        let link = attach::tracepoint(&object, "switched", point.id, 0);
        let link = link.map_err(Refusal::Kernel)?;
        Ok((object, link))
    });
    match attached {
        Ok(attached) => {
            made.taken += 1;
            made.details.push("sched:sched_switch (tracepoint)".into());
            made.subjects.push(Subject {
                name: "off-cpu".into(),
                layer: Layer::Os,
                kind: Kind::OffCpu,
                category: Category::Other,
                shape: Shape::of_switches(),
                by_stack: false,
                silence: None,
            });
            Some(attached)
        }
        Err(reason) => {
            made.missing
                .push(format!("tracepoint:sched:sched_switch: {reason}"));
            None
        }
    }
}

/// The reading side: records that are not old enough to be in order wait.
struct Reading<S> {
    events: Events,
    names: Names,
    sink: S,
    waiting: Reorder<Vec<u8>>,
    /// Processes that have said that they end.
    leaving: VecDeque<(u64, u32)>,
    failure: Option<SinkError>,
    unwritten: u64,
    lost: u64,
}

impl<S: Sink> Reading<S> {
    fn new(subjects: Vec<Subject>, stacks: bool, sink: S, failure: Option<SinkError>) -> Self {
        let functions = match stacks {
            true => Functions::of_this_kernel(None).unwrap_or_default(),
            false => Functions::default(),
        };
        Reading {
            events: Events::new(subjects),
            names: Names::new(&functions),
            sink,
            waiting: Reorder::new(MOST_WAITING),
            leaving: VecDeque::new(),
            failure,
            unwritten: 0,
            lost: 0,
        }
    }

    fn until_told(
        &mut self,
        maps: &Maps,
        deadline: &Deadline,
        stop: &AtomicBool,
    ) -> Result<(), EbpfError> {
        let arrived = RefCell::new(Vec::new());
        let mut builder = RingBufferBuilder::new();
        let failed = |source| EbpfError::Map {
            name: "ring",
            source,
        };
        builder
            .add(&maps.ring, |bytes| {
                if let Some((head, _)) = Head::split(bytes) {
                    arrived.borrow_mut().push((head.time, bytes.to_vec()));
                }
                0
            })
            .map_err(failed)?;
        let ring = builder.build().map_err(failed)?;
        loop {
            let last = stop.load(Ordering::Acquire);
            if last {
                let disabled = Settings {
                    disabled: 1,
                    ..Settings::default()
                };
                maps.set(&disabled)?;
            }
            maps.end_at(deadline);
            let now = monotonic();
            // A full ring returns after as many records as it holds.
            ring.consume_raw();
            for (time, bytes) in arrived.borrow_mut().drain(..) {
                self.waiting.push(time, bytes);
            }
            let until = if last {
                u64::MAX
            } else {
                now.saturating_sub(SLACK_NS)
            };
            self.write_until(until, maps);
            self.tell_lost(maps, now);
            if last {
                return Ok(());
            }
            self.sink.until(until);
            std::thread::sleep(PAUSE);
        }
    }

    fn write_until(&mut self, until: u64, maps: &Maps) {
        if self.waiting.is_empty() {
            return;
        }
        while let Some(&(time, process)) = self.leaving.front()
            && time < until.saturating_sub(LEAVING_NS)
        {
            self.leaving.pop_front();
            maps.forget(process);
            self.events.forget(process);
        }
        while let Some((_, bytes)) = self.waiting.next(until) {
            if let Some((head, _)) = Head::split(&bytes)
                && head.kind == KIND_EXIT
            {
                // Its files are closed after this is told: it is followed for a while yet.
                self.leaving.push_back((head.time, head.process));
                continue;
            }
            if let Some(record) = self.events.take(&bytes, &self.names) {
                self.write(record);
            }
        }
    }

    fn write(&mut self, record: Record) {
        if self.failure.is_some() {
            self.unwritten += 1;
            return;
        }
        if let Err(failure) = self.sink.give(record) {
            self.failure = Some(failure);
            self.unwritten += 1;
        }
    }

    /// Lost events are events.
    fn tell_lost(&mut self, maps: &Maps, now: u64) {
        let lost = maps.count(COUNT_LOST) + maps.count(COUNT_LOST_INSTANT);
        if lost > self.lost {
            let record = Record::Lost(Lost {
                ts: now,
                count: lost - self.lost,
                source: Some("kernel".into()),
                layer: Some(Layer::Kernel),
                pid: None,
                tid: None,
            });
            self.lost = lost;
            self.write(record);
        }
    }

    fn finish(mut self, watch: KernelWatch, read: Result<(), EbpfError>) -> (S, KernelReport) {
        let mut notes = watch.attachments.notes.clone();
        if let Err(error) = read {
            notes.say(format!("the kernel's records could not be read: {error}"));
        }
        for (one, many, count) in [
            (
                "return did not fit into the ring",
                "returns did not fit into the ring",
                COUNT_LOST_ENDS,
            ),
            (
                "argument could not be read",
                "arguments could not be read",
                COUNT_FAULTS,
            ),
            (
                "call could not be tracked until it returned",
                "calls could not be tracked until they returned",
                COUNT_UNSAVED,
            ),
        ] {
            let count = watch.maps.count(count);
            if count > 0 {
                notes.say(format!("kernel: {}", counted(count, one, many)));
            }
        }
        for (subject, count) in self.events.counted() {
            if let Some(why) = subject.silence.filter(|_| count == 0) {
                notes.about(&SILENT, format!("{} never fired: {why}", subject.name));
            }
        }
        if let Err(failure) = self.sink.flush() {
            self.failure.get_or_insert(failure);
        }
        let report = KernelReport {
            hooks: watch.hooks(),
            missing: watch.attachments.missing.clone(),
            details: watch.attachments.details.clone(),
            aggregates: watch.attachments.aggregated.read(&watch.maps),
            notes,
            lost: self.lost,
            unwritten: self.unwritten,
            failure: self.failure,
        };
        (self.sink, report)
    }
}

/// Groups that are hooked only if they are named: they are many, or nothing of NVIDIA's.
const SPECIAL: [&str; 2] = ["page_faults", "other_drivers"];

/// A group of the driver's functions that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown group '{unknown}' (choose from {})", known.join(", "))]
pub struct UnknownGroup {
    unknown: String,
    known: Vec<String>,
}

/// The driver's functions of these groups; if none is named, of all but the special ones.
pub fn driver_hooks(groups: &[String]) -> Result<Vec<Hook>, UnknownGroup> {
    let all = Hooks::of_driver().hooks;
    let known = |group: &String| {
        group == "all" || all.iter().any(|hook| hook.group.as_ref() == Some(group))
    };
    if let Some(unknown) = groups.iter().find(|group| !known(group)) {
        let mut known: Vec<String> = all.iter().filter_map(|hook| hook.group.clone()).collect();
        known.dedup();
        return Err(UnknownGroup {
            unknown: unknown.clone(),
            known,
        });
    }
    let wanted = |hook: &Hook| {
        let group = hook.group.as_deref().unwrap_or_default();
        match groups {
            [] => !SPECIAL.contains(&group),
            groups => groups.iter().any(|named| named == group || named == "all"),
        }
    };
    Ok(all.into_iter().filter(wanted).collect())
}
