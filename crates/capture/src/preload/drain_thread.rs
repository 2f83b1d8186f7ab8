//! The thread that empties the rings. It only copies: what the copies mean is found out elsewhere,
//! so that a slow disk does not hold up the traced program.

use super::arena::{Arena, leases_see_mappings};
use super::backlog::{Backlog, Waiting};
use super::clock;
use super::counters::CounterPage;
use super::drain::{Corrupt, Reader};
use super::namespace::Namespaces;
use super::shedding::{Shedding, SheddingReport};
use crate::call::item::{Batch, Item, Step};
use crate::call::packed::Packer;
use crate::clock::monotonic;
use event::ClockPair;
use event::ring::RingState;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// From the draining thread to the assembling one.
pub enum Message {
    /// A ring was found; rings are numbered in the order of these.
    Ring {
        pid: u32,
        tid: u32,
    },
    Batch(Waiting),
    /// Lines of a process that cannot write its own file. `file`: which of the files of rings they
    /// came by, and whose that is.
    ProcessLines {
        file: usize,
        owner: u32,
        pid: u32,
        lines: Vec<u8>,
    },
    /// A file of rings could not be opened.
    Unreadable(PathBuf, io::Error),
    /// A ring made no sense; no more of it will come.
    Damaged,
    /// Processes that were still there when tracing stopped.
    StillRunning(usize),
    /// What a budget came to.
    Shed(SheddingReport),
    /// How the clocks stand, before what was drained after it.
    Clock(ClockPair),
    /// Every ring has been looked at since this moment.
    Round(u64),
}

/// Files of rings at once, at most; a bound on what a hostile folder makes us map.
const MOST_SOURCES: usize = 16 << 10;
/// How often losses that no ring counts are passed on.
const COUNT: Duration = Duration::from_millis(50);
/// The end of a round is passed on at most this often; records wait for fifty times as long anyway.
const TELL: u64 = 1_000_000;
/// How often to look for new rings.
const SCAN: Duration = Duration::from_millis(5);
/// How often to ask whether a ring's process is still there.
const ASK: Duration = Duration::from_millis(200);
/// A thread that sleeps a little is woken at once on a busy machine; one that spins has to wait.
/// But each look takes cache lines away from the threads that fill them: the pauses are as long as
/// the rings allow.
const TINY_PAUSE: Duration = Duration::from_micros(20);
const SHORTEST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// A process's file of rings.
struct ProcessRings {
    number: usize,
    arena: Arena,
    /// By their place in the directory.
    rings: Vec<ArenaEntry>,
    /// How far its text has been read.
    read: u64,
    asked: Instant,
}

enum ArenaEntry {
    Nothing,
    /// `number`: the ring's, for the thread that has it now; None once that has ended.
    Ring {
        reader: Box<Reader>,
        number: Option<usize>,
    },
    GivenUp,
}

struct Drainer<'a> {
    folder: &'a Path,
    messages: &'a Sender<Message>,
    /// Batches that have been used, whose memory serves again: fresh memory takes the kernel longer
    /// than filling it takes us.
    used: &'a Receiver<Batch>,
    backlog: &'a Backlog,
    packer: Packer,
    /// One that was packed.
    spare: Option<Batch>,
    namespaces: &'a Namespaces,
    counters: &'a CounterPage,
    sources: Vec<ProcessRings>,
    /// Of all sources so far.
    opened: usize,
    /// Rings so far.
    count: usize,
    /// What could not be opened: descriptors may come free.
    refused: HashMap<PathBuf, io::Error>,
    /// The ring of threads that have none.
    nobody: Option<usize>,
    lost: u64,
    /// It can be seen which rings no process has any more; where it cannot, all are kept until the end.
    sees_ends: bool,
    /// Where recording may cost only so much.
    shedding: Option<Shedding>,
    /// The program has ended, and so do we after this round.
    last: bool,
}

/// What the draining thread works with.
pub struct Shared<'a> {
    pub messages: &'a Sender<Message>,
    pub used: &'a Receiver<Batch>,
    pub backlog: &'a Backlog,
    pub namespaces: &'a Namespaces,
    pub counters: &'a CounterPage,
    pub shedding: Option<Shedding>,
}

/// Runs until it is asked to stop and the rings are empty. Returns the CPU time it took.
pub fn drain_all(folder: &Path, stop: &AtomicBool, shared: Shared<'_>) {
    let Shared {
        messages,
        used,
        backlog,
        namespaces,
        counters,
        shedding,
    } = shared;
    let mut drainer = Drainer {
        folder,
        messages,
        used,
        backlog,
        packer: Packer::default(),
        spare: None,
        namespaces,
        counters,
        sources: Vec::new(),
        opened: 0,
        count: 0,
        refused: HashMap::new(),
        nobody: None,
        lost: 0,
        sees_ends: leases_see_mappings(folder).unwrap_or(false),
        shedding,
        last: false,
    };
    be_prompt();
    let mut scanned: Option<Instant> = None;
    let mut pause = SHORTEST_PAUSE;
    let mut paired = 0;
    let mut counted = Instant::now();
    let mut told = 0;
    loop {
        // Past the bound the rings fill up, and what they do not hold is counted as lost.
        while backlog.is_full() {
            std::thread::sleep(LONGEST_PAUSE);
        }
        // Asked before the round: what the program did before it ended is in this round.
        let last = stop.load(Ordering::Acquire);
        let began = monotonic();
        if began.saturating_sub(paired) >= clock::SPACING {
            paired = began;
            let _ = messages.send(Message::Clock(clock::pair()));
        }
        if last || scanned.is_none_or(|at| at.elapsed() >= SCAN) {
            drainer.scan();
            scanned = Some(Instant::now());
        }
        drainer.last = last;
        let moved = drainer.round();
        drainer.shed(began);
        if last {
            let _ = messages.send(Message::StillRunning(drainer.still_running()));
            drainer.open_refused();
        }
        if last || counted.elapsed() >= COUNT {
            counted = Instant::now();
            drainer.count_lost();
        }
        if last || began.saturating_sub(told) >= TELL {
            told = began;
            if messages.send(Message::Round(began)).is_err() || last {
                return;
            }
        }
        pause = match moved {
            Moved::Much => TINY_PAUSE,
            Moved::Some => (pause / 2).max(SHORTEST_PAUSE),
            Moved::Little => (pause.max(SHORTEST_PAUSE) * 2).min(LONGEST_PAUSE),
        };
        // Who stops us wakes us, too.
        std::thread::park_timeout(pause);
    }
}

/// Asks to be woken exactly, and before the threads that fill the rings; both may be refused.
pub fn be_prompt() {
    // SAFETY: both calls concern this thread alone and take no memory.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
        // This thread; not libc::gettid, which glibc has since 2.30.
        libc::setpriority(libc::PRIO_PROCESS, 0, -10);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moved {
    /// Nothing, or hardly anything beside what the rings can hold.
    Little,
    Some,
    /// A ring was filling up.
    Much,
}

impl Drainer<'_> {
    /// Takes up files that have appeared.
    fn scan(&mut self) {
        let Ok(entries) = fs::read_dir(self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let is_ring = entry.file_name().as_encoded_bytes().starts_with(b"rings.");
            if !is_ring || self.sources.len() >= MOST_SOURCES {
                continue;
            }
            // One that is not whole yet is looked at again next time. One that is loses its name: it
            // is not taken up twice, and its memory is free as soon as both sides let go of it.
            let path = entry.path();
            let opened = Arena::open(&path).and_then(|arena| {
                if arena.is_some() {
                    fs::remove_file(&path)?;
                }
                Ok(arena)
            });
            match opened {
                Ok(Some(arena)) => {
                    self.refused.remove(&path);
                    // At once: it may be gone when its first call is seen.
                    (self.namespaces).thread(arena.namespace, arena.pid, arena.pid);
                    self.sources.push(ProcessRings {
                        number: self.opened,
                        arena,
                        rings: Vec::new(),
                        read: 0,
                        asked: Instant::now(),
                    });
                    self.opened += 1;
                }
                Ok(None) => {}
                // Removed since, by whoever made it.
                Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                Err(why) => {
                    self.refused.insert(path, why);
                }
            }
        }
    }

    /// At the end: what there were no descriptors for, now that the others are done with.
    fn open_refused(&mut self) {
        while !self.refused.is_empty() {
            let before = self.refused.len();
            self.sources.clear();
            self.scan();
            self.round();
            if self.refused.len() >= before {
                break;
            }
        }
        for (path, why) in self.refused.drain() {
            let _ = self.messages.send(Message::Unreadable(path, why));
        }
    }

    /// Sheds what costs too much, and says at the end what it was.
    fn shed(&mut self, now: u64) {
        let Some(shedding) = &mut self.shedding else {
            return;
        };
        if self.last || shedding.is_due(now) {
            for (number, reader) in rings(&mut self.sources) {
                shedding.look_at(number, reader);
            }
            shedding.settle(now);
        }
        if shedding.is_stride(now) {
            let busiest = shedding.busiest();
            let mut all = rings(&mut self.sources);
            let ring = busiest.and_then(|busiest| all.find(|(number, _)| *number == busiest));
            let shed = ring.map(|(_, reader)| reader.shed());
            shedding.stride(now, shed, self.counters);
        }
        if self.last {
            let _ = self.messages.send(Message::Shed(shedding.report(now)));
        }
    }

    /// Passes on what was lost without a ring.
    fn count_lost(&mut self) {
        let lost = self.counters.lost();
        let Some(count) = lost.checked_sub(self.lost).filter(|count| *count > 0) else {
            return;
        };
        self.lost = lost;
        let ring = match self.nobody {
            Some(ring) => ring,
            None => {
                let _ = self.messages.send(Message::Ring { pid: 0, tid: 0 });
                self.count += 1;
                *self.nobody.insert(self.count - 1)
            }
        };
        let mut batch = Batch::with_room(1);
        batch.ring = ring;
        batch.items.push(Item {
            time: clock::timestamp(),
            sequence: 0,
            step: Step::Lost { count },
        });
        self.hand_on(batch);
    }

    fn hand_on(&mut self, batch: Batch) {
        let (waiting, packed) = self.backlog.add(batch, &mut self.packer);
        self.spare = packed.or(self.spare.take());
        let _ = self.messages.send(Message::Batch(waiting));
    }

    /// Processes that have not let go of their rings.
    fn still_running(&self) -> usize {
        if !self.sees_ends {
            return 0;
        }
        let arenas = self.sources.iter().map(|source| &source.arena);
        let running = arenas
            .filter(|arena| arena.has_producer() == Some(true))
            .map(|arena| (arena.namespace, arena.pid));
        running.collect::<HashSet<(u64, u32)>>().len()
    }

    fn round(&mut self) -> Moved {
        let mut moved = Moved::Little;
        let mut sources = std::mem::take(&mut self.sources);
        sources.retain_mut(|source| {
            if !source.arena.is_whole() {
                let _ = self.messages.send(Message::Damaged);
                return false;
            }
            // Asked before draining: what has no producer gets nothing more.
            let over = self.sees_ends && source.is_over();
            self.pass_on_text(source);
            moved = moved.max(self.drain(source, over || self.last));
            !over
        });
        self.sources = sources;
        moved
    }

    fn pass_on_text(&self, source: &mut ProcessRings) {
        while let Some((pid, lines)) = source.arena.text(&mut source.read) {
            let (owner, namespace) = (source.arena.pid, source.arena.namespace);
            let (owner, _) = self.namespaces.thread(namespace, owner, owner);
            let _ = self.messages.send(Message::ProcessLines {
                file: source.number,
                owner,
                pid,
                lines,
            });
        }
    }

    /// `over`: nobody writes to its rings any more, or nobody reads them after this.
    fn drain(&mut self, source: &mut ProcessRings, over: bool) -> Moved {
        let mut moved = Moved::Little;
        let ProcessRings { arena, rings, .. } = source;
        rings.resize_with(arena.taken() as usize, || ArenaEntry::Nothing);
        for (index, found) in rings.iter_mut().enumerate() {
            let index = index as u32;
            // Asked before draining, too.
            let state = arena.state(index);
            if !matches!(state, RingState::Live | RingState::Ended) {
                continue;
            }
            let Some((reader, number)) = self.taken_up(arena, index, found) else {
                continue;
            };
            moved = moved.max(Moved::of(reader));
            if over || state == RingState::Ended {
                reader.set_over();
            }
            if let Some(shedding) = &mut self.shedding
                && (over || state == RingState::Ended)
            {
                shedding.look_at(number, reader);
            }
            if self.empty(reader, number).is_err() {
                let _ = self.messages.send(Message::Damaged);
                *found = ArenaEntry::GivenUp;
                continue;
            }
            if state == RingState::Ended {
                reader.finish();
                if let ArenaEntry::Ring { number, .. } = found {
                    *number = None;
                }
                arena.give_back(index);
            }
        }
        moved
    }

    /// The ring of a thread that has it now, or had it last.
    fn taken_up<'r>(
        &mut self,
        arena: &Arena,
        index: u32,
        found: &'r mut ArenaEntry,
    ) -> Option<(&'r mut Reader, usize)> {
        let is_new = match found {
            ArenaEntry::GivenUp => return None,
            ArenaEntry::Nothing => true,
            ArenaEntry::Ring { number, .. } => number.is_none(),
        };
        if is_new {
            let Some(ring) = arena.ring(index) else {
                let _ = self.messages.send(Message::Damaged);
                *found = ArenaEntry::GivenUp;
                return None;
            };
            let (pid, tid) = (self.namespaces).thread(ring.namespace, ring.pid, ring.tid);
            let _ = self.messages.send(Message::Ring { pid, tid });
            let new = self.count;
            self.count += 1;
            match found {
                ArenaEntry::Ring { reader, number } => {
                    reader.renew(ring);
                    *number = Some(new);
                }
                _ => {
                    *found = ArenaEntry::Ring {
                        reader: Box::new(Reader::new(ring)),
                        number: Some(new),
                    }
                }
            }
        }
        match found {
            ArenaEntry::Ring {
                reader,
                number: Some(number),
            } => Some((reader, *number)),
            _ => None,
        }
    }

    /// Copies what a ring holds.
    fn empty(&mut self, reader: &mut Reader, ring: usize) -> Result<(), Corrupt> {
        if reader.is_idle() {
            return Ok(());
        }
        // What comes while this is read may wait for the next round, and other rings too.
        let until = reader.head();
        loop {
            let steps = reader.steps();
            let mut batch = (self.spare.take().or_else(|| self.used.try_recv().ok()))
                .filter(|used| used.has_room(steps))
                .map_or_else(|| Batch::with_room(steps), Batch::emptied);
            batch.ring = ring;
            let drained = reader.drain(&mut batch);
            if let Some(shedding) = &mut self.shedding {
                let is_call =
                    |item: &&Item| matches!(item.step, Step::Begin { .. } | Step::Whole { .. });
                shedding.recorded(ring, batch.items.iter().filter(is_call).count() as u64);
            }
            if !batch.items.is_empty() {
                self.hand_on(batch);
            }
            if !drained? || reader.cursor() >= until {
                return Ok(());
            }
        }
    }
}

/// Those that a thread has, by their numbers.
fn rings(sources: &mut [ProcessRings]) -> impl Iterator<Item = (usize, &mut Reader)> {
    let all = sources.iter_mut().flat_map(|source| &mut source.rings);
    all.filter_map(|ring| match ring {
        ArenaEntry::Ring {
            reader,
            number: Some(number),
        } => Some((*number, &mut **reader)),
        _ => None,
    })
}

impl Moved {
    fn of(reader: &Reader) -> Self {
        let (backlog, capacity) = (reader.backlog(), reader.ring().capacity());
        if backlog > capacity / 8 {
            Moved::Much
        } else if backlog > capacity / 32 {
            Moved::Some
        } else {
            Moved::Little
        }
    }
}

impl ProcessRings {
    /// No process has it any more.
    fn is_over(&mut self) -> bool {
        if self.asked.elapsed() < ASK {
            return false;
        }
        self.asked = Instant::now();
        self.arena.has_producer() == Some(false)
    }
}
