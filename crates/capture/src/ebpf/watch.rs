//! The thread that empties the ring. It also looks after processes: what they load gets its probes
//! while they wait.

use super::EbpfError;
use super::attach::{AttachMode, Calls, Probe};
use super::changed::Changes;
use super::layout::{
    COUNT_FAULTS, COUNT_LATE, COUNT_LOST, COUNT_LOST_ENDS, COUNT_LOST_SYSTEM, COUNT_SHORT,
    COUNT_UNSAMPLED, COUNT_UNSAVED, Head, KIND_ENTER, KIND_EXEC, KIND_EXIT, KIND_FORK, KIND_LOADED,
    KIND_RETURN, KIND_STACK, KIND_SYSCALL_ENTER, KIND_SYSCALL_EXIT, SPEC_SAMPLED, SPEC_SHORT_NOT,
    SPEC_STACK,
};
use super::library::{self, Wanted};
use super::mappings::{self, Mapped};
use super::maps::Maps;
use super::places::{Change, Places};
use super::processes::Following;
use super::reader::Reader;
use super::short::Short;
use super::spec::Description;
use super::stopping::Stopping;
use super::system::{self, Files, System};
use super::tables::SharedTables;
use crate::Deadline;
use crate::call::item::Batch;
use crate::call::{Filter, Named};
use crate::clock::monotonic;
use crate::notes::Topic;
use crate::preload::{Library, Process};
use crate::process_name::Names;
use crate::syscall::Frame;
use libbpf_rs::RingBufferBuilder;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// From the watching thread to the assembling one.
pub enum Message {
    /// A thread was seen; they are numbered in the order of these.
    Thread {
        pid: u32,
        tid: u32,
    },
    Batch(Batch),
    /// A step of a system call.
    System(u64, Frame),
    /// Calls that found no room, before this moment.
    Lost {
        time: u64,
        count: u64,
    },
    /// Everything that happened before this moment has been handed on.
    Round(u64),
}

/// The ring is looked at this often: waking a thread for every record would take longer than
/// recording it.
const ROUND: Duration = Duration::from_millis(1);
/// How often counters of what was lost are read.
const COUNTED: Duration = Duration::from_millis(50);

/// What there is to say at the end.
#[derive(Debug, Default, Clone)]
pub struct Ended {
    pub calls: u64,
    pub lost: u64,
    pub lost_ends: u64,
    pub unmatched: u64,
    pub faults: u64,
    pub unsaved: u64,
    /// Calls that were too short, and left no record.
    pub short: u64,
    /// Calls that were made and are not in the sample.
    pub not_sampled: u64,
    pub late_loads: u64,
    pub lost_system: u64,
    pub attach: Duration,
    pub detach: Duration,
    pub way: Option<&'static str>,
}

/// What is loaded and attached before the watching begins.
pub struct Attached {
    pub maps: Arc<Maps>,
    pub calls: Calls,
    pub following: Following,
    /// None: system calls are not asked for.
    pub system: Option<System>,
    pub known: Arc<SharedTables>,
    pub deadline: Deadline,
}

pub struct CallWatch {
    maps: Arc<Maps>,
    calls: Calls,
    following: Following,
    system: Option<System>,
    system_files: Files,
    wanted: Wanted,
    known: Arc<SharedTables>,
    deadline: Deadline,
    reader: Reader,
    /// Files that have been looked into.
    files: HashSet<(String, u64)>,
    parents: HashMap<u32, u32>,
    /// What processes are called, asked while they are there.
    names: Names,
    /// Processes that are known, as far as they made system calls or their records wait.
    met: HashSet<u32>,
    /// Calls that may turn out to be too short, if such are left out.
    short: Option<Short>,
    /// Where processes' code is, if stacks are wanted.
    places: Option<Places>,
    attach: Duration,
    lost: u64,
    messages: Sender<Message>,
}

impl CallWatch {
    pub fn new(attached: Attached, wanted: Wanted, messages: Sender<Message>) -> Self {
        CallWatch {
            maps: attached.maps,
            calls: attached.calls,
            following: attached.following,
            system: attached.system,
            system_files: Files::new(),
            short: (wanted.shortest > 0).then(|| Short::new(wanted.shortest)),
            places: (wanted.stacks.is_some() || wanted.callers).then(Places::default),
            wanted,
            known: attached.known,
            deadline: attached.deadline,
            reader: Reader::default(),
            files: HashSet::new(),
            parents: HashMap::new(),
            names: Names::default(),
            met: HashSet::new(),
            attach: Duration::ZERO,
            lost: 0,
            messages,
        }
    }

    /// Until it is asked to stop and the ring is empty.
    pub fn run(mut self, stop: &AtomicBool) -> Ended {
        let (maps, deadline) = (self.maps.clone(), self.deadline.clone());
        let taken: RefCell<(&mut CallWatch, Vec<Head>)> = RefCell::new((&mut self, Vec::new()));
        let take = |bytes: &[u8]| {
            if let Some((head, body)) = Head::split(bytes) {
                let (watch, loads) = &mut *taken.borrow_mut();
                match head.kind {
                    KIND_LOADED | KIND_EXEC => loads.push(head),
                    KIND_SYSCALL_ENTER | KIND_SYSCALL_EXIT => watch.system_call(&head, body),
                    _ => watch.heard(&head, body),
                }
            }
            0
        };
        let mut builder = RingBufferBuilder::new();
        if builder.add(&maps.ring, take).is_err() {
            return Ended::default();
        }
        let Ok(ring) = builder.build() else {
            return Ended::default();
        };
        let mut counted = Instant::now();
        loop {
            // Asked before the round: what happened before it is in this round.
            let last = stop.load(Ordering::Acquire);
            let began = monotonic();
            if last {
                taken.borrow_mut().0.disable();
            }
            taken.borrow_mut().0.maps.end_at(&deadline);
            // Only threads that load something wake us earlier.
            let _ = ring.poll(if last { Duration::ZERO } else { ROUND });
            // Before the rest of the ring: what has left the table by now is in there.
            taken.borrow_mut().0.look_for_long(last);
            let _ = ring.consume();
            let (watch, loads) = &mut *taken.borrow_mut();
            for load in loads.drain(..) {
                match load.kind {
                    KIND_EXEC => watch.began(&load),
                    _ => watch.load(&load),
                }
            }
            let adopted = std::mem::take(&mut watch.known.lock().adopted);
            for pid in adopted {
                watch.adopt(pid);
                watch.known.lock().adopting -= 1;
            }
            if last || counted.elapsed() >= COUNTED {
                watch.count(began);
                counted = Instant::now();
            }
            let complete = watch.in_order(began, last);
            for batch in watch.reader.batches() {
                let _ = watch.messages.send(Message::Batch(batch));
            }
            if watch.messages.send(Message::Round(complete)).is_err() || last {
                break;
            }
        }
        drop(ring);
        drop(taken);
        self.end()
    }

    /// A thread has loaded something, and waits in the kernel. If there is something to attach to,
    /// it stops for that long; putting probes in while it waits there would take far longer.
    fn load(&mut self, head: &Head) {
        self.names.see(head.process);
        let fresh = self.fresh(head.process);
        let stopping = (!fresh.is_empty())
            .then(|| Stopping::begin(head.thread))
            .flatten();
        // One that cannot be stopped waits on where it is.
        let waits = stopping.is_none();
        if !waits {
            self.following.answer(&self.maps, head.thread);
        }
        let stopped = stopping.and_then(Stopping::wait);
        for mapped in fresh {
            self.look_into(head.process, &mapped);
        }
        self.look_at_code(head.process, head.time);
        if waits {
            self.following.answer(&self.maps, head.thread);
        }
        drop(stopped);
    }

    /// A program has begun. Loaders that have their probes tell of themselves; those of containers
    /// have none before the first program that uses them, and static programs have no loader.
    fn began(&mut self, head: &Head) {
        self.names.look(head.process);
        let mapped = mappings::of_process(head.process).unwrap_or_default();
        let mut loaders = mapped.iter().filter(|one| one.is_loader());
        let known = |one: &Mapped| {
            let path = one.reachable(head.process);
            self.following.knows_loader(&path)
        };
        if mapped.is_empty() || loaders.any(known) {
            return;
        }
        let before = self.known.lock().libraries.len();
        self.load(head);
        let mut state = self.known.lock();
        if let Some(library) = state.libraries.get(before) {
            let path = library.path.clone();
            state.notes.about(&BEFORE_LOADER, path);
        }
    }

    /// A process that was there before us: what it has mapped, and what it has open.
    pub fn found(&mut self, pid: u32) {
        for mapped in self.fresh(pid) {
            self.look_into(pid, &mapped);
        }
        self.look_at_code(pid, 0);
        if let Some(system) = &self.system {
            system.seed(pid, &mut self.system_files, monotonic());
        }
    }

    /// What the addresses of a process's stacks mean from a moment on.
    fn look_at_code(&mut self, pid: u32, time: u64) {
        let Some(places) = &mut self.places else {
            return;
        };
        let parent = self.parents.get(&pid).copied();
        let changes = places.look(pid, time).unwrap_or_else(|| {
            let forked = parent.filter(|_| !places.is_known(pid));
            forked
                .map(|parent| Change::Forked { parent })
                .into_iter()
                .collect()
        });
        let changes = changes.into_iter().map(|change| (pid, change));
        self.known.lock().changes.extend(changes);
    }

    /// A process that runs already, and what it has forked.
    fn adopt(&mut self, pid: u32) {
        // A full map of processes is said by what is missing.
        let _ = self.maps.follow_first(pid);
        for pid in tree_of(pid) {
            let _ = self.maps.follow(pid);
            self.found(pid);
        }
    }

    /// Files that a process has mapped and that have not been looked into.
    fn fresh(&mut self, pid: u32) -> Vec<Mapped> {
        let mut mapped = mappings::of_process(pid).unwrap_or_default();
        mapped.retain(|one| self.files.insert((one.device.clone(), one.inode)));
        mapped
    }

    fn look_into(&mut self, pid: u32, mapped: &Mapped) {
        if mapped.is_loader() {
            let path = mapped.reachable(pid);
            if let Err(why) = self.following.watch_loader(&self.maps, &path) {
                self.known
                    .lock()
                    .notes
                    .about(&WITHOUT_HOLD, why.to_string());
            }
            return;
        }
        let Some(file) = mapped.open(pid) else {
            return;
        };
        let Some(mut found) = library::read(&file, &mapped.path, &self.wanted) else {
            return;
        };
        if self.calls.way == AttachMode::Single && self.wanted.filter.is_none() {
            let before = found.functions.len();
            found.functions.retain(|one| Filter::is_telling(&one.name));
            let left = (before - found.functions.len()) as u64;
            if left > 0 {
                found.hooked = found.hooked.saturating_sub(left);
                let why =
                    "not hooked: this kernel attaches probes one by one; select functions with -e";
                *found.skipped.entry(why.into()).or_default() += left;
            }
        }
        if !found.functions.is_empty() {
            let changes = Changes::of(|code| mapped.is_of(code));
            if !changes.is_empty() {
                let left = found.leave_changed(&file, &changes);
                if left > 0 {
                    let subject = functions_of(left, &mapped.path);
                    self.known.lock().notes.about(&ALREADY_RECORDED, subject);
                }
                if left > 0 && found.functions.is_empty() {
                    self.known.lock().libraries.push(Library {
                        path: mapped.path.clone(),
                        method: self.calls.way.as_str().into(),
                        hooked: 0,
                        exported: found.exported,
                        skipped: found.skipped,
                    });
                    return;
                }
            }
        }
        if found.functions.is_empty() {
            self.known.lock().notes.about(&NO_SYMBOLS, &mapped.path);
            return;
        }
        let began = Instant::now();
        let attached = self.attach(&file, &mapped.path, &found);
        self.attach += began.elapsed();
        let mut state = self.known.lock();
        if attached.is_ok() && found.throwing > 0 {
            let subject = throwing(&mapped.path, found.throwing, found.functions.len());
            state.notes.about(&WITHOUT_DURATIONS, subject);
        }
        match attached {
            Ok(method) => state.libraries.push(Library {
                path: mapped.path.clone(),
                method: method.into(),
                hooked: found.hooked,
                exported: found.exported,
                skipped: found.skipped,
            }),
            Err(why) => state.notes.about(&NOT_TRACED, why.to_string()),
        }
    }

    fn attach(
        &mut self,
        file: &fs::File,
        path: &str,
        found: &library::Library,
    ) -> Result<&'static str, EbpfError> {
        let major = cuda::runtime_version(path);
        let mut probes = Vec::with_capacity(found.functions.len());
        {
            let mut state = self.known.lock();
            for function in &found.functions {
                let plan = cuda::capture::plan(&function.name, major).without_vectors();
                let words = cuda::capture::argument_words(&function.name, major);
                let mut description = Description::new(&plan, words);
                if !function.returns {
                    description.without_return();
                }
                if self.wanted.wants_stack(&function.name) {
                    description.spec.flags |= SPEC_STACK;
                } else if self.short.is_some()
                    && function.returns
                    && Filter::stands_alone(&function.name)
                {
                    description.spec.flags |= SPEC_SHORT_NOT;
                }
                if self.wanted.callers && Filter::launches(&function.name) {
                    description.spec.caller = 1;
                }
                if self.wanted.sampled && Filter::stands_alone(&function.name) {
                    description.spec.flags |= SPEC_SAMPLED;
                }
                let spec = self.maps.describe(&description.spec)?;
                let number = state.functions.len() as u64;
                state.functions.push(Named {
                    name: function.name.clone(),
                    library: Some(path.to_owned()),
                });
                self.reader.descriptions.push(Arc::new(description));
                probes.push(Probe {
                    offset: function.entry + function.offset,
                    cookie: u64::from(spec) << 32 | number,
                    returns: function.returns,
                });
            }
        }
        let mut attached = self.calls.attach(file, path, &probes);

        // A kernel may take programs that it then does not attach.
        while attached.is_err() && self.calls.way != AttachMode::Single && self.calls.is_unused() {
            let next = match self.calls.way {
                AttachMode::Session => AttachMode::Multi,
                AttachMode::Multi | AttachMode::Single => AttachMode::Single,
            };
            self.calls = Calls::load(&self.maps, next)?;
            attached = self.calls.attach(file, path, &probes);
        }
        attached.map(|()| self.calls.way.as_str())
    }

    /// A record of calls or processes.
    fn heard(&mut self, head: &Head, body: &[u8]) {
        match &mut self.short {
            Some(short) if Short::concerns(head.kind) => {
                short.push(head, body);
                // It may be gone by the time its calls have their turn.
                if head.kind == KIND_ENTER && self.met.insert(head.process) {
                    self.known_process(head.process);
                }
            }
            _ => self.told(head, body),
        }
    }

    fn told(&mut self, head: &Head, body: &[u8]) {
        match head.kind {
            KIND_ENTER | KIND_RETURN => self.call(head, body),
            KIND_STACK => self.reader.stack(head, body),
            _ => self.process(head),
        }
    }

    /// Calls that have been under way for long enough to be shown.
    fn look_for_long(&mut self, all: bool) {
        if let Some(short) = &mut self.short {
            short.poll(&self.maps, monotonic(), all);
        }
    }

    /// Takes what has waited for earlier records. The moment up to which everything has come.
    fn in_order(&mut self, now: u64, last: bool) -> u64 {
        let Some(short) = &mut self.short else {
            return now;
        };
        let complete = short.complete().min(now);
        for (head, body) in short.until(if last { u64::MAX } else { complete }) {
            self.told(&head, &body);
        }
        complete
    }

    fn call(&mut self, head: &Head, body: &[u8]) {
        let mut fresh = None;
        self.reader
            .take(head, body, |pid, tid| fresh = Some((pid, tid)));
        if let Some((pid, tid)) = fresh {
            self.known_process(pid);
            if self
                .places
                .as_ref()
                .is_some_and(|places| !places.is_known(pid))
            {
                self.look_at_code(pid, 0);
            }
            let _ = self.messages.send(Message::Thread { pid, tid });
        }
    }

    fn system_call(&mut self, head: &Head, body: &[u8]) {
        if self.met.insert(head.process) {
            self.known_process(head.process);
        }
        for (time, frame) in system::read(head, body, &mut self.system_files) {
            let _ = self.messages.send(Message::System(time, frame));
        }
    }

    fn known_process(&mut self, pid: u32) {
        let mut state = self.known.lock();
        if state.processes.iter().rev().any(|known| known.pid == pid) {
            return;
        }
        self.names.see(pid);
        let exe = fs::read_link(format!("/proc/{pid}/exe"));
        let name = self.names.get(pid);
        let parent = self.parents.get(&pid).copied();
        state.processes.push(Process {
            pid,
            parent: parent.or(name.and_then(|name| name.parent)).unwrap_or(0),
            exe: exe.map_or_else(|_| String::new(), |path| path.display().to_string()),
            command: name.map_or_else(Vec::new, |name| name.command.clone()),
        });
    }

    fn process(&mut self, head: &Head) {
        match head.kind {
            KIND_FORK => {
                self.parents.insert(head.function, head.process);
                self.names.forked(head.process, head.function);
            }
            KIND_EXIT => {
                self.reader.ended(head.process);
                self.parents.remove(&head.process);
                self.met.remove(&head.process);
                self.names.forget(head.process);
                if let Some(places) = &mut self.places {
                    places.forget(head.process);
                }
            }
            _ => {}
        }
    }

    fn count(&mut self, time: u64) {
        let lost = self.maps.count(COUNT_LOST);
        if lost > self.lost {
            let count = lost - self.lost;
            self.lost = lost;
            let _ = self.messages.send(Message::Lost { time, count });
        }
    }

    fn disable(&mut self) {
        // If this fails, probes go on until their links are dropped, and nothing reads them.
        let _ = self.maps.change(|now| now.disabled = 1);
    }

    fn end(mut self) -> Ended {
        let more = self.system.as_mut().map(System::take_links);
        let (calls, following) = (&mut self.calls, &mut self.following);
        let detach = std::thread::scope(|scope| {
            scope.spawn(|| following.detach(more.unwrap_or_default()));
            let began = Instant::now();
            calls.detach();
            began.elapsed()
        });
        let count = |which| self.maps.count(which);
        Ended {
            calls: self.reader.calls,
            lost: self.lost,
            lost_ends: count(COUNT_LOST_ENDS),
            unmatched: self.reader.unmatched,
            faults: count(COUNT_FAULTS),
            unsaved: count(COUNT_UNSAVED),
            short: count(COUNT_SHORT),
            not_sampled: count(COUNT_UNSAMPLED),
            late_loads: count(COUNT_LATE),
            lost_system: count(COUNT_LOST_SYSTEM),
            attach: self.attach,
            detach,
            way: Some(self.calls.way.as_str()),
        }
    }
}

pub(super) static ALREADY_RECORDED: Topic = Topic {
    one: "not traced: {}: another cutrace or another tool has patched it, and a probe on patched code would crash the \
          program",
    many: "not traced: functions of {} libraries: another cutrace or another tool has patched them, and a probe on \
           patched code would crash the program",
};

pub(super) static WITHOUT_DURATIONS: Topic = Topic {
    one: "no durations for {}: it can throw C++ exceptions, and a return probe would kill the program; use \
          --method=preload for durations",
    many: "no durations for functions of {} libraries: they can throw C++ exceptions, and a return probe would kill \
           the program; use --method=preload for durations",
};

pub static WITHOUT_HOLD: Topic = Topic {
    one: "libraries loaded later may be missed, or lose their first calls: {}",
    many: "libraries loaded later by {} loaders may be missed, or lose their first calls",
};

static BEFORE_LOADER: Topic = Topic {
    one: "{} was loaded before its program's loader was hooked: its first calls may be missing",
    many: "{} libraries were loaded before their programs' loaders were hooked: their first calls may be missing",
};

static NO_SYMBOLS: Topic = Topic {
    one: "{} has no symbols, so none of its functions can be probed",
    many: "{} files have no symbols, so none of their functions can be probed",
};

static NOT_TRACED: Topic = Topic {
    one: "not traced: {}",
    many: "{} libraries are not traced",
};

pub(super) fn functions_of(count: u64, path: &str) -> String {
    match count {
        1 => format!("a function of {path}"),
        count => format!("{count} functions of {path}"),
    }
}

/// What has calls without durations.
pub(super) fn throwing(path: &str, throwing: u64, all: usize) -> String {
    match throwing == all as u64 {
        true => path.to_owned(),
        false => functions_of(throwing, path),
    }
}

/// A process and its descendants.
pub(super) fn tree_of(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in super::session::running() {
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Its name may have spaces and brackets in it.
        let after = status.rsplit_once(')').map_or("", |(_, rest)| rest);
        if let Some(parent) = after
            .split_whitespace()
            .nth(1)
            .and_then(|it| it.parse().ok())
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let more = children.remove(pid).unwrap_or_default();
        found.extend(more);
        next += 1;
    }
    found
}
